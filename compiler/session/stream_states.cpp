#include "compiler/session/stream_states.h"

#include <algorithm>
#include <cstring>

#include "compiler/jit/run_error.h"
#include "compiler/session/given_inputs.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

template <typename... Parts>
[[noreturn]] void refuse(const Parts&... parts) {
  throw RunError(rt::Status::invalid_argument, {"", "", concat(parts...)});
}

void check(bool good, const rt::Failure& failure) {
  if (!good) throw RunError(failure.status, {"", "", failure.message});
}

Tensor copy_of(const Tensor& tensor) {
  std::byte* memory = nullptr;
  Tensor copy = make_tensor(tensor.dtype, tensor.shape, &memory);
  if (tensor.byte_count() > 0) std::memcpy(memory, tensor.bytes.get(), tensor.byte_count());
  return copy;
}

// The first `length` of so many along the axis.
Tensor cut(const Tensor& tensor, int axis, int64_t length) {
  int64_t rows = 1, step = 1;
  for (int k = 0; k < axis; ++k) rows *= tensor.shape[static_cast<size_t>(k)];
  for (size_t k = static_cast<size_t>(axis) + 1; k < tensor.shape.size(); ++k) step *= tensor.shape[k];
  step *= static_cast<int64_t>(size_of(tensor.dtype));
  const int64_t now = tensor.shape[static_cast<size_t>(axis)];
  std::vector<int64_t> shape = tensor.shape;
  shape[static_cast<size_t>(axis)] = length;
  std::byte* memory = nullptr;
  Tensor result = make_tensor(tensor.dtype, shape, &memory);
  for (int64_t row = 0; row < rows && step * length > 0; ++row)
    std::memcpy(memory + row * step * length, tensor.bytes.get() + row * step * now, static_cast<size_t>(step * length));
  return result;
}

}  // namespace

StreamStates::StreamStates(const DeclaredStates& declared, const rt::StatePlace& where, std::atomic<int64_t>& held)
    : declared_(declared), where_(where), held_(held) {}
StreamStates::~StreamStates() { held_ -= counted_; }

size_t StreamStates::named(const std::string& name) const {
  const std::vector<StateNames>& names = declared_.names();
  for (size_t k = 0; k < names.size(); ++k)
    if (names[k].input == name) return k;
  std::string all;
  for (const StateNames& n : names) all += (all.empty() ? "" : ", ") + quoted(n.input);
  refuse("there is no state ", quoted(name), "; the states are ", all.empty() ? "none" : all);
}

void StreamStates::count_bytes() {
  int64_t now = states_ ? states_->held_bytes() : 0;
  for (const auto& [unused, tensor] : given_) now += static_cast<int64_t>(tensor.byte_count());
  held_ += now - counted_;
  counted_ = now;
}

std::unique_ptr<rt::StateSet> StreamStates::set_for(const rt::Program& tables) const {
  auto states = std::make_unique<rt::StateSet>();
  if (!states->create(tables)) return nullptr;
  states->live_in(where_);
  return states;
}

// The values as this program keeps them, those for the next run among them.
void StreamStates::move_to(const JitCode& code) {
  rt::Failure failure;
  if (!states_) {
    std::shared_ptr<const rt::Program> tables = code.tables();
    auto states = set_for(*tables);
    if (!states) throw no_memory(tables->state_count, "states");
    states_ = std::move(states), tables_ = std::move(tables);
  } else if (std::shared_ptr<const rt::Program> tables = code.tables(); tables != tables_) {
    check(states_->move_to(*tables, failure), failure);
    tables_ = std::move(tables);
  }
  while (!given_.empty()) {
    const auto& [k, tensor] = *given_.begin();
    check(states_->set(static_cast<int32_t>(k), tensor.shape.data(), tensor.bytes.get(), failure), failure);
    given_.erase(given_.begin());
  }
}

std::vector<Tensor> StreamStates::run(JitProgram& context, const std::vector<Tensor>& inputs) {
  const std::lock_guard lock(mutex_);
  move_to(*context.code());
  try {
    std::vector<Tensor> outputs = context.run(inputs, states_.get());
    count_bytes();
    return outputs;
  } catch (...) {
    count_bytes();
    throw;
  }
}

void StreamStates::reset() {
  const std::lock_guard lock(mutex_);
  if (states_) states_->reset();
  given_.clear();
  count_bytes();
}

Tensor StreamStates::get(const std::string& name) const {
  const size_t k = named(name);
  const std::lock_guard lock(mutex_);
  if (const auto found = given_.find(k); found != given_.end()) return copy_of(found->second);
  const auto state = static_cast<int32_t>(k);
  const bool known = states_ && states_->has_value(state);
  const ValueType& type = declared_.inputs()[k]->type;
  std::vector<int64_t> shape(type.shape->size(), 0);
  if (known) shape.assign(states_->dims(state), states_->dims(state) + shape.size());
  std::byte* memory = nullptr;
  Tensor tensor = make_tensor(*type.dtype, shape, &memory);
  rt::Failure failure;
  if (known && tensor.byte_count() > 0) check(states_->get(state, memory, failure), failure);
  return tensor;
}

void StreamStates::set(const NamedTensors& states) {
  std::map<size_t, Tensor> given;
  for (const auto& [name, tensor] : states) {
    const size_t k = named(name);
    const ValueType& type = declared_.inputs()[k]->type;
    if (tensor.dtype != *type.dtype || tensor.shape.size() != type.shape->size())
      refuse("state ", quoted(name), ": the model wants ", describe_type(type), ", given is ", name_of(tensor.dtype), " ",
             to_string(tensor.shape));
    for (size_t axis = 0; axis < tensor.shape.size(); ++axis)
      if (const int64_t wanted = (*type.shape)[axis].value; wanted >= 0 && wanted != tensor.shape[axis])
        refuse("state ", quoted(name), ": dim ", axis, " is ", tensor.shape[axis], ", expected ", wanted);
    given.emplace(k, copy_of(tensor));
  }
  const std::lock_guard lock(mutex_);
  given.merge(given_);  // those of now come first
  given_.swap(given);
  count_bytes();
}

// What the last program says, or what the dims' names do.
int StreamStates::grown_axis(size_t state) const {
  return tables_ ? tables_->states[state].axis : declared_.grown_axis(state);
}

void StreamStates::truncate(int64_t length) {
  const std::lock_guard lock(mutex_);
  std::map<size_t, Tensor> shorter;
  bool any = false;
  for (size_t k = 0; k < declared_.names().size(); ++k) {
    const int axis = grown_axis(k);
    if (axis < 0) continue;
    any = true;
    const auto state = static_cast<int32_t>(k);
    const auto given = given_.find(k);
    const int64_t now = given != given_.end()                  ? given->second.shape[static_cast<size_t>(axis)]
                        : states_ && states_->has_value(state) ? states_->dims(state)[axis]
                                                               : 0;
    if (length < 0 || length > now)
      refuse("state ", quoted(declared_.names()[k].input), " has ", now, " steps, of which ", length, " are to stay");
    if (given != given_.end()) shorter.emplace(k, cut(given->second, axis, length));
  }
  if (!any)
    refuse(tables_ ? "no state of this model grows" : "the model does not say which states grow before its first run");
  rt::Failure failure;
  if (states_) check(states_->shorten(length, failure), failure);
  shorter.merge(given_);
  given_.swap(shorter);
  count_bytes();
}

void StreamStates::copy(const StreamStates& other) {
  if (&other == this) return;
  const std::scoped_lock lock(mutex_, other.mutex_);
  std::unique_ptr<rt::StateSet> states;
  if (other.states_) {
    states = set_for(*other.tables_);
    if (!states) throw no_memory(other.tables_->state_count, "states");
    rt::Failure failure;
    check(states->copy(*other.states_, failure), failure);
  }
  std::map<size_t, Tensor> given = other.given_;  // elements of tensors never change
  states_ = std::move(states), tables_ = other.tables_;
  given_.swap(given);
  count_bytes();
}

}  // namespace metac
