// What a computation cannot do without: the operations of its sums of products and the bytes of its operands and results,
// each element read or written once. By these a run is held against the machine's peak (`metac bench`).
//
// Operations are those of contractions as they are stated: two for each product that is summed, zeros of padding
// included, whatever algorithm sums them (minimal filtering needs fewer, words of integers have several products each).
// Anything else, sums of squares and element-wise work too, counts no operations.
#pragma once
#include <functional>
#include <set>
#include <vector>

#include "compiler/tensor/definition.h"
#include "compiler/tensor/layout.h"

namespace metac {

// Over the symbols of the dims; empty: not known.
struct Work {
  Expr operations = 0, bytes = 0;
};

// Of a kernel made of `stages`: operations of all its sums of products; bytes of what it reads from memory and of what it
// leaves there. `internal`: Vars (by id) that live only inside.
Work kernel_work(const std::vector<Definition>& stages, const std::set<int>& internal,
                 const std::function<const Var*(int)>& var);
// Of writing the halo around a value.
Work halo_work(const Var* var, const Layout& layout);
// Of reading and writing whole values, as routines and copies do. Nulls are none.
Work moving_work(const std::vector<const Var*>& vars);

}  // namespace metac
