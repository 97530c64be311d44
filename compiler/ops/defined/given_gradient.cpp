#include "compiler/ops/defined/given_gradient.h"

#include "compiler/ops/defined/formula.h"

namespace metac {

MetaValue literal_of(double number) { return {float_constant(number, DType::f64), true}; }

Expr GivenGradient::value(size_t k, const std::vector<Expr>& operands, Expr y, Expr dy) const {
  std::map<std::string, MetaValue> names;
  for (size_t i = 0; i < parameters.size(); ++i) names[parameters[i]] = {operands[i]};
  for (size_t i = 0; i < constants.size(); ++i) names[constants[i]] = literal_of(numbers[i]);
  names["y"] = {y};
  names["dy"] = {dy};
  const Expr value = Formula(formulas[k]).value(names, operands[k]->dtype);
  return value->dtype == operands[k]->dtype ? value : cast(value, operands[k]->dtype);
}

GivenGradient with_wide_floats(GivenGradient given) {
  const std::string wide = "float64(";
  for (std::string& formula : given.formulas)
    for (const std::string& narrow : {std::string("bfloat16("), std::string("float16("), std::string("float32(")})
      for (size_t at = 0; (at = formula.find(narrow, at)) != std::string::npos; at += wide.size())
        formula.replace(at, narrow.size(), wide);
  return given;
}

void set_given_gradient(Op& op, const GivenGradient& given) {
  op.attributes["parameters"] = given.parameters;
  op.attributes["gradient"] = given.formulas;
  op.attributes["constants"] = given.constants;
  op.attributes["numbers"] = given.numbers;
}

std::optional<GivenGradient> given_gradient_of(const Op& op) {
  if (op.kind != OpKind::elementwise || !op.attributes.count("gradient")) return std::nullopt;
  using Texts = std::vector<std::string>;
  return GivenGradient{std::get<Texts>(op.attributes.at("parameters")), std::get<Texts>(op.attributes.at("gradient")),
                       std::get<Texts>(op.attributes.at("constants")),
                       std::get<std::vector<double>>(op.attributes.at("numbers"))};
}

}  // namespace metac
