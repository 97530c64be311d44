#include "compiler/target/gpu/vendor/library_finish.h"

#include "compiler/machine/gpu_costs.h"

namespace metac {

bool worth_finishing(Expr steps) { return !steps.if_int() || steps.as_int() >= gpu_costs.finish_steps; }

bool worth_finishing(const Definition& d) {
  Expr steps = 1;
  for (size_t k = static_cast<size_t>(d.kept()); k < d.domain.size(); ++k) steps = steps * d.domain[k];
  return worth_finishing(steps);
}

Definition finishing(const Definition& d) {
  Definition rest;
  rest.out = d.out;
  rest.domain.assign(d.domain.begin(), d.domain.begin() + d.kept());
  rest.out_index = d.out_index;
  rest.nodes = d.nodes;
  const Expr sum = cast(load(d.out->id, d.out->dtype(), d.out_index), d.accumulator);
  rest.body =
      rewrite(d.epilogue, [&](Expr n) { return n->kind == ExprKind::load && n->id == reduced_value ? sum : Expr(); });
  return rest;
}

}  // namespace metac
