#include "compiler/session/reliance.h"

#include <algorithm>
#include <cstring>

#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

// The name of dim `axis` of input `input` in a model all of whose dims are open.
std::string open_dim_name(size_t input, size_t axis) { return concat("input ", input, " axis ", axis); }

void append(std::string& key, int64_t number) { key.append(reinterpret_cast<const char*>(&number), sizeof number); }

}  // namespace

std::string Reliance::key() const {
  size_t bytes = 0;
  for (const Input& input : inputs)
    bytes += input.name.size() + (input.dims.size() + 3) * sizeof(int64_t) + (input.value ? input.value->byte_count() : 0);
  std::string key;
  key.reserve(bytes);
  for (const Input& input : inputs) {
    append(key, static_cast<int64_t>(input.name.size()));
    key += input.name;
    append(key, static_cast<int64_t>(input.dims.size()));
    for (int64_t dim : input.dims) append(key, dim);
    append(key, input.value ? static_cast<int64_t>(input.value->byte_count()) : -1);
    if (input.value && input.value->byte_count() > 0)
      key.append(reinterpret_cast<const char*>(input.value->bytes.get()), input.value->byte_count());
  }
  return key;
}

std::string Reliance::text() const {
  std::string text;
  for (const Input& input : inputs) {
    text += (text.empty() ? "" : ", ") + quoted(input.name) + (input.dims.empty() ? " scalar" : " ");
    for (size_t k = 0; k < input.dims.size(); ++k)
      text += (k ? "x" : "") + (input.dims[k] < 0 ? std::string("?") : std::to_string(input.dims[k]));
    if (input.value) text += " of known value";
  }
  return text;
}

bool Reliance::is_open() const {
  return std::any_of(inputs.begin(), inputs.end(), [](const Input& input) {
    return std::any_of(input.dims.begin(), input.dims.end(), [](int64_t dim) { return dim < 0; });
  });
}

bool has_known_value(const std::string& name, const Tensor& tensor, const RelianceLevel& level) {
  return level.known >= Known::small_integers && is_numeric(tensor.dtype) && tensor.element_count() <= 64 &&
         (level.known == Known::small_inputs || !is_float(tensor.dtype)) &&
         (level.values.empty() || level.values.count(name) > 0);
}

bool has_known_shape(const std::string& name, const Tensor& tensor, const RelianceLevel& level) {
  if (level.known >= Known::shapes && !level.open_shapes) return true;
  if (has_known_value(name, tensor, level)) return true;
  return level.known >= Known::lengths && tensor.shape.size() == 1 && is_integer(tensor.dtype);
}

Reliance reliance_on(const Model& model, const NamedTensors& inputs, const RelianceLevel& level) {
  Reliance reliance;
  for (const Value& input : model.graph.inputs) {
    const auto given = inputs.find(input.name);
    if (given == inputs.end()) continue;
    const Tensor& tensor = given->second;
    Reliance::Input row{input.name, tensor.shape, std::nullopt};
    for (size_t k = 0; !has_known_shape(input.name, tensor, level) && k < row.dims.size(); ++k) {
      const ModelDim declared = input.type.shape ? (*input.type.shape)[k] : ModelDim();
      if (declared.value >= 0) continue;
      if (row.dims[k] != 0)
        row.dims[k] = Reliance::open;
      else if (!declared.symbol.empty())  // else nobody can be told that it may be 0: it is fixed
        row.dims[k] = Reliance::open_or_none;
    }
    if (has_known_value(input.name, tensor, level)) row.value = tensor;
    reliance.inputs.push_back(std::move(row));
  }
  return reliance;
}

bool covers(const Reliance& made, const Reliance& wanted) {
  const auto same_value = [](const std::optional<Tensor>& a, const std::optional<Tensor>& b) {
    if (!a || !b) return !a && !b;
    const size_t bytes = a->byte_count();
    return a->dtype == b->dtype && bytes == b->byte_count() &&
           (bytes == 0 || std::memcmp(a->bytes.get(), b->bytes.get(), bytes) == 0);
  };
  return std::equal(made.inputs.begin(), made.inputs.end(), wanted.inputs.begin(), wanted.inputs.end(),
                    [&](const Reliance::Input& a, const Reliance::Input& b) {
                      return a.name == b.name && same_value(a.value, b.value) &&
                             std::equal(a.dims.begin(), a.dims.end(), b.dims.begin(), b.dims.end(),
                                        [](int64_t m, int64_t w) {
                                          return m == w || (m == Reliance::open_or_none && w == Reliance::open);
                                        });
                    });
}

void open_dims(const Model& model, const std::set<std::string>& names, Reliance& reliance) {
  for (const Value& input : model.graph.inputs) {
    const auto row = std::find_if(reliance.inputs.begin(), reliance.inputs.end(),
                                  [&](const Reliance::Input& one) { return one.name == input.name; });
    if (row == reliance.inputs.end() || row->value || !input.type.shape) continue;
    for (size_t k = 0; k < row->dims.size(); ++k)
      if (names.count((*input.type.shape)[k].symbol))
        row->dims[k] = row->dims[k] == 0 ? Reliance::open_or_none : Reliance::open;
  }
}

LowerOptions relying_on(LowerOptions base, const Model& model, const Reliance& reliance) {
  for (const Value& input : model.graph.inputs) {
    const auto row = std::find_if(reliance.inputs.begin(), reliance.inputs.end(),
                                  [&](const Reliance::Input& one) { return one.name == input.name; });
    if (row == reliance.inputs.end()) continue;
    std::vector<int64_t>& shape = base.input_shapes[input.name] = row->dims;
    for (size_t k = 0; k < shape.size(); ++k) {
      if (shape[k] != Reliance::open_or_none) continue;
      shape[k] = Reliance::open;
      // An open dim is at least 1, unless somebody says otherwise.
      const std::string& name = (*input.type.shape)[k].symbol;
      base.dims.insert({name, Symbol{.name = name, .min = 0, .max = 1'000'000'000}});
    }
    if (row->value) base.input_values[input.name] = *row->value;
  }
  return base;
}

void open_all_dims(Model& model) {
  for (size_t i = 0; i < model.graph.inputs.size(); ++i) {
    ValueType& type = model.graph.inputs[i].type;
    for (size_t k = 0; type.shape && k < type.shape->size(); ++k) (*type.shape)[k] = ModelDim{-1, open_dim_name(i, k)};
  }
  for (std::vector<Value>* values : {&model.graph.outputs, &model.graph.value_info})
    for (Value& value : *values)
      if (value.type.shape) value.type.shape->assign(value.type.shape->size(), ModelDim{});
}

void name_open_dims(Model& model) {
  std::set<std::string> taken;
  for (const Value& input : model.graph.inputs)
    if (input.type.shape)
      for (const ModelDim& dim : *input.type.shape) taken.insert(dim.symbol);
  for (Value& input : model.graph.inputs)
    for (size_t k = 0; input.type.shape && k < input.type.shape->size(); ++k) {
      ModelDim& dim = (*input.type.shape)[k];
      if (dim.value >= 0 || !dim.symbol.empty()) continue;
      dim.symbol = concat(input.name, "_", k);
      while (!taken.insert(dim.symbol).second) dim.symbol += "_";
    }
}

}  // namespace metac
