#include "compiler/ops/pointwise/random_bits.h"

#include <numbers>

namespace metac {
namespace {

Expr word(int64_t value) { return int_constant(value, DType::u32); }
Expr exclusive_or(Expr a, Expr b) { return call(Fn::bit_xor, {a, b}); }
Expr rotate_left(Expr x, int by) {
  return call(Fn::bit_or, {call(Fn::shift_left, {x, word(by)}), call(Fn::shift_right, {x, word(32 - by)})});
}

// What Threefry-2x32-20 makes of a counter under a key.
std::pair<Expr, Expr> threefry(Expr key0, Expr key1, Expr x0, Expr x1) {
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
  return {x0, x1};
}

Expr low_word(Expr x) { return cast(call(Fn::bit_and, {x, int_constant(0xffffffff)}), DType::u32); }
Expr high_word(Expr x) { return low_word(call(Fn::shift_right, {x, int_constant(32)})); }

}  // namespace

std::pair<Expr, Expr> random_words(Expr seed, Expr count, int64_t stream, Expr element) {
  return threefry(low_word(seed), exclusive_or(high_word(seed), word(stream)), cast(element, DType::u32), low_word(count));
}

Expr unit_interval(Expr bits) {
  // Through int32: every instruction set converts that.
  Expr fraction = cast(cast(call(Fn::shift_right, {bits, word(8)}), DType::i32), DType::f32);
  return fraction * constant_of(DType::f32, 0x1p-24);
}

Expr unit_interval(std::pair<Expr, Expr> words) {
  Expr high = cast(call(Fn::shift_right, {words.first, word(5)}), DType::f64),
       low = cast(call(Fn::shift_right, {words.second, word(6)}), DType::f64);
  return (high * constant_of(DType::f64, 0x1p26) + low) * constant_of(DType::f64, 0x1p-53);
}

Expr normal_deviate(std::pair<Expr, Expr> words) {
  Expr one = constant_of(DType::f32, 1), radius = one - unit_interval(words.first);  // in (0, 1]
  Expr angle = unit_interval(words.second) * constant_of(DType::f32, 2 * std::numbers::pi);
  return call(Fn::sqrt, {call(Fn::log, {radius}) * constant_of(DType::f32, -2)}) * call(Fn::cos, {angle});
}

Var* draw_number(Graph& g) { return g.external("draw_number", {}, {Type{TypeKind::tensor, DType::i64, {}}})[0]; }

}  // namespace metac
