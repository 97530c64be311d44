#include "compiler/tensor/sum_of_products.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <tuple>

#include "compiler/ir/expr_table.h"
#include "compiler/ir/node_table.h"
#include "compiler/ir/walks.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

std::atomic<int64_t> recognised{0};

bool calls(Expr e, Fn fn) { return e->kind == ExprKind::call && e->fn == fn; }
bool is_zero(Expr e) { return e.is_constant() && e->float_value == 0 && e->int_value == 0; }
bool is_zero_elsewhere(Expr e) { return calls(e, Fn::select) && is_zero(e->args[2]); }
bool is_product(Expr e) { return e->kind == ExprKind::call && e->args.size() == 2 && products_in_a_point(e->fn) > 0; }

// What a conversion makes wide, before it and below the same conditions; empty: it is wide, or more than moved.
Expr before_widening(Expr e) {
  std::vector<Expr> around;
  for (; is_zero_elsewhere(e); e = e->args[1]) around.push_back(e->args[0]);
  if (e->kind != ExprKind::cast || size_of(e->args[0]->dtype) >= size_of(e->dtype)) return {};
  Expr narrow = e->args[0];
  for (size_t k = around.size(); k-- > 0;) narrow = select(around[k], narrow, constant_of(narrow->dtype, 0));
  return narrow;
}

class Recogniser {
 public:
  explicit Recogniser(std::vector<char> kept) : kept_(std::move(kept)) {}

  std::shared_ptr<const SumOfProducts> run(Expr body) const {
    SumOfProducts s;
    for (;; body = body->args[body->kind == ExprKind::cast ? 0 : 1]) {
      if (body->kind == ExprKind::cast)
        s.conversions.insert(s.conversions.begin(), body->dtype);
      else if (is_zero_elsewhere(body))
        conjuncts(body->args[0], s.conditions);
      else
        break;
    }
    if (!is_product(body)) return nullptr;
    ++recognised;
    s.product = body->fn;
    s.factors = {factor(body->args[0]), factor(body->args[1])};
    tell_axes(s);
    find_windows(s);
    return std::make_shared<const SumOfProducts>(std::move(s));
  }

  // Steps into what is added: through conditions, conversions, signs and what is the same along the sum. The terms go to
  // `terms`; false: it is one.
  bool open(Expr e, std::vector<Expr>& terms) const {
    if (e->kind == ExprKind::cast || calls(e, Fn::neg))
      terms.push_back(e->args[0]);
    else if (is_zero_elsewhere(e))
      terms.push_back(e->args[1]);
    else if (calls(e, Fn::add) || calls(e, Fn::sub))
      terms.insert(terms.end(), e->args.begin(), e->args.end());
    else if ((calls(e, Fn::mul) || calls(e, Fn::div)) && is_same(e->args[1]) && !is_same(e->args[0]))
      terms.push_back(e->args[0]);
    else if (calls(e, Fn::mul) && is_same(e->args[0]) && !is_same(e->args[1]))
      terms.push_back(e->args[1]);
    else
      return false;
    return true;
  }

 private:
  bool is_kept(int k) const { return kept_[static_cast<size_t>(k)] != 0; }
  // Is it the same in all that is added to one element?
  bool is_same(Expr e) const {
    return !any_of(e, [&](Expr n) { return n->kind == ExprKind::axis && !is_kept(n->id); });
  }

  Factor factor(Expr value) const {
    Factor f;
    f.value = value;
    f.narrow = before_widening(value);
    Expr e = value;
    while (take_condition(e, f) || take_conversion(e, f) || take_scale(e, f) || take_zero_point(e, f)) {
    }
    const bool direct = e->kind == ExprKind::load && e->id != reduced_value &&
                        std::none_of(e->args.begin(), e->args.end(), [](Expr index) { return index->has_load; });
    if (!direct) {
      f.conversions.clear();
      f.scale = f.zero_point = Expr();
      return f;
    }
    f.load = e;
    for (Expr index : e->args) f.indices.push_back(index_form(index));
    return f;
  }

  // A select that gives one constant elsewhere: 0, the zero point, or what words count as there.
  static bool take_condition(Expr& e, Factor& f) {
    if (!calls(e, Fn::select)) return false;
    const Expr constant = e->args[2];
    const bool whole = constant.is_constant() && constant->float_value == 0;
    const int64_t value = constant->int_value;
    const bool alone = f.conversions.empty() && !f.scale && !f.zero_point;
    if (!whole) return false;
    if (f.zero_point) {
      if (!f.zero_point.if_int() || f.zero_point.as_int() != value) return false;
    } else if (value == 0) {
      if (f.outside != 0) return false;
    } else {
      if (!alone || (!f.conditions.empty() && f.outside != value)) return false;
      f.outside = value;
    }
    conjuncts(e->args[0], f.conditions);
    e = e->args[1];
    return true;
  }

  static bool take_conversion(Expr& e, Factor& f) {
    if (e->kind != ExprKind::cast) return false;
    f.conversions.insert(f.conversions.begin(), e->dtype);
    e = e->args[0];
    return true;
  }

  bool take_scale(Expr& e, Factor& f) const {
    if (!calls(e, Fn::mul) || bool(f.zero_point) || is_same(e->args[0]) == is_same(e->args[1])) return false;
    const size_t same = is_same(e->args[0]) ? 0 : 1;
    f.scale = f.scale ? f.scale * e->args[same] : e->args[same];
    e = e->args[1 - same];
    return true;
  }

  bool take_zero_point(Expr& e, Factor& f) const {
    if (bool(f.zero_point) || f.outside != 0 || !is_integer(e->dtype)) return false;
    if (calls(e, Fn::sub) && is_same(e->args[1]) && !is_same(e->args[0]))
      f.zero_point = e->args[1];
    else if (calls(e, Fn::add) && e->args[1].if_int() && !is_same(e->args[0]))
      f.zero_point = int_constant(-e->args[1].as_int(), e->dtype);
    else
      return false;
    e = e->args[0];
    return true;
  }

  void tell_axes(SumOfProducts& s) const {
    for (int k = 0; k < static_cast<int>(kept_.size()); ++k) {
      const bool first = uses_axis(s.factors[0].value, k), second = uses_axis(s.factors[1].value, k);
      std::vector<int>& own = first ? is_kept(k) ? s.rows : s.row_steps : is_kept(k) ? s.columns : s.column_steps;
      std::vector<int>& shared = is_kept(k) ? s.batch : s.steps;
      (first == second ? shared : own).push_back(k);
    }
  }

  void find_windows(SumOfProducts& s) const {
    for (int f = 0; f < 2; ++f) {
      const std::vector<IndexForm>& indices = s.factors[static_cast<size_t>(f)].indices;
      for (int k = 0; k < static_cast<int>(indices.size()); ++k) {
        const IndexForm& form = indices[static_cast<size_t>(k)];
        WindowOfSum w{f, k, {}, {}, form.offset};
        for (const AxisStep& step : form.steps) (is_kept(step.axis) ? w.points : w.taps).push_back(step);
        if (!w.points.empty() && !w.taps.empty()) s.windows.push_back(std::move(w));
      }
    }
  }

  std::vector<char> kept_;
};

// What was found, by body and axes: expressions are interned, so that a body that is met again, in the next pass or in a
// copy of its definition, is not taken apart again, and one that was edited is another body.
class Found {
 public:
  std::shared_ptr<const SumOfProducts> ask(Expr body, int kept, int axes) {
    const std::lock_guard<std::mutex> lock(mutex_);
    auto known = table_.find({body.node(), kept, axes});
    if (known != table_.end()) return known->second;
    std::vector<char> flags(static_cast<size_t>(axes), 0);
    std::fill_n(flags.begin(), kept, 1);
    auto s = Recogniser(flags).run(body);
    if (!s) return s;  // seen at once
    table_.emplace(Key{body.node(), kept, axes}, s);
    return s;
  }

 private:
  using Key = std::tuple<const ExprNode*, int, int>;
  std::mutex mutex_;
  std::map<Key, std::shared_ptr<const SumOfProducts>> table_;
};

}  // namespace

std::shared_ptr<const SumOfProducts> sum_of_products(Expr body, int kept, int axes) {
  return ExprTable::current().memory<Found>().ask(body, kept, axes);
}

std::shared_ptr<const SumOfProducts> sum_of_products(const Definition& d) {
  if (d.reduce ? *d.reduce != Reduce::add : !d.scatter) return nullptr;
  const int axes = static_cast<int>(d.domain.size());
  if (!d.scatter) return sum_of_products(d.body, d.kept(), axes);
  std::vector<char> kept(static_cast<size_t>(axes), 0);
  for (Expr index : d.out_index)
    for (int k : axes_used(index, 0, axes)) kept[static_cast<size_t>(k)] = 1;
  return Recogniser(kept).run(d.body);
}

std::vector<std::shared_ptr<const SumOfProducts>> sums_of_terms(const Definition& d) {
  std::vector<std::shared_ptr<const SumOfProducts>> found;
  if (d.reduce ? *d.reduce != Reduce::add : !d.scatter) return found;
  const int axes = static_cast<int>(d.domain.size()), kept = d.scatter ? 0 : d.kept();
  std::vector<char> flags(static_cast<size_t>(axes), 0);
  std::fill_n(flags.begin(), kept, 1);
  const Recogniser recogniser(flags);
  std::vector<Expr> terms = {d.body};
  NodeSet seen;
  while (!terms.empty()) {
    const Expr e = terms.back();
    terms.pop_back();
    if (!seen.insert(e.node(), {}) || recogniser.open(e, terms)) continue;
    if (auto s = sum_of_products(e, kept, axes)) found.push_back(std::move(s));
  }
  return found;
}

std::string to_string(const SumOfProducts& s) {
  std::string out;
  const auto list = [&](const char* name, const std::vector<int>& axes) {
    if (axes.empty()) return;
    out += (out.empty() ? "" : ", ") + std::string(name);
    for (int k : axes) out += " " + std::to_string(k);
  };
  list("batch", s.batch), list("rows", s.rows), list("columns", s.columns);
  list("steps", s.steps), list("row steps", s.row_steps), list("column steps", s.column_steps);
  for (const WindowOfSum& w : s.windows)
    out += concat(", ", w.factor == 0 ? "first[" : "second[", w.index, "] = ", to_string(s.index_of(w)));
  return out;
}

int64_t recognised_sums_of_products() { return recognised; }

}  // namespace metac
