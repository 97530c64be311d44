// Sequences of tensors, resolved while lowering: no sequence exists at run time.
//
// A sequence is a list of parts. A part is one tensor, or a tensor cut into pieces along an axis, of which only data may
// know how many there are and how long each is: what SplitToSequence cuts, and what a Loop appends. Operators on sequences
// become slices and concatenations of such parts.
#pragma once
#include <optional>
#include <vector>

#include "compiler/ops/registry.h"

namespace metac {

struct SequencePart {
  Var* value = nullptr;    // the element itself, or all pieces one behind the other
  Var* lengths = nullptr;  // int64 [n]: the extent of each piece along `axis`; null: `value` is one element
  int axis = 0;
  Dim length;             // of every piece, if they are alike; may be empty
  bool squeezed = false;  // elements have no `axis`: pieces of extent 1 lose it
};

struct Sequence {
  DType dtype = DType::f32;
  std::vector<SequencePart> parts;
};

SequencePart one_element(Var* value);
// `x` cut along `axis` into pieces of these lengths; int64 [n].
SequencePart pieces(Var* x, int axis, Var* lengths, Dim length, bool squeezed);

// How many elements there are.
Dim length_of(const Sequence& sequence);
// Element `position`, negative ones counting from the end.
Var* element_at(Graph& g, const Sequence& sequence, Expr position);
// All elements one behind the other along `axis`, or, with a new axis, stacked; what ConcatFromSequence gives.
Var* joined(Graph& g, const Sequence& sequence, int64_t axis, bool new_axis);

// The axis along which elements are laid one behind the other while a Loop appends to a sequence, and the shape of one. Dims
// that hold symbols from `first_symbol` on differ from element to element: at most one may.
struct Appended {
  DType dtype = DType::f32;
  Shape shape;
  int axis = 0;
  bool varies = false, scalar = false;  // scalar: elements of rank 0, laid out with an axis of their own
};
Appended appended_of(const Sequence& sequence, int64_t first_symbol);
// The sequence as pieces: (values, lengths).
std::pair<Var*, Var*> as_pieces(Graph& g, const Sequence& sequence, const Appended& how);
// The sequence that such a pair is.
Sequence of_pieces(const Appended& how, Var* values, Var* lengths);

}  // namespace metac
