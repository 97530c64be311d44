#include "compiler/api/run_library.h"

#include <stdlib.h>

#include <filesystem>

#include "compiler/api/child_process.h"
#include "compiler/api/compile_library.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/file_system.h"
#include "frontends/json/npy.h"
#include "frontends/read_model.h"

namespace metac {
namespace {

std::string temporary_folder() {
  std::string pattern = (std::filesystem::temp_directory_path() / "metac-aot-XXXXXX").string();
  if (!mkdtemp(pattern.data())) fail("cannot make a temporary folder in ", std::filesystem::temp_directory_path().string());
  return pattern;
}

}  // namespace

Library::Library(const std::string& model_path, const std::map<std::string, Tensor>& inputs, const SessionOptions& options,
                 double seconds, const std::string& compiler)
    : folder_(temporary_folder()), guard_(std::make_unique<TemporaryGuard>(folder_)) {
  Model model = read_model(model_path);
  LibraryOptions library;
  library.compile = options.compile;
  if (options.least_known < Known::shapes) open_all_dims(model);
  const Known known = std::min(options.most_known, Known::shapes);
  library.lower = relying_on(options.lower, model, reliance_on(model, inputs, {known, false, {}}));
  library.name = "net";
  library.jobs = 1;  // many cases are verified at once
  library.seconds = seconds;
  library.compiler = compiler;
  draws_ = compile_library(model, folder_ + "/net", library).draws;
  for (const Value& input : model.graph.inputs)
    if (inputs.count(input.name)) input_names_.push_back(input.name);
  for (const Value& output : model.graph.outputs) {
    output_names_.push_back(output.name);
    output_dtypes_.push_back(output.type.dtype.value_or(DType::f32));
  }
}

Library::~Library() = default;

namespace {

// Answers of a program in a folder of its own: files in and out by number.
std::vector<Tensor> run_with_files(const std::string& program, const std::string& folder, const std::vector<Tensor>& inputs,
                                   const std::vector<DType>& outputs) {
  std::vector<std::string> argv = {program, "--threads", "2", "--numbered", "--output-dir", folder};
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::string file = concat(folder, "/input_", i, ".npy");
    write_file(file, to_npy_bytes(inputs[i]));
    argv.insert(argv.end(), {"--input", file});
  }
  ProcessResult result = run_process(argv);
  if (!result.good())
    fail("the compiled library failed (status ", result.status, ", signal ", result.signal, "): ", result.output);
  std::vector<Tensor> results;
  for (size_t i = 0; i < outputs.size(); ++i) {
    results.push_back(read_npy(concat(folder, "/output_", i, ".npy")));
    if (outputs[i] == DType::bf16 && results.back().dtype == DType::u16)
      results.back().dtype = DType::bf16;  // .npy has no name for it
  }
  return results;
}

}  // namespace

std::vector<Tensor> run_built_program(const std::string& folder, const std::string& name, const std::vector<Tensor>& inputs,
                                      const std::vector<DType>& outputs) {
  const std::string program = std::filesystem::absolute(folder).string() + "/bin/" + name + "_run";
  if (find_program(program).empty())
    throw CompileError({folder, "", "was not built (compiled with --no-build or --no-programs?); build it with cmake"});
  const std::string work = temporary_folder();
  const TemporaryGuard guard(work);
  return run_with_files(program, work, inputs, outputs);
}

std::vector<std::pair<std::string, Tensor>> Library::run(const std::map<std::string, Tensor>& inputs) {
  std::vector<Tensor> ordered;
  for (const std::string& name : input_names_) ordered.push_back(inputs.at(name));
  std::vector<Tensor> results = run_with_files(folder_ + "/net/bin/net_run", folder_, ordered, output_dtypes_);
  std::vector<std::pair<std::string, Tensor>> outputs;
  for (size_t i = 0; i < output_names_.size(); ++i) outputs.emplace_back(output_names_[i], std::move(results[i]));
  return outputs;
}

}  // namespace metac
