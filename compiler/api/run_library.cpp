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
  library.lower = relying_on(options.lower, model, inputs, std::min(options.most_known, Known::shapes));
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

std::vector<std::pair<std::string, Tensor>> Library::run(const std::map<std::string, Tensor>& inputs) {
  std::vector<std::string> argv = {folder_ + "/net/bin/net_run", "--threads", "2", "--numbered", "--output-dir", folder_};
  for (size_t i = 0; i < input_names_.size(); ++i) {
    std::string file = concat(folder_, "/input_", i, ".npy");
    write_file(file, to_npy_bytes(inputs.at(input_names_[i])));
    argv.insert(argv.end(), {"--input", file});
  }
  ProcessResult result = run_process(argv);
  if (!result.good())
    fail("the compiled library failed (status ", result.status, ", signal ", result.signal, "): ", result.output);
  std::vector<std::pair<std::string, Tensor>> outputs;
  for (size_t i = 0; i < output_names_.size(); ++i) {
    Tensor tensor = read_npy(concat(folder_, "/output_", i, ".npy"));
    if (output_dtypes_[i] == DType::bf16 && tensor.dtype == DType::u16)
      tensor.dtype = DType::bf16;  // .npy has no name for it
    outputs.emplace_back(output_names_[i], std::move(tensor));
  }
  return outputs;
}

}  // namespace metac
