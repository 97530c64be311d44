#include "compiler/oracle/evaluate_external.h"

#include <exception>

#include "compiler/support/diagnostic.h"
#include "runtime/routines.h"

namespace metac {
namespace {

namespace rt = metac_runtime;
static_assert(static_cast<int>(rt::ScalarType::boolean) == static_cast<int>(DType::boolean));

const rt::RoutineEntry* find_routine(const std::string& name) {
  int32_t count = 0;
  const rt::RoutineEntry* table = rt::all_routines(&count);
  for (int32_t i = 0; i < count; ++i)
    if (name == table[i].name) return &table[i];
  return nullptr;
}

struct Host {
  const Op& op;
  const BindSymbols& bind;
  std::vector<int64_t> symbols;
  std::vector<Tensor> outputs;
  std::vector<rt::RoutineTensor> views;
  std::exception_ptr thrown;
};

rt::RoutineTensor view_of(const Tensor& tensor, const void* data) {
  return {const_cast<void*>(data), static_cast<rt::ScalarType>(tensor.dtype), static_cast<int32_t>(tensor.shape.size()),
          tensor.shape.data(), tensor.element_count()};
}

// Exceptions do not cross the routine, which is C-like code.
bool prepare(rt::RoutineCall& call) {
  Host& host = *static_cast<Host*>(call.executor);
  try {
    const auto shapes = host.bind(host.symbols);
    for (size_t k = 0; k < shapes.size(); ++k) {
      std::byte* data = nullptr;
      host.outputs[k] = make_tensor(host.op.outputs[k]->dtype(), shapes[k], &data);
      host.views[k] = view_of(host.outputs[k], data);
    }
    return true;
  } catch (...) {
    host.thrown = std::current_exception();
    return call.failure->set(rt::Status::requirement, "the outputs could not be made");
  }
}

std::vector<rt::RoutineAttribute> attributes_of(const Op& op) {
  std::vector<rt::RoutineAttribute> out;
  for (const auto& [name, value] : op.attributes) {
    rt::RoutineAttribute attribute{name.c_str(), 0, 0, nullptr, nullptr, 0};
    if (auto* integer = std::get_if<int64_t>(&value)) attribute.integer = *integer;
    if (auto* real = std::get_if<double>(&value)) attribute.real = *real;
    if (auto* text = std::get_if<std::string>(&value)) attribute.string = text->c_str();
    if (auto* list = std::get_if<std::vector<int64_t>>(&value)) {
      attribute.integers = list->data();
      attribute.count = static_cast<int32_t>(list->size());
    }
    out.push_back(attribute);
  }
  return out;
}

}  // namespace

bool is_external_routine(const std::string& routine) { return find_routine(routine) != nullptr; }

std::vector<Tensor> call_external(const Op& op, const std::vector<const Tensor*>& inputs, const BindSymbols& bind) {
  const rt::RoutineEntry* routine = find_routine(op.routine);
  METAC_ASSERT(routine, "no routine ", op.routine);
  Host host{op,
            bind,
            std::vector<int64_t>(op.symbols.size(), 0),
            std::vector<Tensor>(op.outputs.size()),
            std::vector<rt::RoutineTensor>(op.outputs.size()),
            {}};
  std::vector<rt::RoutineTensor> given;
  for (const Tensor* t : inputs) given.push_back(t ? view_of(*t, t->bytes.get()) : rt::RoutineTensor{});
  const std::vector<rt::RoutineAttribute> attributes = attributes_of(op);
  rt::Failure failure;
  static thread_local int64_t draws = 0;  // the evaluator has no context that lasts
  rt::RoutineCall call{};
  rt::Block memory;
  call.memory = &memory;
  call.draws = &draws;
  call.inputs = given.data();
  call.input_count = static_cast<int32_t>(given.size());
  call.outputs = host.views.data();
  call.output_count = static_cast<int32_t>(host.views.size());
  call.attributes = {attributes.data(), static_cast<int32_t>(attributes.size())};
  call.symbols = host.symbols.data();
  call.symbol_count = static_cast<int32_t>(host.symbols.size());
  call.failure = &failure;
  call.executor = &host;
  call.prepare = &prepare;
  const bool done = routine->function(call);
  if (host.thrown) std::rethrow_exception(host.thrown);
  if (!done) fail(failure.message);
  return std::move(host.outputs);
}

}  // namespace metac
