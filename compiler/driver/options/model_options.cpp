#include "compiler/driver/options/model_options.h"

#include <algorithm>
#include <cstdio>

#include "compiler/driver/command.h"
#include "compiler/driver/options/quantities.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/node_patterns.h"
#include "compiler/target/precision.h"
#include "compiler/target/target.h"
#include "frontends/cpp/cpp_operators.h"
#include "frontends/given_operators.h"

namespace metac {

LowerOptions ModelOptions::lower() const { return lower(nullptr); }

LowerOptions ModelOptions::lower(DimLists* lists) const {
  LowerOptions result;
  result.allow_code = allow_code;
  result.input_shapes = parse_shapes(shapes);
  result.dims = parse_dims(dims, lists);
  if (!max_tensor_bytes.empty()) result.max_tensor_bytes = parse_bytes("--max-tensor-bytes", max_tensor_bytes);
  return result;
}

std::vector<CpuTarget> ModelOptions::cpus() const {
  std::vector<CpuTarget> targets;
  for (size_t at = 0; at <= cpu.size();) {
    const size_t end = std::min(cpu.find(',', at), cpu.size());
    try {
      targets.push_back(cpu_target(cpu.substr(at, end - at)));
    } catch (const CompileError& error) {
      throw UsageError(error.what());
    }
    for (size_t k = 0; k + 1 < targets.size(); ++k)
      if (targets[k].name == targets.back().name)
        throw UsageError("--cpu " + cpu + ": " + targets.back().name + " is asked for twice");
    at = end + 1;
  }
  return targets;
}

CompileOptions ModelOptions::compile() const {
  const std::vector<CpuTarget> targets = cpus();
  if (targets.size() > 1) throw UsageError("--cpu " + cpu + ": several are for `metac compile`; give one");
  return compile_for(targets[0]);
}

CompileOptions ModelOptions::compile_for(const CpuTarget& target) const {
  CompileOptions result;
  result.cpu = target;
  result.precision = *precision_named(precision);
  if (result.precision == DType::f32 && !keep.empty()) throw UsageError("--keep is for --precision");
  NodePatterns{keep};  // throws for what is none
  result.keep = keep;
  result.fusion = fusion == "paper" ? Fusion::paper : fusion == "greedy" ? Fusion::greedy : Fusion::best;
  result.winograd = winograd;
  DimLists unused;
  result.max_tensor_bytes = lower(&unused).max_tensor_bytes;
  return result;
}

SessionOptions ModelOptions::session() const {
  SessionOptions result{compile(), lower(), threads};
  if (!runs_here(result.compile.cpu)) fail("this machine cannot run code for ", result.compile.cpu.name);
  return result;
}

void ModelOptions::check_precision(bool trains, const Target& target) const {
  if (precision == "float32") return;
  if (trains && precision == "int8")
    throw UsageError("--precision int8 is not for --train: derivatives need more than bytes");
  if (&target != targets()[0])
    throw UsageError(concat("--precision is not for --target ", target.name(), ": see metac quantize"));
}

void ModelOptions::note_kept(const Model& model) const {
  std::vector<std::pair<std::string, std::string>> nodes;
  for (const Node& node : model.graph.nodes) nodes.emplace_back(node.name, node.op_type);
  for (const std::string& pattern : NodePatterns(keep).unused(nodes))
    std::fprintf(stderr, "metac: warning: --keep %s names no node\n", shown(pattern).c_str());
}

void add_model_argument(CLI::App& command, ModelOptions& options, const char* help) {
  command.add_option("model", options.model, help)->required()->type_name("MODEL");
}

void add_shape_options(CLI::App& command, ModelOptions& options) {
  command
      .add_option("--shape", options.shapes,
                  "an input's shape: NAME=1x3x224x224; '?' opens a dim, also one that the model fixes (which --dim NAME_AXIS=N "
                  "may give another size)")
      ->take_all()
      ->type_name("NAME=SHAPE");
  command
      .add_option("--dim", options.dims,
                  "an open dim by its name (INPUT_AXIS where it has none): NAME=8 fixes it, NAME=1..64 or NAME=8..64@8 is its "
                  "range (and divisor); compile: NAME=1,8,32 makes fast code for each of these and some for all others")
      ->take_all()
      ->type_name("NAME=VALUES");
}

void add_compile_options(CLI::App& command, ModelOptions& options) {
  command
      .add_option("--cpu", options.cpu,
                  "the processor: native, x86-64, x86-64-v2, x86-64-v3, x86-64-v4, x86-64-v4+vnni, x86-64-v4+bf16, "
                  "x86-64-v4+amx; compile takes a list, of which the library runs the best that it can, or portable: x86-64-v4, "
                  "v3, v2, with +vnni, +bf16 and +amx where the model has use for it (native with --train, --tune, --emit, "
                  "--target)")
      ->capture_default_str();
  command
      .add_option(
          "--fusion", options.fusion,
          "what becomes one kernel: the Jittor paper's labelling (paper) or greedy algorithm, or best, which goes beyond")
      ->check(CLI::IsMember({"paper", "greedy", "best"}))
      ->capture_default_str();
  command
      .add_option(
          "--winograd", options.winograd,
          "the largest M of minimal filtering F(MxM, 3x3) for convolutions: fewer products, larger rounding errors; 0: none")
      ->check(CLI::IsMember({0, 2, 4, 6}))
      ->capture_default_str();
  command.add_option("--max-tensor-bytes", options.max_tensor_bytes, "refuse models with a larger tensor (default 64G)")
      ->type_name("BYTES");
  command.add_flag("--allow-code", options.allow_code,
                   "compile and run the C++ that a JSON document holds (operator code): for documents that you trust");
}

void add_precision_options(CLI::App& command, ModelOptions& options) {
  command
      .add_option(
          "--precision", options.precision,
          "bfloat16: matrix products and convolutions may round what they read to bfloat16 where the processor "
          "multiplies that faster, sums stay float32; auto: so on such a processor; int8: products with weights of 2, "
          "4 or 8 bits may round their data to int8 (such weights, float16: metac quantize)")
      ->check(CLI::IsMember(precision_names()))
      ->capture_default_str();
  command
      .add_option(
          "--keep", options.keep,
          "with --precision: nodes whose name or operator matches this regular expression read float32 none the less")
      ->expected(1)
      ->take_all()
      ->type_name("PATTERN");
}

void add_target_option(CLI::App& command, std::string& target, const std::string& help) {
  std::vector<std::string> names;
  for (const Target* each : targets()) names.emplace_back(each->name());
  target = names[0];
  command.add_option("--target", target, help)->check(CLI::IsMember(names))->capture_default_str();
}

void add_input_option(CLI::App& command, std::vector<std::string>& inputs) {
  command
      .add_option(
          "--input", inputs,
          "an input: NAME=file.npy, NAME=file.pb, NAME=file.npz or NAME=random; random alone: all that are not given")
      ->take_all()
      ->type_name("NAME=FILE");
}

void add_ops_option(CLI::App& command, ModelOptions& options) {
  command.add_option("--ops", options.ops, "C++ functions that are operators of the model (docs/defining_operators.md)")
      ->each([](const std::string& file) { give_operators(read_cpp_operators(file)); })
      ->expected(1)
      ->take_all()
      ->type_name("FILE.cpp");
}

void add_threads_option(CLI::App& command, ModelOptions& options) {
  command.add_option("--threads", options.threads, "threads of a run; 0: one per CPU")
      ->check(CLI::Range(0, 256))
      ->capture_default_str();
}

}  // namespace metac
