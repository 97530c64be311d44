// External routines by their contract (runtime/routines_contract.h): ties, NaN, empty axes, every output.
#include "runtime/routines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "runtime/routines_contract.h"

namespace {

using namespace metac_runtime;
using testing::ElementsAre;
using testing::IsEmpty;

struct Array1 {
  ScalarType dtype;
  std::vector<int64_t> dims;
  std::vector<char> bytes;
  template <typename T>
  std::vector<T> values() const {
    const T* data = reinterpret_cast<const T*>(bytes.data());
    return std::vector<T>(data, data + bytes.size() / sizeof(T));
  }
};
template <typename T>
Array1 array(ScalarType dtype, std::vector<int64_t> dims, std::vector<T> values) {
  Array1 a{dtype, std::move(dims), std::vector<char>(values.size() * sizeof(T))};
  if (!values.empty()) std::memcpy(a.bytes.data(), values.data(), a.bytes.size());
  return a;
}

// Calls a routine; -1 in an output's dims stands for the symbol that it binds.
struct Call {
  std::vector<Array1> inputs, outputs;
  std::vector<RoutineAttribute> attributes;
  Failure failure;
  int64_t symbol = -1;
  int64_t* draws = nullptr;

  bool operator()(const char* name) {
    int32_t count = 0;
    const RoutineEntry* all = all_routines(&count);
    Routine routine = nullptr;
    for (int32_t i = 0; i < count; ++i)
      if (std::string(all[i].name) == name) routine = all[i].function;
    EXPECT_NE(routine, nullptr) << name;
    std::vector<RoutineTensor> tensors;
    for (Array1& a : inputs) tensors.push_back(view(a));
    for (Array1& a : outputs) tensors.push_back(view(a));
    RoutineCall call{};
    Block memory;
    call.memory = &memory;
    call.inputs = tensors.data();
    call.input_count = static_cast<int32_t>(inputs.size());
    call.outputs = tensors.data() + inputs.size();
    call.output_count = static_cast<int32_t>(outputs.size());
    call.attributes = {attributes.data(), static_cast<int32_t>(attributes.size())};
    call.symbols = &symbol;
    call.symbol_count = 1;
    call.failure = &failure;
    call.draws = draws;
    call.executor = this;
    call.prepare = [](RoutineCall& c) {
      Call& self = *static_cast<Call*>(c.executor);
      for (int32_t k = 0; k < c.output_count; ++k) {
        Array1& a = self.outputs[static_cast<size_t>(k)];
        for (int64_t& d : a.dims)
          if (d < 0) d = self.symbol;
        int64_t bytes = size_of(a.dtype);
        for (const int64_t d : a.dims) bytes *= d;
        a.bytes.resize(static_cast<size_t>(bytes));
        c.outputs[k] = view(a);
      }
      return true;
    };
    return routine(call);
  }
  static RoutineTensor view(Array1& a) {
    int64_t count = 1;
    for (const int64_t d : a.dims) count *= d;
    return {a.bytes.data(), a.dtype, static_cast<int32_t>(a.dims.size()), a.dims.data(), count};
  }
  void integer(const char* name, int64_t value) { attributes.push_back({name, value, 0, "", nullptr, 0}); }
};

TEST(Routines, TheContractsNamesExist) {
  int32_t count = 0;
  const RoutineEntry* all = all_routines(&count);
  for (const char* name :
       {metac_routines::top_k, metac_routines::nonzero, metac_routines::unique, metac_routines::non_max_suppression}) {
    bool found = false;
    for (int32_t i = 0; i < count; ++i) found |= std::string(all[i].name) == name;
    EXPECT_TRUE(found) << name;
  }
}

TEST(Routines, TopKBreaksTiesByIndexAndPutsNaNOnTop) {
  Call call;
  call.inputs = {array<float>(ScalarType::f32, {2, 4}, {3, 1, 3, 2, NAN, 5, -1, NAN})};
  call.outputs = {array<float>(ScalarType::f32, {2, 3}, {}), array<int64_t>(ScalarType::i64, {2, 3}, {})};
  call.integer("axis", 1), call.integer("largest", 1), call.integer("sorted", 1);
  ASSERT_TRUE(call("top_k")) << call.failure.message;
  EXPECT_THAT(call.outputs[1].values<int64_t>(), ElementsAre(0, 2, 3, 0, 3, 1));
  EXPECT_EQ(call.outputs[0].values<float>()[5], 5);
}

TEST(Routines, TopKAlongTheFirstAxisLeastFirst) {
  Call call;
  call.inputs = {array<int64_t>(ScalarType::i64, {3, 2}, {5, -1, 2, 7, 9, -1})};
  call.outputs = {array<int64_t>(ScalarType::i64, {2, 2}, {}), array<int64_t>(ScalarType::i64, {2, 2}, {})};
  call.integer("axis", 0), call.integer("largest", 0);
  ASSERT_TRUE(call("top_k"));
  EXPECT_THAT(call.outputs[0].values<int64_t>(), ElementsAre(2, -1, 5, -1));
  EXPECT_THAT(call.outputs[1].values<int64_t>(), ElementsAre(1, 0, 0, 2));
}

TEST(Routines, TopKOfNothing) {
  Call call;
  call.inputs = {array<float>(ScalarType::f32, {4}, {1, 2, 3, 4})};
  call.outputs = {array<float>(ScalarType::f32, {0}, {}), array<int64_t>(ScalarType::i64, {0}, {})};
  EXPECT_TRUE(call("top_k"));
  call.outputs = {array<float>(ScalarType::f32, {5}, {}), array<int64_t>(ScalarType::i64, {5}, {})};
  EXPECT_FALSE(call("top_k"));
  EXPECT_STREQ(call.failure.message, "TopK: k is 5, the axis has 4 elements");
}

TEST(Routines, NonzeroListsPositionsByAxis) {
  Call call;
  call.inputs = {array<uint8_t>(ScalarType::boolean, {2, 3}, {0, 1, 0, 1, 0, 1})};
  call.outputs = {array<int64_t>(ScalarType::i64, {2, -1}, {})};
  ASSERT_TRUE(call("nonzero"));
  EXPECT_THAT(call.outputs[0].values<int64_t>(), ElementsAre(0, 1, 1, 1, 0, 2));
  Call scalar;
  scalar.inputs = {array<float>(ScalarType::f32, {}, {2})};
  scalar.outputs = {array<int64_t>(ScalarType::i64, {0, -1}, {})};
  ASSERT_TRUE(scalar("nonzero"));
  EXPECT_EQ(scalar.symbol, 1);
}

Call unique_of(std::vector<float> values, int64_t sorted) {
  Call call;
  const int64_t n = static_cast<int64_t>(values.size());
  call.inputs = {array<float>(ScalarType::f32, {n}, std::move(values))};
  call.outputs = {array<float>(ScalarType::f32, {-1}, {}), array<int64_t>(ScalarType::i64, {-1}, {}),
                  array<int64_t>(ScalarType::i64, {n}, {}), array<int64_t>(ScalarType::i64, {-1}, {})};
  call.integer("axis", 0), call.integer("sorted", sorted);
  EXPECT_TRUE(call("unique"));
  return call;
}

TEST(Routines, UniqueSortedAndByFirstOccurrence) {
  Call sorted = unique_of({2, 1, 1, 3, 4, 3}, 1);
  EXPECT_THAT(sorted.outputs[0].values<float>(), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(sorted.outputs[1].values<int64_t>(), ElementsAre(1, 0, 3, 4));
  EXPECT_THAT(sorted.outputs[2].values<int64_t>(), ElementsAre(1, 0, 0, 2, 3, 2));
  EXPECT_THAT(sorted.outputs[3].values<int64_t>(), ElementsAre(2, 1, 2, 1));
  Call first = unique_of({2, 1, 1, 3, 4, 3}, 0);
  EXPECT_THAT(first.outputs[0].values<float>(), ElementsAre(2, 1, 3, 4));
  EXPECT_THAT(first.outputs[1].values<int64_t>(), ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(first.outputs[2].values<int64_t>(), ElementsAre(0, 1, 1, 2, 3, 2));
  EXPECT_THAT(first.outputs[3].values<int64_t>(), ElementsAre(1, 2, 2, 1));
  EXPECT_EQ(unique_of({NAN, 1, NAN}, 1).symbol, 2);
  EXPECT_THAT(unique_of({}, 1).outputs[0].values<float>(), IsEmpty());
}

TEST(Routines, UniqueSlicesAlongAnAxis) {
  Call call;
  call.inputs = {array<int32_t>(ScalarType::i32, {3, 2}, {1, 0, 1, 0, 0, 9})};
  call.outputs = {array<int32_t>(ScalarType::i32, {-1, 2}, {})};
  call.integer("axis", 0), call.integer("sorted", 1);
  ASSERT_TRUE(call("unique"));
  EXPECT_THAT(call.outputs[0].values<int32_t>(), ElementsAre(0, 9, 1, 0));
}

TEST(Routines, NonMaxSuppressionKeepsTheBest) {
  Call call;
  call.inputs = {array<float>(ScalarType::f32, {1, 4, 4}, {0, 0, 1, 1, 0, 0.1f, 1, 1.1f, 0, 10, 1, 11, 1, 11, 0, 10}),
                 array<float>(ScalarType::f32, {1, 1, 4}, {0.9f, 0.75f, 0.6f, 0.95f}),
                 array<int64_t>(ScalarType::i64, {}, {3}), array<float>(ScalarType::f32, {}, {0.5f}),
                 array<float>(ScalarType::f32, {}, {0.0f})};
  call.outputs = {array<int64_t>(ScalarType::i64, {-1, 3}, {})};
  ASSERT_TRUE(call("non_max_suppression"));
  EXPECT_THAT(call.outputs[0].values<int64_t>(), ElementsAre(0, 0, 3, 0, 0, 0));
}

TEST(Routines, ReinterpretsBits) {
  Call call;
  call.inputs = {array<float>(ScalarType::f32, {3}, {1, -2, 0})};
  call.outputs = {array<int32_t>(ScalarType::i32, {3}, {})};
  ASSERT_TRUE(call("reinterpret_bits"));
  EXPECT_THAT(call.outputs[0].values<int32_t>(), ElementsAre(0x3f800000, static_cast<int32_t>(0xc0000000), 0));
}

TEST(Routines, DrawNumberCounts) {
  int64_t draws = 0;
  for (int64_t expected : {0, 1, 2}) {
    Call call;
    call.draws = &draws;
    call.outputs = {array<int64_t>(ScalarType::i64, {}, {})};
    ASSERT_TRUE(call("draw_number"));
    EXPECT_THAT(call.outputs[0].values<int64_t>(), ElementsAre(expected));
  }
}

}  // namespace
