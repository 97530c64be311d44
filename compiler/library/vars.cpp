#include "compiler/library/vars.h"

#include <cstring>

#include "compiler/library/tensors.h"

namespace metac::library {

void InGraph::leave() {
  const std::vector<std::function<void()>> fetched = (*this)->take_fetched();
  lock_.unlock();
  for (const std::function<void()>& call : fetched) call();
}

Tensor checked_copy(const metac_tensor* given, const char* what) {
  need(given, what);
  metac_tensor named = *given;
  named.name = what;
  const std::map<std::string, Tensor> views = views_of(&named, 1, "tensor");
  Tensor tensor = views.begin()->second;
  if (tensor.byte_count() == 0) return tensor;
  const std::shared_ptr<std::byte> memory = lazy::memory_for(static_cast<int64_t>(tensor.byte_count()));
  std::memcpy(memory.get(), tensor.bytes.get(), tensor.byte_count());
  tensor.bytes = memory;
  return tensor;
}

void assign_value(metac_var* var, lazy::Value* value, lazy::Site site) {
  lazy::LazyGraph& graph = lazy::LazyGraph::of_process();
  if (var->value->type != value->type)
    refuse("a Var of ", lazy::text_of(*var->value->type), " is assigned a ", lazy::text_of(*value->type));
  if (var->value->state == lazy::ValueState::placeholder) refuse("an argument of a function that is traced is assigned");
  static const lazy::Operation* const same = lazy::operation("metac", "stop_gradient", {});
  lazy::Value* next = value;
  if (next->node->pending || next->node->in_history)
    graph.apply(same, &value, 1, &next, 1, site, true);
  else
    graph.hold(next);
  lazy::Value* const old = var->value;
  var->value = next;
  ++var->version;
  var->assigned = site;
  graph.release(old);
}

void release_var(metac_var* var) {
  if (--var->holders > 0) return;
  lazy::LazyGraph::of_process().release(var->value);
  delete var;
}

namespace {

thread_local bool without_gradients = false;

}  // namespace

bool no_gradients() { return without_gradients; }

}  // namespace metac::library

int32_t metac_no_grad(int32_t on) {
  const bool before = metac::library::without_gradients;
  metac::library::without_gradients = on != 0;
  return before ? 1 : 0;
}
