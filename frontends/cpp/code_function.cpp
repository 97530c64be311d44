#include "frontends/cpp/code_function.h"

#include <clang/AST/Stmt.h>
#include <clang/Lex/Lexer.h>

#include <algorithm>

#include "compiler/ir/dtype.h"
#include "compiler/ops/attributes.h"
#include "compiler/ops/defined/operator_definition.h"
#include "frontends/cpp/scalar_types.h"

namespace metac {
namespace {

constexpr std::string_view shape_word = "_shape";

struct Pointer {
  std::string name;
  bool has_shape = false;
};

// The tensors among the parameters, the result last.
std::vector<Pointer> tensors_of(const clang::FunctionDecl& function, const clang::SourceManager& sources) {
  std::vector<Pointer> out;
  for (const clang::ParmVarDecl* parameter : function.parameters()) {
    const std::string name = parameter->getNameAsString();
    const auto refuse = [&](const std::string& what) { refuse_at(sources, parameter->getLocation(), what); };
    if (name.empty()) refuse("a parameter without a name");
    if (!out.empty() && name == out.back().name + std::string(shape_word)) {
      if (!parameter->getType()->isPointerType() || dtype_of_element(parameter->getType()->getPointeeType()) != DType::i64)
        refuse(concat("the dims of ", quoted(out.back().name), " are const int64_t*"));
      out.back().has_shape = true;
      continue;
    }
    if (!parameter->getType()->isPointerType() || !dtype_of_element(parameter->getType()->getPointeeType()))
      refuse(concat("parameter ", quoted(name), " of a function over tensors is a pointer to numbers or truths"));
    out.push_back({name});
  }
  if (out.size() < 2) refuse_at(sources, function.getLocation(), "a function over tensors has an operand and a result");
  for (size_t k = 0; k < out.size(); ++k)
    for (const clang::ParmVarDecl* parameter : function.parameters())
      if (parameter->getNameAsString() == out[k].name &&
          parameter->getType()->getPointeeType().isConstQualified() != (k + 1 < out.size()))
        refuse_at(sources, parameter->getLocation(),
                  "operands of a function over tensors are pointers to const, and its last tensor, the result, is not");
  return out;
}

// The body with the parameters' names for those that a `code` has.
std::string text_of(const clang::FunctionDecl& function, const std::vector<Pointer>& tensors,
                    const std::vector<std::string>& names, const clang::SourceManager& sources,
                    const clang::LangOptions& language) {
  std::string body(clang::Lexer::getSourceText(clang::CharSourceRange::getTokenRange(function.getBody()->getSourceRange()),
                                               sources, language));
  std::replace(body.begin(), body.end(), '@', ' ');  // C++ has none but in comments; for `code` it would be an element
  std::string out = "{ ";
  for (size_t k = 0; k < tensors.size(); ++k) {
    out += concat("auto* const ", tensors[k].name, " = ", names[k], "; ");
    if (tensors[k].has_shape)
      out += concat("const int64_t ", tensors[k].name, shape_word, "[] = {@shape(", names[k], ")}; ");
  }
  return out + body + " }";
}

}  // namespace

bool is_code_function(const clang::FunctionDecl& function) {
  if (!function.getReturnType()->isVoidType() || function.getNumParams() == 0) return false;
  return std::all_of(function.param_begin(), function.param_end(),
                     [](const clang::ParmVarDecl* p) { return p->getType()->isPointerType(); });
}

ModelFunction function_of_code(const clang::FunctionDecl& function, const std::string& domain,
                               const std::vector<CodeGradient>& gradients, const clang::SourceManager& sources,
                               const clang::LangOptions& language) {
  const std::vector<Pointer> tensors = tensors_of(function, sources);
  const size_t count = tensors.size() - 1;
  std::vector<DefinedParameter> parameters;
  std::vector<std::string> names;
  for (size_t k = 0; k < count; ++k) {
    parameters.push_back({tensors[k].name});
    names.push_back(concat("in", k));
  }
  Node node;
  node.line = static_cast<int>(sources.getPresumedLineNumber(sources.getFileLoc(function.getLocation())));
  std::vector<std::string> forward = names;
  forward.push_back("out");
  const clang::ParmVarDecl* result = nullptr;
  for (const clang::ParmVarDecl* p : function.parameters())
    if (p->getNameAsString() == tensors.back().name) result = p;
  node.attributes["cpu"] = string_attribute(text_of(function, tensors, forward, sources, language));
  node.attributes["shape"] = strings_attribute({"@0.shape"});
  node.attributes["dtype"] = string_attribute(std::string(name_of(*dtype_of_element(result->getType()->getPointeeType()))));
  if (!gradients.empty()) {
    std::vector<std::string> each(count), backward = names;
    backward.insert(backward.end(), {"pout", "dout", "out"});
    for (const CodeGradient& gradient : gradients) {
      const std::vector<Pointer> taken = tensors_of(*gradient.function, sources);
      const auto at =
          std::find_if(parameters.begin(), parameters.end(), [&](const auto& p) { return p.name == gradient.operand; });
      if (at == parameters.end() || taken.size() != count + 3)
        refuse_at(sources, gradient.function->getLocation(), "the gradient by an operand takes what ",
                  quoted(function.getNameAsString()),
                  " takes, its result, the result's adjoint and where the gradient goes: ", count + 3, " tensors, this has ",
                  taken.size());
      each[static_cast<size_t>(at - parameters.begin())] = text_of(*gradient.function, taken, backward, sources, language);
    }
    node.attributes["grad"] = strings_attribute(std::move(each));
  }
  return function_of_node(domain, function.getNameAsString(), parameters, "code", std::move(node));
}

}  // namespace metac
