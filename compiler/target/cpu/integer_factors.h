// The factors of a product of small integers, as integer_products takes them.
#pragma once
#include <deque>

#include "compiler/tensor/contraction.h"
#include "compiler/tensor/quantized_value.h"

namespace metac {

// How one operand of a product is read.
struct IntegerFactor {
  Operand operand;
  Definition* maker = nullptr;  // of what it loads
  QuantizedValue value;         // in the maker's axes
};

// Integers that were folded, which `v` holds: their range is that of the values. `definitions` gets their maker, as if they
// had one.
std::optional<IntegerFactor> factor_of_constant(const Operand& operand, Var* v, std::deque<Definition>& definitions);

// The same as int8 with what is still to be subtracted from each, in the maker's axes: 0 where all fit, else the zero point
// that they are stored with (uint8 less 128).
struct SignedBytes {
  IntegerFactor factor;
  Expr rest;
};
std::optional<SignedBytes> as_signed_bytes(const IntegerFactor& f);

}  // namespace metac
