// Ranges and canonical forms at the edges of 64 bits, on random expressions against plain evaluation: a range holds every
// value, what is proved is true, and an expression is worth what its parts, computed one by one, come to.
#include "compiler/ir/bounds.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "compiler/oracle/evaluate_scalar.h"
#include "compiler/support/diagnostic.h"

namespace metac::bounds_test {
namespace {

using Number = __int128;

constexpr DType integers[] = {DType::i8, DType::i16, DType::i32, DType::i64, DType::u8, DType::u16, DType::u32, DType::u64};

Number number_of(int64_t bits, DType dtype) {
  return dtype == DType::u64 ? Number{static_cast<uint64_t>(bits)} : Number{bits};
}
End end_of(Number n) { return n > INT64_MAX ? End::of(static_cast<uint64_t>(n)) : End(static_cast<int64_t>(n)); }
bool holds(Interval range, Number n) { return range.low <= end_of(n) && end_of(n) <= range.high; }
std::string text_of(Interval range) {
  std::ostringstream out;
  out << "[" << range.low << ", " << range.high << "]";
  return out.str();
}

class Draws {
 public:
  explicit Draws(unsigned seed) : random_(seed) {}
  int64_t pick(int64_t count) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(count)); }
  // Near 0, near a power of two, or near an end of 64 bits.
  int64_t extreme() {
    const uint64_t near = static_cast<uint64_t>(pick(7)) - 3;
    switch (pick(4)) {
      case 0:
        return static_cast<int64_t>(near);
      case 1:
        return static_cast<int64_t>((uint64_t{1} << pick(64)) + near);
      case 2:
        return static_cast<int64_t>(near - (uint64_t{1} << pick(64)));
      default:
        return static_cast<int64_t>((uint64_t{1} << 63) + near);
    }
  }

 private:
  std::mt19937_64 random_;
};

// ---- data: everything wraps ----
constexpr int assignments = 24;
struct Datum {
  Expr e;
  std::vector<int64_t> values = std::vector<int64_t>(assignments);  // as the dtype's bits
};

class RandomData {
 public:
  explicit RandomData(unsigned seed) : draws_(seed) {}

  Datum next(DType dtype, int depth) {
    if (depth == 0 || draws_.pick(8) == 0) return draws_.pick(3) == 0 ? constant(dtype) : leaf(dtype);
    if (draws_.pick(6) == 0) {
      const Datum from = next(integers[draws_.pick(std::size(integers))], depth - 1);
      return made(cast(from.e, dtype), [&](size_t k) { return convert({.integer = from.values[k]}, from.e->dtype, dtype); });
    }
    if (draws_.pick(8) == 0) {
      const Datum c = condition(depth - 1), a = next(dtype, depth - 1), b = next(dtype, depth - 1);
      return made(select(c.e, a.e, b.e), [&](size_t k) { return integer_scalar(c.values[k] ? a.values[k] : b.values[k]); });
    }
    static constexpr Fn fns[] = {Fn::neg, Fn::abs, Fn::sign,      Fn::add,        Fn::sub,
                                 Fn::mul, Fn::div, Fn::floor_div, Fn::floor_mod,  Fn::trunc_mod,
                                 Fn::min, Fn::max, Fn::bit_and,   Fn::shift_left, Fn::shift_right};
    return applied(fns[draws_.pick(std::size(fns))], next(dtype, depth - 1), depth);
  }

  Datum condition(int depth) {
    static constexpr Fn fns[] = {Fn::lt, Fn::le, Fn::eq, Fn::ne};
    return applied(fns[draws_.pick(4)],
                   next(draws_.pick(2) ? DType::i64 : integers[draws_.pick(std::size(integers))], depth), depth + 1);
  }

  Scalar value_of(Expr e, int assignment) const {
    return evaluate_scalar(e, nullptr, nullptr, [&](const ExprNode& n, const int64_t*) {
      return integer_scalar(leaves_[static_cast<size_t>(n.id)].values[static_cast<size_t>(assignment)]);
    });
  }

 private:
  template <class Value>
  Datum made(Expr e, const Value& value) {
    Datum out{e};
    for (size_t k = 0; k < assignments; ++k) out.values[k] = value(k).integer;
    return out;
  }
  Datum applied(Fn fn, const Datum& a, int depth) {
    const DType dtype = a.e->dtype;
    if (arity(fn) == 1) return made(call(fn, {a.e}), [&](size_t k) { return apply(fn, dtype, {.integer = a.values[k]}); });
    const Datum b = next(dtype, depth - 1);
    return made(call(fn, {a.e, b.e}),
                [&](size_t k) { return apply(fn, dtype, {.integer = a.values[k]}, {.integer = b.values[k]}); });
  }
  Datum constant(DType dtype) {
    const Expr e = int_constant(draws_.extreme(), dtype);
    return made(e, [&](size_t) { return integer_scalar(e.as_int()); });
  }
  Datum leaf(DType dtype) {
    leaves_.push_back(made(load(static_cast<int>(leaves_.size()), dtype, {}),
                           [&](size_t) { return integer_scalar(wrap_to(dtype, draws_.extreme())); }));
    return leaves_.back();
  }

  Draws draws_;
  std::vector<Datum> leaves_;
};

TEST(Bounds, DataWrapsAndRangesHoldIt) {
  int narrow = 0, decided = 0;
  for (unsigned seed = 0; seed < 4000; ++seed) {
    RandomData random(seed);
    const bool is_condition = seed % 2 == 0;
    const Datum d = is_condition ? random.condition(2) : random.next(integers[seed / 2 % std::size(integers)], 3);
    const Bounds bounds;
    const Interval range = bounds.interval(d.e);
    const Expr simple = simplify(d.e, bounds);
    narrow += range_of(d.e->dtype).contains(range) && !range.contains(range_of(d.e->dtype));
    decided += is_condition && simple.if_int();
    for (int k = 0; k < assignments; ++k) {
      const int64_t value = d.values[static_cast<size_t>(k)];
      ASSERT_TRUE(holds(range, number_of(value, d.e->dtype)))
          << "seed " << seed << ": " << to_string(d.e) << " is " << value << ", outside " << text_of(range);
      ASSERT_EQ(random.value_of(d.e, k).integer, value) << "seed " << seed << ": " << to_string(d.e);
      ASSERT_EQ(random.value_of(simple, k).integer, value)
          << "seed " << seed << ": " << to_string(d.e) << " became " << to_string(simple);
      if (is_condition && bounds.proves(d.e)) {
        ASSERT_EQ(value, 1) << "seed " << seed << ": " << to_string(d.e);
      }
    }
  }
  EXPECT_GT(narrow, 500);
  EXPECT_GT(decided, 50);
}

// ---- index arithmetic: whole numbers; an assignment under which a part passes 64 bits or divides by 0 does not count ----
constexpr int axes = 3, symbols = 4;
struct Assignment {
  int64_t axes[bounds_test::axes], symbols[bounds_test::symbols];
};

Number divided(Number a, Number b) { return b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }

Number call_of(Fn fn, Number a, Number b, Number c) {
  switch (fn) {
    case Fn::neg:
      return -a;
    case Fn::add:
      return a + b;
    case Fn::sub:
      return a - b;
    case Fn::mul:
      return a * b;
    case Fn::floor_div:
      return divided(a, b);
    case Fn::floor_mod:
      return b == 0 ? 0 : a - divided(a, b) * b;
    case Fn::min:
      return a < b ? a : b;
    case Fn::max:
      return a < b ? b : a;
    case Fn::lt:
      return a < b;
    case Fn::le:
      return a <= b;
    case Fn::eq:
      return a == b;
    case Fn::ne:
      return a != b;
    case Fn::select:
      return a ? b : c;
    default:
      ADD_FAILURE() << name_of(fn);
      return 0;
  }
}

// Empty where even 128 bits could overflow.
std::optional<Number> value_of(Expr e, const Assignment& at) {
  if (e.if_int()) return Number{e.as_int()};
  if (e->kind == ExprKind::axis) return Number{at.axes[e->id]};
  if (e->kind == ExprKind::symbol) return Number{at.symbols[e->id]};
  if (e->kind == ExprKind::cast) return value_of(e->args[0], at);  // a condition
  Number args[3] = {};
  for (size_t k = 0; k < e->args.size(); ++k) {
    const auto arg = value_of(e->args[k], at);
    if (!arg) return {};
    args[k] = *arg;
  }
  if (e->fn == Fn::mul && std::abs(static_cast<double>(args[0]) * static_cast<double>(args[1])) > 0x1p124) return {};
  const Number value = call_of(e->fn, args[0], args[1], args[2]);
  return std::abs(static_cast<double>(value)) > 0x1p124 ? std::nullopt : std::optional<Number>(value);
}

struct IndexTree {
  Fn fn;
  Expr e;  // made of the parts as the constructors do it
  std::vector<IndexTree> parts;
};

// By the tree, part by part; empty where one passes 64 bits or divides by 0.
std::optional<Number> plain_value(const IndexTree& t, const Assignment& at) {
  if (t.parts.empty()) return value_of(t.e, at);
  Number args[3] = {};
  for (size_t k = 0; k < t.parts.size(); ++k) {
    const auto arg = plain_value(t.parts[k], at);
    if (!arg) return {};
    args[k] = *arg;
  }
  if ((t.fn == Fn::floor_div || t.fn == Fn::floor_mod) && args[1] == 0) return {};
  const Number value = call_of(t.fn, args[0], args[1], args[2]);
  return value < INT64_MIN || value > INT64_MAX ? std::nullopt : std::optional<Number>(value);
}

std::string text_of(const IndexTree& t) {
  if (t.parts.empty()) return to_string(t.e);
  std::string out;
  for (const IndexTree& p : t.parts) out += (out.empty() ? "" : ", ") + text_of(p);
  return concat(name_of(t.fn), "(", out, ")");
}

class RandomIndex {
 public:
  explicit RandomIndex(unsigned seed) : draws_(seed) {
    for (Symbol& s : table_) {
      const int64_t a = draws_.pick(2) ? draws_.pick(9) : draws_.extreme(),
                    b = draws_.pick(2) ? draws_.pick(9) : draws_.extreme();
      s.min = std::min(a, b), s.max = std::max(a, b);
    }
    table_[0] = Symbol{.min = 1, .max = int64_t{1} << 40};
    for (Assignment& at : assignments_) {
      for (int k = 0; k < symbols; ++k)
        at.symbols[k] = within(table_[static_cast<size_t>(k)].min, table_[static_cast<size_t>(k)].max);
      at.axes[0] = within(0, at.symbols[0] - 1);
      at.axes[1] = within(0, 11);
    }
  }

  Bounds bounds() const { return Bounds(table_, {symbol(0), 12}); }
  const std::vector<Assignment>& assignments() const { return assignments_; }

  IndexTree next(int depth) {
    if (depth == 0 || draws_.pick(6) == 0) {
      switch (draws_.pick(4)) {
        case 0:
          return {Fn::neg, axis(static_cast<int>(draws_.pick(2))), {}};
        case 1:
          return {Fn::neg, draws_.pick(2) ? Expr(draws_.extreme()) : Expr(draws_.pick(25) - 12), {}};
        default:
          return {Fn::neg, symbol(static_cast<int>(draws_.pick(symbols))), {}};
      }
    }
    static constexpr Fn fns[] = {Fn::neg, Fn::add,       Fn::sub,       Fn::add, Fn::sub, Fn::mul,
                                 Fn::mul, Fn::floor_div, Fn::floor_mod, Fn::min, Fn::max, Fn::select};
    const Fn fn = fns[draws_.pick(std::size(fns))];
    if (fn == Fn::select) return made(fn, {condition(depth - 1), next(depth - 1), next(depth - 1)});
    if (fn == Fn::neg) return made(fn, {next(depth - 1)});
    return made(fn, {next(depth - 1), next(depth - 1)});
  }

  IndexTree condition(int depth) {
    static constexpr Fn fns[] = {Fn::lt, Fn::le, Fn::eq, Fn::ne};
    IndexTree a = next(depth), b = next(depth);
    if (a.e.if_int()) a = {Fn::neg, symbol(static_cast<int>(draws_.pick(symbols))), {}};
    return made(fns[draws_.pick(4)], {std::move(a), std::move(b)});
  }

 private:
  int64_t within(int64_t low, int64_t high) {
    switch (draws_.pick(4)) {
      case 0:
        return low;
      case 1:
        return high;
      default:
        return std::clamp(draws_.pick(2) ? draws_.pick(25) - 12 : draws_.extreme(), low, high);
    }
  }
  // Constants alone are data: their arithmetic wraps.
  IndexTree made(Fn fn, std::vector<IndexTree> parts) {
    std::vector<Expr> args;
    bool constant = fn != Fn::select;
    for (const IndexTree& p : parts) args.push_back(p.e), constant &= p.e.if_int() != nullptr;
    if (constant) return next(0);
    return {fn, call(fn, args), std::move(parts)};
  }

  Draws draws_;
  std::vector<Symbol> table_ = std::vector<Symbol>(symbols);
  std::vector<Assignment> assignments_ = std::vector<Assignment>(32);
};

TEST(Bounds, IndexArithmeticIsThatOfWholeNumbers) {
  int judged = 0, narrow = 0, decided = 0;
  for (unsigned seed = 0; seed < 20000; ++seed) {
    RandomIndex random(seed);
    const bool is_condition = seed % 2 == 0;
    const IndexTree tree = is_condition ? random.condition(2) : random.next(3);
    const Bounds bounds = random.bounds();
    const Interval range = bounds.interval(tree.e);
    const Expr simple = simplify(tree.e, bounds);
    narrow += !is_condition && range_of(DType::i64).contains(range);
    decided += is_condition && simple.if_int();
    for (const Assignment& at : random.assignments()) {
      const auto value = plain_value(tree, at);
      if (!value) continue;
      ++judged;
      const std::string where =
          concat("seed ", seed, ": ", text_of(tree), ", that is ", to_string(tree.e), ", at i ", at.axes[0], " ", at.axes[1],
                 " n ", at.symbols[0], " ", at.symbols[1], " ", at.symbols[2], " ", at.symbols[3], " is ", end_of(*value));
      ASSERT_TRUE(holds(range, *value)) << where << ", outside " << text_of(range);
      if (const auto canonical = value_of(tree.e, at)) {
        ASSERT_TRUE(*canonical == *value) << where;
      }
      if (const auto simplified = value_of(simple, at)) {
        ASSERT_TRUE(*simplified == *value) << where << "; became " << to_string(simple);
      }
      if (is_condition && bounds.proves(tree.e)) {
        ASSERT_TRUE(*value == 1) << where;
      }
    }
  }
  EXPECT_GT(judged, 200000);
  EXPECT_GT(narrow, 1000);
  EXPECT_GT(decided, 1000);
}

// A place in memory taken apart into the indices that it was made of, extents being open: what a reshape does.
TEST(Bounds, DigitsOfOpenDims) {
  const Expr n = symbol(0), m = symbol(1);
  const std::vector<Expr> dims = {n, m, n - Expr(2), floor_div(m + Expr(1), 2), floor_div(n - Expr(3), 2) + Expr(1), 12};
  const std::vector<Symbol> table(2, Symbol{.min = 0, .max = int64_t{1} << 40});
  int judged = 0;
  for (Expr a : dims)
    for (Expr b : dims)
      for (Expr c : dims) {
        const Bounds bounds(table, {a, b, c});
        const Expr i = axis(0), j = axis(1), k = axis(2), at = (i * b + j) * c + k;
        const std::string where = concat(to_string(a), " x ", to_string(b), " x ", to_string(c));
        EXPECT_EQ(simplify(floor_div(at, b * c), bounds), i) << where;
        EXPECT_EQ(simplify(floor_mod(at, c), bounds), k) << where;
        EXPECT_EQ(simplify(floor_mod(floor_div(at, c), b), bounds), j) << where;
        EXPECT_EQ(simplify(floor_div(floor_mod(at, b * c), c), bounds), j) << where;
        EXPECT_EQ(simplify(floor_div(at, a * b * c), bounds), Expr(0)) << where;
        EXPECT_EQ(simplify(floor_mod(at, a * b * c), bounds), at) << where;
        if (a.if_int()) {
          EXPECT_EQ(simplify(floor_div(at, b * c * Expr(3)), bounds), floor_div(i, 3)) << where;
        }
        // Near it, where some of this is not so.
        for (Expr place : {at, at + Expr(1), at - Expr(1), at + i, i * b * c + j * b + k, i * c + j, (i * b + j) * n + k})
          for (Expr by : {c, b, b * c, a * c, n, b * c * Expr(2), c + Expr(1)})
            for (Expr whole : {floor_div(place, by), floor_mod(place, by), cast(place < by, DType::i64)}) {
              const Expr simple = simplify(whole, bounds);
              for (int64_t value : {1, 3, 4, 5, 9}) {
                Assignment is{{}, {value, 12 - value}};
                const auto extent = [&](Expr e) { return static_cast<int64_t>(*value_of(e, is)); };
                for (int64_t step : {1, 2, 3}) {
                  is.axes[0] = extent(a) - 1, is.axes[1] = (extent(b) - 1) / step, is.axes[2] = (extent(c) - 1) / step;
                  if (extent(a) < 1 || extent(b) < 1 || extent(c) < 1 || extent(by) < 1) continue;
                  ++judged;
                  ASSERT_TRUE(*value_of(whole, is) == *value_of(simple, is))
                      << where << ": " << to_string(whole) << " became " << to_string(simple);
                }
              }
            }
      }
  EXPECT_GT(judged, 100000);
}

// The length behind two strided convolutions, floor(floor(n/4)/4), is written floor(n/16): it is still held against floor(n/4).
TEST(Bounds, QuotientsBesidePartsOfTheirDivisors) {
  const Expr n = symbol(0);
  const Bounds bounds({Symbol{.min = 0, .max = int64_t{1} << 40}});
  for (int64_t d : {2, 3, 4})
    for (int64_t m : {2, 3, 5})
      for (int64_t q : {-2, -1, 0, 1, 3}) {
        const Expr part = floor_div(n, d) + Expr(q), whole = floor_div(n + Expr(q * d), m * d) * Expr(m);
        const std::string where = concat(to_string(whole), " and ", to_string(part));
        EXPECT_TRUE(bounds.proves_at_least(part, whole)) << where;
        EXPECT_TRUE(bounds.proves_at_least(whole, part - Expr(m - 1))) << where;
        EXPECT_FALSE(bounds.proves_less(whole, part)) << where;
        EXPECT_FALSE(bounds.proves_at_least(whole, part - Expr(m - 2))) << where;
      }
}

TEST(Bounds, DataOf64BitsMayBeAnythingThatFits) {
  const Expr x = load(0, DType::i64, {});
  const Bounds bounds;
  EXPECT_EQ(bounds.interval(x).low, INT64_MIN);
  EXPECT_EQ(bounds.interval(x).high, INT64_MAX);
  for (Expr undecided : {equal(x, INT64_MAX), x < Expr(INT64_MAX), Expr(INT64_MIN) < x, x <= Expr(INT64_MAX - 1)})
    EXPECT_EQ(simplify(undecided, bounds), undecided);
  EXPECT_EQ(simplify(x <= Expr(INT64_MAX), bounds), bool_constant(true));
  EXPECT_EQ(simplify(x < Expr(INT64_MIN), bounds), bool_constant(false));
  EXPECT_EQ(bounds.interval(load(0, DType::u64, {})).high, End::of(UINT64_MAX));
}

TEST(Bounds, ConstantsThatPass64BitsStayApart) {
  const Expr n = symbol(0), big = n + Expr(INT64_MAX), bigger = big + Expr(INT64_MAX);
  const Bounds bounds({Symbol{.min = -9, .max = 9}});
  EXPECT_EQ(bounds.interval(bigger).high, End(INT64_MAX) + INT64_MAX + 9);
  EXPECT_FALSE(bounds.proves_less(bigger, big));
  EXPECT_TRUE(bounds.proves_less(big, bigger));
  EXPECT_TRUE(bounds.proves_less(Expr(-2), Expr(INT64_MAX)));
  EXPECT_FALSE(bounds.proves_less(Expr(INT64_MAX), Expr(-2)));
  const Expr product = n * Expr(INT64_MIN) * Expr(INT64_MIN);
  EXPECT_TRUE(bounds.interval(-product).low < INT64_MIN);
  EXPECT_EQ(floor_mod(product + n, product + n), Expr(0));
}

// Every rung reads the one below twice: 2^rungs paths.
TEST(Bounds, EachExpressionIsLookedAtOnce) {
  constexpr int rungs = 200;
  Expr data = load(0, DType::i64, {axis(0)}), index = symbol(0), condition = symbol(0) < symbol(1);
  for (int k = 0; k < rungs; ++k) {
    data = max(data * data, min(data, load(1, DType::i64, {data})));
    index = min(max(index, floor_div(index, symbol(1))), floor_mod(symbol(1), index));
    condition = logical_or(logical_and(condition, symbol(k) < symbol(2)), logical_and(condition, symbol(2) < symbol(k)));
  }
  const Bounds bounds({}, {7});
  EXPECT_EQ(bounds.interval(data).high, INT64_MAX);
  EXPECT_FALSE(bounds.proves(condition));
  EXPECT_EQ(simplify(data, bounds), data);
  EXPECT_TRUE(bool(simplify(index, bounds)));
}

}  // namespace
}  // namespace metac::bounds_test
