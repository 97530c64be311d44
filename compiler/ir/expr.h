// Expr: one hash-consed scalar expression language for index expressions (quasi-affine: with floor_div and floor_mod),
// dims, validity conditions and element-wise bodies.
//
// Nodes are interned: structurally equal expressions are the same pointer, so equality is pointer equality, a shared
// subexpression is one node, and a printer prints it as one local. They live as long as the table that they are in: that of
// the compilation which made them (compiler/ir/expr_table.h).
//
// The constructors canonicalise, so that two ways of writing the same dim meet in one node: an integer sum is a sorted
// linear combination of atoms, floor_div and floor_mod by constants split off what divides evenly, constants fold.
// Facts about ranges (an axis is below its extent) are used by simplify() in compiler/ir/bounds.h.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "compiler/ir/dtype.h"

namespace metac {

enum class Fn : uint8_t {
#define F(name, arity) name,
#include "compiler/ir/scalar_functions.def"
#undef F
};
int arity(Fn fn);
std::string_view name_of(Fn fn);
bool yields_bool(Fn fn);
int products_in_a_point(Fn fn);           // that a call adds up: words have several; 0: it is no product
DType dtype_of(Fn fn, DType first);  // what a call yields, by the dtype of its first argument

enum class ExprKind : uint8_t {
  int_constant,    // also bool (0 or 1)
  float_constant,  // value held as a double, already rounded to the dtype
  axis,            // the index along axis `id` of the surrounding domain (int64); at kernel level: the loop `id`
  symbol,          // a dim symbol of the graph (int64); its name and range are in Graph::symbols
  load,            // element of operand `id` (at kernel level: of buffer/Var `id`) at the indices `args`
  call,            // fn(args...)
  cast,            // args[0] converted to `dtype`: float to int truncates, int to int wraps, to bool is != 0
};

struct ExprNode;

class Expr {
 public:
  Expr() = default;
  Expr(int64_t value);  // int64 constant
  Expr(int value) : Expr(static_cast<int64_t>(value)) {}
  Expr(bool) = delete;  // bool_constant()
  explicit Expr(const ExprNode* node) : node_(node) {}

  const ExprNode* operator->() const { return node_; }
  const ExprNode* node() const { return node_; }
  explicit operator bool() const { return node_ != nullptr; }
  bool operator==(const Expr& other) const { return node_ == other.node_; }  // structural equality, by interning
  bool operator!=(const Expr& other) const { return node_ != other.node_; }

  bool is_constant() const;          // int, bool or float constant
  bool is_int(int64_t value) const;  // is this the integer (or bool) constant `value`?
  const int64_t* if_int() const;     // the integer constant, or null
  int64_t as_int() const;            // asserts that it is one

 private:
  const ExprNode* node_ = nullptr;
};

struct ExprNode {
  ExprKind kind;
  Fn fn;  // call only
  DType dtype;
  bool has_load;      // somewhere below (then index algebra that ignores overflow does not apply)
  uint32_t table;     // that of expressions which it is in; its arguments are in the same one
  uint64_t serial;    // creation number in its table: a deterministic order for canonical sums
  uint64_t hash;      // structural
  int64_t int_value;  // int_constant
  double float_value;
  int id;  // axis, symbol, load
  std::vector<Expr> args;
};

// ---- constructors ----
Expr int_constant(int64_t value, DType dtype = DType::i64);
Expr float_constant(double value, DType dtype);
Expr bool_constant(bool value);
Expr constant_of(DType dtype, double value);  // int_constant or float_constant, as the dtype wants
Expr axis(int id);
Expr symbol(int id);
Expr load(int operand, DType dtype, std::vector<Expr> indices);
Expr call(Fn fn, std::vector<Expr> args);
Expr cast(Expr value, DType dtype);
// A call, cast or load with other arguments. Index arithmetic stays that of whole numbers where all of them are constants
// now and folding would wrap around, as it does for data.
Expr with_arguments(Expr e, std::vector<Expr> args);

Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);
Expr operator/(Expr a, Expr b);  // Fn::div: true for floats, truncating for integers; index arithmetic wants floor_div
Expr operator-(Expr a);
Expr operator<(Expr a, Expr b);
Expr operator<=(Expr a, Expr b);
inline Expr operator>(Expr a, Expr b) { return b < a; }
inline Expr operator>=(Expr a, Expr b) { return b <= a; }
Expr equal(Expr a, Expr b);
Expr not_equal(Expr a, Expr b);
Expr logical_and(Expr a, Expr b);
Expr logical_or(Expr a, Expr b);
Expr logical_not(Expr a);
// In a condition they would test for emptiness and yet look like expressions; `!e` is `e` being empty.
void operator&&(Expr, Expr) = delete;
void operator||(Expr, Expr) = delete;
Expr floor_div(Expr a, Expr b);
Expr floor_mod(Expr a, Expr b);
Expr ceil_div(Expr a, Expr b);
Expr min(Expr a, Expr b);
Expr max(Expr a, Expr b);
Expr select(Expr condition, Expr then, Expr otherwise);

// ---- walks ----
// Rebuilds bottom-up (so canonicalisation runs again); `f` may return a replacement for a node, or an empty Expr to rebuild
// it.
Expr rewrite(Expr e, const std::function<Expr(Expr)>& f);
std::vector<Expr> rewrite(const std::vector<Expr>& es, const std::function<Expr(Expr)>& f);
// axis(k) -> values[k] for k < values.size() where values[k] is not empty; other axes stay.
Expr substitute_axes(Expr e, const std::vector<Expr>& values);
// Calls f once for every distinct node, arguments first.
void visit(Expr e, const std::function<void(Expr)>& f);
bool uses_axis(Expr e, int id);
bool any_of(Expr e, const std::function<bool(Expr)>& predicate);
// Does it call a function that is computed in many operations: exp, erf, sin, pow, ...?
bool is_elementary(Fn fn);
bool calls_elementary(Expr e);

// A linear form: constant + sum of coefficient * atom over canonical integer sums.
struct Linear {
  int64_t constant = 0;
  std::vector<std::pair<Expr, int64_t>> terms;  // atoms in canonical order; an atom may be a product such as n*m
};
Linear linear_form(Expr e);  // int64 expressions only
Expr from_linear(const Linear& form);
std::vector<Expr> factors_of(Expr atom);  // of a product; else the atom alone
// q such that no term of a - q*b is a multiple of the leading term of b: a polynomial division. 0 where b leads with a
// negative coefficient. int64 expressions only.
Expr quotient_of(Expr a, Expr b);

// "i0*3 + floor_div(n0, 2)": for messages, dumps and tests. Printers of generated code have their own.
std::string to_string(Expr e);

}  // namespace metac

template <>
struct std::hash<metac::Expr> {
  size_t operator()(const metac::Expr& e) const noexcept { return e.node() ? e->hash : 0; }
};
