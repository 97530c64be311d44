#include "compiler/target/cpu/byte_tables.h"

#include <algorithm>
#include <unordered_map>

#include "compiler/ir/walks.h"
#include "compiler/machine/cpu_costs.h"
#include "compiler/target/cpu/prepared_values.h"
#include "compiler/target/cpu/word_products.h"

namespace metac {
namespace {

bool is_byte(DType dtype) { return dtype == DType::u8 || dtype == DType::i8; }

// What a value follows from: parameters alone, one byte beside them, or something else.
struct Source {
  enum Kind { parameters, byte, other } kind = other;
  Expr key;  // the byte

  static Source of_both(const Source& a, const Source& b) {
    if (a.kind == parameters) return b;
    if (b.kind == parameters || (a.kind == byte && b.kind == byte && a.key == b.key)) return a;
    return {};
  }
};

// What computing `e` takes, in steps of about a cycle a vector.
double steps_of(Expr e) {
  double steps = 0;
  visit(e, [&](Expr n) {
    if (n->kind == ExprKind::cast) ++steps;
    if (n->kind != ExprKind::call) return;
    switch (n->fn) {
      case Fn::add:
      case Fn::sub:
      case Fn::mul:
      case Fn::min:
      case Fn::max:
      case Fn::neg:
      case Fn::abs:
      case Fn::rint:
        ++steps;
        break;
      case Fn::div:
      case Fn::sqrt:
        steps += cpu_costs.steps_of_a_division;
        break;
      default:
        steps += cpu_costs.steps_of_a_function;
    }
  });
  return steps;
}

class ByteTables {
 public:
  explicit ByteTables(RegionState& state) : state_(state) {}

  std::vector<Var*> run() {
    for (Item& item : state_.region.items) {
      if (item.op || item.group.strategy) continue;
      for (Definition& d : item.group.stages) look_up(d);
    }
    return std::move(made_);
  }

 private:
  void look_up(Definition& d) {
    const std::unordered_map<Expr, Expr> keys = keys_of(final_value(d));
    if (keys.empty()) return;
    bool any = false;
    const Expr value = rewrite(final_value(d), [&](Expr n) -> Expr {
      const auto found = keys.find(n);
      if (found == keys.end()) return {};
      const Expr key = found->second;
      if (steps_of(n) - steps_of(key) < cpu_costs.steps_of_a_look_up) return {};
      any = true;
      return load(table(n, key, d)->id, n->dtype, {cast(as_unsigned(key), DType::i64)});
    });
    if (!any) return;
    final_value(d) = value;
    simplify(d, state_.graph.symbols);
  }

  // The bytes in `e` that follow from another byte, with that.
  std::unordered_map<Expr, Expr> keys_of(Expr e) const {
    std::unordered_map<Expr, Expr> keys;
    answer_once<Source>(e, [&](Expr n, const auto& of) -> Source {
      if (n.is_constant()) return {Source::parameters, {}};
      if (n->kind == ExprKind::load) {
        if (is_parameter(n)) return {Source::parameters, {}};
        return is_byte(n->dtype) ? Source{Source::byte, n} : Source{};
      }
      if (n->kind != ExprKind::cast && n->kind != ExprKind::call) return {};
      Source source{Source::parameters, {}};
      for (Expr a : n->args) source = Source::of_both(source, of(a));
      if (!is_byte(n->dtype)) return source;
      if (source.kind == Source::byte) keys[n] = source.key;
      return source.kind == Source::other ? Source{Source::byte, n} : source;
    });
    return keys;
  }

  // Of one number, the same everywhere.
  bool is_parameter(Expr load) const {
    if (load->id < 0 || !state_.is_constant(state_.graph.vars()[static_cast<size_t>(load->id)].get())) return false;
    return std::all_of(load->args.begin(), load->args.end(), [](Expr a) { return a.is_constant(); });
  }

  static Expr as_unsigned(Expr key) {
    if (key->dtype == DType::u8) return key;
    return cast(cast(key, DType::i32) + int_constant(128, DType::i32), DType::u8);
  }

  // Of the values of `e` by those of `key`, as an unsigned number.
  Var* table(Expr e, Expr key, const Definition& d) {
    const Expr number = cast(axis(0), DType::i32);
    const Expr every =
        key->dtype == DType::u8 ? cast(number, DType::u8) : cast(number - int_constant(128, DType::i32), DType::i8);
    Definition t;
    t.body = rewrite(e, [&](Expr n) { return n == key ? every : Expr(); });
    Var*& known = known_[t.body];
    if (known) return known;
    t.domain = {256};
    t.nodes = d.nodes;
    known = add_to_prepare(state_, std::move(t), e->dtype);
    made_.push_back(known);
    return known;
  }

  RegionState& state_;
  std::unordered_map<Expr, Var*> known_;  // tables by what they hold
  std::vector<Var*> made_;
};

}  // namespace

std::vector<Var*> byte_tables(RegionState& state) { return ByteTables(state).run(); }

}  // namespace metac
