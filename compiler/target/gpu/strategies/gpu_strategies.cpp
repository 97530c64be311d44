#include "compiler/target/gpu/strategies/gpu_strategies.h"

#include "compiler/support/diagnostic.h"
#include "compiler/target/gpu/strategies/lower_gpu.h"

namespace metac {

Kernel LibraryGradient::lower(const Group& group, const LoweringContext& context) const { return lower_gpu(group, context); }
Kernel Beside::lower(const Group& group, const LoweringContext& context) const {
  return *lower_gpu_beside(group.stages[0], group.stages[1], context);
}
Kernel Attention::lower(const Group& group, const LoweringContext& context) const {
  return lower_gpu_attention(group, context);
}

std::vector<std::string> Beside::describe(const Group& group) const {
  return {concat("beside it v", group.stages[1].out->id, ", which a library may compute in the same call")};
}

std::string LibraryGradient::misfit(const Group& group) const {
  const Var* out = group.stages.empty() ? nullptr : group.stages.back().out;
  return out != nullptr && definition.out == out ? "" : "another value is the gradient";
}
std::string Beside::misfit(const Group& group) const {
  return group.stages.size() == 2 && group.shared == 0 ? "" : "it is for two definitions that share no loops";
}
std::string Attention::misfit(const Group& group) const {
  return group.shared > 0 && group.stages.size() > 1 ? "" : "there are no rows that stages share";
}

std::string LibraryGradient::to_string() const { return "gradient of a convolution: a library's, or the plain way"; }
std::string Beside::to_string() const { return "a product and what a library may do in the same call"; }
std::string Attention::to_string() const { return "attention in one kernel"; }

}  // namespace metac
