// The lanes' operand of a contraction, where `prepare` would widen it from numbers of few bits: it is packed in the bits
// that it has, and widened in registers.
//
//   w = (float32(number) - zero) * scale        numbers of 2, 4 or 8 bits, or of a half type
//
// What is found is an expression, whichever operator wrote it (MatMulNBits, DequantizeLinear, Cast): of the sum's last axis,
// one number changes with every step, and the rest is the same along runs of steps: a scale and a zero point for a block of
// them, or for all. Of numbers of 2 and 4 bits a word of 32 bits holds neighbouring steps of one lane, so that one vector of
// words serves 16 or 8 steps. Neighbours lie a byte apart in it, so that a shift and a mask make a word of four bytes of it,
// for sums of products of bytes (byte_runs.h). See docs/decisions/narrow_weights.md.
#pragma once
#include "compiler/target/cpu/layouts/pack_operand.h"

namespace metac {

struct CompactForm {
  Expr value;                   // of an element, float32, in the contraction's axes
  int bits = 0;                 // of the number that changes with every step: 2, 4, 8 or 16
  int64_t run = 1;              // so many steps have the same of everything else
  bool bytes_in_words = false;  // of 8 bits: four steps are a word, as sums of products of bytes want it
  int steps_in_word() const { return bits < 8 || bytes_in_words ? 32 / bits : 1; }
  int place_in_word(int step) const { return 8 * (step % 4) + bits * (step / 4); }  // the lowest bit of a step's number
};

// `made`: how `prepare` makes the Var that the operand is an element of. Empty where it is not of this form: where its
// numbers are not of few bits, or the steps of a run fill no words.
std::optional<CompactForm> compact_form(const Definition& d, const Operand& operand, const Definition& made,
                                        const std::vector<Symbol>& symbols);

// The sum's last axis becomes up to three: runs, the words of a run, the steps of a word. Returns how many of them lie
// within a run.
int split_into_runs(Definition& d, Contraction& c, CompactForm& form, const std::vector<Symbol>& symbols);

struct CompactOperand {
  std::vector<Definition> kernels;  // make what is packed: the numbers, then what goes with their runs
  Expr value;                       // of an element, of these
  Expr number;                      // in it: float32 of what changes with every step
  Expr words;                       // what is packed of the numbers, where several are in a word
};
// Of a run, whose numbers n and factors x come to `products` (the sum of n * x) and `factors` (the sum of x): the sum of
// x * value.
Expr sum_of_run(const CompactOperand& compact, Expr products, Expr factors);
CompactOperand pack_compact(Graph& graph, const Definition& d, const CompactForm& form, int lanes_axis, int64_t block);

}  // namespace metac
