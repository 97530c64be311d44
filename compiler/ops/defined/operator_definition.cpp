#include "compiler/ops/defined/operator_definition.h"

#include <algorithm>
#include <exception>
#include <set>

#include "compiler/ir/expr_table.h"
#include "compiler/ops/attributes.h"
#include "compiler/ops/defined/formula.h"
#include "compiler/ops/defined/given_gradient.h"
#include "compiler/ops/registry.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

struct Signature {
  std::string domain = user_domain, name;
  bool states_parameters = false;
  std::vector<DefinedParameter> parameters;
};

// "com.example::huber(x, delta = 1)".
class SignatureParser {
 public:
  explicit SignatureParser(const std::string& text) : text_(text) {}

  Signature parse() {
    Signature out;
    std::vector<std::string> path = {identifier()};
    size_t last = at_;
    while (take(".") || take("::")) last = at_, path.push_back(identifier());
    out.name = path.back();
    path.pop_back();
    if (!path.empty()) {
      if (!text_.substr(0, last).ends_with("::")) refuse(last - 1, "expected '::' between the domain and the name");
      out.domain.clear();
      for (const std::string& part : path) out.domain += (out.domain.empty() ? "" : ".") + part;
    }
    if (take("(")) {
      out.states_parameters = true;
      if (!take(")")) {
        do out.parameters.push_back(parameter(out.parameters));
        while (take(","));
        if (!take(")")) refuse(at_, concat("expected ')', found ", found()));
      }
    }
    blanks();
    if (at_ < text_.size()) refuse(at_, concat("unexpected ", found()));
    return out;
  }

 private:
  [[noreturn]] void refuse(size_t column, const std::string& message) { throw MetaExpressionError(text_, column, message); }
  std::string found() { return at_ < text_.size() ? quoted(text_.substr(at_, 1)) : "the end"; }
  void blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool take(std::string_view token) {
    blanks();
    if (text_.compare(at_, token.size(), token) != 0) return false;
    at_ += token.size();
    return true;
  }
  std::string identifier() {
    blanks();
    const size_t start = at_;
    while (at_ < text_.size() && is_identifier(text_.substr(start, at_ + 1 - start))) ++at_;
    if (at_ == start) refuse(start, concat("expected a name, found ", found()));
    return text_.substr(start, at_ - start);
  }
  DefinedParameter parameter(const std::vector<DefinedParameter>& before) {
    blanks();
    const size_t start = at_;
    DefinedParameter out{identifier()};
    if (scalar_function(out.name) || dtype_from_name(out.name) || out.name == "inf" || out.name == "nan" ||
        out.name == "true" || out.name == "false")
      refuse(start, concat(quoted(out.name), " has a meaning already"));
    for (const DefinedParameter& other : before)
      if (other.name == out.name) refuse(start, concat("parameter ", quoted(out.name), " is named twice"));
    if (!take("=")) {
      if (!before.empty() && before.back().is_attribute)
        refuse(start, concat("operand ", quoted(out.name), " stands behind an attribute: those with a default come last"));
      return out;
    }
    out.is_attribute = true;
    blanks();
    const size_t number = at_, end = std::min(text_.find_first_of(",)", at_), text_.size());
    at_ = end;
    const ExprScope scope;
    try {
      const Formula formula(text_.substr(number, end - number));
      const Expr value = formula.free_names().empty() ? formula.value({}, DType::f64) : Expr();
      if (!value || value->kind != ExprKind::float_constant) refuse(number, "a default is a number");
      out.otherwise = value->float_value;
      out.is_whole = text_.substr(number, end - number).find_first_not_of("-0123456789 ") == std::string::npos;
    } catch (const MetaExpressionError&) {
      refuse(number, "a default is a number");
    }
    for (const char* word : {"body", "parameters", "types", "gradient", "fusible"})
      if (out.name == word) refuse(start, concat("an attribute cannot be called ", quoted(out.name)));
    return out;
  }

  const std::string& text_;
  size_t at_ = 0;
};

// Tries what the formulas are with operands of one dtype, floats first: mistakes that no dtype mends show here.
void try_formulas(const std::vector<DefinedParameter>& parameters, const OperatorDefinition& definition) {
  const ExprScope scope;
  std::exception_ptr first;
  for (DType dtype : {DType::f32, DType::i64, DType::boolean}) {
    std::map<std::string, MetaValue> names;
    for (size_t k = 0; k < parameters.size(); ++k)
      names[parameters[k].name] =
          parameters[k].is_attribute ? literal_of(parameters[k].otherwise) : MetaValue{load(static_cast<int>(k), dtype, {})};
    try {
      const Expr y = Formula(definition.body).value(names, dtype);
      if (definition.gradient.empty()) return;
      if (!is_float(y->dtype)) fail("the result is ", name_of(y->dtype), ", which has no derivative: \"gradient\" is given");
      names["y"] = names["dy"] = {y};
      for (const auto& [name, text] : definition.gradient) Formula(text).value(names, dtype);
      return;
    } catch (const CompileError&) {
      if (!first) first = std::current_exception();
    }
  }
  std::rethrow_exception(first);
}

}  // namespace

ModelFunction function_of_node(const std::string& domain, const std::string& name,
                               const std::vector<DefinedParameter>& parameters, const std::string& op_type, Node node) {
  if (domain.empty() || domain == "ai.onnx" || domain == "metac" || find_operator(domain, name))
    fail("operator ", quoted(name), " cannot be of domain ", quoted(domain.empty() ? "ai.onnx" : domain),
         ", which is not yours");
  ModelFunction out;
  out.domain = domain;
  out.name = name;
  out.outputs = {name + ".result"};
  out.opset_imports = {{"metac", 1}};
  node.op_type = op_type;
  node.domain = "metac";
  node.name = name;
  node.outputs = out.outputs;
  for (const DefinedParameter& p : parameters) {
    if (p.is_attribute) {
      Attribute &otherwise = out.attribute_defaults[p.name], &given = node.attributes[p.name];
      otherwise.kind = p.is_whole ? Kind::integer : Kind::real;
      otherwise.integer = static_cast<int64_t>(p.is_whole ? p.otherwise : 0);
      otherwise.real = p.otherwise;
      given.kind = Kind::reference;
      given.string = p.name;
      given.detail = p.is_whole ? "int" : "float";
    } else {
      out.inputs.push_back(p.name);
    }
  }
  if (out.inputs.empty()) fail("operator ", quoted(name), " has no operands: there is no shape that it could have");
  if (op_type == "expression") node.attributes["parameters"] = strings_attribute(out.inputs);
  node.inputs = out.inputs;
  out.nodes = {std::move(node)};
  return out;
}

ModelFunction function_of_definition(const OperatorDefinition& definition) {
  Signature signature = SignatureParser(definition.signature).parse();
  const Formula body(definition.body);
  if (!signature.states_parameters)
    for (const std::string& name : body.free_names()) signature.parameters.push_back({name});
  std::set<std::string> operands;
  for (const DefinedParameter& p : signature.parameters)
    if (!p.is_attribute) operands.insert(p.name);
  for (const auto& [name, text] : definition.gradient) {
    if (!operands.count(name))
      fail("a gradient by ", quoted(name), " is given, which is no operand of ", quoted(signature.name));
    Formula check(text);
  }
  if (!definition.gradient.empty())
    for (const DefinedParameter& p : signature.parameters)
      if (p.name == "y" || p.name == "dy")
        fail("gradients are given, in which ", p.name == "y" ? "y is the result" : "dy is the adjoint of the result",
             ": a parameter cannot be called so");
  try_formulas(signature.parameters, definition);
  Node node;
  node.attributes["body"] = strings_attribute({definition.body});
  if (!definition.gradient.empty()) {
    std::vector<std::string> texts;
    for (const DefinedParameter& p : signature.parameters)
      if (!p.is_attribute) texts.push_back(definition.gradient.count(p.name) ? definition.gradient.at(p.name) : "");
    node.attributes["gradient"] = strings_attribute(std::move(texts));
  }
  if (!definition.fusible) node.attributes["fusible"].integer = 0;
  return function_of_node(signature.domain, signature.name, signature.parameters, "expression", std::move(node));
}

static void add_calls(const std::vector<Node>& nodes, std::set<std::pair<std::string, std::string>>& called) {
  for (const Node& node : nodes) {
    called.emplace(node.domain, node.op_type);
    for (const auto& [name, attribute] : node.attributes)
      for (const auto& graph : attribute.graphs) add_calls(graph->nodes, called);
  }
}

void add_called(Model& model, const std::vector<ModelFunction>& functions) {
  if (functions.empty()) return;
  std::set<std::pair<std::string, std::string>> called;
  add_calls(model.graph.nodes, called);
  for (const ModelFunction& function : model.functions) add_calls(function.nodes, called);
  for (const ModelFunction& function : functions) {
    if (!called.count({function.domain, function.name})) continue;
    std::erase_if(model.functions,
                  [&](const ModelFunction& f) { return f.name == function.name && f.domain == function.domain; });
    model.functions.push_back(function);
  }
}

}  // namespace metac
