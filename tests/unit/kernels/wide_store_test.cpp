// Stores of neighbours as one: where that may be, and where it may not.
#include "compiler/target/gpu/strategies/wide_store.h"

#include <gtest/gtest.h>

#include "compiler/ir/builders.h"

namespace metac::wide_store_test {
namespace {

// A thread's `count` neighbours from `first` (a multiple of `step` elements) on, stored at `offset` of them, under a guard.
struct Stored {
  Graph g;
  std::vector<KernelArgument> arguments;
  Bounds bounds;
  LoopNode node;
  Expr first = axis(0) * Expr(4), neighbour = axis(1);

  explicit Stored(int64_t count, DType dtype = DType::f32) {
    for (const char* name : {"result", "residual", "bias"})
      arguments.push_back({g.add_input(name, Type{TypeKind::tensor, dtype, {64, 64}}), arguments.empty(), {}});
    bounds.set_axis(0, Expr(16));
    bounds.set_axis(1, Expr(count));
    bounds.set_axis(2, Expr(64));
    node.loops = {{0, Expr(16), LoopKind::thread, {}}, {1, Expr(count), LoopKind::unrolled, {}}};
    node.children.resize(1);
  }
  Expr read(int argument, Expr at) { return load(argument, arguments[0].var->dtype(), {at}); }
  bool wide(Expr offset, Expr value, Expr guard = {}) {
    node.children[0].guard = guard;
    node.children[0].assigns = {{0, offset, value, {}}};
    const bool taken = store_wide(node, arguments, bounds);
    EXPECT_EQ(node.loops.size(), taken ? 1u : 2u);
    EXPECT_EQ(node.children[0].loops.size(), taken ? 1u : 0u);
    return taken;
  }
};

TEST(WideStore, NeighboursThatAreAligned) {
  Stored plain(4), residual(4), row(4), turned(4);
  EXPECT_TRUE(plain.wide(axis(2) * Expr(64) + plain.first + plain.neighbour, float_constant(1, DType::f32)));
  const Expr at = axis(2) * Expr(64) + residual.first + residual.neighbour;
  EXPECT_TRUE(residual.wide(at, residual.read(1, at) + residual.read(2, residual.first + residual.neighbour)));
  EXPECT_TRUE(row.wide(row.first + row.neighbour, row.read(2, axis(2) * Expr(64))));  // one element for all
  // Places that are taken apart and put together again, as pixels of a convolution are.
  const Expr pixel = turned.first + turned.neighbour;
  EXPECT_TRUE(turned.wide(floor_div(pixel, 8) * Expr(24) + floor_mod(pixel, 8), float_constant(1, DType::f32)));
}

TEST(WideStore, OthersStaySingle) {
  const Expr one = float_constant(1, DType::f32);
  Stored odd(4), across(4), shifted(4), gathered(4), chosen(4), large(4, DType::f64);
  EXPECT_FALSE(odd.wide(axis(2) * Expr(63) + odd.first + odd.neighbour, one));
  EXPECT_FALSE(across.wide(axis(2) + (across.first + across.neighbour) * Expr(64), one));
  EXPECT_FALSE(shifted.wide(shifted.first + shifted.neighbour, shifted.read(1, shifted.first + shifted.neighbour + 1)));
  EXPECT_FALSE(gathered.wide(gathered.first + gathered.neighbour,
                             gathered.read(1, (gathered.first + gathered.neighbour) * Expr(64))));
  const Expr at = chosen.first + chosen.neighbour;
  EXPECT_FALSE(chosen.wide(at, select(axis(2) < Expr(3), chosen.read(1, at), one)));  // would be read where it must not be
  EXPECT_FALSE(large.wide(large.first + large.neighbour, float_constant(1, DType::f64)));  // 32 bytes
}

TEST(WideStore, GuardsOfAllOrNone) {
  const Expr one = float_constant(1, DType::f32);
  for (int64_t size : {60, 62}) {
    Stored s(4);
    const Expr at = s.first + s.neighbour, rows = axis(2) < Expr(63);
    EXPECT_EQ(s.wide(axis(2) * Expr(64) + at, one, logical_and(rows, at < Expr(size))), size == 60);
    EXPECT_EQ(s.node.children[0].guard, logical_and(rows, (size == 60 ? s.first : at) < Expr(size)));
  }
}

}  // namespace
}  // namespace metac::wide_store_test
