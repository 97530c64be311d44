// Register tiles fit into registers.
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/machine/cpu_target.h"
#include "compiler/ops/lower_model.h"
#include "compiler/program/compile.h"
#include "compiler/target/cpu/tiles/register_tile.h"
#include "frontends/json/json.h"

namespace metac::tile_test {
namespace {

TEST(Tile, SumsAndOperandsFitIntoRegisters) {
  for (int registers : {16, 32})
    for (int64_t points : {0, 1, 7, 14, 28, 56, 112})
      for (int64_t lanes : {0, 16, 32, 96, 672}) {
        const int vector_lanes = registers / 2;
        Tile shared = choose_tile({points, lanes}, vector_lanes, registers);
        const int spare = registers == 32 ? 2 : 0;  // docs/decisions/register_tiles.md
        EXPECT_LT(shared.points * shared.vectors + shared.vectors, registers - spare);
        // A window's neighbours share elements, which compilers keep in registers from one tap to the next.
        for (int taps : {3, 5, 7}) {
          Tile window = choose_tile({points, lanes, taps, 0, false, true, taps}, vector_lanes, registers);
          EXPECT_LE((2 * window.points + taps) * window.vectors, registers)
              << points << " points, " << lanes << " lanes, " << taps << " taps";
          EXPECT_GE(window.points * window.vectors, std::min<int64_t>(points ? points : 56, registers == 32 ? 7 : 4))
              << "sums wait for each other";
        }
      }
}

// An open batch may be one: its tiles would all be rests.
TEST(Tile, KnownAxesBeforeOpenOnes) {
  EXPECT_EQ(choose_tiled_axis({0, 7}), 1u);  // images, positions
  EXPECT_EQ(choose_tiled_axis({0, 7, 3}), 1u);
  EXPECT_EQ(choose_tiled_axis({0, 49, 0}), 1u);
  EXPECT_EQ(choose_tiled_axis({0, 2}), 0u);
  EXPECT_EQ(choose_tiled_axis({0, 0}), 1u);
  EXPECT_EQ(choose_tiled_axis({14, 8}), 1u);  // the innermost, where it is long enough
}

// A tile for many points would leave one sum or two, each waiting for its last.
TEST(Tile, ProductOfOnePointKeepsManySums) {
  const Model model = read_json_model(R"json({"metac_ir": 1,
    "inputs": [{"name": "x", "dtype": "float32", "shape": [1, 512]}, {"name": "w", "dtype": "float32", "shape": [512, 1024]}],
    "nodes": [{"op": "matmul", "inputs": ["x", "w"], "outputs": ["y"]}], "outputs": ["y"]})json",
                                      "one_point.json");
  for (const char* cpu : {"x86-64-v3", "x86-64-v4"}) {
    CompileOptions options;
    options.cpu = cpu_target(cpu);
    const CompiledModel compiled = compile_graph(*lower_model(model, {}), options);
    ASSERT_EQ(compiled.run.kernels.size(), 1u) << cpu;
    EXPECT_NE(compiled.run.kernels[0].text.find("tile: 1 points by 4 vectors"), std::string::npos)
        << compiled.run.kernels[0].text;
  }
}

// In front of the sums' loop they would take registers that the sums need.
TEST(Tile, ScalarsOfTheEpilogueAreReadBehindTheSums) {
  // For all sums at once, and (with an elementary function) for one after the other.
  for (const std::string body : {"p/s + 1.0", "p*(erf(p/s) + 1.0)"}) {
    const Model model = read_json_model(R"json({"metac_ir": 1,
      "inputs": [{"name": "x", "dtype": "float32", "shape": [90, 64]}, {"name": "w", "dtype": "float32", "shape": [64, 96]}, {"name": "s", "dtype": "float32", "shape": []}],
      "nodes": [{"op": "matmul", "inputs": ["x", "w"], "outputs": ["p"]}, {"op": "elementwise", "inputs": ["p", "s"], "outputs": ["y"], "body": ")json" +
                                            body + R"json("}], "outputs": ["y"]})json",
                                        "epilogue.json");
    CompileOptions options;
    options.cpu = cpu_target("native");
    bool tiled = false;
    for (const KernelSource& kernel : compile_graph(*lower_model(model, {}), options).run.kernels) {
      const size_t sums = kernel.text.find("= fma("), scalar = kernel.text.find("(here(in");
      if (sums == std::string::npos || scalar == std::string::npos) continue;
      tiled = true;
      EXPECT_GT(scalar, sums) << kernel.text;
      EXPECT_EQ(kernel.text.find("(in2["), std::string::npos) << kernel.text;
    }
    EXPECT_TRUE(tiled) << body;
  }
}

}  // namespace
}  // namespace metac::tile_test
