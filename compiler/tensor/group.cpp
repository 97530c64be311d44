#include "compiler/tensor/group.h"

#include "compiler/support/diagnostic.h"

namespace metac {

std::vector<std::string> describe_stages(const Group& group) {
  if (group.stages.size() > 1)
    return {concat("fused: ", group.stages.size(), " stages under ", group.shared, " shared loops; ", group.internal.size(),
                   " values never leave the row")};
  if (group.stages[0].reduce && group.stages[0].epilogue && group.stages[0].epilogue->kind != ExprKind::load)
    return {"fused: what follows the reduction is its epilogue"};
  return {};
}

std::vector<std::string> Strategy::describe(const Group& group) const { return describe_stages(group); }

}  // namespace metac
