// The model's inputs and outputs: what the options, the declared types and the names of open dims say together.
#include <algorithm>
#include <map>
#include <set>

#include "compiler/ops/model_lowering.h"
#include "compiler/ops/onnx_dtypes.h"

namespace metac {
namespace {

std::string type_text(const ValueType& type) {
  if (type.containers.empty()) return "unknown type";
  if (type.containers[0] != "tensor") return type.containers[0];
  return type.dtype ? std::string(name_of(*type.dtype)) : name_of_onnx_number(type.onnx_dtype);
}

template <typename Map>
std::string names_of(const Map& map) {
  std::string out;
  for (const auto& entry : map) out += (out.empty() ? "" : ", ") + quoted(entry.first);
  return out.empty() ? "none" : out;
}

// Where the value of a dim symbol came from, to explain conflicts.
struct Fixed {
  int64_t value;
  std::string by;
};

class DimSolver {
 public:
  DimSolver(Graph& graph, const LowerOptions& options, const KnownDims& known)
      : graph_(graph), options_(options), known_(known) {
    for (const auto& [name, s] : options.dims) {
      if (s.min > s.max || s.min < 0) fail("dim ", quoted(name), ": ", s.min, "..", s.max, " is no range");
      if (s.min == s.max) fixed_[name] = {s.min, "--dim"};
    }
  }

  // The shape that the options give an input, checked against the declared one; fixes dims of the same name elsewhere.
  void read(const Value& input) {
    auto given = options_.input_shapes.find(input.name);
    if (input.type.shape)
      for (size_t k = 0; k < input.type.shape->size(); ++k)
        if ((*input.type.shape)[k].value < 0) names_.insert({name_of_dim(input, k), 0});
    if (given == options_.input_shapes.end()) return;
    const std::vector<int64_t>& dims = given->second;
    for (size_t k = 0; k < dims.size(); ++k) {
      if (dims[k] < -1) fail("input ", quoted(input.name), ": the shape ", metac::to_string(dims), " has a negative dim");
      if (dims[k] < 0) names_.insert({name_of_dim(input, k), 0});
    }
    if (!input.type.shape) return;
    const std::vector<ModelDim>& declared = *input.type.shape;
    if (declared.size() != dims.size())
      fail("input ", quoted(input.name), " has rank ", declared.size(), " in the model, the shape ", metac::to_string(dims),
           " has rank ", dims.size());
    for (size_t k = 0; k < dims.size(); ++k) {
      if (dims[k] < 0) continue;
      if (declared[k].value >= 0 && declared[k].value != dims[k])
        fail("input ", quoted(input.name), ": axis ", k, " is ", declared[k].value, " in the model, ", dims[k],
             " was asked for (where the model allows others, '?' opens the axis, and --dim ",
             quoted(concat(name_of_dim(input, k), "=", dims[k])), " fixes it)");
      if (declared[k].value >= 0) continue;
      std::string by = concat("the shape of input ", quoted(input.name));
      const std::string name = name_of_dim(input, k);
      auto [place, fresh] = fixed_.insert({name, {dims[k], by}});
      if (!fresh && place->second.value != dims[k])
        fail("dim ", quoted(name), " is ", place->second.value, " by ", place->second.by, " and ", dims[k],
             " by ", by);
    }
  }

  void check_names() const {
    for (const auto& [name, s] : options_.dims)
      if (!names_.count(name)) fail("the model has no dim named ", quoted(name), "; its open dims are: ", names_of(names_));
  }

  Shape shape_of(const Value& input) {
    auto given = options_.input_shapes.find(input.name);
    const std::vector<int64_t>* dims = given == options_.input_shapes.end() ? nullptr : &given->second;
    if (!input.type.shape && !dims)
      fail("input ", quoted(input.name), " has no declared rank; give its shape: --shape name=1x3x224x224");
    size_t rank = dims ? dims->size() : input.type.shape->size();
    Shape shape;
    for (size_t k = 0; k < rank; ++k) {
      const int64_t declared = input.type.shape ? (*input.type.shape)[k].value : -1;
      const int64_t asked = dims ? (*dims)[k] : declared;
      shape.push_back(asked >= 0 ? Dim(asked) : open_dim(name_of_dim(input, k), k, hint_of(k, rank, declared)));
    }
    return shape;
  }

  // Symbols whose typical value is a guess, and those of them that are the length of a sequence.
  const std::vector<int>& guessed() const { return guessed_; }
  const std::vector<int>& guessed_lengths() const { return guessed_lengths_; }

  // What the model's symbol stands for; empty where no input has it.
  Dim known(const std::string& name) const {
    if (auto found = fixed_.find(name); found != fixed_.end()) return found->second.value;
    auto found = symbols_.find(name);
    return found == symbols_.end() ? Dim() : found->second;
  }

 private:
  // What schedules are made for where nobody says how large a dim is: what the model has where "?" opens a dim that it
  // fixes, images of 224 points a side, volumes of 112, sequences of 128 steps.
  static constexpr int64_t sequence_length = 128, image_side = 224, volume_side = 112;
  int64_t hint_of(size_t axis, size_t rank, int64_t declared) const {
    if (axis == 0) return options_.typical_batch;
    if (declared > 0) return declared;
    return rank > 4 ? volume_side : rank == 4 ? image_side : sequence_length;
  }

  // Dims of one name are one symbol. A batch, which an input's first axis is as a rule, may be empty: kernels for it are the
  // same. So may an input that is there for something to be put behind it, as a decoder's cache. Other open dims are at
  // least 1, because of some (the steps of a text) code for none is half as much again; who needs it says --dim name=0..N.
  Dim open_dim(const std::string& name, size_t axis, int64_t hint) {
    if (Dim d = known(name)) return d;
    Symbol s;
    s.min = axis == 0 || known_.may_be_none.count(static_cast<int>(graph_.symbols.size())) > 0 ? 0 : 1;
    // Exporters write "to the end" of a slice as 1e9 or 2^31 - 1: with this bound such ends are the dim itself.
    s.max = 1'000'000'000;
    if (auto option = options_.dims.find(name); option != options_.dims.end()) s = option->second;
    s.name = name;
    s.from_input = true;
    if (auto least = known_.least.find(static_cast<int>(graph_.symbols.size())); least != known_.least.end()) {
      s.raised_from = s.min;
      s.min = least->second;
    }
    if (auto only = known_.only.find(static_cast<int>(graph_.symbols.size())); only != known_.only.end())
      s.hint = only->second;
    const bool guessed = s.hint == 0;
    if (guessed) s.hint = std::clamp(hint / s.divisor * s.divisor, s.min, s.max);
    const int id = graph_.add_symbol(s);
    if (guessed) guessed_.push_back(id);
    if (guessed && hint == sequence_length) guessed_lengths_.push_back(id);
    Dim d = symbol(id);
    symbols_[name] = d;
    return d;
  }

  Graph& graph_;
  const LowerOptions& options_;
  const KnownDims& known_;
  std::map<std::string, Fixed> fixed_;
  std::map<std::string, Dim> symbols_;
  std::map<std::string, int> names_;
  std::vector<int> guessed_, guessed_lengths_;
};

// An output must be a tensor of its own: callers give inputs and outputs different memory, and parameters live in the
// weights.
Var* own_tensor(Graph& g, Var* var) { return g.elementwise({var}, load(0, var->dtype(), identity_indices(var->rank()))); }

// Is any dim of the inputs open, by the model or by what was asked for?
bool has_open_inputs(const ModelGraph& graph, const LowerOptions& options) {
  for (const Value& input : graph.inputs) {
    if (!input.type.shape) return true;
    auto asked = options.input_shapes.find(input.name);
    if (asked != options.input_shapes.end() && std::count(asked->second.begin(), asked->second.end(), -1) > 0) return true;
    for (const ModelDim& d : *input.type.shape)
      if (d.value < 0) return true;
  }
  return false;
}

// Exporters that leave dims open write an output's shape as one example had it, or with the open dims alone, of another
// rank: there the nodes decide. Where every input's shape is in the file, a shape that contradicts them is an error.
void check_declared_output(const Value& declared, const Var* var, bool shapes_are_open) {
  const ValueType& type = declared.type;
  if (type.dtype && *type.dtype != var->dtype())
    fail("output ", quoted(declared.name), " is declared ", name_of(*type.dtype), " and is ", name_of(var->dtype()));
  if (!type.shape || shapes_are_open) return;
  auto mismatch = [&] {
    std::string shape;
    for (const ModelDim& d : *type.shape)
      shape += (shape.empty() ? "" : ", ") + (d.value >= 0       ? std::to_string(d.value)
                                              : d.symbol.empty() ? "?"
                                                                 : quoted(d.symbol));
    fail("output ", quoted(declared.name), " is declared with the shape [", shape, "] and has ", to_string(var->shape()));
  };
  if (static_cast<int>(type.shape->size()) != var->rank()) mismatch();
  for (int k = 0; k < var->rank(); ++k) {
    const int64_t* extent = var->shape()[k].if_int();
    if (extent && (*type.shape)[k].value >= 0 && *extent != (*type.shape)[k].value) mismatch();
  }
}

// The input as nodes see it: a run of any other length ends before the first of them.
Var* with_known_dims(Graph& graph, Var* input, const KnownDims& known) {
  Shape shape = input->shape();
  for (Dim& d : shape)
    if (auto only = d->kind == ExprKind::symbol ? known.only.find(d->id) : known.only.end(); only != known.only.end())
      d = only->second;
  return shape == input->shape() ? input : graph.reindex({input}, shape, identity_indices(input->rank()));
}

// The input's elements become constants of this lowering; that they are the same when it runs is a requirement.
void rely_on_values(Graph& graph, Var* input, const Tensor& values) {
  if (!is_numeric(values.dtype) || values.dtype != input->dtype() || values.element_count() > 64 ||
      shape_of(values.shape) != input->shape())
    return;
  std::vector<Expr> elements;
  for (int64_t i = 0; i < values.element_count(); ++i)
    elements.push_back(is_float(values.dtype) ? float_constant(number_at(values, i), values.dtype)
                                              : int_constant(integer_at(values, i), values.dtype));
  std::vector<int> axes;
  for (int k = 0; k < input->rank(); ++k) axes.push_back(k);
  Var* same = reduce(graph, map(graph, Fn::eq, input, graph.add_constant(values)), axes, Reduce::logical_and, false);
  graph.require(equal(graph.element(cast(graph, same, DType::i64), 0, "input_is_as_expected"), Expr(1)),
                concat("input ", quoted(input->name), " does not have the values that this was compiled for"));
  input->carry_elements(std::move(elements), {});
}

}  // namespace

void ModelLowering::lower_inputs(Scope& scope) {
  graph_.requirements = known_.requirements;
  DimSolver dims(graph_, options_, known_);
  std::map<std::string, const Value*> open;
  for (const Value& input : model_.graph.inputs) {
    if (scope.vars.count(input.name)) continue;  // IR < 4 lists every initialiser among the inputs: it is a parameter
    if (input.type.containers.size() != 1 || input.type.containers[0] != "tensor" || !input.type.dtype ||
        *input.type.dtype == DType::string)
      fail("input ", quoted(input.name), " is a ", type_text(input.type), "; only numeric tensors are supported");
    open[input.name] = &input;
    dims.read(input);
  }
  for (const auto& [name, shape] : options_.input_shapes)
    if (!open.count(name)) fail("the model has no input named ", quoted(name), "; its inputs are: ", names_of(open));
  dims.check_names();
  for (const Value& input : model_.graph.inputs) {
    if (!open.count(input.name)) continue;
    Var* var = graph_.add_input(input.name, Type{TypeKind::tensor, *input.type.dtype, dims.shape_of(input)});
    check_size(concat("input ", quoted(input.name)), var);
    var->is_state = std::any_of(options_.states.begin(), options_.states.end(),
                                [&](const StateNames& s) { return s.input == input.name; });
    auto known = options_.input_values.find(input.name);
    if (known != options_.input_values.end()) rely_on_values(graph_, var, known->second);
    scope.vars[input.name] = var->is_state ? var : with_known_dims(graph_, var, known_);
  }
  guessed_ = dims.guessed();
  guessed_lengths_ = dims.guessed_lengths();
}

void ModelLowering::lower_outputs(const Scope& scope) {
  std::set<const Var*> seen;
  const bool shapes_are_open = has_open_inputs(model_.graph, options_);
  for (const Value& output : model_.graph.outputs) {
    Var* var = nullptr;
    if (!look_up(scope, output.name, var) || !var) fail("output ", quoted(output.name), " is not produced by anything");
    if (var->dtype() == DType::string)
      fail("output ", quoted(output.name), " is a string tensor; only numeric tensors are supported");
    check_declared_output(output, var, shapes_are_open);
    if (var->is_input || var->constant || !seen.insert(var).second) var = own_tensor(graph_, var);
    seen.insert(var);
    graph_.outputs.push_back(var);
    graph_.output_names.push_back(output.name);
  }
  take_states(graph_, options_.states);
  if (!options_.last_step_of.empty()) add_last_step(graph_, options_.last_step_of);
}

}  // namespace metac
