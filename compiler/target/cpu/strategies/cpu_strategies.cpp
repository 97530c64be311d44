#include "compiler/target/cpu/strategies/cpu_strategies.h"

#include "compiler/support/diagnostic.h"
#include "compiler/target/cpu/strategies/lower_contraction.h"
#include "compiler/target/cpu/strategies/lower_group.h"
#include "compiler/target/cpu/strategies/lower_row_block.h"
#include "compiler/target/cpu/strategies/lower_winograd.h"
#include "compiler/tensor/contraction.h"

namespace metac {

Kernel ContractionPlan::lower(const Group& group, const LoweringContext& context) const {
  return lower_contraction(group, *this, context);
}
Kernel WinogradPlan::lower(const Group& group, const LoweringContext& context) const {
  return lower_winograd(group, *this, context);
}
Kernel RowBlocks::lower(const Group& group, const LoweringContext& context) const { return lower_row_block(group, context); }
Kernel SumsByPoints::lower(const Group& group, const LoweringContext& context) const { return lower_group(group, context); }

std::vector<std::string> ContractionPlan::describe(const Group& group) const {
  std::vector<std::string> lines = {"a contraction in a register tile; what follows it is its epilogue"};
  for (std::string& line : describe_stages(group)) lines.push_back(std::move(line));
  return lines;
}

std::string ContractionPlan::to_string() const {
  return concat("contraction: lanes along i", lanes_axis, lanes_in_both ? " of both operands" : "", ", tiles of ", tile,
                " points x ", vectors, " vectors", packed < 0 ? "" : concat(", packed v", packed),
                unrolled == 0 ? "" : concat(", ", unrolled, " reduced axes printed out"));
}
std::string WinogradPlan::to_string() const {
  const std::string block = tiles > 0 ? concat("at most ", tiles, " tiles") : concat(rows, " rows");
  return concat("minimal filtering: F(", outputs, " x ", outputs, ", 3 x 3) along i", y, " and i", x, ", lanes along i",
                lanes_axis, ", weights v", transformed, ", tiles of ", tile, " x ", vectors, " vectors, blocks of ", block);
}
std::string RowBlocks::to_string() const { return "row blocks: rows along the lanes"; }
std::string SumsByPoints::to_string() const { return "sums by points: in the order of memory"; }

}  // namespace metac
