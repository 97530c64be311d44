// The value of an Extent (dims, byte counts, loop counts, conditions) for given symbols. Overflow is an error, division by
// zero gives zero.
#pragma once
#include "program.h"

namespace METAC_RUNTIME_NAMESPACE {

inline int64_t floor_div_extent(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return static_cast<int64_t>(0 - static_cast<uint64_t>(a));
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

constexpr int deepest_extent = 256;  // values at once; the compiler makes no code that has more

// False where a step overflows int64 or the code is malformed.
inline bool evaluate(const Program& program, const Extent& extent, const int64_t* symbols, int64_t* result) {
  if (extent.length == 0) {
    *result = extent.value;
    return true;
  }
  int64_t stack[deepest_extent];
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
    const int64_t b = stack[--depth], a = stack[depth - 1];
    int64_t r = 0;
    switch (code) {
      case Code::add: overflow |= __builtin_add_overflow(a, b, &r); break;
      case Code::sub: overflow |= __builtin_sub_overflow(a, b, &r); break;
      case Code::mul: overflow |= __builtin_mul_overflow(a, b, &r); break;
      case Code::floor_div: r = floor_div_extent(a, b); break;
      case Code::floor_mod: r = b == 0 || b == -1 ? 0 : a - floor_div_extent(a, b) * b; break;
      case Code::min: r = a < b ? a : b; break;
      case Code::max: r = a < b ? b : a; break;
      case Code::lt: r = a < b; break;
      case Code::le: r = a <= b; break;
      case Code::eq: r = a == b; break;
      case Code::ne: r = a != b; break;
      case Code::logical_and: r = a != 0 && b != 0; break;
      case Code::logical_or: r = a != 0 || b != 0; break;
      default: return false;
    }
    stack[depth - 1] = r;
  }
  if (depth != kept + 1 || overflow) return false;
  *result = stack[kept];
  return true;
}

}  // namespace METAC_RUNTIME_NAMESPACE
