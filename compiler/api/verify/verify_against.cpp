#include <algorithm>
#include <filesystem>

#include "compiler/api/compiled_folder.h"
#include "compiler/api/npz.h"
#include "compiler/api/run_library.h"
#include "compiler/api/verify/verify.h"
#include "compiler/support/file_system.h"
#include "compiler/support/nearest_name.h"
#include "frontends/read_model.h"

namespace metac {
namespace {

using NamedTensors = std::map<std::string, Tensor>;

// What answers: a model by the JIT, a model as a library, a folder that was compiled before.
struct GivenAnswers {
  std::vector<std::string> inputs;                      // names of what the file may give
  std::vector<std::pair<std::string, Tensor>> outputs;  // for what it gives
  Tolerance tolerance;
  bool draws = false;  // random numbers
};

NamedTensors given(const NamedTensors& arrays, const std::vector<std::string>& names) {
  NamedTensors inputs;
  for (const std::string& name : names)
    if (auto found = arrays.find(name); found != arrays.end()) inputs[name] = found->second;
  return inputs;
}

GivenAnswers answers_of_model(const std::string& path, const NamedTensors& arrays, const VerifyOptions& options) {
  GivenAnswers answers;
  Model model = read_model(path);
  for (const Value& input : model.graph.inputs) answers.inputs.push_back(input.name);
  answers.tolerance = tolerance_for(model, options.tolerance);
  const NamedTensors inputs = given(arrays, answers.inputs);
  if (options.aot) {
    Library library(path, inputs, options.session, options.seconds, options.compiler);
    answers.draws = library.draws();
    answers.outputs = library.run(inputs);
  } else {
    Session session(std::move(model), options.session);
    std::vector<Tensor> ordered;
    answers.draws = metac::draws(session.program_for(inputs, &ordered).compiled());
    answers.outputs = session.run(inputs);
  }
  return answers;
}

GivenAnswers answers_of_folder(const std::string& path, const NamedTensors& arrays, const VerifyOptions& options) {
  GivenAnswers answers;
  answers.tolerance = options.tolerance;
  const CompiledFolder folder(path);
  for (const Value& input : folder.ports().graph.inputs) answers.inputs.push_back(input.name);
  const NamedTensors inputs = given(arrays, answers.inputs);
  for (const std::string& input : answers.inputs)
    if (!inputs.count(input)) fail("the model's input ", quoted(input), " is not in the file of known answers");
  answers.outputs = folder.run(inputs);
  return answers;
}

}  // namespace

CaseResult verify_against(const std::string& model, const std::string& npz, const VerifyOptions& options) {
  CaseResult result;
  result.path = model;
  result.status = CaseStatus::passed;
  const NamedTensors arrays = read_npz(read_file(npz).view(), npz);
  const bool folder = std::filesystem::is_directory(model);
  const GivenAnswers answers = folder ? answers_of_folder(model, arrays, options) : answers_of_model(model, arrays, options);
  std::vector<std::string> known = answers.inputs;
  for (const auto& [name, tensor] : answers.outputs) {
    known.push_back(name);
    auto stored = arrays.find(name);
    if (stored == arrays.end()) {
      result.notes.push_back(concat("output ", quoted(name), " is not in the file and was not compared"));
      continue;
    }
    Tensor expected = stored->second;
    if (tensor.dtype == DType::bf16 && expected.dtype == DType::u16)
      expected.dtype = DType::bf16;  // .npy has no name for it
    OutputResult row;
    row.name = name;
    row.type = concat(name_of(tensor.dtype), " ", to_string(tensor.shape));
    row.tolerance = answers.tolerance;
    if (answers.draws) {
      row.comparison = compare_distributions(tensor, expected);
    } else {
      row.comparison = compare(tensor, expected, row.tolerance);
      const double scaled = part_of_largest(tensor.dtype) * row.comparison.largest;
      if (options.scale_atol && scaled > row.tolerance.atol) {
        row.part = part_of_largest(tensor.dtype);
        row.tolerance.atol = scaled;
        row.comparison = compare(tensor, expected, row.tolerance);
      }
    }
    result.max_ulp = std::max(result.max_ulp, row.comparison.max_ulp);
    result.max_rel = std::max(result.max_rel, row.comparison.max_rel);
    if (!row.comparison.good) {
      if (result.status == CaseStatus::passed) result.detail = concat("output ", quoted(name), " ", row.comparison.detail);
      result.status = CaseStatus::failed;
    }
    result.outputs.push_back(std::move(row));
  }
  if (result.outputs.empty()) throw CompileError({npz, "", "holds no output of the model under its name"});
  for (const auto& [name, unused] : arrays)
    if (std::find(known.begin(), known.end(), name) == known.end())
      result.notes.push_back(concat(quoted(name), " of the file is no input or output", suggestion(name, known)));
  return result;
}

}  // namespace metac
