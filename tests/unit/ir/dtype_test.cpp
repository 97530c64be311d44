// Every row of runtime/dtypes.h: what goes by name and number, elements as numbers and back, files there and back.
#include "compiler/ir/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <set>

#include "compiler/api/tensor_files.h"
#include "compiler/codegen/text/dtype_text.h"
#include "compiler/ir/element.h"
#include "compiler/ir/tensor.h"
#include "compiler/ops/onnx_dtypes.h"
#include "compiler/support/file_system.h"
#include "frontends/json/npy.h"
#include "frontends/onnx/onnx.h"
#include "runtime/files/tensor_files.h"
#include "runtime/files/tensor_proto.h"
#include "runtime/memory.h"

namespace metac::dtype_test {
namespace {

metac_runtime::ScalarType in_runtime(DType dtype) { return static_cast<metac_runtime::ScalarType>(dtype); }

std::string bytes_of(const Tensor& t) { return {reinterpret_cast<const char*>(t.bytes.get()), t.byte_count()}; }

TEST(DTypes, RowsAreInTheOrderOfTheirNumbers) {
  int number = 0;
  for (const DTypeInfo& row : dtypes()) EXPECT_EQ(static_cast<int>(row.dtype), number++);
}

TEST(DTypes, NamesAndNumbersAreTheirOwn) {
  std::set<std::string_view> names;
  std::set<int> numbers;
  for (const DTypeInfo& row : dtypes()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_TRUE(numbers.insert(row.onnx_number).second) << row.name;
    EXPECT_EQ(dtype_from_name(row.name), row.dtype);
    EXPECT_EQ(dtype_of_onnx_number(row.onnx_number), row.dtype);
    EXPECT_EQ(name_of_onnx_number(row.onnx_number), row.name);
    EXPECT_EQ(metac_runtime::dtype_name(in_runtime(row.dtype)), row.name);
    EXPECT_EQ(metac_runtime::npy_code(in_runtime(row.dtype)), row.npy_code);
    EXPECT_EQ(metac_runtime::size_of(in_runtime(row.dtype)), static_cast<int64_t>(row.bytes));
    metac_runtime::ScalarType read{};
    ASSERT_EQ(metac_runtime::dtype_of_onnx(static_cast<uint64_t>(row.onnx_number), &read), is_numeric(row.dtype));
    if (is_numeric(row.dtype)) {
      EXPECT_EQ(read, in_runtime(row.dtype));
    }
  }
}

// Every element of at most 16 bits, but for NaN, of which there are many.
TEST(DTypes, ElementsAreNumbersAndBack) {
  for (const DTypeInfo& row : dtypes()) {
    if (!is_numeric(row.dtype) || row.bytes > 2) continue;
    const uint32_t count = is_bool(row.dtype) ? 2 : 1u << (8 * row.bytes);
    with_element(row.dtype, [&](auto zero) {
      using T = decltype(zero);
      for (uint64_t bits = 0; bits < count; ++bits) {
        T element;
        std::memcpy(&element, &bits, sizeof element);
        const double number = static_cast<double>(value_of(element));
        if (std::isnan(number)) continue;
        const T again = to_element<T>(number);
        ASSERT_EQ(std::memcmp(&element, &again, sizeof element), 0) << row.name << " " << bits;
      }
    });
  }
}

TEST(DTypes, RoundedOnce) {
  EXPECT_EQ(number_at(filled_tensor(DType::f16, {1}, 1 + 0x1p-11 + 0x1p-40), 0), 1 + 0x1p-10);
  EXPECT_EQ(number_at(filled_tensor(DType::bf16, {1}, 1 + 0x1p-8 + 0x1p-40), 0), 1 + 0x1p-7);
  EXPECT_EQ(number_at(filled_tensor(DType::u8, {1}, -1), 0), 255);
}

TEST(DTypes, FilesThereAndBack) {
  for (const DTypeInfo& row : dtypes()) {
    if (!is_numeric(row.dtype)) continue;
    const Tensor tensor = random_tensor(row.dtype, {3, 5}, 1);
    const Tensor proto = read_tensor_proto(to_tensor_proto_bytes(tensor, "x"), "x.pb");
    EXPECT_EQ(proto.dtype, row.dtype) << row.name;
    EXPECT_EQ(bytes_of(proto), bytes_of(tensor)) << row.name;
    const std::string path = ::testing::TempDir() + std::string(row.name) + ".npy";
    write_file(path, to_npy_bytes(tensor));
    const Tensor npy = read_npy(path);
    EXPECT_EQ(info(npy.dtype).npy_code, row.npy_code) << row.name;
    EXPECT_EQ(bytes_of(npy), bytes_of(tensor)) << row.name;
  }
}

TEST(DTypes, InterfacesOfGeneratedLibraries) {
  EXPECT_TRUE(dtype_constants("NET").starts_with("#define NET_FLOAT32 METAC_MODEL_FLOAT32\n#define NET_FLOAT64 "));
  EXPECT_TRUE(
      numpy_dtypes().starts_with(R"("float32", "float64", "float16", "uint16", "int8", )"));  // NumPy has no bfloat16
}

// What docs/adding_a_dtype.md shows as an example is what stands in the sources.
TEST(DTypes, TheDocumentedExampleIsThere) {
  auto text_of = [](const std::string& path) { return std::string(read_file(METAC_SOURCE_DIR + ("/" + path)).view()); };
  const std::string doc = text_of("docs/adding_a_dtype.md"),
                    sources = text_of("runtime/element.h") + text_of("runtime/dtypes.h");
  int lines = 0;
  for (size_t at = doc.find("```cpp\n"); at != std::string::npos; at = doc.find("```cpp\n", at)) {
    const size_t end = doc.find("```", at += 7);
    for (size_t line = at; line < end; line = doc.find('\n', line) + 1, ++lines) {
      const std::string text = doc.substr(line, doc.find('\n', line) - line);
      EXPECT_NE(sources.find(text), std::string::npos) << text;
    }
    at = end + 3;
  }
  EXPECT_GE(lines, 8);
}

}  // namespace
}  // namespace metac::dtype_test
