#include "frontends/cpp/cpp_operators.h"

#include <clang/AST/ASTContext.h>
#include <clang/AST/DeclTemplate.h>
#include <clang/Sema/Sema.h>

#include <algorithm>
#include <optional>

#include "compiler/ir/expr_table.h"
#include "compiler/ops/defined/operator_definition.h"
#include "compiler/support/file_system.h"
#include "frontends/cpp/code_function.h"
#include "frontends/cpp/evaluate_function.h"
#include "frontends/cpp/formula_text.h"
#include "frontends/cpp/parse_source.h"

namespace metac {
namespace {

constexpr std::string_view gradient_word = "_gradient_";

// A function of the file, of one name: overloads and what templates become are its variants.
struct Written {
  std::string domain, name;
  clang::SourceLocation location;
  std::vector<const clang::FunctionDecl*> functions;  // without templates
  std::vector<clang::FunctionTemplateDecl*> templates;
};

// The same with types: what a variant is for, and what it computes.
struct Variant {
  const clang::FunctionDecl* function = nullptr;
  std::vector<DType> parameters;
  DType result;
  std::vector<bool> is_generic;  // parameters of the template's type
  bool result_is_generic = false;
  bool of_template = false;
};

std::string_view operator_of_gradient(std::string_view name) { return name.substr(0, name.rfind(gradient_word)); }

class OperatorReader {
 public:
  explicit OperatorReader(ParsedSource& parsed)
      : context_(parsed.context),
        sema_(parsed.sema),
        messages_(parsed.messages),
        sources_(context_.getSourceManager()),
        evaluator_(context_) {}

  std::vector<ModelFunction> read() {
    collect(*context_.getTranslationUnitDecl(), "");
    std::vector<ModelFunction> out;
    for (const Written& written : written_)
      if (!is_gradient(written)) out.push_back(function_of(written));
    return out;
  }

 private:
  void collect(const clang::DeclContext& scope, const std::string& domain) {
    for (clang::Decl* declaration : scope.decls()) {
      if (!sources_.isInMainFile(sources_.getExpansionLoc(declaration->getLocation()))) continue;
      if (const auto* space = llvm::dyn_cast<clang::NamespaceDecl>(declaration)) {
        if (!space->isAnonymousNamespace()) collect(*space, domain + (domain.empty() ? "" : ".") + space->getNameAsString());
      } else if (const auto* linkage = llvm::dyn_cast<clang::LinkageSpecDecl>(declaration)) {
        collect(*linkage, domain);
      } else if (auto* pattern = llvm::dyn_cast<clang::FunctionTemplateDecl>(declaration)) {
        if (pattern->getTemplatedDecl()->isThisDeclarationADefinition() && is_callable(*pattern->getTemplatedDecl()))
          entry(*pattern->getTemplatedDecl(), domain).templates.push_back(pattern);
      } else if (const auto* function = llvm::dyn_cast<clang::FunctionDecl>(declaration)) {
        if (function->isThisDeclarationADefinition() && !llvm::isa<clang::CXXMethodDecl>(function) && is_callable(*function))
          entry(*function, domain).functions.push_back(function);
      }
    }
  }

  // Functions that only this file can call are for those of the file.
  static bool is_callable(const clang::FunctionDecl& function) {
    return function.getStorageClass() != clang::SC_Static && !function.isInAnonymousNamespace() &&
           !function.isOverloadedOperator() && function.getDeclName().isIdentifier();
  }

  Written& entry(const clang::FunctionDecl& function, const std::string& domain) {
    const std::string name = function.getNameAsString(), of = domain.empty() ? user_domain : domain;
    for (Written& written : written_)
      if (written.name == name && written.domain == of) return written;
    return written_.emplace_back(Written{of, name, function.getLocation(), {}, {}});
  }

  const Written* find(const std::string& domain, std::string_view name) const {
    for (const Written& written : written_)
      if (written.name == name && written.domain == domain) return &written;
    return nullptr;
  }

  bool is_gradient(const Written& written) const {
    return written.name.find(gradient_word) != std::string::npos && find(written.domain, operator_of_gradient(written.name));
  }

  template <typename... Parts>
  [[noreturn]] void refuse(clang::SourceLocation at, const Parts&... parts) const {
    refuse_at(sources_, at, parts...);
  }

  // ---- types ----
  std::vector<Variant> variants_of(const Written& written) {
    std::vector<Variant> out;
    for (const clang::FunctionDecl* function : written.functions) out.push_back(typed(*function, *function));
    for (clang::FunctionTemplateDecl* pattern : written.templates) add_instances(*pattern, out);
    return out;
  }

  Variant typed(const clang::FunctionDecl& function, const clang::FunctionDecl& pattern) {
    Variant out;
    out.function = &function;
    for (unsigned k = 0; k < function.getNumParams(); ++k) {
      const clang::ParmVarDecl& parameter = *function.getParamDecl(k);
      out.parameters.push_back(evaluator_.dtype_of(parameter.getType(), parameter.getLocation(),
                                                   concat("parameter ", quoted(parameter.getNameAsString()))));
      out.is_generic.push_back(pattern.getParamDecl(k)->getType()->isDependentType());
    }
    out.result = evaluator_.dtype_of(function.getReturnType(), function.getLocation(),
                                     concat("the result of ", quoted(function.getNameAsString())));
    out.result_is_generic = pattern.getReturnType()->isDependentType();
    return out;
  }

  // What a template is for every type for which it compiles.
  void add_instances(clang::FunctionTemplateDecl& pattern, std::vector<Variant>& out) {
    const clang::TemplateParameterList& parameters = *pattern.getTemplateParameters();
    if (parameters.size() != 1 || !llvm::isa<clang::TemplateTypeParmDecl>(parameters.getParam(0)) ||
        llvm::cast<clang::TemplateTypeParmDecl>(parameters.getParam(0))->isParameterPack())
      refuse(pattern.getLocation(), "an operator's template has one type: template <class T>");
    const clang::ASTContext& c = context_;
    std::optional<Diagnostic> first;
    const size_t before = out.size();
    for (clang::QualType type : {c.FloatTy, c.DoubleTy, c.SignedCharTy, c.ShortTy, c.IntTy, c.LongTy, c.UnsignedCharTy,
                                 c.UnsignedShortTy, c.UnsignedIntTy, c.UnsignedLongTy, c.BoolTy}) {
      const clang::TemplateArgument argument(type);
      clang::FunctionDecl* made = sema_.InstantiateFunctionDeclaration(
          &pattern, clang::TemplateArgumentList::CreateCopy(context_, argument), pattern.getLocation());
      if (made) sema_.InstantiateFunctionDefinition(pattern.getLocation(), made, true, true);
      std::string place, message;
      if (messages_.take_error(&place, &message)) {
        if (!first)
          first = Diagnostic{place, "", concat(message, " (with ", type.getAsString(), " for the template's type)")};
        continue;
      }
      if (!made || !made->hasBody()) continue;
      out.push_back(typed(*made, *pattern.getTemplatedDecl()));
      out.back().of_template = true;
    }
    if (out.size() == before)
      throw CompileError(first ? *first
                               : Diagnostic{place_of(sources_, pattern.getLocation()), "", "the template fits no type"});
  }

  // ---- parameters ----
  // Those with a default are attributes; the first variant says which, the others must agree.
  std::vector<DefinedParameter> parameters_of(const Written& written, const std::vector<Variant>& variants) {
    std::vector<DefinedParameter> out;
    for (const Variant& variant : variants) {
      std::vector<DefinedParameter> these;
      for (unsigned k = 0; k < variant.function->getNumParams(); ++k) these.push_back(parameter_of(variant, k));
      bool agrees = out.size() == these.size();
      for (size_t k = 0; agrees && k < out.size(); ++k)
        agrees = out[k].name == these[k].name && out[k].is_attribute == these[k].is_attribute &&
                 (out[k].is_whole == these[k].is_whole || variant.is_generic[k]);
      if (out.empty())
        out = these;
      else if (!agrees)
        refuse(variant.function->getLocation(), "overloads of ", quoted(written.name), " must have the same parameters");
      // Of a template's instances the one in float64 says the default to the last digit.
      for (size_t k = 0; k < out.size(); ++k)
        if (variant.parameters[k] == DType::f64) out[k].otherwise = these[k].otherwise;
    }
    return out;
  }

  DefinedParameter parameter_of(const Variant& variant, unsigned k) {
    const clang::ParmVarDecl& parameter = *variant.function->getParamDecl(k);
    DefinedParameter out{parameter.getNameAsString()};
    if (out.name.empty()) refuse(parameter.getLocation(), "a parameter without a name");
    if (!parameter.hasDefaultArg()) return out;
    auto& function = const_cast<clang::FunctionDecl&>(*variant.function);
    auto& changed = const_cast<clang::ParmVarDecl&>(parameter);
    const clang::ExprResult argument = sema_.BuildCXXDefaultArgExpr(parameter.getLocation(), &function, &changed);
    std::string place, message;
    if (messages_.take_error(&place, &message)) throw CompileError(Diagnostic{place, "", message});
    const Expr value = argument.isUsable() ? evaluator_.constant(*parameter.getDefaultArg()) : Expr();
    if (!value) refuse(parameter.getLocation(), "the default of ", quoted(out.name), " is no constant");
    out.is_attribute = true;
    out.is_whole = !is_float(variant.parameters[k]);
    out.otherwise = value->kind == ExprKind::float_constant ? value->float_value : static_cast<double>(value.as_int());
    return out;
  }

  // ---- formulas ----
  // A function, or a gradient, whose last two parameters are called y and dy in formulas.
  std::string formula_of(const Variant& variant, const std::vector<DefinedParameter>& parameters, DType half) {
    std::vector<Expr> arguments;
    std::vector<std::string> names;
    std::vector<bool> numbers;
    for (size_t k = 0; k < variant.parameters.size(); ++k) {
      const DType dtype = variant.parameters[k];
      const bool number = k < parameters.size() && parameters[k].is_attribute;
      const bool narrow = half != DType::f32 && variant.is_generic[k] && !number;
      const int id = static_cast<int>(k);
      const bool truth = number && is_bool(dtype);  // an attribute is a number
      const Expr given = load(id, narrow ? half : truth ? DType::i64 : dtype, {});
      arguments.push_back(narrow || truth ? cast(given, dtype) : given);
      names.push_back(k < parameters.size() ? parameters[k].name : k == parameters.size() ? "y" : "dy");
      numbers.push_back(number);
    }
    Expr result = evaluator_.call(*variant.function, arguments, variant.function->getLocation());
    if (half != DType::f32 && variant.result_is_generic) result = cast(result, half);
    return formula_text(result, names, numbers);
  }

  static bool has_half_types(const Variant& variant) {
    for (size_t k = 0; k < variant.parameters.size(); ++k)
      if (variant.is_generic[k] && variant.parameters[k] == DType::f32) return true;
    return false;
  }

  static std::string types_text(const Variant& variant, const std::vector<DefinedParameter>& parameters, DType half) {
    std::string out;
    for (size_t k = 0; k < parameters.size(); ++k)
      if (!parameters[k].is_attribute)
        out += (out.empty() ? "" : " ") +
               std::string(name_of(half != DType::f32 && variant.is_generic[k] ? half : variant.parameters[k]));
    return out;
  }

  ModelFunction function_of(const Written& written) {
    if (written.functions.size() == 1 && written.templates.empty() && is_code_function(*written.functions[0]))
      return code_of(written);
    const std::vector<Variant> variants = variants_of(written);
    std::vector<DefinedParameter> parameters = parameters_of(written, variants);
    const auto gradients = gradients_of(written, parameters);
    if (!gradients.empty()) keep_names_of_the_result(written, parameters);
    Node node;
    Attribute &body = node.attributes["body"], &types = node.attributes["types"], gradient;
    body.kind = types.kind = gradient.kind = Attribute::Kind::strings;
    for (const Variant& variant : variants)
      for (DType half : {DType::f32, DType::f16, DType::bf16}) {
        if (half != DType::f32 && !has_half_types(variant)) continue;
        const std::string text = types_text(variant, parameters, half);
        if (std::count(types.strings.begin(), types.strings.end(), text)) continue;  // an overload is before a template
        try {
          body.strings.push_back(formula_of(variant, parameters, half));
        } catch (const CompileError&) {
          if (!variant.of_template || body.strings.empty()) throw;
          continue;  // a type that what the template calls does not fit
        }
        types.strings.push_back(text);
        for (size_t k = 0; k < parameters.size() && !gradients.empty(); ++k)
          if (!parameters[k].is_attribute)
            gradient.strings.push_back(gradient_text(gradients, k, variant, parameters, half));
      }
    if (!gradients.empty()) node.attributes["gradient"] = gradient;
    try {
      return function_of_node(written.domain, written.name, parameters, "expression", std::move(node));
    } catch (const CompileError& error) {
      refuse(written.location, error.diagnostic.message);
    }
  }

  ModelFunction code_of(const Written& written) {
    std::vector<CodeGradient> gradients;
    for (const Written& other : written_)
      if (other.domain == written.domain && is_gradient(other) && operator_of_gradient(other.name) == written.name &&
          other.functions.size() == 1)
        gradients.push_back({other.name.substr(other.name.rfind(gradient_word) + gradient_word.size()), other.functions[0]});
    return function_of_code(*written.functions[0], written.domain, gradients, sources_, context_.getLangOpts());
  }

  // ---- gradients ----
  struct Gradient {
    size_t operand;
    std::vector<Variant> variants;
  };

  std::vector<Gradient> gradients_of(const Written& written, const std::vector<DefinedParameter>& parameters) {
    std::vector<Gradient> out;
    for (const Written& other : written_) {
      if (other.domain != written.domain || !is_gradient(other) || operator_of_gradient(other.name) != written.name)
        continue;
      const std::string by = other.name.substr(other.name.rfind(gradient_word) + gradient_word.size());
      const auto found = std::find_if(parameters.begin(), parameters.end(), [&](const auto& p) { return p.name == by; });
      if (found == parameters.end() || found->is_attribute)
        refuse(other.location, quoted(written.name), " has no operand ", quoted(by), " that this could be the gradient by");
      Gradient& gradient = out.emplace_back(Gradient{static_cast<size_t>(found - parameters.begin()), variants_of(other)});
      for (const Variant& variant : gradient.variants)
        if (variant.parameters.size() != parameters.size() + 2)
          refuse(variant.function->getLocation(), "a gradient takes what ", quoted(written.name),
                 " takes, its result and the result's adjoint: ", parameters.size() + 2, " parameters, this has ",
                 variant.parameters.size());
    }
    return out;
  }

  std::string gradient_text(const std::vector<Gradient>& gradients, size_t operand, const Variant& forward,
                            const std::vector<DefinedParameter>& parameters, DType half) {
    for (const Gradient& gradient : gradients) {
      if (gradient.operand != operand) continue;
      for (const Variant& variant : gradient.variants) {
        std::vector<DType> wanted = forward.parameters;
        wanted.insert(wanted.end(), 2, forward.result);
        if (variant.parameters == wanted) return formula_of(variant, parameters, half);
      }
    }
    return "";
  }

  // In formulas of gradients y is the result and dy its adjoint. Operands go by their place, and may have other names there.
  void keep_names_of_the_result(const Written& written, std::vector<DefinedParameter>& parameters) {
    for (DefinedParameter& p : parameters) {
      if (p.name != "y" && p.name != "dy") continue;
      if (p.is_attribute)
        refuse(written.location, "attribute ", quoted(p.name), ": in gradients, which are given, y is the result");
      const auto taken = [&](const DefinedParameter& other) { return &other != &p && other.name == p.name; };
      do p.name += "_operand";
      while (std::any_of(parameters.begin(), parameters.end(), taken));
    }
  }

  clang::ASTContext& context_;
  clang::Sema& sema_;
  CppMessages& messages_;
  const clang::SourceManager& sources_;
  FunctionEvaluator evaluator_;
  std::vector<Written> written_;
};

}  // namespace

std::vector<ModelFunction> read_cpp_operators(const std::string& text, const std::string& path) {
  std::vector<ModelFunction> out;
  const ExprScope scope;
  parse_source(text, path, [&](ParsedSource& parsed) { out = OperatorReader(parsed).read(); });
  if (out.empty())
    throw CompileError(Diagnostic{path, "", "defines no operator: a function that is not static and in no class"});
  return out;
}

std::vector<ModelFunction> read_cpp_operators(const std::string& path) {
  constexpr size_t largest = 16 << 20;
  return read_cpp_operators(std::string(read_file(path, largest).view()), path);
}

}  // namespace metac
