#include "compiler/oracle/evaluate_graph.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "compiler/ir/element.h"
#include "compiler/oracle/evaluate_external.h"
#include "compiler/oracle/evaluate_inline.h"
#include "compiler/support/checked.h"

namespace metac {
namespace {

Scalar combine_scalars(Reduce reduce, DType dtype, Scalar a, Scalar b) {
  if (is_float(dtype)) {
    switch (reduce) {
      case Reduce::add:
        return real_scalar(a.real + b.real);
      case Reduce::mul:
        return real_scalar(a.real * b.real);
      default:
        break;
    }
  }
  static constexpr Fn fns[] = {Fn::add, Fn::mul, Fn::min, Fn::max, Fn::logical_and, Fn::logical_or};
  return apply(fns[static_cast<int>(reduce)], dtype, a, b);
}

}  // namespace

class GraphEvaluator::Run {
 public:
  Run(const Graph& graph, CompiledGraph& compiled, Budget budget)
      : graph_(graph), compiled_(compiled), budget_(budget), symbols_(graph.symbols.size()) {}

  void bind_input(const Var* var, const Tensor& tensor) {
    if (tensor.dtype != var->dtype())
      fail("input ", quoted(var->name), " is ", name_of(var->dtype()), ", got ", name_of(tensor.dtype));
    if (static_cast<int>(tensor.shape.size()) != var->rank())
      fail("input ", quoted(var->name), " has rank ", var->rank(), ", got shape ", to_string(tensor.shape));
    for (int d = 0; d < var->rank(); ++d) {
      Expr dim = var->shape()[d];
      if (dim->kind == ExprKind::symbol && !symbols_.bound[dim->id]) bind(dim->id, tensor.shape[d]);
    }
    values_[var] = tensor;
    inputs_.push_back(var);
  }

  // After all inputs: dims that are constants or expressions.
  void check_inputs() {
    for (const Var* var : inputs_)
      for (int d = 0; d < var->rank(); ++d) {
        const int64_t expected = symbols_.dim(var->shape()[d]), found = values_.at(var).shape[d];
        if (expected != found) fail("dim ", d, " of input ", quoted(var->name), " is ", expected, ", got ", found);
      }
    check_requirements();
  }

  void run_ops(const std::vector<Op*>& ops) {
    for (const Op* op : ops) run_op(*op);
  }

  void run_op(const Op& op) {
    switch (op.kind) {
      case OpKind::elementwise:
      case OpKind::reindex:
      case OpKind::reindex_reduce:
        return run_pure(op);
      case OpKind::bind:
        return run_bind(op);
      case OpKind::external:
        return run_external(op);
      case OpKind::if_:
        return run_if(op);
      case OpKind::loop:
        return run_loop(op);
      case OpKind::code:
        fail("the reference evaluator does not run the C++ of the code op ", quoted(op.routine));
    }
  }

  const Tensor& value(const Var* var) {
    if (var->constant) return *var->constant;
    auto found = values_.find(var);
    METAC_ASSERT(found != values_.end(), "v", var->id, " is used before it is computed");
    return found->second;
  }
  void set_value(const Var* var, Tensor tensor) { values_[var] = std::move(tensor); }

  const SymbolValues& symbols() const { return symbols_; }
  const Budget& budget() const { return budget_; }
  // Does a plain op stay within the budget? A bound from its expressions, before anything is allocated.
  bool affords(const Op& op) {
    int64_t bytes = 0, nodes = 1;
    for (const Var* v : op.outputs) {
      int64_t count = 1;
      for (Expr d : v->shape()) {
        auto product = checked_mul(count, symbols_.dim(d));
        if (!product) return false;
        count = *product;
      }
      auto size = checked_mul(count, static_cast<int64_t>(std::max<size_t>(size_of(v->dtype()), 1)));
      if (!size || !checked_add(bytes, *size)) return false;
      bytes += *size;
    }
    for (const auto* list : {&op.bodies, &op.indices, &op.conditions})
      for (Expr e : *list) nodes += static_cast<int64_t>(node_count(e)) + 1;
    if (bytes > budget_.bytes) return false;
    if (!is_meta(op.kind)) return true;
    auto operations = checked_mul(count_of(symbols_.dims(domain_of(op))), 2 * nodes + 8);
    return operations && *operations <= budget_.operations;
  }

 private:
  void bind(int id, int64_t value) {
    const Symbol& symbol = graph_.symbols[id];
    if (value < symbol.stated_min() || value > symbol.max)
      fail(symbol.name, " is ", value, ", which is not in ", symbol.stated_min(), "..", symbol.max);
    if (symbol.divisor > 1 && value % symbol.divisor != 0)
      fail(symbol.name, " is ", value, ", which is no multiple of ", symbol.divisor);
    symbols_.set(id, value);
  }

  void check_requirements() {
    for (const Requirement& r : graph_.requirements)
      if (symbols_.is_known(r.condition) && evaluate_dim(r.condition, symbols_.values.data()) == 0) fail(r.message);
  }

  // Symbols of `op` that stand for a dim of `type` take the value found.
  void bind_dims(const Op& op, const Type& type, const std::vector<int64_t>& found) {
    for (size_t d = 0; d < type.shape.size(); ++d) {
      Expr e = type.shape[d];
      if (e->kind == ExprKind::symbol && std::count(op.symbols.begin(), op.symbols.end(), e->id)) bind(e->id, found[d]);
    }
  }

  void spend_bytes(DType dtype, const std::vector<int64_t>& shape) {
    const auto bytes = checked_mul(count_of(shape), static_cast<int64_t>(size_of(dtype)));
    if (!bytes || *bytes > budget_.bytes)
      fail("evaluating needs a tensor of shape ", to_string(shape), ", beyond the budget of bytes");
    budget_.bytes -= *bytes;
  }
  Tensor allocate(DType dtype, const std::vector<int64_t>& shape, std::byte** data) {
    spend_bytes(dtype, shape);
    return make_tensor(dtype, shape, data);
  }

  void spend(int64_t elements, size_t operations) {
    const auto total = checked_mul(elements, static_cast<int64_t>(operations));
    if (!total || *total > budget_.operations) fail("evaluating takes more operations than the budget allows");
    budget_.operations -= *total;
  }

  // ---- elementwise, reindex, reindex_reduce ----
  void run_pure(const Op& op) {
    if (compiled_.is_inlined(op, symbols_)) return;
    const CompiledGraph::Kernel& kernel = compiled_.kernel(op);
    std::map<int, const Tensor*> operands;
    for (const Var* v : kernel.operands) operands[v->id] = &value(v);
    const std::vector<int64_t> domain = symbols_.dims(domain_of(op));
    spend(count_of(domain), kernel.program.rows.size());
    if (op.kind == OpKind::reindex_reduce) return run_reduce(op, kernel, domain, operands);
    if (op.outputs[0]->dtype() == DType::string) return run_string_reindex(op, kernel, domain, operands);
    std::vector<std::byte*> data(op.outputs.size());
    std::vector<Tensor> results;
    for (size_t k = 0; k < op.outputs.size(); ++k) results.push_back(allocate(op.outputs[k]->dtype(), domain, &data[k]));
    run_over(kernel.program, domain, symbols_.values.data(), operands,
             [&](int64_t first, int n, const std::vector<Lanes>& values) {
               Scalar lanes[256];
               for (size_t k = 0; k < results.size(); ++k) {
                 for (int i = 0; i < n; ++i) lanes[i] = values[k][i];
                 write_elements(results[k].dtype, lanes, n, data[k] + first * size_of(results[k].dtype));
               }
             });
    for (size_t k = 0; k < op.outputs.size(); ++k) values_[op.outputs[k]] = std::move(results[k]);
  }

  void run_reduce(const Op& op, const CompiledGraph::Kernel& kernel, const std::vector<int64_t>& domain,
                  const std::map<int, const Tensor*>& operands) {
    const DType dtype = op.outputs[0]->dtype(), accumulator = op.accumulator;
    const std::vector<int64_t> shape = symbols_.dims(op.outputs[0]->shape());
    std::byte* data = nullptr;
    Tensor result = allocate(dtype, shape, &data);
    Expr identity = identity_of(op.reduce, accumulator);
    const Scalar start = is_float(accumulator) ? real_scalar(identity->float_value) : integer_scalar(identity->int_value);
    std::vector<Scalar> sums(static_cast<size_t>(count_of(shape)), start);
    const bool plain_sum = op.reduce == Reduce::add && is_float(accumulator) && is_float(op.inputs[0]->dtype());
    run_over(
        kernel.program, domain, symbols_.values.data(), operands, [&](int64_t, int n, const std::vector<Lanes>& values) {
          int64_t offsets[256];
          for (int i = 0; i < n; ++i) offsets[i] = values[1][i].integer ? 0 : -1;
          for (size_t k = 0; k < shape.size(); ++k)
            for (int i = 0; i < n; ++i) {
              const int64_t at = values[2 + k][i].integer;
              offsets[i] = offsets[i] < 0 || at < 0 || at >= shape[k] ? -1 : offsets[i] * shape[k] + at;
            }
          for (int i = 0; i < n; ++i) {
            if (offsets[i] < 0) continue;
            Scalar& sum = sums[offsets[i]];
            if (plain_sum)
              sum.real += values[0][i].real;
            else
              sum = combine_scalars(op.reduce, accumulator, sum, convert(values[0][i], op.inputs[0]->dtype(), accumulator));
          }
        });
    if (is_float(accumulator))
      for (Scalar& s : sums) s.real = round_to(accumulator, s.real);
    for (Scalar& s : sums) s = convert(s, accumulator, dtype);
    write_elements(dtype, sums.data(), static_cast<int64_t>(sums.size()), data);
    values_[op.outputs[0]] = std::move(result);
  }

  void run_string_reindex(const Op& op, const CompiledGraph::Kernel& kernel, const std::vector<int64_t>& domain,
                          const std::map<int, const Tensor*>& operands) {
    METAC_ASSERT(op.kind == OpKind::reindex, "strings only move");
    const Tensor& from = value(op.inputs[0]);
    Tensor result;
    result.dtype = DType::string;
    result.shape = domain;
    result.strings.resize(static_cast<size_t>(count_of(domain)));
    run_over(kernel.program, domain, symbols_.values.data(), operands,
             [&](int64_t first, int n, const std::vector<Lanes>& values) {
               for (int i = 0; i < n; ++i) {
                 int64_t offset = values[0][i].integer ? 0 : -1;
                 for (size_t k = 0; k < from.shape.size(); ++k) {
                   const int64_t at = values[1 + k][i].integer;
                   offset = offset < 0 || at < 0 || at >= from.shape[k] ? -1 : offset * from.shape[k] + at;
                 }
                 if (offset >= 0) result.strings[first + i] = from.strings[offset];
               }
             });
    values_[op.outputs[0]] = std::move(result);
  }

  // ---- the others ----
  void run_bind(const Op& op) {
    const Tensor& from = value(op.inputs[0]);
    if (op.element < 0 || op.element >= from.element_count())
      fail("element ", op.element, " of a tensor of shape ", to_string(from.shape), " is asked for");
    bind(op.symbols[0], element_at(from, op.element).integer);
    check_requirements();
  }

  void run_external(const Op& op) {
    if (!is_external_routine(op.routine)) fail("the reference evaluator has no routine ", quoted(op.routine));
    std::vector<const Tensor*> inputs;
    for (const Var* v : op.inputs) inputs.push_back(v ? &value(v) : nullptr);
    std::vector<Tensor> outputs = call_external(op, inputs, [&](const std::vector<int64_t>& found) {
      for (size_t k = 0; k < op.symbols.size(); ++k) bind(op.symbols[k], found[k]);
      std::vector<std::vector<int64_t>> shapes;
      for (const Var* v : op.outputs) {
        shapes.push_back(symbols_.dims(v->shape()));
        spend_bytes(v->dtype(), shapes.back());
      }
      return shapes;
    });
    for (size_t k = 0; k < op.outputs.size(); ++k) values_[op.outputs[k]] = std::move(outputs[k]);
    check_requirements();
  }

  bool truth(const Var* var) {
    const Tensor& tensor = value(var);
    if (tensor.element_count() != 1) fail("a condition of one element is needed, its shape is ", to_string(tensor.shape));
    return element_at(tensor, 0).integer != 0;
  }

  void run_if(const Op& op) {
    const Region& taken = op.regions[truth(op.inputs[0]) ? 0 : 1];
    run_ops(taken.ops);
    for (size_t k = 0; k < op.outputs.size(); ++k) {
      Tensor result = value(taken.results[k]);
      bind_dims(op, op.outputs[k]->type, result.shape);
      values_[op.outputs[k]] = std::move(result);
    }
    check_requirements();
  }

  void run_loop(const Op& op) {
    const Region& body = op.regions[0];
    const size_t carried = body.params.size(), stacked = op.outputs.size() - carried;
    const int64_t trips = op.inputs[0] ? element_at(value(op.inputs[0]), 0).integer : std::numeric_limits<int64_t>::max();
    bool go_on = op.inputs[1] ? truth(op.inputs[1]) : true;
    std::vector<Tensor> state;
    for (size_t k = 0; k < carried; ++k) state.push_back(value(op.inputs[2 + k]));
    std::vector<std::vector<Tensor>> rows(stacked);
    int64_t done = 0;
    for (; done < trips && go_on; ++done) {
      spend(1, 1);
      if (body.iteration >= 0) symbols_.set(body.iteration, done);
      for (size_t k = 0; k < carried; ++k) {
        bind_dims(op, body.params[k]->type, state[k].shape);
        values_[body.params[k]] = state[k];
      }
      run_ops(body.ops);
      if (body.results[0]) go_on = truth(body.results[0]);
      for (size_t k = 0; k < carried; ++k) state[k] = value(body.results[1 + k]);
      for (size_t k = 0; k < stacked; ++k) rows[k].push_back(value(body.results[1 + carried + k]));
    }
    for (size_t k = 0; k < carried; ++k) {
      bind_dims(op, op.outputs[k]->type, state[k].shape);
      values_[op.outputs[k]] = std::move(state[k]);
    }
    for (size_t k = 0; k < stacked; ++k) stack(op, *op.outputs[carried + k], *body.results[1 + carried + k], rows[k], done);
    check_requirements();
  }

  void stack(const Op& op, const Var& out, const Var& row, const std::vector<Tensor>& rows, int64_t done) {
    std::vector<int64_t> shape = {done};
    if (!rows.empty()) {
      shape.insert(shape.end(), rows[0].shape.begin(), rows[0].shape.end());
    } else {
      for (Expr d : row.shape()) shape.push_back(symbols_.is_known(d) ? symbols_.dim(d) : 0);
    }
    bind_dims(op, out.type, shape);
    std::byte* data = nullptr;
    Tensor result = allocate(out.dtype(), shape, &data);
    result.strings.clear();
    for (const Tensor& t : rows) {
      if (t.shape != rows[0].shape)
        fail("a loop stacks values of different shapes, ", to_string(rows[0].shape), " and ", to_string(t.shape));
      if (t.dtype == DType::string)
        result.strings.insert(result.strings.end(), t.strings.begin(), t.strings.end());
      else if (t.byte_count())
        std::memcpy(data, t.bytes.get(), t.byte_count());
      data += t.byte_count();
    }
    values_[&out] = std::move(result);
  }

  const Graph& graph_;
  CompiledGraph& compiled_;
  Budget budget_;
  SymbolValues symbols_;
  std::vector<const Var*> inputs_;
  std::unordered_map<const Var*, Tensor> values_;
};

GraphEvaluator::GraphEvaluator(const Graph& graph) : graph_(graph), compiled_(std::make_unique<CompiledGraph>(graph)) {}
GraphEvaluator::GraphEvaluator(const Graph& graph, std::nullptr_t) : graph_(graph) {}
GraphEvaluator::~GraphEvaluator() = default;

std::vector<Tensor> GraphEvaluator::run(const std::vector<Tensor>& inputs, Budget budget) {
  if (inputs.size() != graph_.inputs.size()) fail("the graph has ", graph_.inputs.size(), " inputs, got ", inputs.size());
  Run run(graph_, *compiled_, budget);
  for (size_t k = 0; k < inputs.size(); ++k) run.bind_input(graph_.inputs[k], inputs[k]);
  run.check_inputs();
  run.run_ops(graph_.ops);
  std::vector<Tensor> outputs;
  for (const Var* v : graph_.outputs) outputs.push_back(run.value(v));
  return outputs;
}

std::optional<std::vector<Tensor>> GraphEvaluator::run_one(const Op& op, const std::vector<const Tensor*>& inputs,
                                                           Budget& budget) {
  const bool plain =
      is_meta(op.kind) || (op.kind == OpKind::external && op.symbols.empty() && is_external_routine(op.routine));
  if (!plain) return std::nullopt;
  CompiledGraph compiled;
  Run run(graph_, compiled, budget);
  auto known = [&](const std::vector<Expr>& list) {
    return std::all_of(list.begin(), list.end(), [&](Expr e) { return run.symbols().is_known(e); });
  };
  for (const auto* list : {&op.bodies, &op.indices, &op.conditions})
    if (!known(*list)) return std::nullopt;
  for (const auto* vars : {&op.inputs, &op.outputs})
    for (const Var* v : *vars)
      if (v && !known(v->shape())) return std::nullopt;
  if (bool(op.fill) && !run.symbols().is_known(op.fill)) return std::nullopt;
  for (size_t k = 0; k < op.inputs.size(); ++k)
    if (inputs[k]) run.set_value(op.inputs[k], *inputs[k]);
  if (!run.affords(op)) return std::nullopt;
  run.run_op(op);
  budget = run.budget();
  std::vector<Tensor> outputs;
  for (const Var* v : op.outputs) outputs.push_back(run.value(v));
  return outputs;
}

std::optional<std::vector<Tensor>> evaluate_op(const Graph& graph, const Op& op, const std::vector<const Tensor*>& inputs,
                                               Budget& budget) {
  return GraphEvaluator(graph, nullptr).run_one(op, inputs, budget);
}

std::vector<Tensor> evaluate(const Graph& graph, const std::vector<Tensor>& inputs, Budget budget) {
  return GraphEvaluator(graph).run(inputs, budget);
}

std::vector<Tensor> evaluate(const Graph& graph, const std::map<std::string, Tensor>& inputs, Budget budget) {
  std::vector<Tensor> ordered;
  for (const Var* v : graph.inputs) {
    auto found = inputs.find(v->name);
    if (found == inputs.end()) fail("input ", quoted(v->name), " is not given");
    ordered.push_back(found->second);
  }
  for (const auto& [name, tensor] : inputs)
    if (std::none_of(graph.inputs.begin(), graph.inputs.end(), [&](const Var* v) { return v->name == name; }))
      fail("the graph has no input ", quoted(name));
  return evaluate(graph, ordered, budget);
}

}  // namespace metac
