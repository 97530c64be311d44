#include "compiler/library/options.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "compiler/jit/device.h"
#include "compiler/library/status.h"
#include "compiler/library/tensors.h"
#include "compiler/ops/defined/operator_definition.h"
#include "compiler/session/given_inputs.h"
#include "compiler/target/precision.h"
#include "compiler/target/target.h"
#include "frontends/cpp/cpp_operators.h"

namespace metac::library {
namespace {

constexpr size_t most_struct_bytes = 4096;  // a size beyond is memory that nobody has set
constexpr int32_t most_threads = 256, most_declared = 4096, most_weights = 1 << 20;

// The fields that this library knows; further ones of a newer header must say nothing.
metac_session_options known_fields(const metac_session_options& given) {
  check_size("metac_session_options", given.size, offsetof(metac_session_options, target) + sizeof given.target);
  const auto* bytes = reinterpret_cast<const unsigned char*>(&given);
  for (size_t at = sizeof(metac_session_options); at < given.size; ++at)
    if (bytes[at] != 0)
      refuse("metac_session_options of ", given.size, " bytes sets byte ", at,
             ", which metac " METAC_VERSION " has no field for: it knows ", sizeof(metac_session_options), " bytes");
  metac_session_options known{};
  std::memcpy(&known, &given, std::min(given.size, sizeof known));
  return known;
}

int in_range(const char* name, int32_t value, int32_t most) {
  if (value < 0 || value > most) refuse("options: ", name, " is ", value, "; it must be 0 to ", most);
  return value;
}

std::map<std::string, Symbol> dims_of(const metac_session_options& given) {
  const int count = in_range("dim_count", given.dim_count, most_declared);
  if (count > 0 && !given.dims) refuse("options: dims is NULL, and dim_count is ", count);
  std::map<std::string, Symbol> dims;
  for (int k = 0; k < count; ++k) {
    const metac_dim& dim = given.dims[k];
    if (!dim.name || !*dim.name) refuse("options: dims[", k, "] has no name");
    const std::string which = concat("options: dim ", quoted(std::string(dim.name)));
    if (dim.min < 0) refuse(which, ": min is ", dim.min, "; a dim is at least 0");
    if (dim.max < 0) refuse(which, ": max is ", dim.max, "; 0 is no limit");
    if (dim.divisor < 0) refuse(which, ": divisor is ", dim.divisor, "; it must be 1 or more, or 0 for 1");
    Symbol symbol{.name = dim.name};
    symbol.min = dim.min == 0 ? 1 : dim.min;
    if (dim.max > 0) symbol.max = dim.max;
    if (dim.divisor > 0) symbol.divisor = dim.divisor;
    if (symbol.min > symbol.max) refuse(which, ": the range ", symbol.min, " to ", symbol.max, " is empty");
    if (symbol.max / symbol.divisor * symbol.divisor < symbol.min)
      refuse(which, ": no multiple of ", symbol.divisor, " is in ", symbol.min, " to ", symbol.max);
    if (!dims.emplace(dim.name, symbol).second) refuse(which, " is given twice");
  }
  return dims;
}

std::vector<std::string_view> prepared_blocks(const metac_session_options& given) {
  const int count = in_range("prepared_count", given.prepared_count, most_weights);
  if (count > 0 && !given.prepared) refuse("options: prepared is NULL, and prepared_count is ", count);
  std::vector<std::string_view> blocks;
  for (int k = 0; k < count; ++k) {
    const metac_block& block = given.prepared[k];
    if (!block.data || block.bytes <= 0 || reinterpret_cast<uintptr_t>(block.data) % 64 != 0)
      refuse("options: prepared[", k, "] of ", block.bytes, " bytes is empty or not aligned to 64 bytes");
    blocks.emplace_back(static_cast<const char*>(block.data), static_cast<size_t>(block.bytes));
  }
  return blocks;
}

template <typename Find>
auto named(const char* option, Find&& find) {
  try {
    return find();
  } catch (const CompileError& error) {
    refuse("options: ", option, ": ", error.what());
  }
}

const Target& usable_target(const std::string& name) {
  const Target& target = named("target", [&]() -> const Target* { return &target_named(name); })[0];
  try {
    if (const Device* device = device_of(target)) device->open();
  } catch (const CompileError& error) {
    throw CallError(METAC_UNSUPPORTED, concat("options: target is ", quoted(name), ": ", error.what()));
  }
  return target;
}

}  // namespace

void check_size(const char* name, size_t size, size_t first) {
  if (size < first || size > most_struct_bytes)
    refuse(name, ": size is ", size, "; set it to sizeof(", name, "), which is ", first, " or more");
}

SessionOptions session_options(const metac_session_options* options) {
  metac_session_options given{};
  if (options) given = known_fields(*options);
  SessionOptions result;
  const std::string cpu = given.cpu ? given.cpu : "native";
  result.compile.cpu = named("cpu", [&] { return cpu_target(cpu); });
  if (!runs_here(result.compile.cpu))
    throw CallError(METAC_UNSUPPORTED, concat("options: cpu is ", quoted(cpu), ": this machine cannot run code for it"));
  result.compile.target = &usable_target(given.target ? given.target : "cpu");
  const std::string precision = given.precision ? given.precision : "float32";
  const std::optional<DType> rounded = precision_named(precision);
  if (!rounded) refuse("options: precision is ", quoted(precision), "; it must be float32, bfloat16, int8 or auto");
  result.compile.precision = *rounded;
  result.lower.dims = dims_of(given);
  result.specialise = Specialise::background;
  if (given.specialise) {
    const std::optional<Specialise> policy = specialise_named(given.specialise);
    if (!policy)
      refuse("options: specialise is ", quoted(std::string(given.specialise)), "; it must be background, eager or never");
    result.specialise = *policy;
  }
  result.threads = in_range("threads", given.threads, most_threads);
  result.max_contexts = in_range("max_contexts", given.max_contexts, most_threads);
  const int held = in_range("max_specialisations", given.max_specialisations, INT32_MAX);
  if (held > 0) result.max_specialisations = held;
  if (given.max_memory < 0) refuse("options: max_memory is ", given.max_memory, "; it must be 0 (no limit) or more");
  result.max_memory = given.max_memory;
  result.prepared = prepared_blocks(given);
  return result;
}

std::vector<StateNames> states_of(const metac_session_options* options, const Model& model) {
  if (!options) return {};
  const metac_session_options given = known_fields(*options);
  const int count = in_range("state_count", given.state_count, most_declared);
  if (count > 0 && !given.states) refuse("options: states is NULL, and state_count is ", count);
  std::vector<StateNames> states;
  for (int k = 0; k < count; ++k) {
    if (!given.states[k].input || !given.states[k].output) refuse("options: states[", k, "] has no input or no output");
    states.push_back({given.states[k].input, given.states[k].output});
  }
  if (in_range("known_states", given.known_states, 1) == 1) {
    const std::vector<StateNames> known = known_states(model);
    if (known.empty()) refuse("options: states: no input and output of the model are known as a state by their names");
    for (const StateNames& names : known)
      if (std::find(states.begin(), states.end(), names) == states.end()) states.push_back(names);
  }
  std::set<std::string> taken;
  for (const StateNames& names : states) {
    const auto is = [](const std::string& name) { return [&name](const Value& value) { return value.name == name; }; };
    const std::vector<Value> inputs = free_inputs(model);
    const std::vector<Value>& outputs = model.graph.outputs;
    if (std::none_of(inputs.begin(), inputs.end(), is(names.input)))
      refuse("options: states: the model has no input ", quoted(names.input));
    if (std::none_of(outputs.begin(), outputs.end(), is(names.output)))
      refuse("options: states: the model has no output ", quoted(names.output));
    if (!taken.insert("input " + names.input).second || !taken.insert("output " + names.output).second)
      refuse("options: states: ", quoted(names.input), " and ", quoted(names.output), ": a value is in one state alone");
  }
  return states;
}

Model with_operators(Model model, const metac_session_options* options) {
  if (!options) return model;
  const metac_session_options given = known_fields(*options);
  const int count = in_range("ops_count", given.ops_count, most_declared);
  if (count > 0 && !given.ops) refuse("options: ops is NULL, and ops_count is ", count);
  for (int k = 0; k < count; ++k) {
    if (!given.ops[k] || !*given.ops[k]) refuse("options: ops[", k, "] names no file");
    add_called(model, read_cpp_operators(given.ops[k]));
  }
  return model;
}

Model with_weights(Model model, const metac_session_options* options) {
  if (!options) return model;
  const metac_session_options given = known_fields(*options);
  const int count = in_range("weight_count", given.weight_count, most_weights);
  std::map<std::string, Initializer*> initialisers;
  for (Initializer& initialiser : model.graph.initializers) initialisers.emplace(initialiser.name, &initialiser);
  for (auto& [name, tensor] : views_of(given.weights, count, "weight")) {
    const auto found = initialisers.find(name);
    if (found == initialisers.end()) refuse("options: weights: the model has no initialiser ", quoted(name));
    if (found->second->tensor.dtype != tensor.dtype)
      refuse("options: weight ", quoted(name), " is ", name_of(tensor.dtype), "; the model has ",
             name_of(found->second->tensor.dtype));
    if (found->second->tensor.element_count() > 0 && found->second->tensor.shape != tensor.shape)
      refuse("options: weight ", quoted(name), " is ", to_string(tensor.shape), "; the model has ",
             to_string(found->second->tensor.shape));
    found->second->tensor = tensor;
  }
  return model;
}

}  // namespace metac::library
