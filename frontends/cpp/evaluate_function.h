// What a C++ function computes, as an expression over its parameters: its statements are walked with expressions for values.
// An `if` becomes selects, a call the called function's expression, a loop its rounds.
#pragma once
#include <clang/AST/Decl.h>
#include <clang/AST/Expr.h>
#include <clang/AST/Stmt.h>

#include <map>
#include <vector>

#include "compiler/ir/expr.h"
#include "frontends/cpp/source_error.h"

namespace metac {

class FunctionEvaluator {
 public:
  explicit FunctionEvaluator(clang::ASTContext& context);

  // The result for these arguments. Throws CompileError where a statement is nothing that an operator may do.
  Expr call(const clang::FunctionDecl& function, const std::vector<Expr>& arguments, clang::SourceLocation from);
  // The dtype of a parameter, local or result: numbers and truths by value or const reference.
  DType dtype_of(clang::QualType type, clang::SourceLocation at, const std::string& what) const;
  // The value of an expression that needs none of an operator's parameters; empty where it is no constant.
  Expr constant(const clang::Expr& e) const;

 private:
  // Where the walk stands in a function: values of locals (empty: none yet), and what was returned on the way here.
  struct State {
    std::map<const clang::VarDecl*, Expr> values;
    Expr returned;  // bool: on which paths
    Expr result;    // on those; empty where there is none
  };

  template <typename... Parts>
  [[noreturn]] void refuse(clang::SourceLocation at, const Parts&... parts) const {
    refuse_at(sources_, at, parts...);
  }
  void count(clang::SourceLocation at);
  std::string type_text(clang::QualType type) const;

  // Statements (evaluate_function.cpp).
  void run(const clang::Stmt& statement, State& state);
  void declare(const clang::VarDecl& local, State& state);
  void branch(const clang::IfStmt& statement, State& state);
  void repeat(const clang::ForStmt& statement, State& state);
  State merged(Expr condition, State then, State otherwise) const;

  // Expressions (evaluate_expression.cpp).
  Expr value(const clang::Expr& e, State& state);
  Expr converted(const clang::CastExpr& e, State& state);
  Expr named(const clang::DeclRefExpr& e, State& state);
  Expr unary(const clang::UnaryOperator& e, State& state);
  Expr binary(const clang::BinaryOperator& e, State& state);
  Expr called(const clang::CallExpr& e, State& state);
  Expr element(const clang::ArraySubscriptExpr& e, State& state);
  Expr apply(clang::BinaryOperatorKind kind, Expr a, Expr b, clang::SourceLocation at) const;
  Expr assign(const clang::Expr& target, Expr to, State& state);
  Expr from_constant(const clang::APValue& constant, clang::QualType type, clang::SourceLocation at) const;

  clang::ASTContext& context_;
  const clang::SourceManager& sources_;
  std::vector<const clang::FunctionDecl*> stack_;
  int64_t operations_ = 0;
  int unsure_ = 0;  // within an operand that C++ evaluates on some paths alone
  int depth_ = 0;
};

}  // namespace metac
