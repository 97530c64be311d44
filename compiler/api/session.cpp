#include "compiler/api/session.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "compiler/ir/expr_table.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/seconds.h"
#include "compiler/target/target.h"

namespace metac {
namespace {

const Initializer* default_of(const Model& model, const std::string& input) {
  for (const Initializer& initializer : model.graph.initializers)
    if (initializer.name == input) return &initializer;
  return nullptr;
}

// "float32 1x3x?x?": what the model says of an input.
std::string describe_type(const ValueType& type) {
  std::string text(type.dtype ? name_of(*type.dtype) : "unknown type");
  if (!type.shape) return text + " of any rank";
  text += type.shape->empty() ? " scalar" : " ";
  for (size_t i = 0; i < type.shape->size(); ++i) {
    const ModelDim& dim = (*type.shape)[i];
    text += (i ? "x" : "") + (dim.value >= 0 ? std::to_string(dim.value) : dim.symbol.empty() ? "?" : quoted(dim.symbol));
  }
  return text;
}

void check_input(const Model& model, const Value& input, const Tensor& tensor) {
  auto refuse = [&] {
    throw CompileError({model.path, "input " + quoted(input.name),
                        concat("the model wants ", describe_type(input.type), ", given is ", name_of(tensor.dtype), " ",
                               to_string(tensor.shape))});
  };
  if (input.type.dtype && *input.type.dtype != tensor.dtype) refuse();
  if (!input.type.shape) return;
  if (input.type.shape->size() != tensor.shape.size()) refuse();
  for (size_t i = 0; i < tensor.shape.size(); ++i)
    if ((*input.type.shape)[i].value >= 0 && (*input.type.shape)[i].value != tensor.shape[i]) refuse();
}

std::string joined_names(const std::vector<Value>& values) {
  std::string text;
  for (const Value& value : values) text += (text.empty() ? "" : ", ") + quoted(value.name);
  return text.empty() ? "none" : text;
}

bool has_known_value(const Tensor& tensor, Known known) {
  return known >= Known::small_integers && is_numeric(tensor.dtype) && tensor.element_count() <= 64 &&
         (known == Known::small_inputs || !is_float(tensor.dtype));
}

bool has_known_shape(const Tensor& tensor, Known known) {
  return known >= Known::shapes || (known == Known::lengths && tensor.shape.size() == 1 && is_integer(tensor.dtype));
}

// The name of dim `axis` of input `input` in a model all of whose dims are open.
std::string open_dim_name(size_t input, size_t axis) { return concat("input ", input, " axis ", axis); }

}  // namespace

void open_all_dims(Model& model) {
  for (size_t i = 0; i < model.graph.inputs.size(); ++i) {
    ValueType& type = model.graph.inputs[i].type;
    for (size_t k = 0; type.shape && k < type.shape->size(); ++k) (*type.shape)[k] = ModelDim{-1, open_dim_name(i, k)};
  }
  for (std::vector<Value>* values : {&model.graph.outputs, &model.graph.value_info})
    for (Value& value : *values)
      if (value.type.shape) value.type.shape->assign(value.type.shape->size(), ModelDim{});
}

LowerOptions relying_on(LowerOptions base, const Model& model, const std::map<std::string, Tensor>& inputs, Known known) {
  for (size_t i = 0; i < model.graph.inputs.size(); ++i) {
    const Value& input = model.graph.inputs[i];
    auto given = inputs.find(input.name);
    if (given == inputs.end()) continue;
    const Tensor& tensor = given->second;
    base.input_shapes[input.name] =
        has_known_shape(tensor, known) ? tensor.shape : std::vector<int64_t>(tensor.shape.size(), -1);
    if (has_known_value(tensor, known)) base.input_values[input.name] = tensor;
    // An open dim is at least 1, unless somebody says otherwise.
    for (size_t k = 0; known < Known::shapes && !has_known_shape(tensor, known) && k < tensor.shape.size(); ++k)
      if (tensor.shape[k] == 0)
        base.dims[open_dim_name(i, k)] = {.name = open_dim_name(i, k), .min = 0, .max = 1'000'000'000};
  }
  return base;
}

bool draws(const CompiledProgram& program) {
  return std::count(program.routines.begin(), program.routines.end(), "draw_number") > 0;
}

std::vector<Value> free_inputs(const Model& model) {
  // Before IR 4 every initialiser had to be listed among the inputs too.
  std::set<std::string> initialised;
  for (const Initializer& initializer : model.graph.initializers) initialised.insert(initializer.name);
  std::vector<Value> result;
  for (const Value& input : model.graph.inputs)
    if (!initialised.count(input.name)) result.push_back(input);
  return result;
}

void require_compilable(const Model& model) {
  std::vector<Finding> findings = check_model(model);
  if (findings.empty()) return;
  std::string text;
  for (const Diagnostic& finding : findings) {
    Diagnostic shown = finding;
    if (shown.file == model.path) shown.file.clear();
    text += (text.empty() ? "" : "\n  ") + shown.text();
  }
  throw CompileError(
      {model.path, "",
       findings.size() == 1 ? text : concat("cannot be compiled, for ", findings.size(), " reasons:\n  ", text)});
}

Session::Session(Model model, SessionOptions options)
    : model_(std::move(model)), options_(std::move(options)), known_(options_.least_known) {
  if (known_ < Known::shapes) open_all_dims(model_);
  require_compilable(model_);
}

std::unique_ptr<JitProgram> Session::specialise(const std::map<std::string, Tensor>& inputs, Known known) {
  const LowerOptions lower = relying_on(options_.lower, model_, inputs, known);
  try {
    double begin = seconds();
    const ExprScope scope;
    std::unique_ptr<Graph> graph = lower_model(model_, lower);
    double lowered = seconds();
    auto compiled = std::make_shared<CompiledModel>(compile_graph(*graph, options_.compile));
    graph.reset();
    compiled->drop_expressions();
    double made = seconds();
    WeightsBlock weights = run_prepare(*compiled, options_.compile.cpu);
    compiled->parameters.clear();  // prepared: the raw ones are not needed any more
    double prepared = seconds();
    auto program = std::make_unique<JitProgram>(std::shared_ptr<const CompiledProgram>(compiled, &compiled->run),
                                                std::move(weights), options_.compile.cpu, options_.threads,
                                                JitOptions{.on_device = options_.compile.target->on_device()});
    times_ = {lowered - begin, made - lowered, seconds() - prepared, prepared - made};
    return program;
  } catch (CompileError& error) {
    if (!error.diagnostic.file.empty()) throw;
    throw CompileError({model_.path, error.diagnostic.node, error.diagnostic.message});
  }
}

JitProgram& Session::program_for(const std::map<std::string, Tensor>& inputs, std::vector<Tensor>* ordered) {
  std::vector<Value> wanted = free_inputs(model_);
  std::map<std::string, Tensor> given = inputs;
  for (const Value& input : model_.graph.inputs) {
    const Initializer* otherwise = default_of(model_, input.name);
    auto found = given.find(input.name);
    if (found != given.end())
      check_input(model_, input, found->second);
    else if (!otherwise)
      throw CompileError(
          {model_.path, "", concat("input ", quoted(input.name), " (", describe_type(input.type), ") is missing")});
  }
  for (const auto& [name, unused] : given) {
    auto same = [&, &name = name](const Value& input) { return input.name == name; };
    if (std::none_of(model_.graph.inputs.begin(), model_.graph.inputs.end(), same))
      throw CompileError(
          {model_.path, "", concat("there is no input ", quoted(name), "; the inputs are ", joined_names(wanted))});
  }
  JitProgram* program = nullptr;
  try {
    program = &find_or_make(given, known_);
  } catch (const CompileError& first) {
    // Some refusals are only for want of values that are at hand. If none helps, the first reason is the one to tell.
    for (Known more : {Known::lengths, Known::small_integers, Known::small_inputs}) {
      auto helps = [&](const auto& input) {
        return has_known_value(input.second, more) || (known_ < Known::shapes && has_known_shape(input.second, more));
      };
      if (more <= known_ || more > options_.most_known || program || std::none_of(given.begin(), given.end(), helps))
        continue;
      try {
        program = &find_or_make(given, more);
        known_ = more;
      } catch (const CompileError&) {
      }
    }
    if (!program) throw first;
  }
  ordered->clear();
  for (const CompiledPort& port : program->compiled().inputs) {
    auto found = given.find(port.name);
    const Initializer* otherwise = default_of(model_, port.name);
    METAC_ASSERT(found != given.end() || otherwise, "the compiled program wants ", quoted(port.name));
    ordered->push_back(found != given.end() ? found->second : otherwise->tensor);
  }
  return *program;
}

JitProgram& Session::find_or_make(const std::map<std::string, Tensor>& given, Known known) {
  std::string key;
  for (const auto& [name, tensor] : given) {
    key += quoted(name) + " " +
           (has_known_shape(tensor, known) ? to_string(tensor.shape) : std::to_string(tensor.shape.size())) + "\n";
    if (has_known_value(tensor, known)) key.append(reinterpret_cast<const char*>(tensor.bytes.get()), tensor.byte_count());
  }
  auto [entry, fresh] = programs_.try_emplace(key);
  if (fresh) {
    try {
      entry->second = specialise(given, known);
    } catch (...) {
      programs_.erase(entry);
      throw;
    }
  }
  return *entry->second;
}

std::vector<std::pair<std::string, Tensor>> Session::run(const std::map<std::string, Tensor>& inputs) {
  std::vector<Tensor> ordered;
  JitProgram& program = program_for(inputs, &ordered);
  JitProgram* made_by = nullptr;
  std::vector<Tensor> tensors;
  const auto run_program = [&](JitProgram& with) {
    try {
      tensors = with.run(ordered);
    } catch (CompileError& error) {
      throw CompileError({model_.path, error.diagnostic.node, error.diagnostic.message});
    }
    made_by = &with;
  };
  try {
    run_program(program);
  } catch (const CompileError& first) {
    // A shape input's -1 or 0 has a meaning that only a program which knows the value can give it.
    auto helps = [](const auto& input) { return has_known_value(input.second, Known::small_integers); };
    if (known_ >= Known::small_integers || options_.most_known < Known::small_integers ||
        std::none_of(inputs.begin(), inputs.end(), helps))
      throw;
    const Known before = known_;
    known_ = Known::small_integers;
    try {
      run_program(program_for(inputs, &ordered));
    } catch (const CompileError&) {
      known_ = before;
      throw first;
    }
  }
  std::vector<std::pair<std::string, Tensor>> outputs;
  for (size_t i = 0; i < tensors.size(); ++i)
    outputs.emplace_back(made_by->compiled().outputs[i].name, std::move(tensors[i]));
  return outputs;
}

}  // namespace metac
