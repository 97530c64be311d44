#include "compiler/api/verify/verify.h"

#include <algorithm>
#include <filesystem>

#include "compiler/api/npz.h"
#include "compiler/api/run_library.h"
#include "compiler/api/verify/verify_gradient.h"
#include "compiler/ir/expr_table.h"
#include "compiler/ops/registry.h"
#include "compiler/support/file_system.h"
#include "frontends/onnx/onnx.h"
#include "frontends/read_model.h"

namespace metac {
namespace {

namespace fs = std::filesystem;

using NamedTensors = std::map<std::string, Tensor>;
using Outputs = std::vector<std::pair<std::string, Tensor>>;

// input_0.pb, input_1.pb, ... in order, until one is missing.
std::vector<Tensor> read_series(const std::string& folder, const char* prefix) {
  std::vector<Tensor> tensors;
  for (int i = 0;; ++i) {
    std::string path = concat(folder, "/", prefix, "_", i, ".pb");
    if (!fs::exists(path)) return tensors;
    tensors.push_back(read_tensor_proto(read_file(path).view(), path));
  }
}

std::vector<std::string> data_sets(const std::string& folder) {
  std::vector<std::string> sets;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.is_directory() && entry.path().filename().string().starts_with("test_data_set_")) sets.push_back(entry.path());
  std::sort(sets.begin(), sets.end());
  return sets;
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// What a case is about, for tables.
void describe_model(const Model& model, CaseResult& result) {
  result.op = model.graph.nodes.size() == 1 ? model.graph.nodes[0].op_type : "several";
  for (const std::vector<Value>* values : {&model.graph.inputs, &model.graph.outputs})
    for (const Value& value : *values)
      if (result.dtype.empty())
        result.dtype = value.type.containers.size() != 1 ? "several"
                       : value.type.dtype                ? std::string(name_of(*value.type.dtype))
                                                         : "other";
}

// Compares and adds to the result; false where it is decided.
bool add_comparison(CaseResult& result, const std::string& name, const Tensor& got, const Tensor& expected,
                    const Tolerance& tolerance, bool drawn) {
  Comparison comparison = drawn ? compare_distributions(got, expected) : compare(got, expected, tolerance);
  result.max_ulp = std::max(result.max_ulp, comparison.max_ulp);
  result.max_rel = std::max(result.max_rel, comparison.max_rel);
  if (comparison.good) return true;
  result.status = CaseStatus::failed;
  result.detail = concat("output ", quoted(name), " ", comparison.detail);
  return false;
}

// How a case's model answers: the JIT, or a library compiled for the shapes of each data set.
class Answerer {
 public:
  Answerer(const std::string& model_path, const VerifyOptions& options)
      : options_(options), path_(model_path), session_(read_model(model_path), options.session) {}

  const Model& model() const { return session_.model(); }

  // Compiles; what it throws is a refusal.
  void prepare(const NamedTensors& inputs) {
    if (options_.aot)
      library_ = std::make_unique<Library>(path_, inputs, options_.session, options_.seconds, options_.compiler);
    else
      program_ = &session_.program_for(inputs, &ordered_);
  }
  // Does what was prepared draw random numbers?
  bool draws() const { return options_.aot ? library_->draws() : metac::draws(program_->compiled()); }
  Outputs run(const NamedTensors& inputs) { return options_.aot ? library_->run(inputs) : session_.run(inputs); }

 private:
  const VerifyOptions& options_;
  std::string path_;
  Session session_;
  std::vector<Tensor> ordered_;
  JitProgram* program_ = nullptr;
  std::unique_ptr<Library> library_;
};

// Derivatives at the inputs of each data set; a model file, or a case without any, at random ones.
void verify_gradients(const std::string& path, const VerifyOptions& options, CaseResult& result) {
  const bool is_folder = fs::is_directory(path);
  const Model model =
      read_model(is_folder ? path + (fs::exists(path + "/model.onnx") ? "/model.onnx" : "/model.json") : path);
  std::vector<std::string> sets = is_folder ? data_sets(path) : std::vector<std::string>();
  if (sets.empty()) sets.push_back("");
  result.status = CaseStatus::skipped;
  for (const std::string& set : sets) {
    NamedTensors inputs;
    LowerOptions lower = options.session.lower;
    const ExprScope scope;
    std::unique_ptr<Graph> graph;
    try {
      require_compilable(model);
      const std::vector<Tensor> given = set.empty() ? std::vector<Tensor>() : read_series(set, "input");
      const std::vector<Value> names = free_inputs(model);
      for (size_t i = 0; i < given.size() && i < names.size(); ++i) {
        inputs[names[i].name] = given[i];
        lower.input_shapes[names[i].name] = given[i].shape;
        if (!is_float(given[i].dtype)) lower.input_values[names[i].name] = given[i];  // floats are what is varied
      }
      graph = lower_model(model, lower);
    } catch (const CompileError& error) {
      result.detail = error.what();
      return;
    }
    const GradientCheck check = verify_gradient(*graph, inputs, {.order = options.gradient_order});
    result.max_rel = std::max(result.max_rel, check.max_error);
    result.detail = check.detail;
    if (check.checked > 0) result.status = check.passed ? CaseStatus::passed : CaseStatus::failed;
    if (!check.passed) return;
  }
}

void verify_data_set(Answerer& answerer, const std::string& folder, const VerifyOptions& options, CaseResult& result) {
  std::vector<Tensor> given, expected;
  NamedTensors inputs;
  try {
    given = read_series(folder, "input");
    expected = read_series(folder, "output");
    const std::vector<Value>& all = answerer.model().graph.inputs;
    std::vector<Value> free = free_inputs(answerer.model());
    const std::vector<Value>& names = given.size() > free.size() ? all : free;  // older cases give initialised inputs too
    if (given.size() > names.size()) fail("holds ", given.size(), " inputs, the model has ", names.size());
    for (size_t i = 0; i < given.size(); ++i) inputs[names[i].name] = given[i];
    answerer.prepare(inputs);
  } catch (const CompileError& error) {
    result.status = CaseStatus::skipped;
    result.detail = error.what();
    return;
  }
  Outputs outputs = answerer.run(inputs);
  if (outputs.size() < expected.size()) fail(expected.size(), " outputs expected, ", outputs.size(), " given");
  for (size_t i = 0; i < expected.size(); ++i)
    if (!add_comparison(result, outputs[i].first, outputs[i].second, expected[i],
                        tolerance_for(answerer.model(), options.tolerance), answerer.draws()))
      return;
}

}  // namespace

Tolerance tolerance_for(const Model& model, Tolerance tolerance) {
  for (const Node& node : model.graph.nodes)
    if (const OpSchema* schema = find_operator(node.domain, node.op_type))
      tolerance.atol = std::max(tolerance.atol, schema->atol);
  return tolerance;
}

std::string_view name_of(CaseStatus status) {
  return status == CaseStatus::passed ? "passed" : status == CaseStatus::failed ? "failed" : "skipped";
}

bool is_case(const std::string& folder) {
  return fs::is_regular_file(folder + "/model.onnx") || fs::is_regular_file(folder + "/model.json");
}

std::vector<std::string> find_cases(const std::string& root) {
  std::vector<std::string> cases;
  if (!fs::is_directory(root)) fail(quoted(root), " is not a folder");
  if (is_case(root)) cases.push_back(root);
  fs::recursive_directory_iterator it(root, fs::directory_options::skip_permission_denied), end;
  for (; it != end; ++it) {
    if (!it->is_directory() || it->is_symlink()) continue;
    if (it->path().filename().string().starts_with("test_data_set_"))
      it.disable_recursion_pending();
    else if (is_case(it->path()))
      cases.push_back(it->path());
  }
  std::sort(cases.begin(), cases.end());
  return cases;
}

CaseResult verify_case(const std::string& folder, const VerifyOptions& options) {
  CaseResult result;
  result.path = folder;
  result.status = CaseStatus::passed;
  try {
    if (options.gradient_order > 0) {
      verify_gradients(folder, options, result);
      result.detail = one_line(result.detail);
      return result;
    }
    std::string model = folder + (fs::exists(folder + "/model.onnx") ? "/model.onnx" : "/model.json");
    std::unique_ptr<Answerer> answerer;
    try {
      describe_model(read_model(model), result);
      answerer = std::make_unique<Answerer>(model, options);
    } catch (const CompileError& error) {
      result.status = CaseStatus::skipped;
      result.detail = one_line(error.what());
      return result;
    }
    std::vector<std::string> sets = data_sets(folder);
    if (sets.empty()) fail(quoted(folder), " has no test_data_set_* folder");
    for (const std::string& set : sets) {
      verify_data_set(*answerer, set, options, result);
      if (result.status != CaseStatus::passed) break;
    }
  } catch (const std::exception& error) {
    result.status = CaseStatus::failed;
    result.detail = error.what();
  }
  result.detail = one_line(result.detail);
  return result;
}

}  // namespace metac
