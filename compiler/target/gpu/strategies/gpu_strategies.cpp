#include "compiler/target/gpu/strategies/gpu_strategies.h"

#include "compiler/support/diagnostic.h"
#include "compiler/target/gpu/strategies/lower_gpu.h"
#include "compiler/target/gpu/vendor/library_beside.h"
#include "compiler/tensor/streamed_softmax.h"

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

Kernel UntiledSum::lower(const Group& group, const LoweringContext& context) const {
  return lower_gpu_plainly(group, context);
}

namespace {

bool reads(const Definition& d, int var) {
  bool found = false;
  visit_loads(d, [&](Expr e) { found |= e->id == var; });
  return found;
}

}  // namespace

std::string LibraryGradient::misfit(const Group& group) const {
  if (group.stages.size() != 1) return "it is for one definition";
  const Definition& d = group.stages[0];
  if (definition.out != d.out) return "another value is the gradient";
  if (d.scatter || d.reduce != Reduce::add) return "it is no sum";
  const LibraryConvolution& c = convolution;
  const bool by_data = c.kind == ConvolutionKind::data_gradient;
  if (c.kind == ConvolutionKind::forward || (by_data ? c.data : c.weights) != d.out->id)
    return "the library would write another value";
  for (int operand : {c.result, by_data ? c.weights : c.data})
    if (!reads(d, operand) || !reads(definition, operand))
      return concat("v", operand, ", which the library would read, is not read");
  // [images, channels, size...] or [features, channels / groups, window...].
  const Shape& shape = d.out->shape();
  if (c.dtype != d.out->dtype() || shape.size() != c.windows.size() + 2 || c.groups < 1)
    return "the library would write another dtype or rank";
  bool same = by_data ? shape[0] == c.images && shape[1] == c.channels
                      : shape[0] == c.features && shape[1] * Expr(c.groups) == c.channels;
  for (size_t k = 0; k < c.windows.size(); ++k) {
    const LibraryWindow& w = c.windows[k];
    same = same && shape[k + 2] == (by_data ? w.size : w.window);
    if (w.stride < 1 || w.dilation < 1 || w.before < 0) return "a window that does not move";
  }
  return same ? "" : "the library would write another shape";
}

std::string Beside::misfit(const Group& group) const {
  if (group.stages.size() != 2 || group.shared != 0) return "it is for two definitions that share no loops";
  if (!group.internal.empty()) return "both results are for others to read";
  return may_be_beside(group.stages[0], group.stages[1]) ? "" : "the second is nothing that a library does beside the first";
}

std::string Attention::misfit(const Group& group) const {
  if (group.shared < 1 || group.stages.size() < 2) return "there are no rows that stages share";
  for (size_t k = 0; k + 1 < group.stages.size(); ++k)
    if (!group.internal.count(group.stages[k].out->id))
      return concat("v", group.stages[k].out->id, " is read by others, and never stored");
  if (!match_streamed_softmax(group)) return "it is no softmax of scores by which values are weighed";
  // TF32 decides how products are multiplied, not whether.
  return is_gpu_attention(group, false) ? "" : "its operands are of several types, too wide or too few for tiles";
}

std::string UntiledSum::misfit(const Group& group) const {
  if (group.stages.size() != 1 || group.shared != 0) return "it is for one definition";
  return group.stages[0].reduce && !group.stages[0].scatter ? "" : "it is no sum";
}

std::string UntiledSum::to_string() const { return "a sum without tiles: its rows are few"; }
std::string LibraryGradient::to_string() const { return "gradient of a convolution: a library's, or the plain way"; }
std::string Beside::to_string() const { return "a product and what a library may do in the same call"; }
std::string Attention::to_string() const { return "attention in one kernel"; }

}  // namespace metac
