// Expressions of a user's function.
#include <clang/AST/ASTContext.h>
#include <clang/AST/ExprCXX.h>

#include <utility>

#include "frontends/cpp/evaluate_function.h"
#include "frontends/cpp/mathematics.h"

namespace metac {
namespace {

constexpr int deepest = 500;

// A constant within a walk that some paths alone take.
class Unsure {
 public:
  explicit Unsure(int& depth) : depth_(depth) { ++depth_; }
  ~Unsure() { --depth_; }
  Unsure(const Unsure&) = delete;

 private:
  int& depth_;
};

// What there is no value for, in words.
std::string what_is(const clang::Expr& e) {
  if (llvm::isa<clang::StringLiteral>(e)) return "a text";
  if (llvm::isa<clang::LambdaExpr>(e)) return "a lambda";
  if (llvm::isa<clang::CXXNewExpr>(e) || llvm::isa<clang::CXXDeleteExpr>(e)) return "memory";
  if (llvm::isa<clang::CXXThrowExpr>(e)) return "an exception";
  if (llvm::isa<clang::MemberExpr>(e) || llvm::isa<clang::CXXConstructExpr>(e)) return "a class or struct";
  if (llvm::isa<clang::AtomicExpr>(e)) return "an atomic operation";
  return e.getStmtClassName();
}

}  // namespace

Expr FunctionEvaluator::from_constant(const clang::APValue& constant, clang::QualType type, clang::SourceLocation at) const {
  const DType dtype = dtype_of(type, at, "a constant");
  if (constant.isInt()) {
    const llvm::APSInt& whole = constant.getInt();
    return int_constant(whole.isSigned() ? whole.getSExtValue() : static_cast<int64_t>(whole.getZExtValue()), dtype);
  }
  if (constant.isFloat() && is_float(dtype)) {
    llvm::APFloat number = constant.getFloat();
    bool loses = false;
    number.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &loses);
    return float_constant(number.convertToDouble(), dtype);
  }
  return {};
}

Expr FunctionEvaluator::constant(const clang::Expr& e) const {
  if (e.isValueDependent() || e.containsErrors()) return {};
  clang::Expr::EvalResult result;
  if (!e.EvaluateAsRValue(result, context_) || result.HasSideEffects) return {};
  if (result.Val.isInt() && result.Val.getInt().getBitWidth() > 64) return {};
  return from_constant(result.Val, e.getType(), e.getExprLoc());
}

Expr FunctionEvaluator::value(const clang::Expr& given, State& state) {
  const clang::Expr& e = *given.IgnoreParens();
  count(e.getExprLoc());
  if (++depth_ > deepest) refuse(e.getExprLoc(), "expressions and calls nest deeper than ", deepest);
  struct Leave {
    int& depth;
    ~Leave() { --depth; }
  } leave{depth_};
  if (llvm::isa<clang::IntegerLiteral, clang::FloatingLiteral, clang::CXXBoolLiteralExpr, clang::CharacterLiteral,
                clang::UnaryExprOrTypeTraitExpr, clang::CXXScalarValueInitExpr, clang::ImplicitValueInitExpr,
                clang::TypeTraitExpr>(e)) {
    dtype_of(e.getType(), e.getExprLoc(), "a constant");
    if (Expr known = constant(e)) return known;
  }
  if (const auto* x = llvm::dyn_cast<clang::CastExpr>(&e)) return converted(*x, state);
  if (const auto* x = llvm::dyn_cast<clang::DeclRefExpr>(&e)) return named(*x, state);
  if (const auto* x = llvm::dyn_cast<clang::UnaryOperator>(&e)) return unary(*x, state);
  if (const auto* x = llvm::dyn_cast<clang::BinaryOperator>(&e)) return binary(*x, state);
  if (const auto* x = llvm::dyn_cast<clang::CallExpr>(&e)) return called(*x, state);
  if (const auto* x = llvm::dyn_cast<clang::ArraySubscriptExpr>(&e)) return element(*x, state);
  if (const auto* x = llvm::dyn_cast<clang::FullExpr>(&e)) return value(*x->getSubExpr(), state);
  if (const auto* x = llvm::dyn_cast<clang::MaterializeTemporaryExpr>(&e)) return value(*x->getSubExpr(), state);
  if (const auto* x = llvm::dyn_cast<clang::SubstNonTypeTemplateParmExpr>(&e)) return value(*x->getReplacement(), state);
  if (const auto* x = llvm::dyn_cast<clang::CXXDefaultArgExpr>(&e)) return value(*x->getExpr(), state);
  if (const auto* x = llvm::dyn_cast<clang::InitListExpr>(&e)) {
    const DType dtype = dtype_of(x->getType(), x->getExprLoc(), "a list");
    if (x->getNumInits() == 0) return metac::constant_of(dtype, 0);
    if (x->getNumInits() == 1) return value(*x->getInit(0), state);
  }
  if (const auto* x = llvm::dyn_cast<clang::ConditionalOperator>(&e)) {
    const Expr condition = value(*x->getCond(), state);
    if (condition.if_int()) return value(condition.as_int() ? *x->getTrueExpr() : *x->getFalseExpr(), state);
    const Unsure unsure(unsure_);
    const Expr then = value(*x->getTrueExpr(), state);
    return select(condition, then, value(*x->getFalseExpr(), state));
  }
  refuse(e.getExprLoc(), what_is(e), " is nothing that an operator may have: it computes with numbers and truths");
}

Expr FunctionEvaluator::converted(const clang::CastExpr& e, State& state) {
  switch (e.getCastKind()) {
    case clang::CK_LValueToRValue:
    case clang::CK_NoOp:
    case clang::CK_ConstructorConversion:
      if (e.getCastKind() != clang::CK_ConstructorConversion) return value(*e.getSubExpr(), state);
      break;
    case clang::CK_IntegralCast:
    case clang::CK_IntegralToBoolean:
    case clang::CK_IntegralToFloating:
    case clang::CK_FloatingCast:
    case clang::CK_FloatingToIntegral:
    case clang::CK_FloatingToBoolean:
    case clang::CK_BooleanToSignedIntegral: {
      const Expr from = value(*e.getSubExpr(), state);
      const DType to = dtype_of(e.getType(), e.getExprLoc(), "a conversion");
      return from->dtype == to ? from : cast(from, to);
    }
    case clang::CK_ToVoid:
      return value(*e.getSubExpr(), state);
    default:
      break;
  }
  if (e.getType()->isPointerType() || e.getSubExpr()->getType()->isPointerType())
    refuse(e.getExprLoc(), "a pointer: an operator computes with numbers and truths");
  refuse(e.getExprLoc(), "a conversion to ", type_text(e.getType()), ": numbers become numbers alone");
}

Expr FunctionEvaluator::named(const clang::DeclRefExpr& e, State& state) {
  const auto* variable = llvm::dyn_cast<clang::VarDecl>(e.getDecl());
  if (!variable) {
    if (Expr known = constant(e)) return known;  // an enumerator
    refuse(e.getExprLoc(), quoted(e.getDecl()->getNameAsString()), " is no variable");
  }
  const auto found = state.values.find(variable);
  if (found != state.values.end()) {
    if (!found->second) refuse(e.getExprLoc(), quoted(variable->getNameAsString()), " has no value yet");
    return found->second;
  }
  if (Expr known = constant(e)) return known;
  refuse(e.getExprLoc(), quoted(variable->getNameAsString()),
         " is no constant: an operator reads its parameters, its own variables and constants");
}

Expr FunctionEvaluator::assign(const clang::Expr& target, Expr to, State& state) {
  const clang::Expr& e = *target.IgnoreParens();
  const auto* name = llvm::dyn_cast<clang::DeclRefExpr>(&e);
  const auto* variable = name ? llvm::dyn_cast<clang::VarDecl>(name->getDecl()) : nullptr;
  const auto found = variable ? state.values.find(variable) : state.values.end();
  if (found == state.values.end())
    refuse(e.getExprLoc(), "a side effect: an operator may assign to its own variables alone");
  if (unsure_) refuse(e.getExprLoc(), "an assignment that happens on some paths only: write it as a statement, with if");
  return found->second = to;
}

Expr FunctionEvaluator::unary(const clang::UnaryOperator& e, State& state) {
  const clang::Expr& operand = *e.getSubExpr();
  switch (e.getOpcode()) {
    case clang::UO_Plus:
      return value(operand, state);
    case clang::UO_Minus:
      return -value(operand, state);
    case clang::UO_Not:
      return metac::call(Fn::bit_not, {value(operand, state)});
    case clang::UO_LNot:
      return logical_not(value(operand, state));
    case clang::UO_PreInc:
    case clang::UO_PreDec:
    case clang::UO_PostInc:
    case clang::UO_PostDec: {
      const Expr before = value(operand, state), one = metac::constant_of(before->dtype, 1);
      const Expr after = assign(operand, e.isIncrementOp() ? before + one : before - one, state);
      return e.isPostfix() ? before : after;
    }
    case clang::UO_AddrOf:
    case clang::UO_Deref:
      refuse(e.getExprLoc(), "a pointer: an operator computes with numbers and truths");
    default:
      refuse(e.getExprLoc(), "operator ", clang::UnaryOperator::getOpcodeStr(e.getOpcode()).str(),
             " is nothing that an operator may do");
  }
}

Expr FunctionEvaluator::apply(clang::BinaryOperatorKind kind, Expr a, Expr b, clang::SourceLocation at) const {
  switch (kind) {
    case clang::BO_Add:
      return a + b;
    case clang::BO_Sub:
      return a - b;
    case clang::BO_Mul:
      return a * b;
    case clang::BO_Div:
      return a / b;
    case clang::BO_Rem:
      return metac::call(Fn::trunc_mod, {a, b});
    case clang::BO_LT:
      return a < b;
    case clang::BO_LE:
      return a <= b;
    case clang::BO_GT:
      return a > b;
    case clang::BO_GE:
      return a >= b;
    case clang::BO_EQ:
      return equal(a, b);
    case clang::BO_NE:
      return not_equal(a, b);
    case clang::BO_And:
      return metac::call(Fn::bit_and, {a, b});
    case clang::BO_Or:
      return metac::call(Fn::bit_or, {a, b});
    case clang::BO_Xor:
      return metac::call(Fn::bit_xor, {a, b});
    case clang::BO_Shl:
      return metac::call(Fn::shift_left, {a, b->dtype == a->dtype ? b : cast(b, a->dtype)});
    case clang::BO_Shr:
      return metac::call(Fn::shift_right, {a, b->dtype == a->dtype ? b : cast(b, a->dtype)});
    default:
      refuse(at, "operator ", clang::BinaryOperator::getOpcodeStr(kind).str(), " is nothing that an operator may do");
  }
}

Expr FunctionEvaluator::binary(const clang::BinaryOperator& e, State& state) {
  const clang::Expr &left = *e.getLHS(), &right = *e.getRHS();
  const clang::BinaryOperatorKind kind = e.getOpcode();
  if (kind == clang::BO_Assign) return assign(left, value(right, state), state);
  if (const auto* compound = llvm::dyn_cast<clang::CompoundAssignOperator>(&e)) {
    const auto as = [&](Expr x, clang::QualType type) {
      const DType dtype = dtype_of(type, e.getExprLoc(), "an assignment");
      return x->dtype == dtype ? x : cast(x, dtype);
    };
    const Expr before = as(value(left, state), compound->getComputationLHSType());
    const Expr after =
        apply(clang::BinaryOperator::getOpForCompoundAssignment(kind), before, value(right, state), e.getExprLoc());
    return assign(left, as(after, left.getType()), state);
  }
  const Expr a = value(left, state);
  if (kind == clang::BO_Comma) return value(right, state);
  if (kind == clang::BO_LAnd || kind == clang::BO_LOr) {
    if (a.if_int()) return (kind == clang::BO_LAnd) == (a.as_int() != 0) ? value(right, state) : a;
    const Unsure unsure(unsure_);
    const Expr b = value(right, state);
    return kind == clang::BO_LAnd ? logical_and(a, b) : logical_or(a, b);
  }
  if (left.getType()->isPointerType() || right.getType()->isPointerType())
    refuse(e.getExprLoc(), "a pointer: an operator computes with numbers and truths");
  return apply(kind, a, value(right, state), e.getExprLoc());
}

Expr FunctionEvaluator::called(const clang::CallExpr& e, State& state) {
  const clang::FunctionDecl* function = e.getDirectCallee();
  if (!function) refuse(e.getExprLoc(), "a call of what is no function by its name");
  if (llvm::isa<clang::CXXMethodDecl>(function)) {
    if (Expr known = constant(e)) return known;  // std::numeric_limits<T>::infinity()
    refuse(e.getExprLoc(), "a class or struct is nothing that an operator may have: it computes with numbers and truths");
  }
  const std::string name = function->getNameAsString();
  std::vector<Expr> arguments;
  const bool known = sources_.isInSystemHeader(sources_.getExpansionLoc(function->getLocation()));
  if (!known && !function->hasBody()) {
    if (Expr fixed = function->getBuiltinID() ? constant(e) : Expr()) return fixed;
    refuse(e.getExprLoc(), quoted(name), " has no body in this file, and is none of the functions that operators may call");
  }
  for (const clang::Expr* argument : e.arguments()) arguments.push_back(value(*argument, state));
  if (known && !function->hasBody())
    if (Expr result = call_mathematics(name, arguments)) return result;
  if (!function->hasBody()) refuse(e.getExprLoc(), quoted(name), " is none of the functions that operators may call");
  return call(*function, arguments, e.getExprLoc());
}

Expr FunctionEvaluator::element(const clang::ArraySubscriptExpr& e, State& state) {
  const auto* name = llvm::dyn_cast<clang::DeclRefExpr>(e.getBase()->IgnoreParenImpCasts());
  const auto* table = name ? llvm::dyn_cast<clang::VarDecl>(name->getDecl()) : nullptr;
  if (!table || !table->getType()->isConstantArrayType())
    refuse(e.getExprLoc(), "an element of what is no table of constants: an operator computes with numbers and truths");
  const clang::APValue* elements =
      table->getType().isConstQualified() || table->isConstexpr() ? table->evaluateValue() : nullptr;
  if (!elements || !elements->isArray())
    refuse(e.getExprLoc(), quoted(table->getNameAsString()), " is no table of constants");
  const Expr index = value(*e.getIdx(), state);
  if (!index.if_int()) refuse(e.getIdx()->getExprLoc(), "an element whose place depends on an operand; write selects");
  const int64_t at = index.as_int(), size = static_cast<int64_t>(elements->getArraySize());
  if (at < 0 || at >= size) refuse(e.getIdx()->getExprLoc(), "element ", at, " of a table of ", size);
  const bool stated = at < static_cast<int64_t>(elements->getArrayInitializedElts());
  const Expr result =
      from_constant(stated ? elements->getArrayInitializedElt(static_cast<unsigned>(at)) : elements->getArrayFiller(),
                    e.getType(), e.getExprLoc());
  if (!result) refuse(e.getExprLoc(), quoted(table->getNameAsString()), " is no table of numbers");
  return result;
}

}  // namespace metac
