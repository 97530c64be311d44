#include "compiler/autodiff/derivative_program.h"

#include <unordered_set>

#include "compiler/autodiff/gradient.h"
#include "compiler/ir/reads.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

class Differentiation {
 public:
  Differentiation(Graph& graph, Wrt wrt) : graph_(graph) {
    for (size_t k = 0; k < graph.outputs.size(); ++k)
      if (is_float(graph.outputs[k]->dtype()))
        outputs_.push_back(
            {graph.outputs[k], k < graph.output_names.size() ? graph.output_names[k] : graph.outputs[k]->name});
    if (wrt != Wrt::parameters)
      for (Var* in : graph.inputs)
        if (is_float(in->dtype())) values_.push_back(in);
    if (wrt != Wrt::inputs) add_parameters();
    if (outputs_.empty()) fail("no output is a floating-point tensor: there is nothing to differentiate");
    if (values_.empty())
      fail(wrt == Wrt::inputs       ? "no input"
           : wrt == Wrt::parameters ? "no parameter that an output depends on"
                                    : "no input or parameter",
           " is a floating-point tensor: there is nothing to differentiate by");
  }

  void run(Derivative derivative) {
    std::vector<Var*> results;
    for (const Output& out : outputs_) results.push_back(out.var);
    const std::vector<Var*> cotangents = derivative == Derivative::jvp ? std::vector<Var*>() : add_cotangents();
    const std::vector<Var*> tangents = derivative == Derivative::vjp ? std::vector<Var*>() : add_tangents();
    if (derivative == Derivative::jvp) {
      const std::vector<Var*> along = jvp(graph_, results, values_, tangents);
      for (size_t k = 0; k < along.size(); ++k) add_output(along[k], "tangent of " + outputs_[k].name);
      return;
    }
    std::vector<Var*> gradients = gradient(graph_, results, cotangents, values_);
    if (derivative == Derivative::hvp) {
      gradients = jvp(graph_, gradients, values_, tangents);
      graph_.outputs.clear();
      graph_.output_names.clear();
    }
    for (size_t k = 0; k < gradients.size(); ++k)
      add_output(gradients[k], (derivative == Derivative::hvp ? "product of " : "gradient of ") + values_[k]->name);
  }

 private:
  struct Output {
    Var* var;
    std::string name;
  };

  // Parameters by their place in the model; those that no output depends on (sizes, steps) have been read already.
  void add_parameters() {
    std::unordered_set<const Var*> needed(graph_.outputs.begin(), graph_.outputs.end());
    for (size_t k = graph_.ops.size(); k-- > 0;) {
      const Op& op = *graph_.ops[k];
      bool any = false;
      for (const Var* out : op.outputs) any |= needed.count(out) > 0;
      if (!any) continue;
      for (const Var* read : reads_of(op).vars) needed.insert(read);
    }
    for (const auto& var : graph_.vars())
      if (var->is_parameter && var->constant && is_float(var->dtype()) && needed.count(var.get()))
        values_.push_back(var.get());
  }

  std::vector<Var*> add_cotangents() {
    std::vector<Var*> made;
    for (const Output& out : outputs_) {
      for (Expr dim : out.var->shape())
        if (any_of(dim, [&](Expr n) {
              return n->kind == ExprKind::symbol && !graph_.symbols[static_cast<size_t>(n->id)].from_input;
            }))
          fail("the shape of output ", quoted(out.name), " is ", to_string(out.var->shape()),
               ", which only a run decides: it can have no cotangent");
      made.push_back(graph_.add_input("cotangent of " + out.name, out.var->type));
    }
    return made;
  }

  std::vector<Var*> add_tangents() {
    std::vector<Var*> made;
    for (const Var* value : values_) made.push_back(graph_.add_input("tangent of " + value->name, value->type));
    return made;
  }

  void add_output(Var* var, const std::string& name) {
    graph_.outputs.push_back(var);
    graph_.output_names.push_back(name);
  }

  Graph& graph_;
  std::vector<Output> outputs_;
  std::vector<Var*> values_;
};

}  // namespace

const char* name_of(Derivative derivative) {
  return derivative == Derivative::vjp ? "vjp" : derivative == Derivative::jvp ? "jvp" : "hvp";
}

void differentiate(Graph& graph, Derivative derivative, Wrt wrt) {
  graph.output_names.resize(graph.outputs.size());
  for (size_t k = 0; k < graph.outputs.size(); ++k)
    if (graph.output_names[k].empty()) graph.output_names[k] = graph.outputs[k]->name;
  Differentiation(graph, wrt).run(derivative);
}

}  // namespace metac
