#include "compiler/target/cpu/word_operands.h"

#include <algorithm>

#include "compiler/target/cpu/word_products.h"
#include "compiler/tensor/axes.h"

namespace metac {

Definition elements_read(const Definition& d, const IntegerFactor& b) {
  Definition w;
  std::vector<Expr> renamed(d.domain.size()), args;
  for (int k : axes_used(b.operand.load, 0, static_cast<int>(d.domain.size()))) {
    renamed[static_cast<size_t>(k)] = axis(static_cast<int>(w.domain.size()));
    w.domain.push_back(d.domain[static_cast<size_t>(k)]);
  }
  for (Expr e : b.operand.load->args) args.push_back(substitute_axes(e, renamed));
  w.body = select(substitute_axes(all_of(b.operand.conditions), renamed), substitute_axes(b.value.whole, args),
                  int_constant(0, DType::i32));
  w.out_index = identity_indices(static_cast<int>(w.domain.size()));
  w.nodes = b.maker->nodes;
  return w;
}

std::vector<Expr> places_read(const Definition& d, const IntegerFactor& b) {
  std::vector<Expr> places;
  for (int k : axes_used(b.operand.load, 0, static_cast<int>(d.domain.size()))) places.push_back(axis(k));
  return places;
}

Definition words_along(const Definition& d, const IntegerFactor& b, const Shape& shape, int word, int elements) {
  const std::vector<Expr>& args = b.operand.load->args;
  const auto at = static_cast<size_t>(std::find(args.begin(), args.end(), axis(word)) - args.begin());
  const int64_t extent = d.domain[static_cast<size_t>(word)].as_int();
  Definition p;
  p.domain = shape;
  p.domain[at] = (extent + elements - 1) / elements;
  p.out_index = identity_indices(static_cast<int>(p.domain.size()));
  std::vector<Expr> parts;
  const int64_t mask = (int64_t{1} << (32 / elements)) - 1;
  for (int k = 0; k < elements; ++k) {
    std::vector<Expr> here = p.out_index;
    const Expr position = axis(static_cast<int>(at)) * Expr(elements) + Expr(k);
    here[at] = position;
    Expr element = substitute_axes(b.value.whole, here);
    if (extent % elements != 0) element = select(position < Expr(extent), element, int_constant(0, DType::i32));
    parts.push_back(call(Fn::bit_and, {element, int_constant(mask, DType::i32)}));
  }
  p.body = word_of(parts, 32 / elements);
  p.nodes = b.maker->nodes;
  return p;
}

Definition sums_read(const Definition& d, Expr read, Expr whole) {
  Definition s;
  std::vector<Expr> renamed(d.domain.size());
  for (int k : axes_used(read, 0, d.kept())) {
    renamed[static_cast<size_t>(k)] = axis(static_cast<int>(s.domain.size()));
    s.domain.push_back(d.domain[static_cast<size_t>(k)]);
  }
  s.out_index = identity_indices(static_cast<int>(s.domain.size()));
  for (int k = d.kept(); k < static_cast<int>(d.domain.size()); ++k) {
    renamed[static_cast<size_t>(k)] = axis(static_cast<int>(s.domain.size()));
    s.domain.push_back(d.domain[static_cast<size_t>(k)]);
    ++s.reduced;
  }
  std::vector<Expr> args;
  for (Expr e : read->args) args.push_back(substitute_axes(e, renamed));
  s.body = substitute_axes(whole, args);
  s.reduce = Reduce::add;
  s.accumulator = DType::i32;
  s.epilogue = load(reduced_value, DType::i32, {});
  return s;
}

}  // namespace metac
