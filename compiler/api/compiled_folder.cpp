#include "compiler/api/compiled_folder.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "compiler/api/run_library.h"
#include "compiler/codegen/manifest.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/file_system.h"

namespace metac {
namespace {

ModelDim dim_of(const std::string& text) {
  ModelDim dim;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), dim.value);
  if (error == std::errc() && end == text.data() + text.size()) return dim;
  return {-1, text};
}

std::vector<Value> values_of(const nlohmann::json& ports) {
  std::vector<Value> values;
  for (const auto& port : ports) {
    Value value;
    value.name = port.at("name");
    value.type.dtype = dtype_from_name(port.at("dtype").get<std::string>());
    value.type.shape.emplace();
    for (const auto& dim : port.at("dims")) value.type.shape->push_back(dim_of(dim.get<std::string>()));
    values.push_back(std::move(value));
  }
  return values;
}

}  // namespace

nlohmann::json read_manifest(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/" + name + ".json";
  nlohmann::json manifest = nlohmann::json::parse(read_file(path, 256 << 20).view(), nullptr, false);
  const int64_t format = manifest.is_object() && manifest.contains("format") && manifest["format"].is_number_integer()
                             ? manifest["format"].get<int64_t>()
                             : 1;
  if (format > manifest_format)
    throw CompileError(
        {path, "", concat("has the format ", format, ", of a later metac; this one reads up to ", manifest_format)});
  return manifest;
}

std::string name_in_manifest(const std::string& folder) {
  RealFiles files;
  for (const std::string& file : files.list(folder)) {
    if (!file.ends_with(".json") || file.ends_with(".tune.json")) continue;
    const std::string name = file.substr(0, file.size() - 5);
    const nlohmann::json manifest = read_manifest(folder, name);
    if (manifest.is_object() && manifest.contains("metac")) return name;
  }
  throw CompileError({folder, "", "is no folder that `metac compile` wrote: it has no manifest"});
}

CompiledFolder::CompiledFolder(const std::string& folder) : folder_(folder), name_(name_in_manifest(folder)) {
  ports_.path = folder;
  try {
    const nlohmann::json manifest = read_manifest(folder, name_);
    ports_.graph.inputs = values_of(manifest.at("inputs"));
    ports_.graph.outputs = values_of(manifest.at("outputs"));
  } catch (const nlohmann::json::exception& error) {
    throw CompileError({folder, "", concat("has a manifest that this metac does not know: ", error.what())});
  }
}

std::vector<std::pair<std::string, Tensor>> CompiledFolder::run(const std::map<std::string, Tensor>& inputs) const {
  std::vector<Tensor> ordered;
  for (const Value& input : ports_.graph.inputs) {
    const auto given = inputs.find(input.name);
    if (given == inputs.end()) fail("the model's input ", quoted(input.name), " is not given");
    ordered.push_back(given->second);
  }
  std::vector<DType> dtypes;
  for (const Value& output : ports_.graph.outputs) dtypes.push_back(output.type.dtype.value_or(DType::f32));
  std::vector<Tensor> results = run_built_program(folder_, name_, ordered, dtypes);
  std::vector<std::pair<std::string, Tensor>> outputs;
  for (size_t i = 0; i < results.size(); ++i) outputs.emplace_back(ports_.graph.outputs[i].name, std::move(results[i]));
  return outputs;
}

}  // namespace metac
