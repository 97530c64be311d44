// Random numbers as a function of where an element stands, and of a seed and a counter that the caller gives: the same ones
// for any number of threads, any order and any fusion, and nothing to save in a checkpoint.
//
// The generator is Threefry-2x32 with 20 rounds (Salmon, Moraes, Dror and Shaw: "Parallel random numbers: as easy as 1, 2, 3",
// 2011): additions, rotations and exclusive ors of 32-bit words, which every vector unit has. Its key is the seed, its counter is
// (number of the element, call); `stream` tells nodes of one graph apart.
#include "compiler/ops/arithmetic.h"
#include "compiler/ops/meta_binding.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

Expr word(int64_t value) { return int_constant(value, DType::u32); }
Expr exclusive_or(Expr a, Expr b) { return call(Fn::bit_xor, {a, b}); }
Expr rotate_left(Expr x, int by) {
  return call(Fn::bit_or, {call(Fn::shift_left, {x, word(by)}), call(Fn::shift_right, {x, word(32 - by)})});
}

// The first of the two words that Threefry-2x32-20 makes of a counter under a key.
Expr threefry(Expr key0, Expr key1, Expr x0, Expr x1) {
  constexpr int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const Expr keys[3] = {key0, key1, exclusive_or(exclusive_or(key0, key1), word(0x1BD11BDA))};
  x0 = x0 + keys[0];
  x1 = x1 + keys[1];
  for (int group = 0; group < 5; ++group) {
    for (int rotation : rotations[group % 2]) {
      x0 = x0 + x1;
      x1 = exclusive_or(rotate_left(x1, rotation), x0);
    }
    x0 = x0 + keys[(group + 1) % 3];
    x1 = x1 + keys[(group + 2) % 3] + word(group + 1);
  }
  return x0;
}

Expr low_word(Expr x) { return cast(call(Fn::bit_and, {x, int_constant(0xffffffff)}), DType::u32); }
Expr high_word(Expr x) { return low_word(call(Fn::shift_right, {x, int_constant(32)})); }

// out[i] = a float32 in [0, 1) of 24 random bits, by (seed, call, stream, i). seed and call are int64 scalars.
METAC_OPERATOR("random", "metac")
    .since({1})
    .inputs(2, -1)
    .outputs(1)
    .required("shape", Kind::strings)
    .attribute("stream", Kind::integer)
    .attribute("let", Kind::strings)
    .lower([](Lowering& n) {
      Graph& g = n.graph();
      std::vector<Var*> operands;
      for (size_t i = 0; i < n.input_count(); ++i) operands.push_back(n.input(i));
      for (size_t i = 0; i < 2; ++i)
        if (operands[i]->dtype() != DType::i64 || operands[i]->rank() != 0)
          fail("the ", i == 0 ? "seed" : "call", " is an int64 scalar, this is ", name_of(operands[i]->dtype()), " of shape ",
               to_string(operands[i]->shape()));
      MetaScope scope(g, operands, n.node().inputs);
      for (const std::string& definition : n.strings("let")) scope.define(definition);
      Shape shape = scope.shape(n.strings("shape"));
      int64_t stream = n.integer("stream", 0);
      if (stream < 0 || stream > 0x7fffffff) fail("stream ", stream, " is not in 0..2^31-1");
      Expr seed = load(0, DType::i64, {}), count = load(1, DType::i64, {});
      Expr element = linear_index(shape, identity_indices(static_cast<int>(shape.size())));
      // More than 2^32 elements or calls repeat; a step of 10 ms reaches the latter after 500 days.
      Expr bits = threefry(low_word(seed), exclusive_or(high_word(seed), word(stream)), cast(element, DType::u32), low_word(count));
      Expr fraction = cast(cast(call(Fn::shift_right, {bits, word(8)}), DType::i32), DType::f32);
      n.set_output(0, g.elementwise({operands[0], operands[1]}, shape, fraction * constant_of(DType::f32, 0x1p-24)));
    });

}  // namespace
}  // namespace metac
