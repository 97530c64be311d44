// NumPy's files: what NumPy writes is read, what only looks like it is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "compiler/support/diagnostic.h"
#include "frontends/json/npy.h"

namespace metac::frontends_npy_test {
namespace {

using ::testing::HasSubstr;

FileBytes file_of(const std::string& content) {
  auto owner = std::make_shared<std::string>(content);
  return {std::shared_ptr<const std::byte>(owner, reinterpret_cast<const std::byte*>(owner->data())), owner->size()};
}

std::string npy(const std::string& header, const std::string& data) {
  std::string out = "\x93NUMPY";
  out += {'\1', '\0', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
  return out + header + data;
}

std::string error_of(const std::string& content) {
  try {
    tensor_of_npy(file_of(content));
  } catch (const CompileError& error) {
    return error.what();
  }
  return "";
}

TEST(Npy, BothWays) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, {1}, {0}}) {
    Tensor tensor =
        make_tensor<int64_t>(DType::i64, shape, std::vector<int64_t>(shape == std::vector<int64_t>{0} ? 0 : 1, -5));
    std::string bytes = to_npy_bytes(tensor);
    Tensor back = tensor_of_npy(file_of(bytes));
    EXPECT_EQ(back.shape, shape);
    EXPECT_EQ(back.dtype, DType::i64);
    EXPECT_EQ(to_npy_bytes(back), bytes);
  }
  EXPECT_EQ(to_npy_bytes(make_tensor<float>(DType::f32, {2, 1}, {1, 2})).size(), 64u + 64u + 8u);
}

TEST(Npy, FortranOrderIsTransposed) {
  std::string bytes = npy("{'descr': '|i1', 'fortran_order': True, 'shape': (2, 3), }", std::string("\0\3\1\4\2\5", 6));
  Tensor tensor = tensor_of_npy(file_of(bytes));
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(integer_at(tensor, i), i);
}

TEST(Npy, RefusesWhatItIsNot) {
  EXPECT_THAT(error_of(""), HasSubstr("not a .npy file"));
  EXPECT_THAT(error_of("PK\3\4 and more bytes"), HasSubstr("not a .npy file"));
  std::string good = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", "12345678");
  EXPECT_EQ(error_of(good), "");
  for (size_t size = 0; size < good.size(); ++size) EXPECT_NE(error_of(good.substr(0, size)), "") << size;
  EXPECT_THAT(error_of(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "1234")),
              HasSubstr("need 8 bytes, found 4"));
  EXPECT_THAT(error_of(npy("__import__('os').system('id')", "")), HasSubstr("expected '{'"));
  EXPECT_THAT(error_of(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "")),
              HasSubstr("a dim is no number"));
  EXPECT_THAT(error_of(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}", "")),
              HasSubstr("dims overflow"));
  EXPECT_THAT(error_of(npy("{'descr': '>f4', 'fortran_order': False, 'shape': ()}", "1234")), HasSubstr("is not supported"));
  EXPECT_THAT(error_of(npy("{'descr': '|O', 'fortran_order': False, 'shape': ()}", "1234")), HasSubstr("is not supported"));
  EXPECT_THAT(error_of(npy("{'descr': '<f4', 'evil': 1}", "")), HasSubstr("unknown key"));
}

}  // namespace
}  // namespace metac::frontends_npy_test
