// run_on_shim [--external] [--open | --open-images | --grad ORDER] [--sample N --seed S] [--keep DIR] DIR...
// Runs ONNX-style case folders through the CUDA target on the stand-in toolkit of tests/cuda/toolkit: kernels are lowered
// and printed for a GPU, compiled as C++, and a program's steps are walked by the executor of CUDA libraries. Every case
// runs with threads, blocks and recorded steps in three orders; the bits must agree (races), and the numbers must be the
// expected ones: those of the case, the reference evaluator's where it has none, or (--grad) the evaluator's for the
// derivatives of the sum of the outputs, each weighted, by all inputs and parameters. --open leaves every dim open,
// --open-images all but the second one of inputs that have it, as models of images are declared.
// --external asks the vendor's libraries first, --tf32 with float32 rounded. --keep leaves the sources in DIR and names what
// is skipped. METAC_SHIM_BUILDS=DIR: what is compiled is kept there, and not compiled again. METAC_SHIM_NVCC: another copy
// of the stand-in's compiler. Ends with 'N passed, N failed, N skipped'; skipped is what the compiler refuses. Exit status
// 3 on a failure.
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <random>

#include "compiler/api/verify/compare.h"
#include "compiler/autodiff/gradient.h"
#include "compiler/ir/builders.h"
#include "compiler/jit/jit_program.h"
#include "compiler/jit/program_tables.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/ops/lower_model.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/program/compile.h"
#include "compiler/session/session.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/file_system.h"
#include "compiler/support/hashing.h"
#include "compiler/target/target.h"
#include "frontends/onnx/onnx.h"
#include "runtime/executor/executor.h"
#include "runtime/routines.h"

namespace metac_runtime {
struct ShimRun {  // of shim_entry.h
  const Program* program;
  const void* weights;
  const RoutineEntry* routines;
  int32_t routine_count;
  const InputView* inputs;
  int32_t passes;
  void (*take)(void* user, int32_t output, const void* data, int32_t rank, const int64_t* dims);
  void* user;
  Status status;
  char message[512];
};
}  // namespace metac_runtime

namespace fs = std::filesystem;
using namespace metac;

namespace {

struct Options {
  bool open = false, open_images = false, external = false, tf32 = false;
  int order = 0;
  std::string keep;
};

struct Case {
  fs::path folder;
  std::string refused;  // why it is skipped
  CompiledModel compiled;
  WeightsBlock weights;
  std::vector<Tensor> inputs, expected;
  Tolerance tolerance;
  bool evaluated = false;  // by the reference evaluator: the expected outputs
};

std::vector<Tensor> read_series(const fs::path& folder, const std::string& prefix) {
  std::vector<Tensor> out;
  for (int k = 0;; ++k) {
    const fs::path path = folder / (prefix + std::to_string(k) + ".pb");
    if (!fs::exists(path)) return out;
    out.push_back(read_tensor_proto(read_file(path.string()).view(), path.string()));
  }
}

// ---- derivatives ----
Var* weighted_sum(Graph& graph) {
  Var* sum = nullptr;
  for (Var* y : graph.outputs) {
    if (!is_float(y->dtype())) continue;
    Expr position = cast(linear_index(y->shape(), identity_indices(y->rank())) + Expr(1), y->dtype());
    std::vector<int> axes;
    for (int k = 0; k < y->rank(); ++k) axes.push_back(k);
    Var* term =
        reduce(graph, map(graph, Fn::mul, y, fill(graph, y->shape(), call(Fn::sin, {position}))), axes, Reduce::add, false);
    sum = sum ? map(graph, Fn::add, sum, term) : term;
  }
  return sum;
}

// The graph's outputs become the derivatives of that sum; parameters become inputs. False: there is nothing to derive by.
bool differentiate(Graph& graph, std::vector<Tensor>& inputs, int order) {
  for (const auto& var : graph.vars()) {
    if (!var->is_parameter || !var->constant || !is_float(var->dtype())) continue;
    inputs.push_back(*var->constant);
    var->constant.reset();
    var->forget_elements();
    var->is_input = true;
    graph.inputs.push_back(var.get());
  }
  std::vector<Var*> wrt;
  for (Var* v : graph.inputs)
    if (is_float(v->dtype())) wrt.push_back(v);
  for (int k = 0; k < order; ++k) {
    Var* sum = weighted_sum(graph);
    if (!sum || wrt.empty()) return false;
    graph.outputs = gradient(graph, sum, wrt);
  }
  graph.output_names.clear();
  for (size_t k = 0; k < graph.outputs.size(); ++k) graph.output_names.push_back("d" + std::to_string(k));
  return true;
}

// ---- compiling ----
bool stays(const Options& options, size_t axis, size_t rank) { return options.open_images && axis == 1 && rank > 2; }

void leave_open(Model& model, const Options& options) {
  for (Value& input : model.graph.inputs)
    if (input.type.shape)
      for (size_t k = 0; k < input.type.shape->size(); ++k)
        if (!stays(options, k, input.type.shape->size())) (*input.type.shape)[k] = ModelDim{};
  for (Value& output : model.graph.outputs) output.type.shape.reset();
  model.graph.value_info.clear();
}

void compile(Case& c, const Options& options) {
  Model model = read_onnx((c.folder / "model.onnx").string());
  if (options.open) leave_open(model, options);
  if (auto missing = check_model(model); !missing.empty()) fail(missing[0].message);
  const fs::path set = c.folder / "test_data_set_0";
  std::vector<Tensor> given = read_series(set, "input_");
  if (options.order == 0) c.expected = read_series(set, "output_");
  std::map<std::string, Tensor> by_name;
  LowerOptions lower;
  size_t next = 0;
  for (const Value& v : model.graph.inputs) {
    const auto& list = model.graph.initializers;
    if (next >= given.size() ||
        std::any_of(list.begin(), list.end(), [&](const Initializer& i) { return i.name == v.name; }))
      continue;
    by_name[v.name] = given[next];
    std::vector<int64_t>& shape = lower.input_shapes[v.name] = given[next].shape;
    for (size_t k = 0; options.open && k < shape.size(); ++k)
      if (!stays(options, k, shape.size())) shape[k] = -1;
    ++next;
  }
  if (fs::exists(c.folder / "data.json")) {
    const auto json = nlohmann::json::parse(read_file((c.folder / "data.json").string()).view());
    c.tolerance.rtol = json.value("rtol", c.tolerance.rtol);
    c.tolerance.atol = json.value("atol", c.tolerance.atol);
  }
  std::unique_ptr<Graph> graph;
  auto attempt = [&] {
    graph = lower_model(model, lower);
    c.inputs.clear();
    for (const Var* in : graph->inputs) c.inputs.push_back(by_name.at(in->name));
    if (options.order > 0) {
      if (!differentiate(*graph, c.inputs, options.order)) fail("nothing to derive by");
    }
    if (options.order > 0 || c.expected.empty() || c.evaluated) {
      c.expected = evaluate(*graph, c.inputs, {int64_t{400} << 20});
      c.evaluated = true;
    }
    CompileOptions compile;
    compile.cpu = cpu_target("native");
    compile.target = &target_named("cuda");
    compile.external = {options.external, options.external, options.tf32};
    c.compiled = compile_graph(*graph, compile);
    double work = 0;
    for (const Work& step : c.compiled.run.work)
      work += bool(step.operations) && step.operations.if_int() ? static_cast<double>(step.operations.as_int()) : 0;
    if (work > 1e8) fail("too large for the stand-in");
    if (options.order > 0 && draws(c.compiled.run))
      fail("a derivative by what scales random numbers is itself one random number");
  };
  try {
    attempt();
  } catch (const CompileError&) {  // axes and shapes as inputs: their values decide ranks
    for (auto& [name, tensor] : by_name)
      if (tensor.element_count() <= 64 && !is_float(tensor.dtype))
        lower.input_values[name] = tensor, lower.input_shapes[name] = tensor.shape;
    attempt();
  }
  JitOptions jit;
  jit.threads = 1;
  c.weights = run_prepare(c.compiled, cpu_target("native"), jit);
}

// One source with the kernels of all cases, each in a namespace of its own.
std::string source_of(const std::vector<Case>& cases) {
  std::string text = "#include \"runtime/cuda/prelude.h\"\n#include \"runtime/program.h\"\n";
  for (size_t k = 0; k < cases.size(); ++k) {
    text += concat("namespace metac_runtime {\nnamespace case", k, " {\n");
    for (const KernelSource& kernel : cases[k].compiled.run.kernels) {
      std::string body = kernel.text;
      const std::string external = "extern \"C\" ";
      for (size_t at; (at = body.find(external)) != std::string::npos;) body.erase(at, external.size());
      text += body;
    }
    text += concat("}\n}\nextern \"C\" __attribute__((visibility(\"default\"))) const metac_runtime::KernelFunction case", k,
                   "_kernels[] = {");
    std::string names;
    for (const KernelSource& kernel : cases[k].compiled.run.kernels)
      names += concat("&metac_runtime::case", k, "::", kernel.name, ", ");
    text += names + "nullptr};\n";
  }
  return text;
}

// What the kernels of all batches are linked with: the executor, and the vendor's libraries where they are asked.
std::string entry_source(const Options& options) {
  std::string text =
      options.external ? "#include \"runtime/cuda/cublas.h\"\n#include \"runtime/cuda/cudnn_convolution.h\"\n" : "";
  text += "#include \"runtime/cuda/prelude.h\"\n#include \"tests/cuda/shim_entry.h\"\n";
  return text +
         "extern \"C\" __attribute__((visibility(\"default\"))) bool (*const run_entry)(metac_runtime::ShimRun*) = "
         "&shim_run;\n";
}

bool nvcc(const std::string& options) {
  const std::string root = METAC_SOURCE_DIR;
  const char* const given = std::getenv("METAC_SHIM_NVCC");
  const std::string compiler = given != nullptr ? given : root + "/tests/cuda/toolkit/bin/nvcc";
  return std::system(
             concat("'", compiler, "' -std=c++17 -O3 -I'", root, "' -I'", root, "/runtime' ", options, " 2>&1").c_str()) ==
         0;
}

// The object file or library (`kind`) of a source, made unless it is there. Others may make it at the same time. Empty: it
// does not compile.
std::string built(const std::string& source, const std::string& folder, const std::string& kind, const std::string& more) {
  const char* const kept = std::getenv("METAC_SHIM_BUILDS");
  Sha256 key;
  key.update_part(source).update_part(more);
  const std::string stem = concat(kept != nullptr ? kept : folder, "/", key.hex()), own = concat(stem, "_", getpid(), "."),
                    made = stem + "." + kind;
  if (fs::exists(made)) return made;
  fs::create_directories(fs::path(stem).parent_path());
  write_file(own + "cu", source);
  const bool good = nvcc(concat(kind == "o" ? "-c '" : "-shared '", own, "cu' ",
                                more.empty() ? "" : concat("-x none '", more, "'"), " -o '", own, kind, "'"));
  fs::remove(own + "cu");
  if (!good) return "";
  fs::rename(own + kind, made);
  return made;
}

// ---- running ----
struct Collected {
  const CompiledProgram* program;
  std::vector<Tensor> outputs;
};

void take(void* user, int32_t output, const void* data, int32_t rank, const int64_t* dims) {
  Collected& c = *static_cast<Collected*>(user);
  std::byte* bytes = nullptr;
  Tensor tensor =
      make_tensor(c.program->outputs[static_cast<size_t>(output)].dtype, std::vector<int64_t>(dims, dims + rank), &bytes);
  if (tensor.byte_count() > 0) std::memcpy(bytes, data, tensor.byte_count());
  c.outputs.push_back(std::move(tensor));
}

double largest(const Tensor& tensor) {
  double size = 0;
  for (int64_t i = 0; i < tensor.element_count(); ++i)
    if (double v = std::fabs(number_at(tensor, static_cast<size_t>(i))); std::isfinite(v)) size = std::max(size, v);
  return size;
}

// Empty: good.
std::string run(const Case& c, void* library, size_t index, const Options& options) {
  auto entry = *static_cast<bool (*const*)(rt::ShimRun*)>(dlsym(library, "run_entry"));
  auto table = static_cast<const rt::KernelFunction*>(dlsym(library, concat("case", index, "_kernels").c_str()));
  std::vector<rt::KernelFunction> kernels(table, table + c.compiled.run.kernels.size());
  ProgramTables tables(c.compiled.run, kernels, c.compiled.run.buffers);
  rt::ShimRun r{};
  r.program = &tables.program();
  r.weights = c.weights.get();
  r.routines = rt::all_routines(&r.routine_count);
  static const std::byte none[64] = {};
  std::vector<rt::InputView> views;
  for (const Tensor& t : c.inputs)
    views.push_back({t.bytes ? t.bytes.get() : none, t.shape.data(), static_cast<int32_t>(t.shape.size())});
  r.inputs = views.data();
  r.take = &take;
  std::vector<Tensor> first;
  for (const char* order : {"forward", "reverse", "12345"}) {
    setenv("METAC_SHIM_ORDER", order, 1);
    Collected collected{&c.compiled.run, {}};
    r.user = &collected;
    // The second run finds the memory of the first, which has nothing to do with orders, and its steps are a recorded graph,
    // whose order is one of several only if there are several.
    r.passes = first.empty() || options.external || c.compiled.run.kernels.size() > 1 ? 2 : 1;
    if (!entry(&r)) {
      bool refused =
          r.status == rt::Status::requirement || r.status == rt::Status::invalid_argument;  // by the values of its inputs
      return concat(refused ? "refused: " : "", r.message);
    }
    if (first.empty()) first = collected.outputs;
    for (size_t k = 0; k < first.size(); ++k)
      if (first[k].shape != collected.outputs[k].shape ||
          (first[k].byte_count() &&
           std::memcmp(first[k].bytes.get(), collected.outputs[k].bytes.get(), first[k].byte_count()) != 0))
        return concat("output ", k, ": other bits when threads run in the order ", order);
  }
  if (first.size() < c.expected.size()) return concat(first.size(), " outputs, expected ", c.expected.size());
  for (size_t k = 0; k < c.expected.size(); ++k) {
    // Sums in another order may fall on the other side of each rounding on the way; what cancels is as exact as its terms.
    Tolerance tolerance = c.tolerance;
    const bool half = c.expected[k].dtype == DType::f16 || c.expected[k].dtype == DType::bf16;
    if (half) tolerance.rtol = std::max(tolerance.rtol, 2e-3);
    const double size = largest(c.expected[k]);
    tolerance.atol = c.evaluated ? size * (half ? 2e-2 : options.tf32 ? 2e-3 : 1e-4) : std::max(tolerance.atol, size * 1e-6);
    Comparison comparison =
        draws(c.compiled.run) ? compare_distributions(first[k], c.expected[k]) : compare(first[k], c.expected[k], tolerance);
    if (!comparison.good) return concat("output ", k, " ", comparison.detail);
  }
  return "";
}

// In a process of its own: a case may crash.
std::string run_apart(const Case& c, void* library, size_t index, const Options& options) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  std::cout.flush();
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    alarm(300);
    std::string text = "done " + run(c, library, index, options);
    if (write(ends[1], text.data(), text.size()) < 0) _exit(1);
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (text.rfind("done ", 0) != 0) return concat("ended by signal ", WIFSIGNALED(status) ? WTERMSIG(status) : 0);
  return text.substr(5);
}

int counts[3] = {};

void run_batch(std::vector<Case>& cases, const Options& options, int number) {
  std::string folder = options.keep.empty() ? (fs::temp_directory_path() / "metac-shim-XXXXXX").string() : options.keep;
  if (options.keep.empty() && !mkdtemp(folder.data())) fail("no temporary folder");
  fs::create_directories(folder);
  const std::string source = concat(folder, "/batch_", number, ".cu");
  write_file(source, source_of(cases));
  const std::string entry = built(entry_source(options), folder, "o", ""),
                    object = entry.empty() ? "" : built(source_of(cases), folder, "so", entry);
  void* library = object.empty() ? nullptr : dlopen(object.c_str(), RTLD_NOW | RTLD_LOCAL);
  for (size_t k = 0; k < cases.size(); ++k) {
    std::string wrong = library ? run_apart(cases[k], library, k, options) : "its batch did not compile: " + source;
    bool refused = wrong.rfind("refused: ", 0) == 0;
    ++counts[wrong.empty() ? 0 : refused ? 2 : 1];
    if (!wrong.empty() && (!refused || !options.keep.empty()))
      std::cout << (refused ? "SKIP " : "FAIL ") << cases[k].folder.filename().string() << ": " << wrong << std::endl;
  }
  if (library) dlclose(library);
  if (options.keep.empty()) fs::remove_all(folder);
  cases.clear();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  size_t sample = 0;
  unsigned seed = 1;
  std::vector<fs::path> folders;
  for (int k = 1; k < argc; ++k) {
    const std::string word = argv[k];
    auto next = [&] { return k + 1 < argc ? argv[++k] : ""; };
    if (word == "--open" || word == "--open-images")
      options.open = true, options.open_images |= word == "--open-images";
    else if (word == "--external")
      options.external = true;
    else if (word == "--tf32")
      options.tf32 = true;
    else if (word == "--grad")
      options.order = std::atoi(next());
    else if (word == "--sample")
      sample = static_cast<size_t>(std::atoi(next()));
    else if (word == "--seed")
      seed = static_cast<unsigned>(std::atoi(next()));
    else if (word == "--keep")
      options.keep = next();
    else if (fs::exists(fs::path(word) / "model.onnx"))
      folders.push_back(word);
    else if (fs::is_directory(word)) {
      for (const auto& entry : fs::recursive_directory_iterator(word))
        if (entry.path().filename() == "model.onnx") folders.push_back(entry.path().parent_path());
    } else {
      std::cerr << "not a folder: " << word << "\n";
      return 2;
    }
  }
  std::sort(folders.begin(), folders.end());
  if (sample > 0 && sample < folders.size()) {
    std::mt19937 random(seed);
    std::shuffle(folders.begin(), folders.end(), random);
    folders.resize(sample);
    std::sort(folders.begin(), folders.end());
  }
  std::vector<Case> batch;
  int number = 0;
  for (const fs::path& folder : folders) {
    Case c;
    c.folder = folder;
    try {
      compile(c, options);
      batch.push_back(std::move(c));
    } catch (const CompileError& error) {
      ++counts[2];
      if (!options.keep.empty())
        std::cout << "SKIP " << folder.filename().string() << ": " << error.diagnostic.message.substr(0, 200) << "\n";
    }
    if (batch.size() == 60) run_batch(batch, options, number++);
  }
  if (!batch.empty()) run_batch(batch, options, number);
  std::cout << counts[0] << " passed, " << counts[1] << " failed, " << counts[2] << " skipped\n";
  return counts[1] ? 3 : 0;
}
