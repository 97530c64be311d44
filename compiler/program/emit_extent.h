// Dims, byte counts and conditions over symbols as code for the executor (runtime/extent.h).
#pragma once
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/ir/graph.h"
#include "runtime/extent.h"

namespace metac {

namespace rt = metac_runtime;

// Appends the code; returns how many values it has on its stack at most. A large value that is used several times is worked
// out once and kept. Throws where the expression is not integer arithmetic over symbols.
int emit_extent(Expr e, std::vector<rt::Instruction>& code);

// The extents of a program: each expression has code once.
class ExtentTable {
 public:
  rt::Extent of(Expr e, std::vector<rt::Instruction>& code);        // throws where it cannot be worked out while running
  rt::Extent if_known(Expr e, std::vector<rt::Instruction>& code);  // -1 there, and for no expression
  // Where the dims stand among a program's extents, side by side: the same ones stand there once.
  int32_t of_dims(const Shape& dims, std::vector<rt::Instruction>& code, std::vector<rt::Extent>& extents);

 private:
  std::unordered_map<const ExprNode*, rt::Extent> extents_;
  std::map<std::vector<std::pair<int64_t, int32_t>>, int32_t> dims_;
};

}  // namespace metac
