#include "compiler/ops/control/sequences.h"

#include <algorithm>

#include "compiler/ops/shape_operands.h"

namespace metac {
namespace {

Dim count_of(const SequencePart& part) { return part.lengths ? part.lengths->shape()[0] : Expr(1); }

Var* only_ints(Graph& g, Dim value) { return vector_of(g, {value}); }

// Where piece `index` begins: the lengths before it.
Expr start_of(Graph& g, const SequencePart& part, Expr index) {
  if (part.length) return index * part.length;
  Expr before = axis(0) < index;
  Var* kept = g.elementwise({part.lengths}, select(before, load(0, DType::i64, {axis(0)}), Expr(0)));
  return index_scalar(g, reduce(g, kept, {0}, Reduce::add, false), "where an element of a sequence begins", 0);
}

// Whatever the lengths are, nothing outside the value is read.
Var* piece_at(Graph& g, const SequencePart& part, Expr index) {
  const Dim extent = part.value->shape()[static_cast<size_t>(part.axis)];
  Expr length = part.length ? Expr(part.length)
                            : index_scalar(g, gather(g, part.lengths, scalar_of(g, index), 0),
                                           "the length of an element of a sequence", 0);
  const Expr start = simplified(g, min(start_of(g, part, index), extent));
  if (!part.squeezed) length = simplified(g, min(length, extent - start));
  Var* cut = slice(g, part.value, {part.axis}, {start}, {length}, {Expr(1)});
  return part.squeezed ? squeeze(g, cut, {part.axis}) : cut;
}

// All pieces of one part with an axis of their own in front; they must be alike.
Var* stacked(Graph& g, const SequencePart& part) {
  if (!part.lengths) return unsqueeze(g, part.value, {0});
  if (!part.length) fail("elements of a sequence whose lengths only data knows cannot be stacked");
  const Shape& whole = part.value->shape();
  Shape cut(whole.begin(), whole.begin() + part.axis);
  cut.push_back(count_of(part));
  if (!part.squeezed) cut.push_back(part.length);
  cut.insert(cut.end(), whole.begin() + part.axis + 1, whole.end());
  std::vector<int> order = {part.axis};
  for (int k = 0; k < static_cast<int>(cut.size()); ++k)
    if (k != part.axis) order.push_back(k);
  return transpose(g, reshape(g, part.value, cut), order);
}

Var* joined_part(Graph& g, const SequencePart& part, int axis) {
  if (!part.lengths) return part.value;
  if (part.axis == axis && !part.squeezed) return part.value;
  Var* rows = stacked(g, part);  // [n, ...]
  if (rows->rank() < 2) fail("scalars of a sequence have no axis to be joined along");
  std::vector<int> order;
  for (int k = 1; k < rows->rank(); ++k) {
    if (k - 1 == axis) order.push_back(0);
    order.push_back(k);
  }
  Shape shape;
  for (int k = 1; k < rows->rank(); ++k)
    shape.push_back(k - 1 == axis ? rows->shape()[0] * rows->shape()[k] : rows->shape()[k]);
  return reshape(g, transpose(g, rows, order), shape);
}

int rank_of(const Sequence& sequence) {
  const SequencePart& part = sequence.parts.front();
  return part.value->rank() - (part.squeezed ? 1 : 0);
}

}  // namespace

SequencePart one_element(Var* value) { return {value, nullptr, 0, {}, false}; }
SequencePart pieces(Var* x, int axis, Var* lengths, Dim length, bool squeezed) {
  return {x, lengths, axis, length, squeezed};
}

Dim length_of(const Sequence& sequence) {
  Dim sum = Expr(0);
  for (const SequencePart& part : sequence.parts) sum = sum + count_of(part);
  return sum;
}

Var* element_at(Graph& g, const Sequence& sequence, Expr position) {
  const Dim length = length_of(sequence);
  Expr at = simplified(g, select(position < Expr(0), position + length, position));
  g.require(logical_and(Expr(0) <= at, at < length),
            concat("position ", to_string(position), " is outside a sequence of ", to_string(length), " elements"));
  if (sequence.parts.size() == 1 && sequence.parts[0].lengths) return piece_at(g, sequence.parts[0], at);
  if (at.if_int()) {
    int64_t left = at.as_int();
    for (const SequencePart& part : sequence.parts) {
      const int64_t* count = count_of(part).if_int();
      if (!part.lengths && left == 0) return part.value;
      if (!count) break;
      if (left < *count) return piece_at(g, part, Expr(left));
      left -= *count;
    }
    fail("position ", to_string(at), " of a sequence whose lengths only data knows");
  }
  return gather(g, joined(g, sequence, 0, true), scalar_of(g, at), 0);
}

Var* joined(Graph& g, const Sequence& sequence, int64_t axis, bool new_axis) {
  if (sequence.parts.empty()) fail("an empty sequence cannot be joined: nothing tells the shape of its elements");
  const int rank = rank_of(sequence);
  for (const SequencePart& part : sequence.parts)
    if (part.value->rank() - (part.squeezed ? 1 : 0) != rank) fail("elements of different ranks cannot be joined");
  const int along = check_axis(axis, rank + (new_axis ? 1 : 0));
  std::vector<Var*> parts;
  for (const SequencePart& part : sequence.parts) parts.push_back(new_axis ? stacked(g, part) : joined_part(g, part, along));
  if (!new_axis) return parts.size() == 1 ? parts[0] : concat(g, parts, along);
  Var* all = parts.size() == 1 ? parts[0] : concat(g, parts, 0);
  std::vector<int> order;
  for (int k = 1; k < all->rank(); ++k) order.push_back(k);
  order.insert(order.begin() + along, 0);
  return transpose(g, all, order);
}

Appended appended_of(const Sequence& sequence, int64_t first_symbol) {
  if (sequence.parts.empty()) fail("a loop carries a sequence to which nothing is appended");
  const SequencePart& last = sequence.parts.back();
  Appended how;
  how.dtype = last.value->dtype();
  how.shape = last.value->shape();
  how.axis = last.lengths ? last.axis : -1;
  how.scalar = last.lengths ? last.squeezed : how.shape.empty();
  for (int k = 0; k < static_cast<int>(how.shape.size()); ++k) {
    const bool new_symbols = any_of(how.shape[static_cast<size_t>(k)],
                                    [&](Expr e) { return e->kind == ExprKind::symbol && e->id >= first_symbol; });
    if (!new_symbols) continue;
    if (how.varies && how.axis != k)
      fail("elements that a loop appends to a sequence differ in more than one dim: ", to_string(how.shape));
    how.varies = true;
    how.axis = k;
  }
  how.axis = std::max(how.axis, 0);
  if (how.scalar && !last.lengths) how.shape = {Expr(1)};
  return how;
}

std::pair<Var*, Var*> as_pieces(Graph& g, const Sequence& sequence, const Appended& how) {
  Shape nothing = how.shape;
  nothing[static_cast<size_t>(how.axis)] = Expr(0);
  std::vector<Var*> values, lengths;
  for (const SequencePart& part : sequence.parts) {
    Var* value = !part.lengths && how.scalar ? unsqueeze(g, part.value, {how.axis}) : part.value;
    if (value->rank() != static_cast<int>(how.shape.size()) || value->dtype() != how.dtype)
      fail("elements of a sequence in a loop differ in rank or dtype");
    if (part.lengths && (part.axis != how.axis || part.squeezed != how.scalar))
      fail("a sequence in a loop is cut along two axes");
    values.push_back(value);
    lengths.push_back(part.lengths ? part.lengths : only_ints(g, value->shape()[static_cast<size_t>(how.axis)]));
  }
  if (values.empty()) return {fill(g, nothing, constant_of(how.dtype, 0)), fill(g, {Expr(0)}, Expr(0))};
  return {values.size() == 1 ? values[0] : concat(g, values, how.axis),
          lengths.size() == 1 ? lengths[0] : concat(g, lengths, 0)};
}

Sequence of_pieces(const Appended& how, Var* values, Var* lengths) {
  const Dim each = how.varies ? Dim() : how.shape[static_cast<size_t>(how.axis)];
  return {how.dtype, {pieces(values, how.axis, lengths, each, how.scalar)}};
}

}  // namespace metac
