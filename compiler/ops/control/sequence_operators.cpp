// Operators on sequences of tensors (sequences.h).
#include "compiler/ops/control/sequences.h"
#include "compiler/ops/onnx_dtypes.h"
#include "compiler/ops/shape_operands.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

METAC_OPERATOR("SequenceEmpty").since({11}).inputs(0).outputs(1).attribute("dtype", Kind::integer).lower([](Lowering& n) {
  n.set_sequence(0, {require_onnx_dtype(n.integer("dtype", 1), "dtype"), {}});
});

METAC_OPERATOR("SequenceConstruct").since({11}).inputs(1, -1).outputs(1).lower([](Lowering& n) {
  Sequence sequence{n.input(0)->dtype(), {}};
  for (size_t k = 0; k < n.input_count(); ++k) sequence.parts.push_back(one_element(n.input(k)));
  n.set_sequence(0, sequence);
});

METAC_OPERATOR("SequenceLength").since({11}).inputs(1).outputs(1).takes_sequences().lower([](Lowering& n) {
  n.set_output(0, scalar_of(n.graph(), length_of(n.sequence(0))));
});

METAC_OPERATOR("SequenceAt").since({11}).inputs(2).outputs(1).takes_sequences().lower([](Lowering& n) {
  Graph& g = n.graph();
  n.set_output(0, element_at(g, n.sequence(0), index_scalar(g, n.input(1), "the position")));
});

// Where a position that must be known stands among parts that must be single elements up to there.
size_t part_index(Lowering& n, const Sequence& sequence, Var* position, bool may_be_end) {
  const std::vector<int64_t> known = known_integers(n.graph(), position, "the position");
  if (known.size() != 1) fail("the position has ", known.size(), " elements");
  int64_t at = known[0];
  const int64_t count = static_cast<int64_t>(sequence.parts.size());
  for (const SequencePart& part : sequence.parts)
    if (part.lengths) fail("a position in a sequence whose length only data knows");
  if (at < 0) at += count;
  if (at < 0 || at >= count + (may_be_end ? 1 : 0))
    fail("position ", known[0], " is outside a sequence of ", count, " elements");
  return static_cast<size_t>(at);
}

METAC_OPERATOR("SequenceInsert").since({11}).inputs(2, 3).outputs(1).takes_sequences().lower([](Lowering& n) {
  Sequence sequence = n.sequence(0);
  Var* value = n.input(1);
  if (value->dtype() != sequence.dtype)
    fail("a sequence of ", name_of(sequence.dtype), " gets an element of ", name_of(value->dtype()));
  size_t at = sequence.parts.size();
  if (Var* position = n.optional_input(2)) at = part_index(n, sequence, position, true);
  sequence.parts.insert(sequence.parts.begin() + static_cast<int64_t>(at), one_element(value));
  n.set_sequence(0, sequence);
});

METAC_OPERATOR("SequenceErase").since({11}).inputs(1, 2).outputs(1).takes_sequences().lower([](Lowering& n) {
  Sequence sequence = n.sequence(0);
  if (sequence.parts.empty()) fail("nothing can be taken out of an empty sequence");
  if (sequence.parts.back().lengths) fail("an element of a sequence whose length only data knows");
  const size_t at = n.optional_input(1) ? part_index(n, sequence, n.input(1), false) : sequence.parts.size() - 1;
  sequence.parts.erase(sequence.parts.begin() + static_cast<int64_t>(at));
  n.set_sequence(0, sequence);
});

METAC_OPERATOR("ConcatFromSequence")
    .since({11})
    .inputs(1)
    .outputs(1)
    .required("axis", Kind::integer)
    .attribute("new_axis", Kind::integer)
    .takes_sequences()
    .lower([](Lowering& n) {
      n.set_output(0, joined(n.graph(), n.sequence(0), n.integer("axis", 0), n.integer("new_axis", 0) != 0));
    });

// Single elements where the lengths are known, else pieces.
METAC_OPERATOR("SplitToSequence")
    .since({11, 24})
    .inputs(1, 2)
    .outputs(1)
    .attribute("axis", Kind::integer)
    .attribute("keepdims", Kind::integer)
    .lower([](Lowering& n) {
      Graph& g = n.graph();
      Var *x = n.input(0), *split = n.optional_input(1);
      if (x->rank() == 0) fail("a scalar cannot be split");
      const int along = check_axis(n.integer("axis", 0), x->rank());
      const Dim extent = x->shape()[static_cast<size_t>(along)];
      const bool squeezed = !split && n.integer("keepdims", 1) == 0;
      Sequence sequence{x->dtype(), {}};
      if (split && split->rank() == 1 && split->shape()[0].if_int() && *split->shape()[0].if_int() <= 64) {
        Expr start = 0;
        for (Expr length : index_elements(g, split, "a length of split", 0)) {
          sequence.parts.push_back(one_element(slice(g, x, {along}, {start}, {length}, {Expr(1)})));
          start = start + length;
        }
        g.require(equal(start, extent),
                  concat("the lengths of split sum to ", to_string(start), ", axis ", along, " is ", to_string(extent)));
      } else if (split && split->rank() == 1) {
        sequence.parts.push_back(pieces(x, along, cast(g, split, DType::i64), {}, false));
      } else {
        const Expr chunk = split ? index_scalar(g, split, "split", 1) : Expr(1);
        const Expr count = simplified(g, ceil_div(extent, chunk));
        if (count.if_int() && count.as_int() <= 64) {
          for (int64_t k = 0; k < count.as_int(); ++k) {
            const Expr start = Expr(k) * chunk;
            Var* cut = slice(g, x, {along}, {start}, {simplified(g, min(chunk, extent - start))}, {Expr(1)});
            sequence.parts.push_back(one_element(squeezed ? squeeze(g, cut, {along}) : cut));
          }
        } else {
          const bool alike = chunk.is_int(1);
          Var* lengths = fill(g, {count}, min(chunk, extent - axis(0) * chunk));
          sequence.parts.push_back(pieces(x, along, lengths, alike ? Dim(Expr(1)) : Dim(), squeezed));
        }
      }
      n.set_sequence(0, sequence);
    });

}  // namespace
}  // namespace metac
