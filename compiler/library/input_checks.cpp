#include "compiler/library/input_checks.h"

#include <algorithm>
#include <set>

#include "compiler/library/status.h"
#include "compiler/session/given_inputs.h"

namespace metac::library {

void check_type(const char* what, const std::string& name, const ValueType& wanted, const Tensor& given) {
  const bool rank_differs = wanted.shape && wanted.shape->size() != given.shape.size();
  bool differs = rank_differs || (wanted.dtype && *wanted.dtype != given.dtype);
  for (size_t i = 0; wanted.shape && !rank_differs && i < given.shape.size(); ++i)
    differs |= (*wanted.shape)[i].value >= 0 && (*wanted.shape)[i].value != given.shape[i];
  if (differs)
    refuse(what, " ", quoted(name), ": the model wants ", describe_type(wanted), ", given is ", name_of(given.dtype), " ",
           to_string(given.shape));
}

InputChecks::InputChecks(const Model& model, const LowerOptions& options) {
  std::set<std::string> initialised;
  for (const Initializer& initializer : model.graph.initializers) initialised.insert(initializer.name);
  for (const StateNames& names : options.states) states_.push_back(names.input);
  std::map<std::string, int> places;
  for (const Value& value : model.graph.inputs) {
    Input input{value, initialised.count(value.name) > 0, {}};
    for (size_t k = 0; value.type.shape && k < value.type.shape->size(); ++k) {
      const ModelDim& dim = (*value.type.shape)[k];
      input.dims.push_back(-1);
      if (dim.value >= 0) continue;
      const std::string name = name_of_dim(value, k);
      const auto [place, fresh] = places.try_emplace(name, static_cast<int>(dims_.size()));
      input.dims.back() = place->second;
      if (!fresh) continue;
      const auto declared = options.dims.find(name);
      dims_.push_back({name, {}});
      if (declared != options.dims.end()) dims_.back().declared = declared->second;
    }
    if (std::count(states_.begin(), states_.end(), value.name) > 0) continue;
    needed_ += input.has_default ? 0 : 1;
    order_.push_back(value.name);
    inputs_.emplace(value.name, std::move(input));
  }
  for (const auto& [name, unused] : options.dims)
    if (!places.count(name)) refuse("options: dim ", quoted(name), ": the model's inputs have no open dim of this name");
}

std::vector<Value> InputChecks::needed() const {
  std::vector<Value> values;
  for (const std::string& name : order_)
    if (const Input& input = inputs_.at(name); !input.has_default) values.push_back(input.value);
  return values;
}

void InputChecks::check(const std::map<std::string, Tensor>& given) const {
  struct Length {
    int64_t value = -1;
    const std::string* by = nullptr;  // the input that said so
  };
  std::vector<Length> lengths(dims_.size());
  size_t needed = 0;
  for (const auto& [name, tensor] : given) {
    const auto found = inputs_.find(name);
    if (found == inputs_.end()) {
      if (std::count(states_.begin(), states_.end(), name) > 0)
        refuse("input ", quoted(name), " is a state of the session: metac_stream_set() gives it another value");
      std::string names;
      for (const Value& value : this->needed()) names += (names.empty() ? "" : ", ") + quoted(value.name);
      refuse("there is no input ", quoted(name), "; the inputs are ", names.empty() ? "none" : names);
    }
    const Input& input = found->second;
    check_type("input", name, input.value.type, tensor);
    needed += input.has_default ? 0 : 1;
    for (size_t k = 0; k < input.dims.size(); ++k) {
      if (input.dims[k] < 0) continue;
      const OpenDim& dim = dims_[static_cast<size_t>(input.dims[k])];
      Length& known = lengths[static_cast<size_t>(input.dims[k])];
      const int64_t length = tensor.shape[k];
      if (!known.by) known = {length, &name};
      if (known.value != length)
        refuse("input ", quoted(name), ": dim ", quoted(dim.name), " is ", length, "; of input ", quoted(*known.by),
               " it is ", known.value);
      if (const std::optional<Symbol>& s = dim.declared;
          s && (length < s->min || length > s->max || length % s->divisor != 0))
        refuse("input ", quoted(name), ": dim ", quoted(dim.name), " is ", length, "; declared is ", s->min, " to ", s->max,
               s->divisor > 1 ? concat(", a multiple of ", s->divisor) : "");
    }
  }
  if (needed == needed_) return;
  for (const std::string& name : order_)
    if (const Input& input = inputs_.at(name); !input.has_default && !given.count(name))
      refuse("input ", quoted(name), " (", describe_type(input.value.type), ") is missing");
}

}  // namespace metac::library
