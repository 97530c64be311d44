// Gradient (ai.onnx.preview.training 1): the derivatives of the value named y with respect to the values named xs, for the
// values of xs and zs that the node is given. The node stands here and not in compiler/ops because lowering it is
// differentiating. Gradients of gradients are nodes that name the output of another.
//
// Where y has several elements, the derivatives are those of their sum.
#include <algorithm>
#include <set>

#include "compiler/autodiff/clone_region.h"
#include "compiler/autodiff/gradient.h"
#include "compiler/ir/builders.h"
#include "compiler/ir/reads.h"
#include "compiler/ops/registry.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

std::vector<Var*> named_values(Lowering& n, const char* attribute) {
  std::vector<Var*> out;
  for (const std::string& name : n.strings(attribute)) {
    Var* var = n.value_named(name);
    if (!var) fail("attribute ", attribute, " names ", quoted(name), ", which is not computed before this node");
    out.push_back(var);
  }
  return out;
}

// y computed again from other values of `names`.
Var* recompute(Graph& g, Var* y, const std::vector<Var*>& names, const std::vector<Var*>& values) {
  Cloner clone(g);
  std::set<const Var*> reached;
  for (size_t k = 0; k < names.size(); ++k) {
    if (names[k]->shape() != values[k]->shape() || names[k]->dtype() != values[k]->dtype())
      fail("input ", k, " is ", name_of(values[k]->dtype()), " of shape ", to_string(values[k]->shape()),
           ", the value it stands for is ", name_of(names[k]->dtype()), " of shape ", to_string(names[k]->shape()));
    clone.map_var(names[k], values[k]);
    reached.insert(names[k]);
  }
  std::vector<Op*> again;
  std::set<int> symbols;  // that ops done again bind
  for (Op* op : g.ops) {
    const Reads reads = reads_of(*op);
    bool depends = std::any_of(reads.vars.begin(), reads.vars.end(), [&](const Var* v) { return reached.count(v) > 0; }) ||
                   std::any_of(reads.symbols.begin(), reads.symbols.end(), [&](int id) { return symbols.count(id) > 0; });
    for (const Var* out : op->outputs) depends &= std::find(names.begin(), names.end(), out) == names.end();
    if (!depends) continue;
    reached.insert(op->outputs.begin(), op->outputs.end());
    symbols.insert(op->symbols.begin(), op->symbols.end());
    again.push_back(op);
  }
  clone.clone(again);
  return clone(y);
}

void lower_gradient(Lowering& n) {
  Graph& g = n.graph();
  std::vector<Var*> xs = named_values(n, "xs"), zs = named_values(n, "zs");
  std::string y_name = n.string("y", "");
  Var* y = n.value_named(y_name);
  if (!y) fail("attribute y names ", quoted(y_name), ", which is not computed before this node");
  if (n.input_count() != xs.size() + zs.size())
    fail("there are ", n.input_count(), " inputs, and xs and zs name ", xs.size() + zs.size(), " values");
  if (n.output_count() > xs.size()) fail("there are ", n.output_count(), " outputs, and xs names ", xs.size(), " values");
  std::vector<Var*> names, values, at;
  for (size_t k = 0; k < xs.size() + zs.size(); ++k) {
    names.push_back(k < xs.size() ? xs[k] : zs[k - xs.size()]);
    values.push_back(n.input(k));
    if (k < xs.size()) at.push_back(n.input(k));
  }
  if (names != values) y = recompute(g, y, names, values);
  if (y->rank() > 0) {
    std::vector<int> axes;
    for (int k = 0; k < y->rank(); ++k) axes.push_back(k);
    y = reduce(g, y, axes, Reduce::add, false);
  }
  std::vector<Var*> derivatives = gradient(g, y, at);
  for (size_t k = 0; k < n.output_count(); ++k)
    if (n.wants_output(k)) n.set_output(k, derivatives[k]);
}

METAC_OPERATOR("Gradient", "ai.onnx.preview.training")
    .since({1})
    .inputs(1, -1)
    .outputs(1, -1)
    .required("xs", Kind::strings)
    .attribute("zs", Kind::strings)
    .required("y", Kind::string)
    .lower(lower_gradient);

}  // namespace
}  // namespace metac
