// ONNX files: bytes that are none, tensors that lie, external data that tries to leave, and what must be read.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "compiler/support/diagnostic.h"
#include "compiler/support/file_system.h"
#include "compiler/support/hashing.h"
#include "frontends/convert.h"
#include "frontends/onnx/onnx.h"
#include "frontends/read_model.h"

namespace metac::frontends_onnx_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// ---- the wire format by hand: independent of the reader's own message classes ----
std::string varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  return out + static_cast<char>(value);
}
std::string number(int field, int64_t value) { return varint(field << 3) + varint(static_cast<uint64_t>(value)); }
std::string bytes(int field, const std::string& content) {
  return varint(field << 3 | 2) + varint(content.size()) + content;
}
std::string single(int field, float value) {
  return varint(field << 3 | 5) + std::string(reinterpret_cast<char*>(&value), 4);
}
std::string entry(const std::string& key, const std::string& value) { return bytes(1, key) + bytes(2, value); }

std::string dims(const std::vector<int64_t>& values) {
  std::string out;
  for (int64_t value : values) out += number(1, value);
  return out;
}
std::string tensor(const std::string& name, int dtype, const std::vector<int64_t>& shape, const std::string& rest) {
  return dims(shape) + number(2, dtype) + bytes(8, name) + rest;
}
std::string raw(const std::string& content) { return bytes(9, content); }

std::string model_of(const std::string& graph, const std::string& rest = "") {
  return number(1, 8) + bytes(7, graph) + bytes(8, bytes(1, "") + number(2, 17)) + rest;
}
std::string model_with(const std::string& tensor) { return model_of(bytes(5, tensor)); }
std::string model_with_attribute(const std::string& attribute) {
  return model_of(bytes(1, bytes(1, "x") + bytes(2, "y") + bytes(3, "the_node") + bytes(4, "Relu") + bytes(5, attribute)));
}

std::string error_of(std::string_view model, const std::string& path = "m.onnx") {
  try {
    read_onnx(model, path);
  } catch (const CompileError& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << "one line";
    return error.what();
  }
  return "";
}

TEST(Onnx, BytesThatAreNoModel) {
  EXPECT_EQ(error_of(""), "m.onnx: not an ONNX model: the file is empty");
  EXPECT_THAT(error_of("\x7f"
                       "ELF\2\1\1"),
              StartsWith("m.onnx: not an ONNX model: it is an executable or a library"));
  EXPECT_THAT(error_of("{\"graph\": {}}"), StartsWith("m.onnx: not an ONNX model: "));
  std::mt19937 generator(3);
  std::string noise;
  for (int i = 0; i < 4096; ++i) noise += static_cast<char>(generator());
  EXPECT_THAT(error_of(noise), StartsWith("m.onnx: not an ONNX model: "));
  EXPECT_EQ(error_of(bytes(3, "other")), "m.onnx: the model has no graph");
}

TEST(Onnx, EveryTruncationIsAnswered) {
  std::string model = model_with(tensor("w", 1, {2, 2}, raw(std::string(16, 'x'))));
  EXPECT_EQ(error_of(model), "");
  for (size_t size = 0; size < model.size(); ++size) EXPECT_NE(error_of(model.substr(0, size)), "") << size;
  EXPECT_THAT(error_of(model.substr(0, 20)), HasSubstr("bytes but only"));
}

TEST(Onnx, EveryByteFlipEndsOrders) {
  std::string model = model_with(tensor("w", 1, {2, 2}, raw(std::string(16, 'x'))));
  for (size_t i = 0; i < model.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = model;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << bit));
      error_of(flipped);  // an error or a model, never a crash
    }
}

TEST(Onnx, TheModelMessage) {
  std::string graph = bytes(2, "g");
  EXPECT_EQ(error_of(number(1, 8) + bytes(7, graph)), "m.onnx: the model has no opset_import");
  EXPECT_EQ(error_of(number(1, 1) + bytes(7, graph)), "");  // before IR 3 there was none
  EXPECT_THAT(error_of(number(1, 9999) + bytes(7, graph)), HasSubstr("IR version 9999 is newer than 14"));
  EXPECT_THAT(error_of(number(1, -1) + bytes(7, graph)), HasSubstr("IR version -1"));
  std::string twice = bytes(8, number(2, 17)) + bytes(8, bytes(1, "ai.onnx") + number(2, 18));
  EXPECT_THAT(error_of(number(1, 8) + bytes(7, graph) + twice), HasSubstr("twice, as 17 and 18"));
  EXPECT_THAT(error_of(model_of(bytes(2, "\xc3\x28"))), HasSubstr("invalid UTF-8 in Graph.name at byte 6"));
  EXPECT_EQ(error_of(model_of(graph + bytes(999, "unknown field"))), "");
}

// PaddlePaddle's exporter calls every open dim "?".
TEST(Onnx, DimsNamedForNotBeingKnown) {
  auto dim = [](const std::string& name) { return bytes(1, bytes(2, name)); };
  const std::string shape = dim("?") + dim("None") + dim("-1") + dim("n");
  const Model model = read_onnx(
      model_of(bytes(2, "g") + bytes(11, bytes(1, "x") + bytes(2, bytes(1, number(1, 1) + bytes(2, shape))))), "m.onnx");
  const std::vector<ModelDim>& dims = *model.graph.inputs[0].type.shape;
  std::vector<std::string> names;
  for (const ModelDim& d : dims) {
    EXPECT_LT(d.value, 0);
    names.push_back(d.symbol);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"", "", "", "n"}));
}

TEST(Onnx, NestingIsBounded) {
  std::string graph = bytes(2, "innermost");
  for (int i = 0; i < 3000; ++i)
    graph = bytes(1, bytes(4, "If") + bytes(5, bytes(1, "then_branch") + number(20, 5) + bytes(6, graph)));
  EXPECT_THAT(error_of(model_of(graph)), HasSubstr("nesting deeper than 100 at byte"));
}

TEST(Onnx, TensorsThatLie) {
  auto refused = [](const std::string& t, const std::string& reason) {
    EXPECT_THAT(error_of(model_with(t)), ::testing::AllOf(HasSubstr("tensor \"w\""), HasSubstr(reason)));
  };
  refused(tensor("w", 1, {int64_t{1} << 32, int64_t{1} << 32}, raw("1234")), "dims overflow");
  refused(tensor("w", 1, {int64_t{1} << 62, 4}, raw("")), "the limit is 2^40");
  refused(tensor("w", 1, {0, int64_t{1} << 62}, raw("")), "the limit is 2^40");
  refused(tensor("w", 1, {2, -3}, raw("")), "negative dim -3 at axis 1");
  refused(tensor("w", 1, {4}, raw(std::string(15, 'x'))), "need 16 bytes, found 15");
  refused(tensor("w", 1, {4}, raw(std::string(17, 'x'))), "need 16 bytes, found 17");
  refused(tensor("w", 1, {1}, raw("1234") + single(4, 1)), "both raw_data and typed data");
  refused(tensor("w", 1, {1}, single(4, 1) + number(5, 1)), "in 2 fields at once");
  refused(tensor("w", 999, {1}, raw("1234")), "type 999");
  refused(tensor("w", 0, {1}, raw("1234")), "undefined");
  refused(tensor("w", 17, {1}, raw("1")), "float8e4m3fn");
  refused(tensor("w", 1, std::vector<int64_t>(70, 1), raw("1234")), "rank 70; the limit is 32");
  refused(tensor("w", 7, {3}, number(7, 1) + number(7, 2)), "need 3 elements, found 2 in int64_data");
  refused(tensor("w", 2, {1}, number(5, 300)), "holds 300, which no uint8 can be");
  refused(tensor("w", 8, {1}, raw("text")), "strings in raw_data");
  refused(tensor("w", 1, {1}, ""), "found 0 in float_data");
  EXPECT_THAT(error_of(model_with(tensor("", 1, {1}, raw("1234")))), HasSubstr("has no name"));
}

TEST(Onnx, TypedFields) {
  auto read = [](int dtype, const std::vector<int64_t>& shape, const std::string& rest) {
    return read_onnx(model_with(tensor("w", dtype, shape, rest)), "m.onnx").graph.initializers[0].tensor;
  };
  EXPECT_EQ(read(1, {1}, single(4, 1.5f)).data<float>()[0], 1.5f);
  EXPECT_EQ(read(3, {2}, number(5, -128) + number(5, 127)).data<int8_t>()[0], -128);
  EXPECT_EQ(read(2, {1}, number(5, 255)).data<uint8_t>()[0], 255);
  EXPECT_EQ(read(9, {2}, number(5, 7) + number(5, 0)).data<uint8_t>()[0], 1);
  EXPECT_EQ(read(10, {1}, number(5, 0x3c00)).data<uint16_t>()[0], 0x3c00);
  EXPECT_EQ(read(16, {1}, number(5, 0x3f80)).data<uint16_t>()[0], 0x3f80);
  EXPECT_EQ(read(7, {}, number(7, INT64_MIN)).data<int64_t>()[0], INT64_MIN);
  EXPECT_EQ(read(12, {1}, number(11, 4294967295)).data<uint32_t>()[0], 4294967295u);
  EXPECT_EQ(read(13, {1}, number(11, -1)).data<uint64_t>()[0], UINT64_MAX);
  EXPECT_EQ(read(8, {2}, bytes(6, "a") + bytes(6, std::string("\0\xff", 2))).strings[1], std::string("\0\xff", 2));
  EXPECT_EQ(read(9, {2}, raw("\2\1")).data<uint8_t>()[0], 1);  // a bool of raw value 2 is true
  EXPECT_EQ(read(1, {0, 3}, "").element_count(), 0);
}

TEST(Onnx, SparseTensors) {
  auto sparse = [](const std::vector<int64_t>& index_shape, const std::vector<int64_t>& indices,
                   const std::vector<int64_t>& shape) {
    std::string typed, data;
    for (int64_t i : indices) typed += number(7, i);
    std::string values = tensor("w", 1, {2}, single(4, 5) + single(4, 6));
    return model_of(bytes(
        15, bytes(1, values) + bytes(2, tensor("", 7, index_shape, typed)) + [&] {
          for (int64_t d : shape) data += number(3, d);
          return data;
        }()));
  };
  Model linear = read_onnx(sparse({2}, {1, 5}, {2, 3}), "m.onnx");
  const float* data = linear.graph.initializers[0].tensor.data<float>();
  EXPECT_EQ(std::vector<float>(data, data + 6), (std::vector<float>{0, 5, 0, 0, 0, 6}));
  Model pairs = read_onnx(sparse({2, 2}, {0, 2, 1, 0}, {2, 3}), "m.onnx");
  data = pairs.graph.initializers[0].tensor.data<float>();
  EXPECT_EQ(std::vector<float>(data, data + 6), (std::vector<float>{0, 0, 5, 6, 0, 0}));
  EXPECT_THAT(error_of(sparse({2}, {1, 6}, {2, 3})), HasSubstr("index 6 of value 1 is outside 0..5"));
  EXPECT_THAT(error_of(sparse({2}, {-1, 5}, {2, 3})), HasSubstr("index -1 of value 0"));
  EXPECT_THAT(error_of(sparse({1}, {1}, {2, 3})), HasSubstr("2 values of rank 2 have indices of dims 1"));
  EXPECT_THAT(error_of(sparse({2}, {1, 5}, {1 << 20, 1 << 20})), HasSubstr("when dense; the limit is"));
}

TEST(Onnx, Attributes) {
  auto refused = [](const std::string& attribute, const std::string& reason) {
    EXPECT_THAT(error_of(model_with_attribute(attribute)),
                ::testing::AllOf(HasSubstr("node #0 \"the_node\" (Relu)"), HasSubstr("attribute \"a\""), HasSubstr(reason)));
  };
  refused(bytes(1, "a") + number(20, 2) + single(2, 1), "says it is of type int but carries a value of type float");
  refused(bytes(1, "a") + number(20, 99), "has type 99");
  refused(bytes(1, "a"), "states no type and carries no value");
  refused(bytes(1, "a") + number(20, 4), "of type tensor but carries none");
  refused(bytes(1, "a") + number(20, 4) + bytes(5, tensor("", 1, {4}, raw("1"))), "need 16 bytes");
  EXPECT_EQ(error_of(model_with_attribute(bytes(1, "a") + number(3, 5))), "");  // IR version 1 stated no types
  std::string twice = bytes(1, "a") + number(20, 2) + number(3, 5);
  EXPECT_THAT(error_of(model_of(bytes(1, bytes(4, "Relu") + bytes(5, twice) + bytes(5, twice)))),
              HasSubstr("is given twice"));
}

// ---- external data, in a folder of its own ----
class ExternalData : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "metac-external-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    outside_ = pattern;
    folder_ = outside_ + "/model";
    ::mkdir(folder_.c_str(), 0777);
    write_file(folder_ + "/w.bin", "0123456789abcdef");
    write_file(outside_ + "/secret.bin", "0123456789abcdef");
  }
  void TearDown() override { std::filesystem::remove_all(outside_); }

  std::string model(const std::string& location, const std::string& more = "") {
    std::string external = number(14, 1) + more;
    if (!location.empty()) external += bytes(13, entry("location", location));
    return model_with(tensor("w", 1, {4}, external));
  }
  std::string error(const std::string& location, const std::string& more = "") {
    return error_of(model(location, more), folder_ + "/m.onnx");
  }

  std::string outside_, folder_;
};

TEST_F(ExternalData, IsRead) {
  EXPECT_EQ(error("w.bin"), "");
  EXPECT_EQ(error("./w.bin", bytes(13, entry("checksum", "?")) + bytes(13, entry("whatever", "x"))), "");
  Model m =
      read_onnx(model("w.bin", bytes(13, entry("offset", "0")) + bytes(13, entry("length", "16"))), folder_ + "/m.onnx");
  EXPECT_EQ(std::string(m.graph.initializers[0].tensor.data<char>(), 16), "0123456789abcdef");
}

TEST_F(ExternalData, StaysInsideTheFolder) {
  ::mkdir((folder_ + "/sub").c_str(), 0777);
  ASSERT_EQ(::symlink("../secret.bin", (folder_ + "/link.bin").c_str()), 0);
  ASSERT_EQ(::symlink("..", (folder_ + "/up").c_str()), 0);
  ASSERT_EQ(::link((outside_ + "/secret.bin").c_str(), (folder_ + "/hard.bin").c_str()), 0);
  for (const char* location : {"../secret.bin", "sub/../../secret.bin"})
    EXPECT_THAT(error(location), HasSubstr("leaves the model's folder"));
  EXPECT_THAT(error(outside_ + "/secret.bin"), HasSubstr("leaves the model's folder"));
  EXPECT_THAT(error(std::string("w.bin\0x", 7)), HasSubstr("leaves the model's folder"));
  EXPECT_THAT(error("link.bin"), HasSubstr("symbolic link"));
  EXPECT_THAT(error("up/secret.bin"), HasSubstr("symbolic link"));
  EXPECT_THAT(error("hard.bin"), HasSubstr("hard links"));
}

TEST_F(ExternalData, OnlyRegularFiles) {
  ::mkdir((folder_ + "/sub").c_str(), 0777);
  ASSERT_EQ(::mkfifo((folder_ + "/pipe").c_str(), 0666), 0);
  EXPECT_THAT(error("pipe"), HasSubstr("is not a regular file"));
  EXPECT_THAT(error("sub"), HasSubstr("is a folder, not a file"));
  EXPECT_THAT(error("missing.bin"), HasSubstr("No such file"));
  EXPECT_THAT(error("missing/w.bin"), HasSubstr("No such file"));
  EXPECT_THAT(error("w.bin/x"), HasSubstr("Not a directory"));
  EXPECT_THAT(error("."), HasSubstr("names no file"));
}

TEST_F(ExternalData, OffsetsAndLengths) {
  auto with = [&](const char* key, const char* value) { return error("w.bin", bytes(13, entry(key, value))); };
  EXPECT_THAT(error(""), HasSubstr("without a location"));
  EXPECT_THAT(with("offset", "17"), HasSubstr("offset 17 is outside its 16 bytes"));
  EXPECT_THAT(with("offset", "4"), HasSubstr("offset 4 and length 16 pass the end of its 16 bytes"));
  EXPECT_THAT(with("offset", "-1"), HasSubstr("\"-1\", not a number of bytes"));
  EXPECT_THAT(with("length", "12abc"), HasSubstr("\"12abc\", not a number of bytes"));
  EXPECT_THAT(with("length", "1152921504606846976"), HasSubstr("length 1152921504606846976, but dims 4 need 16 bytes"));
  EXPECT_THAT(with("length", "99999999999999999999"), HasSubstr("not a number of bytes"));
  EXPECT_THAT(error("w.bin", raw("1234")), HasSubstr("marked as external"));
  EXPECT_THAT(error_of(model_with(tensor("w", 1, {int64_t{1} << 39, 1 << 10},
                                         number(14, 1) + bytes(13, entry("location", "w.bin")))),
                       folder_ + "/m.onnx"),
              HasSubstr("pass the end"));
}

TEST_F(ExternalData, LargeModelsAreWrittenInTwoFiles) {
  Model model = read_onnx(model_with(tensor("w", 7, {2}, number(7, 1) + number(7, 2))), "m.onnx");
  Tensor large = make_tensor<float>(DType::f32, {500}, std::vector<float>(500, 2.5f));
  model.graph.initializers.push_back({"../evil", large});
  model.graph.initializers.push_back({"w2", large});
  OnnxWriteOptions options;
  options.inline_limit = 1000;
  options.external_from = 1000;
  write_onnx(model, folder_ + "/big.onnx", options);
  EXPECT_EQ(RealFiles().list(folder_), (std::vector<std::string>{"big.onnx", "big.onnx.data", "w.bin"}));
  EXPECT_EQ(to_onnx_bytes(read_onnx(folder_ + "/big.onnx")), to_onnx_bytes(model));
}

TEST_F(ExternalData, ConvertChoosesByEnding) {
  write_file(folder_ + "/a.onnx", model_with(tensor("w", 1, {4}, raw("0123456789abcdef"))));
  convert_model(folder_ + "/a.onnx", folder_ + "/a.json");
  convert_model(folder_ + "/a.json", folder_ + "/b.onnx");
  EXPECT_EQ(to_onnx_bytes(read_model(folder_ + "/a.onnx")), to_onnx_bytes(read_model(folder_ + "/b.onnx")));
  EXPECT_THROW(convert_model(folder_ + "/a.onnx", folder_ + "/a.txt"), CompileError);
  EXPECT_THROW(convert_model(folder_ + "/none.onnx", folder_ + "/c.json"), CompileError);
  EXPECT_FALSE(RealFiles().exists(folder_ + "/c.json"));
  write_file(folder_ + "/content", "\n {\"metac_ir\": 1}");
  EXPECT_EQ(read_model(folder_ + "/content").ir_version, 10);
}

TEST(Onnx, TensorFilesOfTestCases) {
  std::string name;
  Tensor t = read_tensor_proto(tensor("input", 7, {2}, number(7, 3) + number(7, 4)), "input_0.pb", &name);
  EXPECT_EQ(name, "input");
  EXPECT_EQ(integer_at(t, 1), 4);
  EXPECT_EQ(integer_at(read_tensor_proto(to_tensor_proto_bytes(t, "x"), "x.pb"), 0), 3);
  EXPECT_THROW(read_tensor_proto("", "x.pb"), CompileError);
}

std::string write_temporary(const std::string& content) {
  const std::string path = ::testing::TempDir() + "metac_model_" + std::to_string(getpid()) + ".onnx";
  std::ofstream(path, std::ios::binary) << content;  // write_file() waits for the disk
  return path;
}

TEST(Onnx, TheHashIsThatOfTheFile) {
  std::string text = model_with(tensor("w", 1, {1}, raw("1234")));
  const std::string path = write_temporary(text);
  EXPECT_EQ(read_hashed_model(path).sha256, sha256_hex(text));
  std::filesystem::remove(path);
}

// Large elements are read past the parser: a file says the same as its bytes, whatever stands in it.
TEST(Onnx, AFileReadsAsItsBytesDo) {
  std::string elements(8192, '\0');
  for (size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<char>(i * 7);
  const std::string w = tensor("w", 1, {2048}, raw(elements)), small = tensor("s", 1, {1}, raw("1234"));
  const std::string other = tensor("v", 1, {2, 1024}, raw(elements)), unknown = bytes(99, "abc") + number(98, 5);
  const std::string node = bytes(1, bytes(1, "x") + bytes(2, "y") + bytes(4, "Relu"));
  const std::string models[] = {
      model_of(node + bytes(5, w) + bytes(5, small) + bytes(5, other) + unknown, unknown),
      model_of(bytes(5, w)) + bytes(7, bytes(5, other)),                // a graph in two parts
      model_with(tensor("w", 1, {2048}, raw(elements) + raw("1234"))),  // the last one counts
      model_with(tensor("w", 1, {2048}, raw("1234") + raw(elements))),
      "",
      model_with(tensor("w", 1, {2047}, raw(elements))),                   // too many
      model_with(tensor("w", 8, {2048}, raw(elements))),                   // of strings
      model_with(tensor("w", 9, {8192}, raw(elements))),                   // bools that are neither 0 nor 1
      model_with(tensor("w", 1, {2048}, raw(elements) + single(4, 1.0))),  // beside typed data
      model_with(tensor("w", 1, {2048}, raw(elements) + number(14, 1))),   // said to be elsewhere
  };
  std::mt19937 random(1);
  const auto read = [](const std::function<Model()>& f) {
    std::string text;
    try {
      for (const Initializer& one : f().graph.initializers)
        text += one.name + " " + to_string(one.tensor.shape) + " " +
                sha256_hex({one.tensor.data<char>(), one.tensor.byte_count()}) + "\n";
    } catch (const CompileError& error) {
      text = error.what();
    }
    return text;
  };
  const std::string path = write_temporary(models[0]);
  const auto compare = [&](const std::string& model) {
    write_temporary(model);
    EXPECT_EQ(read([&] { return read_onnx(path); }), read([&] { return read_onnx(model, path); }));
  };
  for (const std::string& model : models) {
    compare(model);
    if (model.empty()) continue;
    for (int i = 0; i < 40; ++i) compare(model.substr(0, random() % model.size()));
    // Among tags and lengths, which stand at both ends.
    for (int i = 0; i < 80; ++i) {
      std::string broken = model;
      const size_t at = random() % 60;
      broken[i % 2 == 0 ? at : broken.size() - 1 - at] = static_cast<char>(random());
      compare(broken);
    }
  }
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace metac::frontends_onnx_test
