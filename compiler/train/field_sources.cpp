#include "compiler/train/field_sources.h"

#include <algorithm>

#include "compiler/support/diagnostic.h"
#include "compiler/support/nearest_name.h"

namespace metac {
namespace {

// Where a field comes from unless the recipe says it.
std::string usual_source(train::DataFormat format, const TrainingField& field) {
  const bool is_picture = field.shape.size() == 3 && is_float(field.dtype);
  switch (format) {
    case train::DataFormat::cifar10:
      return is_picture ? "image" : "label";
    case train::DataFormat::cifar100:
      return is_picture ? "image" : "fine";
    case train::DataFormat::images:
      return is_picture ? "image" : "class";
    default:
      return field.name;
  }
}

}  // namespace

std::vector<FieldRecipe> field_sources(const DataRecipe& data, const std::vector<TrainingField>& fields) {
  std::vector<std::string> names;
  for (const TrainingField& field : fields) names.push_back(field.name);
  for (const FieldRecipe& f : data.fields) {
    if (std::count(names.begin(), names.end(), f.name)) continue;
    std::string all;
    for (const std::string& n : names) all += (all.empty() ? "" : ", ") + quoted(n);
    throw CompileError(
        {f.place, "", concat("the samples have no field ", quoted(f.name), "; they have ", all, suggestion(f.name, names))});
  }
  std::vector<FieldRecipe> sources;
  for (const TrainingField& field : fields) {
    FieldRecipe from;
    from.name = field.name;
    from.from = usual_source(data.format, field);
    for (const FieldRecipe& f : data.fields)
      if (f.name == field.name) from = f;
    if (!from.mean.empty() && from.mean.size() != 1 &&
        (field.shape.empty() || static_cast<int64_t>(from.mean.size()) != field.shape[0]))
      throw CompileError(
          {from.place, "",
           concat("\"mean\" and \"deviation\" have ", from.mean.size(), " values; the first axis of the field ",
                  quoted(field.name), " of shape ", to_string(field.shape), " has others")});
    sources.push_back(std::move(from));
  }
  return sources;
}

}  // namespace metac
