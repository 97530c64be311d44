// The value of an Extent (dims, byte counts, loop counts, conditions) for given symbols. It is computed in 128 bits, so that
// what is computed on the way (a sum that is not chosen, a term before another one is taken from it) may pass 64; a result
// that does is an error. Division by zero gives zero.
#pragma once
#include "program.h"

namespace METAC_RUNTIME_NAMESPACE {

__extension__ typedef __int128 WideExtent;  // ISO C++ has none

inline bool fits_64_bits(WideExtent value) { return value == static_cast<int64_t>(value); }

inline WideExtent floor_div_extent(WideExtent a, WideExtent b) {
  if (b == 0) return 0;
  if (fits_64_bits(a) && fits_64_bits(b) && b != -1) {  // the processor's own division
    const int64_t x = static_cast<int64_t>(a), y = static_cast<int64_t>(b);
    return x / y - (x % y != 0 && (x < 0) != (y < 0) ? 1 : 0);
  }
  // Bit by bit: rare, and compilers call libgcc to divide 128 bits, which libraries do without.
  __extension__ typedef unsigned __int128 Magnitude;
  const bool negative = (a < 0) != (b < 0);
  const Magnitude dividend = a < 0 ? -static_cast<Magnitude>(a) : static_cast<Magnitude>(a),
                  divisor = b < 0 ? -static_cast<Magnitude>(b) : static_cast<Magnitude>(b);
  Magnitude quotient = 0, rest = 0;
  for (int bit = 127; bit >= 0; --bit) {
    rest = rest << 1 | (dividend >> bit & 1);
    if (rest < divisor) continue;
    rest -= divisor;
    quotient |= Magnitude{1} << bit;
  }
  const WideExtent whole = static_cast<WideExtent>(quotient);
  return negative ? -whole - (rest != 0 ? 1 : 0) : whole;
}

constexpr int deepest_extent = 256;  // values at once; the compiler makes no code that has more

// In 64 bits, as nearly all of what runs ask for can be. False: not so, or not by this; evaluate_widely() decides.
inline bool evaluate_narrowly(const Program& program, const Extent& extent, const int64_t* symbols, int64_t* result) {
  constexpr int deepest = 32;
  int64_t stack[deepest];
  int depth = 0, kept = 0;
  const Instruction* const end = program.code + extent.value + extent.length;
  for (const Instruction* at = program.code + extent.value; at != end; ++at) {
    if (at->code == Code::constant || at->code == Code::symbol) {
      if (depth == deepest) return false;
      stack[depth++] = at->code == Code::constant ? at->value : symbols[at->value];
      continue;
    }
    if (at->code == Code::keep) {
      if (depth != ++kept) return false;
      continue;
    }
    if (at->code == Code::kept) {
      if (depth == deepest || at->value < 0 || at->value >= kept) return false;
      stack[depth] = stack[at->value];
      ++depth;
      continue;
    }
    if (at->code == Code::select) {
      if (depth < 3) return false;
      depth -= 2;
      stack[depth - 1] = stack[depth - 1] != 0 ? stack[depth] : stack[depth + 1];
      continue;
    }
    if (depth < 2) return false;
    const int64_t b = stack[--depth], a = stack[depth - 1];
    int64_t& r = stack[depth - 1];
    switch (at->code) {
      case Code::add:
        if (__builtin_add_overflow(a, b, &r)) return false;
        break;
      case Code::sub:
        if (__builtin_sub_overflow(a, b, &r)) return false;
        break;
      case Code::mul:
        if (__builtin_mul_overflow(a, b, &r)) return false;
        break;
      case Code::floor_div:
        if (a < 0 || b <= 0) return false;
        r = (a | b) >> 32 == 0 ? static_cast<uint32_t>(a) / static_cast<uint32_t>(b) : a / b;
        break;
      case Code::floor_mod:
        if (a < 0 || b <= 0) return false;
        r = (a | b) >> 32 == 0 ? static_cast<uint32_t>(a) % static_cast<uint32_t>(b) : a % b;
        break;
      case Code::min:
        r = a < b ? a : b;
        break;
      case Code::max:
        r = a < b ? b : a;
        break;
      case Code::lt:
        r = a < b;
        break;
      case Code::le:
        r = a <= b;
        break;
      case Code::eq:
        r = a == b;
        break;
      case Code::ne:
        r = a != b;
        break;
      case Code::logical_and:
        r = a != 0 && b != 0;
        break;
      case Code::logical_or:
        r = a != 0 || b != 0;
        break;
      default:
        return false;
    }
  }
  if (depth != kept + 1) return false;
  *result = stack[kept];
  return true;
}

// False where the result does not fit or the code is malformed.
inline bool evaluate_widely(const Program& program, const Extent& extent, const int64_t* symbols, int64_t* result) {
  WideExtent stack[deepest_extent];
  int depth = 0, kept = 0;
  bool overflow = false;
  for (int32_t i = 0; i < extent.length; ++i) {
    const Instruction& instruction = program.code[extent.value + i];
    const Code code = instruction.code;
    if (code == Code::constant || code == Code::symbol) {
      if (depth == deepest_extent) return false;
      stack[depth++] = code == Code::constant ? instruction.value : symbols[instruction.value];
      continue;
    }
    if (code == Code::keep) {
      if (depth != ++kept) return false;
      continue;
    }
    if (code == Code::kept) {
      if (depth == deepest_extent || instruction.value < 0 || instruction.value >= kept) return false;
      stack[depth] = stack[instruction.value];
      ++depth;
      continue;
    }
    if (code == Code::logical_not) {
      if (depth < 1) return false;
      stack[depth - 1] = stack[depth - 1] == 0;
      continue;
    }
    if (code == Code::select) {  // condition, then, otherwise
      if (depth < 3) return false;
      depth -= 2;
      stack[depth - 1] = stack[depth - 1] != 0 ? stack[depth] : stack[depth + 1];
      continue;
    }
    if (depth < 2) return false;
    const WideExtent b = stack[--depth], a = stack[depth - 1];
    WideExtent r = 0;
    switch (code) {
      case Code::add:
        r = a + b;
        break;
      case Code::sub:
        r = a - b;
        break;
      case Code::mul:
        overflow |=
            !(fits_64_bits(a) && fits_64_bits(b)) && a != 0 && b != 0 && b != 1 && b != -1;  // a product of three large ones
        if (!overflow) r = a * b;
        break;
      case Code::floor_div:
        r = floor_div_extent(a, b);
        break;
      case Code::floor_mod:
        r = b == 0 ? 0 : a - floor_div_extent(a, b) * b;
        break;
      case Code::min:
        r = a < b ? a : b;
        break;
      case Code::max:
        r = a < b ? b : a;
        break;
      case Code::lt:
        r = a < b;
        break;
      case Code::le:
        r = a <= b;
        break;
      case Code::eq:
        r = a == b;
        break;
      case Code::ne:
        r = a != b;
        break;
      case Code::logical_and:
        r = a != 0 && b != 0;
        break;
      case Code::logical_or:
        r = a != 0 || b != 0;
        break;
      default:
        return false;
    }
    stack[depth - 1] = r;
  }
  if (depth != kept + 1 || overflow || !fits_64_bits(stack[kept])) return false;
  *result = static_cast<int64_t>(stack[kept]);
  return true;
}

inline bool evaluate(const Program& program, const Extent& extent, const int64_t* symbols, int64_t* result) {
  if (extent.length == 0) {
    *result = extent.value;
    return true;
  }
  if (extent.length == 1 && program.code[extent.value].code == Code::symbol) {  // most dims are no more
    *result = symbols[program.code[extent.value].value];
    return true;
  }
  return evaluate_narrowly(program, extent, symbols, result) || evaluate_widely(program, extent, symbols, result);
}

}  // namespace METAC_RUNTIME_NAMESPACE
