// What programs of one library share of their weights.
#include "compiler/codegen/library_weights.h"

#include <gtest/gtest.h>

#include <cstring>

#include "compiler/codegen/prepare_recipes.h"
#include "compiler/jit/jit_program.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/ops/lower_model.h"
#include "compiler/program/compile.h"
#include "frontends/json/json.h"

namespace metac::library_weights_test {
namespace {

std::string tensor(const std::string& name, int rows, int columns) {
  std::string data;
  for (int k = 0; k < rows * columns; ++k) data += (k ? ", " : "") + std::to_string(k % 7 - 3);
  return "{\"name\": \"" + name + "\", \"dtype\": \"float32\", \"shape\": [" + std::to_string(rows) + ", " +
         std::to_string(columns) + "], \"data\": [" + data + "]}";
}

// Three programs of one model: its weights are packed for the lanes of the CPU.
class LibraryWeightsOf : public testing::Test {
 protected:
  void add(const Model& model, int64_t batch, const CpuTarget& cpu) {
    LowerOptions lower;
    if (batch > 0) lower.dims["batch"] = {.name = "batch", .min = batch, .max = batch};
    CompileOptions options;
    options.cpu = cpu;
    models_.push_back(std::make_unique<CompiledModel>(compile_graph(*lower_model(model, lower), options)));
    blocks_.push_back(run_prepare(*models_.back(), cpu_target("native")));
    programs_.push_back({models_.back().get(), blocks_.back().get(), cpu, "run", static_cast<int>(programs_.size()), {}});
  }
  // All that a program reads stands in the block as in its own.
  void check_contents(const LibraryWeights& plan) const {
    std::string block;
    for (std::string_view piece : plan.file) block += piece;
    for (size_t p = 0; p < programs_.size(); ++p)
      for (const WeightSource& source : models_[p]->weights)
        EXPECT_EQ(std::memcmp(block.data() + plan.programs[p].moved.at(source.offset), blocks_[p].get() + source.offset,
                              static_cast<size_t>(source.bytes)),
                  0)
            << p;
  }

  Model model_ = read_json_model(
      R"({"metac_ir": 1, "opset": 17, "inputs": [{"name": "x", "dtype": "float32", "shape": ["batch", 96]}], "parameters": [)" +
          tensor("v", 96, 128) + ", " + tensor("w", 96, 128) +
          R"(], "nodes": [{"op": "MatMul", "inputs": ["x", "v"], "outputs": ["a"]}, {"op": "MatMul", "inputs": ["x", "w"], "outputs": ["b"]}, {"op": "Sub", "inputs": ["a", "b"], "outputs": ["y"]}], "outputs": ["y"]})",
      "two.json");
  std::vector<std::unique_ptr<CompiledModel>> models_;
  std::vector<WeightsBlock> blocks_;
  std::vector<LibraryProgram> programs_;
};

TEST_F(LibraryWeightsOf, ProgramsThatPackAlikeShareWhatIsPacked) {
  const CpuTarget cpu = cpu_target("x86-64-v3");
  for (int64_t batch : {48, 96, 144}) add(model_, batch, cpu);
  const LibraryWeights plan = plan_library_weights(programs_);
  check_contents(plan);
  EXPECT_LT(plan.bytes, models_[0]->run.weight_bytes * 3 / 2);
  for (const ProgramWeights& own : plan.programs) EXPECT_EQ(own.bytes, 0);
}

// v and w hold the same numbers today; other weights may be set tomorrow.
TEST_F(LibraryWeightsOf, EqualNumbersOfOtherParametersAreNotShared) {
  add(model_, 32, cpu_target("x86-64-v3"));
  const std::vector<std::string> recipes = prepare_recipes(*models_[0], {0, 1});
  ASSERT_EQ(recipes.size(), 2u);
  EXPECT_NE(recipes[0], recipes[1]);
  EXPECT_EQ(prepare_recipes(*models_[0], {1, 0}), (std::vector<std::string>{recipes[1], recipes[0]}));
}

// The file has the parameters once, and each processor's block is as large as if it were alone.
TEST_F(LibraryWeightsOf, CodeForOtherProcessorsPacksItsOwn) {
  add(model_, 32, cpu_target("x86-64-v3"));
  add(model_, 32, cpu_target("x86-64-v2"));
  const LibraryWeights plan = plan_library_weights(programs_);
  EXPECT_FALSE(plan.is_prepared);
  std::string file;
  for (std::string_view piece : plan.file) file += piece;
  EXPECT_EQ(static_cast<int64_t>(file.size()), plan.file_bytes);
  EXPECT_LT(plan.file_bytes, 2 * 96 * 128 * 4 + 3 * 4096);
  ASSERT_EQ(plan.parameter_offsets.size(), 2u);
  for (const int64_t offset : plan.parameter_offsets)
    EXPECT_EQ(std::memcmp(file.data() + offset, model_.graph.initializers[0].tensor.bytes.get(), 96 * 128 * 4), 0);
  for (const ProgramWeights& own : plan.programs) {
    EXPECT_GE(own.bytes, 2 * 96 * 128 * 4);
    EXPECT_EQ(own.from, plan.shared_bytes);
    EXPECT_LE(own.from + own.bytes, plan.bytes);
  }
}

}  // namespace
}  // namespace metac::library_weights_test
