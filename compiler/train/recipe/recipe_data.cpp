// Where a recipe's samples come from.
#include <algorithm>

#include "compiler/support/diagnostic.h"
#include "compiler/train/recipe/recipe_fields.h"

namespace metac {
namespace {

using Json = JsonValue::Kind;

FieldRecipe read_field(const JsonDocument& document, const std::string& name, const JsonValue& value) {
  FieldRecipe field;
  field.name = name;
  field.place = document.place(value.offset);
  if (value.is(Json::string)) {
    field.from = value.text;
    return field;
  }
  RecipeFields fields(document, value, "a field's source");
  field.from = fields.string("from", name);
  field.scale = fields.number("scale", 1, -std::numeric_limits<double>::infinity());
  field.mean = fields.numbers("mean");
  field.deviation = fields.numbers("deviation");
  if (field.mean.empty() && !field.deviation.empty()) field.mean.assign(field.deviation.size(), 0);
  if (field.deviation.empty()) field.deviation.assign(field.mean.size(), 1);
  if (field.mean.size() != field.deviation.size())
    document.refuse(value.offset,
                    concat("\"mean\" has ", field.mean.size(), " values, \"deviation\" ", field.deviation.size()));
  if (std::count(field.deviation.begin(), field.deviation.end(), 0))
    document.refuse(fields.required("deviation").offset, "a deviation of 0");
  field.channels_last = fields.flag("channels_last", false);
  field.flip = fields.flag("flip", false);
  field.crop_padding = fields.count("crop_padding", 0, 0, 1 << 16);
  fields.finish();
  return field;
}

}  // namespace

DataRecipe read_data(const JsonDocument& document, const JsonValue& value, bool in_memory) {
  RecipeFields fields(document, value, "\"data\"");
  const std::vector<std::string> formats = {"npy", "npz", "idx", "cifar10", "cifar100", "csv", "images"};
  DataRecipe data;
  if (!in_memory) {
    std::string format = expect_choice(document, fields.required("format"), "the format", formats);
    data.format = static_cast<train::DataFormat>(std::find(formats.begin(), formats.end(), format) - formats.begin());
    data.train = fields.string("train");
    data.validation = fields.string("validation");
  }
  data.validation_split = fields.number("validation_split", 0, 0, 1, true);
  if (!data.validation.empty() && data.validation_split > 0)
    document.refuse(fields.required("validation_split").offset, "there is a \"validation\" set already");
  data.shuffle = fields.flag("shuffle", true);
  data.drop_last = fields.flag("drop_last", true);
  if (const JsonValue* sources = fields.find("fields")) {
    expect(document, *sources, Json::object, "\"fields\"");
    for (const auto& [name, source] : sources->members) data.fields.push_back(read_field(document, name, source));
  }
  fields.finish();
  return data;
}

}  // namespace metac
