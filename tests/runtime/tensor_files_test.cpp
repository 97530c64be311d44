// .npy, .npz and .pb: what is written is read back; whatever is damaged is an error, never a crash.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "runtime/files/sha256.h"
#include "runtime/files/tensor_proto.h"

namespace {

using namespace metac_runtime;

std::vector<char> bytes_of(const std::string& text) { return std::vector<char>(text.begin(), text.end()); }

std::string npy(const FileTensor& t) {
  return npy_header(t.dtype, t.dims.data(), static_cast<int32_t>(t.dims.size())) +
         std::string(t.bytes.begin(), t.bytes.end());
}

TEST(TensorFiles, NpyRoundTrip) {
  for (int k = 0; k < static_cast<int>(ScalarType::string); ++k) {
    for (const std::vector<int64_t>& dims : {std::vector<int64_t>{}, {3}, {2, 3}, {0, 5}}) {
      FileTensor t{static_cast<ScalarType>(k), dims, {}};
      t.bytes.assign(static_cast<size_t>(bytes_of_dims(t.dtype, dims)), 'x');
      const std::string file = npy(t);
      FileTensor back;
      EXPECT_EQ(parse_npy(file.data(), file.size(), &back), "");
      EXPECT_EQ(back.dtype, t.dtype == ScalarType::bf16 ? ScalarType::u16 : t.dtype);
      EXPECT_EQ(back.dims, t.dims);
      EXPECT_EQ(back.bytes, t.bytes);
    }
  }
}

TEST(TensorFiles, EveryCutNpyIsRefused) {
  FileTensor t{ScalarType::f32, {2, 3}, std::vector<char>(24)};
  const std::string file = npy(t);
  for (size_t size = 0; size < file.size(); ++size) {
    FileTensor back;
    EXPECT_NE(parse_npy(file.data(), size, &back), "") << size;
  }
}

TEST(TensorFiles, OddHeadersAreRefused) {
  for (const char* header : {"{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }",
                             "{'descr': '<c8', 'fortran_order': False, 'shape': (2,), }",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }",
                             "{'descr': '<f4', 'fortran_order': False}", "{}", "__import__('os')"}) {
    std::string file("\x93NUMPY\x01\x00", 8);
    file += static_cast<char>(std::strlen(header));
    file += '\0';
    file += header + std::string(64, '\0');
    FileTensor back;
    EXPECT_NE(parse_npy(file.data(), file.size(), &back), "") << header;
  }
}

TEST(TensorFiles, TensorProtoRawAndTyped) {
  FileTensor t;
  // dims 2 (unpacked), data_type 1 (float), raw_data
  EXPECT_EQ(parse_tensor_proto(bytes_of(std::string("\x08\x02\x10\x01\x4a\x08\0\0\x80\x3f\0\0\0\x40", 14)), &t), "");
  EXPECT_EQ(t.dims, std::vector<int64_t>{2});
  EXPECT_EQ(reinterpret_cast<const float*>(t.bytes.data())[1], 2.0f);
  // data_type 7 (int64), int64_data packed {1, -1}
  EXPECT_EQ(parse_tensor_proto(
                bytes_of(std::string("\x08\x02\x10\x07\x3a\x0b\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 17)), &t),
            "");
  EXPECT_EQ(reinterpret_cast<const int64_t*>(t.bytes.data())[1], -1);
  // data_type 2 (uint8), int32_data
  EXPECT_EQ(parse_tensor_proto(bytes_of(std::string("\x08\x01\x10\x02\x28\xc8\x01", 7)), &t), "");
  EXPECT_EQ(static_cast<uint8_t>(t.bytes[0]), 200);
}

TEST(TensorFiles, DamagedTensorProtosAreRefused) {
  const std::string good("\x08\x02\x10\x01\x4a\x08\0\0\x80\x3f\0\0\0\x40", 14);
  for (size_t size = 0; size < good.size(); ++size) {
    FileTensor t;
    EXPECT_NE(parse_tensor_proto(bytes_of(good.substr(0, size)), &t), "") << size;
  }
  FileTensor t;
  EXPECT_NE(parse_tensor_proto(bytes_of("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), &t), "");
  EXPECT_NE(parse_tensor_proto(bytes_of("\x10\x08"), &t), "");  // strings
}

// The examples of FIPS 180-2, and a text that is given in pieces.
TEST(Sha256, KnownValues) {
  auto digits = [](const std::string& text, size_t piece) {
    Sha256Sum sum;
    for (size_t at = 0; at < text.size(); at += piece) sum.update(text.data() + at, std::min(piece, text.size() - at));
    char hex[64];
    sum.finish(hex);
    return std::string(hex, 64);
  };
  EXPECT_EQ(digits("", 1), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(digits("abc", 2), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(digits("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 7),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(digits(std::string(1000000, 'a'), 1000), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(TensorFiles, DamagedArchivesAreRefused) {
  std::vector<std::pair<std::string, FileTensor>> all;
  EXPECT_NE(parse_npz(bytes_of("PK"), &all), "");
  EXPECT_NE(parse_npz(std::vector<char>(1000, 'P'), &all), "");
  std::string directory("PK\x05\x06\0\0\0\0\x01\0\x01\0\xff\xff\xff\x7f\xff\xff\xff\x7f\0\0", 22);
  EXPECT_NE(parse_npz(bytes_of(directory), &all), "");
}

}  // namespace
