#include "frontends/cpp/evaluate_function.h"

#include <clang/AST/ASTContext.h>
#include <clang/AST/DeclCXX.h>
#include <clang/AST/StmtCXX.h>

#include <algorithm>
#include <utility>

#include "frontends/cpp/scalar_types.h"

namespace metac {
namespace {

constexpr int64_t most_operations = 100'000;

bool is_true(Expr e) { return e.is_int(1); }

}  // namespace

FunctionEvaluator::FunctionEvaluator(clang::ASTContext& context) : context_(context), sources_(context.getSourceManager()) {}

void FunctionEvaluator::count(clang::SourceLocation at) {
  if (++operations_ > most_operations)
    refuse(at, "more than ", most_operations, " operations, calls and rounds of loops written out");
}

std::string FunctionEvaluator::type_text(clang::QualType type) const { return "'" + type.getAsString() + "'"; }

DType FunctionEvaluator::dtype_of(clang::QualType type, clang::SourceLocation at, const std::string& what) const {
  if (type->isReferenceType() && !type.getNonReferenceType().isConstQualified())
    refuse(at, what, " is of type ", type_text(type), ": through a reference an operator could change what is not its own");
  if (const std::optional<DType> dtype = dtype_of_scalar(type); dtype && !type.isVolatileQualified()) return *dtype;
  refuse(at, what, " is of type ", type_text(type), ": operators have bool, integers, float and double, by value");
}

Expr FunctionEvaluator::call(const clang::FunctionDecl& function, const std::vector<Expr>& arguments,
                             clang::SourceLocation from) {
  const clang::FunctionDecl* definition = nullptr;
  const clang::Stmt* body = function.getBody(definition);
  if (!body) refuse(from, quoted(function.getNameAsString()), " has no body in this file");
  if (std::find(stack_.begin(), stack_.end(), definition) != stack_.end())
    refuse(from, "recursion: ", quoted(function.getNameAsString()), " calls itself, directly or through another one");
  if (definition->isVariadic()) refuse(from, quoted(function.getNameAsString()), " takes any number of arguments");
  const DType wanted = dtype_of(definition->getReturnType(), definition->getLocation(),
                                concat("the result of ", quoted(definition->getNameAsString())));
  State state;
  state.returned = bool_constant(false);
  for (unsigned k = 0; k < definition->getNumParams(); ++k) {
    const clang::ParmVarDecl& parameter = *definition->getParamDecl(k);
    dtype_of(parameter.getType(), parameter.getLocation(), concat("parameter ", quoted(parameter.getNameAsString())));
    state.values[&parameter] = arguments.at(k);
  }
  stack_.push_back(definition);
  const int unsure = std::exchange(unsure_, 0);  // its variables are its own
  run(*body, state);
  unsure_ = unsure;
  stack_.pop_back();
  if (!is_true(state.returned))
    refuse(definition->getBodyRBrace().isValid() ? definition->getBodyRBrace() : definition->getLocation(),
           "not every path through ", quoted(function.getNameAsString()), " returns a value");
  return state.result->dtype == wanted ? state.result : cast(state.result, wanted);
}

FunctionEvaluator::State FunctionEvaluator::merged(Expr condition, State then, State otherwise) const {
  for (auto& [variable, value] : then.values) {
    const Expr other = otherwise.values.at(variable);
    if (value == other) continue;
    value = bool(value) && bool(other) ? select(condition, value, other) : Expr();
  }
  if (then.returned != otherwise.returned)
    then.returned =
        logical_or(logical_and(condition, then.returned), logical_and(logical_not(condition), otherwise.returned));
  if (!then.result)
    then.result = otherwise.result;
  else if (bool(otherwise.result) && then.result != otherwise.result)
    then.result = select(condition, then.result, otherwise.result);
  return then;
}

void FunctionEvaluator::run(const clang::Stmt& statement, State& state) {
  if (is_true(state.returned)) return;
  count(statement.getBeginLoc());
  if (const auto* block = llvm::dyn_cast<clang::CompoundStmt>(&statement)) {
    for (const clang::Stmt* inner : block->body()) run(*inner, state);
  } else if (const auto* declarations = llvm::dyn_cast<clang::DeclStmt>(&statement)) {
    for (const clang::Decl* declaration : declarations->decls()) {
      if (const auto* local = llvm::dyn_cast<clang::VarDecl>(declaration))
        declare(*local, state);
      else if (!llvm::isa<clang::TypedefNameDecl, clang::StaticAssertDecl, clang::UsingDecl, clang::UsingDirectiveDecl,
                          clang::UsingShadowDecl, clang::EmptyDecl>(declaration))
        refuse(declaration->getLocation(), "a declaration that is no variable's");
    }
  } else if (const auto* returning = llvm::dyn_cast<clang::ReturnStmt>(&statement)) {
    if (!returning->getRetValue()) refuse(statement.getBeginLoc(), "a return without a value");
    const Expr result = value(*returning->getRetValue(), state);
    state.result = state.returned.is_int(0) || !state.result ? result : select(state.returned, state.result, result);
    state.returned = bool_constant(true);
  } else if (const auto* if_statement = llvm::dyn_cast<clang::IfStmt>(&statement)) {
    branch(*if_statement, state);
  } else if (const auto* loop = llvm::dyn_cast<clang::ForStmt>(&statement)) {
    repeat(*loop, state);
  } else if (const auto* expression = llvm::dyn_cast<clang::Expr>(&statement)) {
    value(*expression, state);
  } else if (const auto* attributed = llvm::dyn_cast<clang::AttributedStmt>(&statement)) {
    run(*attributed->getSubStmt(), state);
  } else if (!llvm::isa<clang::NullStmt>(statement)) {
    const char* what =
        llvm::isa<clang::WhileStmt>(statement) ? "a while loop: only for loops whose rounds are known are written out"
        : llvm::isa<clang::DoStmt>(statement)  ? "a do loop: only for loops whose rounds are known are written out"
        : llvm::isa<clang::CXXForRangeStmt>(statement) ? "a loop over a range: write for (int i = 0; i < n; ++i)"
        : llvm::isa<clang::SwitchStmt>(statement)      ? "a switch: write it with if"
        : llvm::isa<clang::BreakStmt, clang::ContinueStmt>(statement) ? "break and continue: write an if around the rest"
        : llvm::isa<clang::GotoStmt, clang::LabelStmt>(statement)     ? "goto"
        : llvm::isa<clang::AsmStmt>(statement)                        ? "assembly"
        : llvm::isa<clang::CXXTryStmt>(statement)                     ? "exceptions"
                                                                      : statement.getStmtClassName();
    refuse(statement.getBeginLoc(), what, " (nothing that an operator may do)");
  }
}

void FunctionEvaluator::declare(const clang::VarDecl& local, State& state) {
  const clang::QualType type = local.getType();
  if (type->isArrayType() && (local.isConstexpr() || type.isConstQualified()) && local.evaluateValue()) return;
  const DType dtype = dtype_of(type, local.getLocation(), concat("variable ", quoted(local.getNameAsString())));
  if (local.isStaticLocal() && !local.isConstexpr() && !type.isConstQualified())
    refuse(local.getLocation(), "variable ", quoted(local.getNameAsString()),
           " outlives the call: an operator has no memory");
  Expr initial;
  if (local.getInit()) {
    initial = value(*local.getInit(), state);
    if (initial->dtype != dtype) initial = cast(initial, dtype);
  }
  state.values[&local] = initial;
}

void FunctionEvaluator::branch(const clang::IfStmt& statement, State& state) {
  if (statement.getInit()) run(*statement.getInit(), state);
  if (const clang::VarDecl* local = statement.getConditionVariable()) declare(*local, state);
  const clang::Stmt* none = nullptr;
  if (const auto taken = statement.isConstexpr() ? statement.getNondiscardedCase(context_) : std::optional<clang::Stmt*>()) {
    if (*taken) run(**taken, state);
    return;
  }
  const Expr condition = value(*statement.getCond(), state);
  const clang::Stmt *then = statement.getThen(), *otherwise = statement.getElse() ? statement.getElse() : none;
  if (condition.if_int()) {
    if (const clang::Stmt* taken = condition.as_int() ? then : otherwise) run(*taken, state);
    return;
  }
  State before = state, other = state;
  run(*then, state);
  if (otherwise) run(*otherwise, other);
  // What a branch declares is gone behind it.
  std::erase_if(state.values, [&](const auto& v) { return !before.values.count(v.first); });
  std::erase_if(other.values, [&](const auto& v) { return !before.values.count(v.first); });
  state = merged(condition, std::move(state), std::move(other));
}

void FunctionEvaluator::repeat(const clang::ForStmt& loop, State& state) {
  if (loop.getInit()) run(*loop.getInit(), state);
  if (loop.getConditionVariable()) refuse(loop.getBeginLoc(), "a loop whose condition declares a variable");
  while (!is_true(state.returned)) {
    const Expr goes_on = loop.getCond() ? value(*loop.getCond(), state) : bool_constant(true);
    if (!goes_on.if_int())
      refuse(loop.getCond()->getExprLoc(),
             "how many rounds this loop has depends on an operand: they must be known, to be written out");
    if (!goes_on.as_int()) break;
    run(*loop.getBody(), state);
    if (loop.getInc()) value(*loop.getInc(), state);
  }
}

}  // namespace metac
