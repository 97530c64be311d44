// "quantization" of a recipe: its fields are the options of `metac quantize` of the same names.
#include "compiler/train/recipe/recipe_fields.h"

namespace metac {

QuantizationRecipe read_quantization(const JsonDocument& document, const JsonValue& value) {
  RecipeFields fields(document, value, "\"quantization\"");
  QuantizationRecipe q;
  q.weight_bits = fields.count("weight_bits", q.weight_bits, 2, 8);
  q.activations = fields.choice("activations", "uint8", {"uint8", "int8"}) == "int8" ? DType::i8 : DType::u8;
  q.per_tensor = fields.flag("per_tensor", false);
  for (const JsonValue& pattern : fields.array("keep"))
    q.keep.push_back(expect_string(document, pattern, "an element of \"keep\""));
  q.calibration = fields.choice("calibration", q.calibration, {"minmax", "percentile", "entropy", "mse"});
  q.percentile = fields.number("percentile", q.percentile, 50, 100);
  q.samples = fields.count("samples", q.samples, 1);
  q.learn_scales = fields.flag("learn_scales", false);
  fields.finish();
  return q;
}

}  // namespace metac
