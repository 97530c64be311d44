// The functions of metac/var.h that make Vars, append to the graph and look at values.
#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>

#include "compiler/lazy/arithmetic.h"
#include "compiler/library/options.h"
#include "compiler/library/session_handle.h"
#include "compiler/library/status.h"
#include "compiler/library/tensors.h"
#include "compiler/library/vars.h"

using namespace metac;
using namespace metac::library;
using lazy::LazyGraph;

namespace {

int counted(const char* name, int32_t count, int32_t most) {
  if (count < 0 || count > most) refuse(name, " is ", count, "; it must be 0 to ", most);
  return count;
}

// A handle as a Var; given back where there is no memory for it.
metac_var* var_of(LazyGraph& graph, lazy::Value* value) {
  metac_var* const var = new (std::nothrow) metac_var{value};
  if (var) return var;
  graph.release(value);
  throw std::bad_alloc();
}

// Operands on the stack where there are few.
class Values {
 public:
  Values(metac_var* const* vars, int32_t count, const char* what, bool may_be_null) {
    if (counted("the count of operands", count, 1 << 20) > few) many_.resize(static_cast<size_t>(count));
    if (count > 0) need(vars, what);
    for (int32_t k = 0; k < count; ++k) {
      if (!vars[k] && !may_be_null) refuse(what, "[", k, "] is NULL");
      data()[k] = vars[k] ? vars[k]->value : nullptr;
    }
  }
  lazy::Value** data() { return many_.empty() ? own_ : many_.data(); }

 private:
  static constexpr int few = 8;
  lazy::Value* own_[few];
  std::vector<lazy::Value*> many_;
};

// The outputs become Vars, all or none.
void give(LazyGraph& graph, lazy::Value** values, int32_t count, metac_var** outputs) {
  std::vector<std::unique_ptr<metac_var>> made;
  int32_t taken = 0;
  try {
    if (count == 1) {
      outputs[0] = var_of(graph, (taken = 1, values[0]));
      return;
    }
    for (; taken < count; ++taken) made.emplace_back(new metac_var{values[taken]});
  } catch (...) {
    for (int32_t k = count == 1 ? 1 : 0; k < count; ++k) graph.release(values[k]);
    throw;
  }
  for (int32_t k = 0; k < count; ++k) outputs[k] = made[static_cast<size_t>(k)].release();
}

}  // namespace

metac_status metac_var_from(const metac_tensor* elements, metac_var** var) {
  return answered([&] {
    need(var, "var");
    Tensor tensor = checked_copy(elements, "elements");
    const InGraph graph;
    *var = var_of(*graph, graph->data(lazy::tensor_type(tensor.dtype, tensor.shape), std::move(tensor.bytes)));
  });
}

metac_status metac_var_constant(const metac_tensor* elements, metac_var** var) {
  return answered([&] {
    need(var, "var");
    Tensor tensor = checked_copy(elements, "elements");
    if (tensor.element_count() > 64) refuse("a constant has ", tensor.element_count(), " elements; at most 64 are taken");
    const InGraph graph;
    *var = var_of(*graph, graph->literal(lazy::tensor_type(tensor.dtype, tensor.shape), std::move(tensor.bytes)));
  });
}

metac_status metac_var_number(const metac_var* beside, double value, int32_t is_real, metac_var** var) {
  return answered([&] {
    need(beside, "beside"), need(var, "var");
    const InGraph graph;
    *var = var_of(*graph, lazy::number(*graph, value, is_real != 0, beside->value->type->dtype));
  });
}

void metac_var_free(metac_var* var) {
  if (!var) return;
  answered([&] {
    const InGraph graph;
    release_var(var);
  });
}

metac_status metac_var_apply(const metac_operator* applied, metac_var* const* inputs, int32_t input_count,
                             metac_var** outputs, int32_t output_count, const metac_site* site) {
  return answered([&] {
    need(applied, "applied"), need(outputs, "outputs");
    Values operands(inputs, input_count, "inputs", true);
    const int32_t most = applied->most_outputs() < 0 ? 1024 : applied->most_outputs();
    if (output_count < 1 || output_count > most)
      refuse(applied->name, " has ", applied->least_outputs(), " to ", most, " outputs, not ", output_count);
    lazy::Value* few[8];
    std::vector<lazy::Value*> many(output_count > 8 ? static_cast<size_t>(output_count) : 0);
    lazy::Value** const made = many.empty() ? few : many.data();
    const InGraph graph;
    graph->apply(applied, operands.data(), static_cast<uint32_t>(input_count), made, static_cast<uint32_t>(output_count),
                 site_of(site), no_gradients());
    give(*graph, made, output_count, outputs);
  });
}

metac_status metac_var_arithmetic(int32_t what, metac_var* a, metac_var* b, metac_var** result, const metac_site* site) {
  return answered([&] {
    need(a, "a"), need(b, "b"), need(result, "result");
    counted("what", what, lazy::arithmetic_count - 1);
    const InGraph graph;
    *result = var_of(*graph, lazy::arithmetic(*graph, static_cast<lazy::Arithmetic>(what), a->value, b->value, site_of(site),
                                              no_gradients()));
  });
}

metac_status metac_var_arithmetic_number(int32_t what, metac_var* a, double number, int32_t is_real, int32_t swapped,
                                         metac_var** result, const metac_site* site) {
  return answered([&] {
    need(a, "a"), need(result, "result");
    counted("what", what, lazy::arithmetic_count - 1);
    const InGraph graph;
    lazy::Value* const value = lazy::number(*graph, number, is_real != 0, a->value->type->dtype);
    lazy::Value* made = nullptr;
    try {
      made = lazy::arithmetic(*graph, static_cast<lazy::Arithmetic>(what), swapped ? value : a->value,
                              swapped ? a->value : value, site_of(site), no_gradients());
    } catch (...) {
      graph->release(value);
      throw;
    }
    graph->release(value);
    *result = var_of(*graph, made);
  });
}

metac_status metac_var_cast(metac_var* var, int32_t dtype, metac_var** result, const metac_site* site) {
  return answered([&] {
    need(var, "var"), need(result, "result");
    if (dtype < METAC_FLOAT32 || dtype > METAC_BOOL) refuse("dtype is ", dtype, "; metac_dtype has 0 to ", METAC_BOOL);
    const InGraph graph;
    *result = var_of(*graph, lazy::cast(*graph, var->value, static_cast<DType>(dtype), site_of(site), no_gradients()));
  });
}

metac_status metac_var_gradient(metac_var* y, metac_var* const* xs, int32_t count, metac_var** outputs,
                                const metac_site* site) {
  return answered([&] {
    need(y, "y"), need(outputs, "outputs");
    if (count < 1) refuse("there is nothing to take the gradient by");
    Values operands(xs, count, "xs", false);
    std::vector<lazy::Value*> made(static_cast<size_t>(count));
    const InGraph graph;
    try {
      graph->gradient(y->value, operands.data(), static_cast<uint32_t>(count), made.data(), site_of(site));
    } catch (const CompileError& error) {
      std::string stale;
      for (int32_t k = 0; k < count; ++k)
        if (xs[k]->version > 0)
          stale = concat("; operand ", k, " is version ", xs[k]->version, " of a Var that was assigned",
                         xs[k]->assigned.file ? concat(" in ", xs[k]->assigned.file, ":", xs[k]->assigned.line) : "",
                         ": if what is differentiated read an older one, take the gradient before assigning");
      refuse(error.diagnostic.message, stale);
    }
    give(*graph, made.data(), count, outputs);
  });
}

metac_status metac_var_assign(metac_var* var, metac_var* value, const metac_site* site) {
  return answered([&] {
    need(var, "var"), need(value, "value");
    const InGraph graph;
    assign_value(var, value->value, site_of(site));
  });
}

metac_status metac_var_type(const metac_var* var, metac_tensor* type) {
  return answered([&] {
    need(var, "var"), need(type, "type");
    const lazy::TensorType& own = *var->value->type;
    *type = metac_tensor{};
    type->name = "";
    type->bytes = own.bytes;
    type->dims = own.shape.data();
    type->rank = own.rank();
    type->dtype = static_cast<int32_t>(own.dtype);
  });
}

int32_t metac_var_exists(const metac_var* var) {
  if (!var) return 0;
  const InGraph graph;
  return var->value->state == lazy::ValueState::exists ? 1 : 0;
}

metac_status metac_var_evaluate(metac_var* const* vars, int32_t count, const metac_site* site) {
  return answered([&] {
    Values values(vars, count, "vars", false);
    const InGraph graph;
    graph->evaluate(values.data(), static_cast<size_t>(count), site_of(site));
  });
}

metac_status metac_var_read(metac_var* var, metac_result** result, const metac_site* site) {
  return answered([&] {
    need(var, "var"), need(result, "result");
    Tensor elements;
    {
      const InGraph graph;
      graph->evaluate(&var->value, 1, site_of(site));
      elements = lazy::tensor_of(*var->value);
    }
    *result = new metac_result({{"value", std::move(elements)}});
  });
}

metac_status metac_var_fetch(metac_var* const* vars, int32_t count, void (*done)(void* user, metac_result* values),
                             void* user) {
  return answered([&] {
    if (!done) refuse("done is NULL");
    Values values(vars, count, "vars", false);
    const InGraph graph;
    graph->fetch({values.data(), values.data() + count}, [done, user](std::vector<Tensor> elements) {
      std::vector<std::pair<std::string, Tensor>> named;
      for (Tensor& each : elements) named.emplace_back("value", std::move(each));
      done(user, new metac_result(std::move(named)));
    });
  });
}

metac_status metac_graph_sync(const metac_site* site) {
  return answered([&] {
    const InGraph graph;
    graph->evaluate_fetched(site_of(site));
  });
}

metac_status metac_graph_get_report(metac_graph_report* report) {
  return answered([&] {
    need(report, "report");
    const size_t first = offsetof(metac_graph_report, live) + sizeof report->live;
    check_size("metac_graph_report", report->size, first);
    const InGraph graph;
    const lazy::GraphReport now = graph->report();
    metac_graph_report told{report->size, now.nodes,   now.looks,   now.walks,
                            now.compiled, now.pending, now.history, now.live_nodes};
    const size_t known = std::min(told.size, sizeof told);
    std::memset(reinterpret_cast<char*>(report) + known, 0, told.size - known);
    std::memcpy(report, &told, known);
  });
}
