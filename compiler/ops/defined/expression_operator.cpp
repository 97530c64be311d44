// expression: an element-wise operator that the user defined. Its body is a formula over the operands, broadcast, and over
// numbers: what other attributes are given. Definitions are local functions of a model with one such node
// (operator_definition.h), so that they live with the model, nest, are converted and carried as functions are.
//
//   body        the formula; several where the operator differs by dtypes, then `types` says for which each is
//   parameters  the names of the operands in the formula
//   types       for each body the dtypes of the operands: "float32 float32"; absent: one body for all
//   gradient    for each body, for each operand: its adjoint as a formula that may use the result `y` and its adjoint `dy`;
//               "" or absent: by the rules (given_gradient.h)
//   fusible     0: the result is stored, and what reads it is another kernel (1)
//   others      numbers that the formulas name
#include <algorithm>
#include <set>

#include "compiler/ir/builders.h"
#include "compiler/ops/defined/formula.h"
#include "compiler/ops/defined/given_gradient.h"
#include "compiler/ops/registry.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

std::string listed(const std::vector<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : ", ") + text;
  return all;
}

// Which body is for operands of these dtypes.
size_t body_for(Lowering& n, const std::vector<Var*>& operands) {
  const std::vector<std::string> types = n.strings("types");
  if (types.empty()) return 0;
  std::string found;
  for (const Var* v : operands) found += (found.empty() ? "" : " ") + std::string(name_of(v->dtype()));
  const auto at = std::find(types.begin(), types.end(), found);
  if (at == types.end()) fail("it is defined for ", listed(types), "; the operands are ", found);
  return static_cast<size_t>(at - types.begin());
}

void lower_expression(Lowering& n) {
  static const std::set<std::string> own = {"body", "parameters", "types", "gradient", "fusible"};
  Graph& g = n.graph();
  const std::vector<std::string> bodies = n.strings("body"), gradients = n.strings("gradient");
  const size_t count = n.input_count();
  GivenGradient given;
  given.parameters = n.strings("parameters");
  if (given.parameters.size() != count) fail(given.parameters.size(), " parameters for ", count, " operands");
  if (bodies.size() != std::max<size_t>(n.strings("types").size(), 1))
    fail(bodies.size(), " bodies for ", n.strings("types").size(), " types");
  if (!gradients.empty() && gradients.size() != bodies.size() * count)
    fail(gradients.size(), " gradients for ", bodies.size(), " bodies of ", count, " operands");
  for (const std::string& name : given.parameters)
    if (!gradients.empty() && (name == "y" || name == "dy"))
      fail("operand ", name, ": in gradients, which are given, y is the result and dy its adjoint");

  std::vector<Var*> operands;
  std::vector<Shape> shapes;
  for (size_t k = 0; k < count; ++k) {
    operands.push_back(n.input(k));
    if (!is_numeric(operands[k]->dtype()))
      fail("operand ", given.parameters[k], " is ", name_of(operands[k]->dtype()), "; formulas are of numbers and truths");
    shapes.push_back(operands[k]->shape());
  }
  const size_t which = body_for(n, operands);
  const Shape shape = broadcast_shapes(g, shapes);
  std::map<std::string, MetaValue> names;
  std::vector<Expr> elements;
  for (size_t k = 0; k < count; ++k) {
    operands[k] = broadcast_to(g, operands[k], shape);
    elements.push_back(load(static_cast<int>(k), operands[k]->dtype(), identity_indices(static_cast<int>(shape.size()))));
    names[given.parameters[k]] = {elements[k]};
  }
  for (const auto& [name, attribute] : n.node().attributes) {
    if (own.count(name)) continue;
    given.constants.push_back(name);
    given.numbers.push_back(attribute.kind == Kind::integer ? static_cast<double>(attribute.integer) : attribute.real);
    names[name] = literal_of(given.numbers.back());
  }
  const Expr body = Formula(bodies[which]).value(names, operands[0]->dtype());
  Var* out = g.elementwise(operands, shape, body);
  if (!gradients.empty()) {
    if (!is_float(out->dtype()))
      fail("its result is ", name_of(out->dtype()), ", which has no derivative: \"gradient\" is given");
    const auto first = gradients.begin() + static_cast<std::ptrdiff_t>(which * count);
    given.formulas.assign(first, first + static_cast<std::ptrdiff_t>(count));
    // Tried now, so that a mistake shows where the operator is used and not where it is differentiated.
    for (size_t k = 0; k < count; ++k)
      if (given.has(k)) given.value(k, elements, body, body);
    set_given_gradient(*out->producer, given);
  }
  if (n.integer("fusible", 1) == 0) {
    out->stop_fuse = true;
    for (Var* operand : operands)
      if (operand->producer) operand->stop_fuse = true;
  }
  n.set_output(0, out);
}

METAC_OPERATOR("expression", "metac")
    .since({1})
    .inputs(1, -1)
    .outputs(1)
    .required("body", Kind::strings)
    .required("parameters", Kind::strings)
    .attribute("types", Kind::strings)
    .attribute("gradient", Kind::strings)
    .attribute("fusible", Kind::integer)
    .attribute("*", Kind::real)
    .attribute("*", Kind::integer)
    .lower(lower_expression);

}  // namespace
}  // namespace metac
