// What an op reads: Vars, and symbols wherever they stand. Whoever moves, orders, repeats or removes ops asks here, so that
// nobody forgets the indices of a slice whose start is only known while running.
#pragma once
#include <functional>
#include <vector>

#include "compiler/ir/graph.h"

namespace metac {

struct Reads {
  std::vector<Var*> vars;  // by id
  // Of bodies, indices, conditions and fills, and of the shapes of what is read and made; ascending. Those that the op gives
  // their values are not among them.
  std::vector<int> symbols;
};

Reads reads_of(const Op& op);  // with all that its regions take from around them
Reads reads_of(
    const Region& region);  // what it takes from around it: not its parameters, nor the symbol that counts iterations

// Calls f for every symbol in `e`, which may be empty.
void visit_symbols(Expr e, const std::function<void(int)>& f);
bool has_symbol(Expr e);

// May elements of this dtype be loaded as that one? As themselves; narrow ones, of integers or of a half type, as the float32
// that they are; and neighbouring narrow integers or bfloat16s as one word, an int32, which the products of words take apart
// (Fn::dot_u8s8 and the like).
inline bool is_read_as(DType element, DType loaded) {
  if (loaded == element) return true;
  const bool narrow = (is_integer(element) || is_half(element)) && size_of(element) < 4;
  return narrow && (loaded == DType::f32 || (loaded == DType::i32 && element != DType::f16));
}

// The type of what a loop stacks, a row per iteration. What changes from iteration to iteration (the count, dims of what is
// carried, what the body binds) has no meaning behind the loop: such a dim of the rows has a symbol of its own, which the Op
// binds and `fresh` gets.
Type stacked_type(Graph& graph, const Region& body, const std::vector<Var*>& initial, Type row, Expr trips,
                  std::vector<int>& fresh);

// Aborts with METAC_ASSERT where an op reads a Var that no op before it makes, or a symbol that has no value yet
// (graph_text.cpp: verify).
void verify_order(const Graph& graph);

}  // namespace metac
