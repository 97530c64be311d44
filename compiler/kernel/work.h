// What a computation cannot do without: the operations of its sums of products and the bytes of its operands and results,
// each element read or written once. By these a run is held against the machine's peak (`metac bench`).
#pragma once
#include <functional>
#include <set>
#include <vector>

#include "compiler/kernel/definition.h"

namespace metac {

struct Work {
  double operations = 0;  // a multiply-add is two
  double bytes = 0;       // both are 0 where a dim is open
};

// A sum of products of two operands, of any dtype, under conditions, casts, zero points and scales: two operations for every
// point of its domain, bytes of the operands and the result. Nothing for any other definition.
Work contraction_work(const Definition& d, const std::function<const Var*(int)>& var);

// Of a kernel made of `stages`: operations of all its sums of products; bytes of what it reads from memory and of what it
// leaves there. `internal`: Vars (by id) that live only inside.
Work kernel_work(const std::vector<Definition>& stages, const std::set<int>& internal,
                 const std::function<const Var*(int)>& var);

}  // namespace metac
