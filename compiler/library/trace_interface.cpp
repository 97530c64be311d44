// The functions of metac/var.h that trace functions and use the models that come of it.
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>

#include "compiler/lazy/lazy_graph.h"
#include "compiler/lazy/open_dims.h"
#include "compiler/library/options.h"
#include "compiler/library/session_handle.h"
#include "compiler/library/status.h"
#include "compiler/library/vars.h"
#include "compiler/support/file_system.h"
#include "frontends/json/json.h"
#include "frontends/onnx/onnx.h"
#include "frontends/read_model.h"

using namespace metac;
using namespace metac::library;
using lazy::LazyGraph;

namespace {

// Names of values: unique, and none that the writer makes ("v3", "x0", "c1").
class GivenNames {
 public:
  void add(lazy::ModelNames& names, const lazy::Value* value, const char* given, const std::string& otherwise) {
    std::string name = given && *given ? given : otherwise;
    if (!used_.insert(name).second) refuse("the name ", quoted(name), " is given twice");
    names.of_values.emplace(value, name);
  }

 private:
  std::set<std::string> used_;
};

// The least opset of ONNX's own domain that says of every node what the newest says, and that many programs read.
void use_common_opset(Model& model) {
  const auto own = model.opset_imports.find("");
  if (own == model.opset_imports.end()) return;
  int least = 17;
  for (const Node& node : model.graph.nodes)
    if (node.domain.empty())
      if (const OpSchema* schema = find_operator("", node.op_type)) least = std::max(least, schema->since.back());
  own->second = least;
}

// What gives `outputs`, arguments first among its inputs, read or not, in their order.
lazy::TracedCall called(const std::vector<lazy::Value*>& arguments, const std::vector<lazy::Value*>& outputs) {
  lazy::Cut cut = LazyGraph::of_process().cut_of(outputs);
  std::vector<lazy::Value*> ordered = arguments;
  const auto add = [&](lazy::Value* value) {
    if (std::find(ordered.begin(), ordered.end(), value) == ordered.end()) ordered.push_back(value);
  };
  for (lazy::Value* input : cut.inputs) add(input);
  for (lazy::Value* output : outputs)
    if (!output->node->pending) add(output);
  cut.inputs = ordered;
  for (const lazy::Value* input : cut.inputs)
    if (input->state == lazy::ValueState::placeholder &&
        std::find(arguments.begin(), arguments.end(), input) == arguments.end())
      refuse("a result depends on an argument that is not among the inputs: of another function that is being traced");
  return {std::move(cut), arguments};
}

// The sizes of dims, one for each name in the order in which the names come.
std::vector<int64_t> sizes_of_names(const metac_open_dim* dims, int32_t count, const int64_t* given,
                                    std::vector<std::string>& names) {
  std::vector<int64_t> sizes;
  for (int32_t k = 0; k < count; ++k) {
    need(dims[k].name, "a dim's name");
    const auto known = std::find(names.begin(), names.end(), dims[k].name);
    if (given[k] < 1)
      refuse("the open dim ", quoted(std::string(dims[k].name)), " is ", given[k],
             " in the arguments; it must be 1 or more");
    if (known != names.end() && sizes[static_cast<size_t>(known - names.begin())] != given[k])
      refuse("the open dim ", quoted(std::string(dims[k].name)), " is ", sizes[static_cast<size_t>(known - names.begin())],
             " and ", given[k], " in the arguments");
    if (known == names.end()) names.emplace_back(dims[k].name), sizes.push_back(given[k]);
  }
  return sizes;
}

void add_output_names(Model& model, const char* const* names, int32_t count) {
  std::set<std::string> used;
  for (const metac::Value& input : model.graph.inputs) used.insert(input.name);
  for (const Initializer& initialiser : model.graph.initializers) used.insert(initialiser.name);
  for (int32_t k = 0; k < count; ++k) {
    const std::string name = names && names[k] && *names[k] ? names[k] : concat("output", k);
    if (!used.insert(name).second) refuse("the name ", quoted(name), " is given twice");
    metac::Value& output = model.graph.outputs[static_cast<size_t>(k)];
    Node node;
    node.op_type = "Identity";
    node.inputs = {output.name};
    node.outputs = {name};
    output.name = name;
    model.graph.nodes.push_back(std::move(node));
  }
  model.opset_imports.emplace("", 17);
}

void write_model(const Model& model, const std::string& path) {
  if (format_of_path(path) == ModelFormat::json)
    write_json_model(model, path);
  else
    write_onnx(model, path);
}

// `metac`: as the environment says, else beside the library that this function lies in.
std::string program() {
  if (const char* named = std::getenv("METAC_PROGRAM"); named && *named) return named;
  Dl_info own{};
  if (dladdr(reinterpret_cast<const void*>(&metac_traced_compile), &own) && own.dli_fname) {
    std::error_code error;
    const std::filesystem::path library = std::filesystem::canonical(own.dli_fname, error);
    for (std::filesystem::path folder = library.parent_path(); !error && folder.has_relative_path();
         folder = folder.parent_path())
      if (const auto here = folder / "bin" / "metac"; access(here.c_str(), X_OK) == 0) return here;
  }
  throw CallError(METAC_UNSUPPORTED,
                  "the program metac, which compiles models, is not beside libmetac: "
                  "METAC_PROGRAM names it");
}

// Runs the program; what it prints goes to a file, whose end is the message where it fails.
void run_program(const std::vector<std::string>& arguments, const std::string& printed) {
  std::vector<char*> words;
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, printed.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  const int problem = posix_spawn(&child, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (problem) throw CallError(METAC_UNSUPPORTED, concat(arguments[0], " cannot be started: ", std::strerror(problem)));
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) throw CallError(METAC_UNSUPPORTED, concat(arguments[0], ": ", std::strerror(errno)));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  std::string text(read_file(printed, 1 << 20).view());
  while (!text.empty() && text.back() == '\n') text.pop_back();
  throw CallError(METAC_MODEL, text.empty() ? concat(arguments[0], " failed") : text);
}

// A folder of its own for the model on its way to the program; gone at the end.
class Passage {
 public:
  Passage() {
    std::string pattern = std::filesystem::temp_directory_path() / "metac-trace-XXXXXX";
    if (!mkdtemp(pattern.data()))
      throw CallError(METAC_UNSUPPORTED, concat("no folder can be made in ", pattern, ": ", std::strerror(errno)));
    folder_ = pattern;
  }
  ~Passage() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  Passage(const Passage&) = delete;
  Passage& operator=(const Passage&) = delete;
  std::string file(const char* name) const { return folder_ / name; }

 private:
  std::filesystem::path folder_;
};

}  // namespace

metac_status metac_var_placeholder(const metac_tensor* type, metac_var** var, const metac_site* site) {
  return answered([&] {
    need(type, "type"), need(var, "var");
    if (type->dtype < METAC_FLOAT32 || type->dtype > METAC_BOOL || type->rank < 0 || (type->rank > 0 && !type->dims))
      refuse("type: dtype, rank or dims is wrong");
    const InGraph in_graph;
    LazyGraph& graph = *in_graph;
    const std::vector<int64_t> shape(type->dims, type->dims + type->rank);
    auto made = std::make_unique<metac_var>();
    made->value = graph.placeholder(lazy::tensor_type(static_cast<DType>(type->dtype), shape), site_of(site));
    *var = made.release();
  });
}

metac_status metac_traced_sizes(const metac_open_dim* dims, int32_t dim_count, const int64_t* given, int32_t call,
                                int64_t* sizes) {
  return answered([&] {
    need(dims, "dims"), need(given, "given"), need(sizes, "sizes");
    std::vector<std::string> names;
    const std::vector<int64_t> of_names = sizes_of_names(dims, dim_count, given, names);
    const std::vector<int64_t> tried =
        call < 0 ? std::vector<int64_t>() : lazy::sizes_to_try(of_names, static_cast<size_t>(call));
    if (tried.empty()) refuse("there is no call ", call);
    for (int32_t k = 0; k < dim_count; ++k)
      sizes[k] = tried[static_cast<size_t>(std::find(names.begin(), names.end(), dims[k].name) - names.begin())];
  });
}

metac_status metac_traced_make(metac_var* const* inputs, const char* const* input_names, int32_t input_count,
                               metac_var* const* outputs, const char* const* output_names, int32_t output_count,
                               metac_var* const* weights, const char* const* weight_names, int32_t weight_count,
                               metac_traced** model) {
  return metac_traced_make_open(nullptr, 0, 1, inputs, input_names, input_count, outputs, output_names, output_count,
                                weights, weight_names, weight_count, model);
}

metac_status metac_traced_make_open(const metac_open_dim* dims, int32_t dim_count, int32_t call_count,
                                    metac_var* const* inputs, const char* const* input_names, int32_t input_count,
                                    metac_var* const* outputs, const char* const* output_names, int32_t output_count,
                                    metac_var* const* weights, const char* const* weight_names, int32_t weight_count,
                                    metac_traced** model) {
  return answered([&] {
    need(model, "model");
    if (input_count < 0 || output_count < 1 || weight_count < 0) refuse("a count is negative, or there is no output");
    if (dim_count < 0 || call_count < 1 || (dim_count > 0) != (call_count > 1))
      refuse(dim_count, " open dims and ", call_count, " calls: several calls say what depends on open dims");
    if (dim_count > 0) need(dims, "dims");
    if (input_count > 0) need(inputs, "inputs");
    if (weight_count > 0) need(weights, "weights"), need(weight_names, "weight_names");
    need(outputs, "outputs");
    const InGraph in_graph;
    LazyGraph& graph = *in_graph;
    lazy::ModelNames names;
    names.weights = true;
    GivenNames given;
    for (int32_t k = 0; k < input_count; ++k) {
      need(inputs[k], "an input");
      given.add(names, inputs[k]->value, input_names ? input_names[k] : nullptr, concat("input", k));
    }
    for (int32_t k = 0; k < weight_count; ++k) {
      need(weights[k], "a weight"), need(weight_names[k], "a weight's name");
      if (names.of_values.count(weights[k]->value)) continue;  // one Var by two paths
      graph.evaluate(&weights[k]->value, 1, {});
      given.add(names, weights[k]->value, weight_names[k], "");
    }
    std::vector<lazy::TracedCall> calls;
    for (int32_t call = 0; call < call_count; ++call) {
      std::vector<lazy::Value*> arguments, results;
      for (int32_t k = 0; k < input_count; ++k) {
        metac_var* const input = inputs[call * input_count + k];
        need(input, "an input");
        if (input->value->state != lazy::ValueState::placeholder) refuse("inputs[", k, "] is no placeholder");
        arguments.push_back(input->value);
      }
      for (int32_t k = 0; k < output_count; ++k) {
        need(outputs[call * output_count + k], "an output");
        results.push_back(outputs[call * output_count + k]->value);
      }
      calls.push_back(called(arguments, results));
    }
    std::vector<lazy::OpenDim> open;
    for (int32_t k = 0; k < dim_count; ++k) {
      need(dims[k].name, "a dim's name");
      if (dims[k].input < 0 || dims[k].input >= input_count || dims[k].axis < 0 ||
          dims[k].axis >= inputs[dims[k].input]->value->type->rank())
        refuse("the open dim ", quoted(std::string(dims[k].name)), ": axis ", dims[k].axis, " of input ", dims[k].input,
               " is none");
      open.push_back({static_cast<size_t>(dims[k].input), dims[k].axis, dims[k].name});
    }
    if (dim_count > 0) lazy::open_dims(calls, open, names);
    auto made = std::make_unique<metac_traced>();
    made->model = lazy::model_of(calls[0].cut, names);
    use_common_opset(made->model);
    add_output_names(made->model, output_names, output_count);
    *model = made.release();
  });
}

void metac_traced_free(metac_traced* model) { delete model; }

metac_status metac_traced_save(const metac_traced* model, const char* path) {
  return answered([&] {
    need(model, "model"), need(path, "path");
    write_model(model->model, path);
  });
}

metac_status metac_traced_compile(const metac_traced* model, const char* folder, const char* const* arguments,
                                  int32_t argument_count) {
  return answered([&] {
    need(model, "model"), need(folder, "folder");
    if (argument_count < 0) refuse("argument_count is ", argument_count);
    if (argument_count > 0) need(arguments, "arguments");
    std::vector<std::string> words = {program(), "compile"};
    const Passage passage;
    // ONNX where all operators are of domains that ONNX files have.
    const bool own = model->model.opset_imports.count("metac") > 0;
    words.push_back(passage.file(own ? "model.json" : "model.onnx"));
    write_model(model->model, words.back());
    words.insert(words.end(), {"-o", folder});
    for (int32_t k = 0; k < argument_count; ++k) {
      need(arguments[k], "an argument");
      words.emplace_back(arguments[k]);
    }
    run_program(words, passage.file("printed"));
  });
}

metac_status metac_traced_session(const metac_traced* model, const metac_session_options* options, metac_session** session) {
  return answered([&] {
    need(model, "model"), need(session, "session");
    *session = opened_session(model->model, session_options(options), options);
  });
}

metac_status metac_var_weights(const char* path, metac_result** weights) {
  return answered([&] {
    need(path, "path"), need(weights, "weights");
    std::vector<std::pair<std::string, Tensor>> named;
    for (Initializer& each : read_model(path).graph.initializers)
      if (each.tensor.dtype != DType::string && !each.packed) named.emplace_back(each.name, std::move(each.tensor));
    *weights = new metac_result(std::move(named));
  });
}
