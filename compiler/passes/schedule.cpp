#include "compiler/passes/schedule.h"

#include "compiler/kernel/contraction.h"
#include "compiler/kernel/lower_gpu.h"
#include "compiler/kernel/lower_row_block.h"
#include "compiler/kernel/lower_winograd.h"

namespace metac {

LoweringContext lowering_context(const Graph& graph, const Layouts& layouts, const CompileOptions& options, Target target) {
  const bool cuda = target == Target::cuda;
  LoweringContext context;
  context.symbols = &graph.symbols;
  context.layouts = &layouts;
  context.vector_bytes = options.cpu.vector_bytes;
  context.l2_bytes = options.cpu.l2_bytes;
  context.library_products = cuda && options.external.cublas;
  context.tf32 = cuda && options.external.tf32;
  context.library_convolutions = cuda && options.external.cudnn;
  context.var = [&graph](int id) { return graph.vars().at(static_cast<size_t>(id)).get(); };
  return context;
}

Kernel schedule(const Group& group, const LoweringContext& context, Target target) {
  if (target == Target::cuda) return lower_gpu(group, context);
  if (group.winograd) return lower_winograd(group, context);
  if (group.row_blocks) return lower_row_block(group, context);
  return group.contraction ? lower_contraction(group, context) : lower_group(group, context);
}

}  // namespace metac
