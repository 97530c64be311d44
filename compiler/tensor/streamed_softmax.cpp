#include "compiler/tensor/streamed_softmax.h"

#include <algorithm>
#include <cmath>

#include "compiler/tensor/sum_of_products.h"

namespace metac {
namespace {

class SoftmaxMatcher {
 public:
  explicit SoftmaxMatcher(const Group& group) : group_(group), shared_(group.shared) {}

  std::optional<StreamedSoftmax> run() {
    if (group_.stages.size() < 5 || shared_ < 1) return std::nullopt;
    for (const Definition& d : group_.stages)
      if ((d.out->dtype() != DType::f32 && &d != &group_.stages.back()) || d.scatter ||
          (d.reduce && d.accumulator != DType::f32))
        return std::nullopt;
    if (!is_scores(group_.stages[0])) return std::nullopt;
    for (size_t k = 1; k + 1 < group_.stages.size(); ++k)
      if (!middle(group_.stages[k])) return std::nullopt;
    if (largest_ < 0 || weights_ < 0 || s_.sum < 0 || !is_last(group_.stages.back())) return std::nullopt;
    return s_;
  }

 private:
  std::vector<Expr> row_and(int axis_id) const {
    std::vector<Expr> index = identity_indices(shared_);
    index.push_back(axis(axis_id));
    return index;
  }

  // The products that are summed along one axis as they are; null: it is something else.
  std::shared_ptr<const SumOfProducts> products(const Definition& d) const {
    if (d.reduced != 1 || d.kept() != shared_ + 1) return nullptr;
    auto s = sum_of_products(d);
    return s && !s->of_words() && s->is_bare() ? s : nullptr;
  }

  bool is_scores(const Definition& d) {
    const auto s = products(d);
    if (!s || d.out_index != row_and(shared_)) return false;
    const bool first = std::count(s->rows.begin(), s->rows.end(), shared_) > 0;
    if (!first && std::count(s->columns.begin(), s->columns.end(), shared_) == 0) return false;
    s_.column_factor = s->factors[first ? 0 : 1].value;
    s_.row_factor = s->factors[first ? 1 : 0].value;
    if (uses_axis(s_.column_factor, shared_ - 1)) return false;
    s_.scores = &d;
    inlined_[d.out->id] = d.epilogue;
    return true;
  }

  // A value of the row and the column with everything in its place that was computed before; empty: it reads what it must
  // not.
  Expr inlined(Expr e) const {
    bool good = true;
    Expr value = rewrite(e, [&](Expr n) -> Expr {
      if (n->kind != ExprKind::load) return {};
      if (auto found = inlined_.find(n->id); found != inlined_.end()) {
        good = good && n->args == row_and(shared_);
        return found->second;
      }
      good = good && n->id != weights_ && n->id != s_.sum;
      return {};
    });
    return good ? value : Expr();
  }

  static bool is_plain_sum(const Definition& d) {
    return d.epilogue->kind == ExprKind::load && d.epilogue->id == reduced_value;
  }
  bool loads(Expr e, int var) const {
    return any_of(e, [&](Expr n) { return n->kind == ExprKind::load && n->id == var; });
  }

  bool middle(const Definition& d) {
    if (!group_.internal.count(d.out->id)) return false;
    if (!d.reduce) {
      const Expr value = d.kept() == shared_ + 1 && d.out_index == row_and(shared_) ? inlined(d.body) : Expr();
      if (!value) return false;
      if (largest_ < 0) return inlined_[d.out->id] = value, true;
      const Expr difference = value->kind == ExprKind::call && value->fn == Fn::exp ? value->args[0] : Expr();
      if (weights_ >= 0 || !difference || difference->kind != ExprKind::call || difference->fn != Fn::sub ||
          difference->args[0] != s_.score || !is_largest(difference->args[1]))
        return false;
      weights_ = d.out->id;
      return true;
    }
    if (d.reduced != 1 || d.kept() != shared_ || !is_plain_sum(d)) return false;
    if (*d.reduce == Reduce::max && largest_ < 0) {
      s_.score = inlined(d.body);
      largest_ = d.out->id;
      return bool(s_.score);
    }
    if (*d.reduce != Reduce::add || s_.sum >= 0 || d.body->kind != ExprKind::load || d.body->id != weights_ ||
        d.body->args != row_and(shared_))
      return false;
    s_.sum = d.out->id;
    return true;
  }

  // A weight, or float32(float16(weight)).
  bool is_weight(const Factor& f) const {
    const bool rounded = f.conversions.size() == 2 && f.conversions[1] == DType::f32;
    return bool(f.load) && f.load->id == weights_ && f.load->args == row_and(shared_ + 1) && f.conditions.empty() &&
           !f.scale && !f.zero_point && (f.conversions.empty() || rounded);
  }

  bool is_of_row(Expr e, int var) const {
    if (e->kind != ExprKind::load || e->id != var) return false;
    for (int k = 0; k < shared_; ++k)
      if (e->args[static_cast<size_t>(k)] != axis(k)) return false;
    return true;
  }

  // The largest score of the row; or 0 where that is -infinity, as streaming has it anyway.
  bool is_largest(Expr e) const {
    if (e->kind != ExprKind::call || e->fn != Fn::select) return is_of_row(e, largest_);
    const Expr condition = e->args[0], largest = e->args[2];
    return is_of_row(largest, largest_) && e->args[1] == float_constant(0, DType::f32) &&
           condition == call(Fn::eq, {largest, float_constant(-HUGE_VAL, DType::f32)});
  }

  bool is_last(const Definition& d) {
    const auto s = products(d);
    if (!s) return false;
    const bool first = bool(s->factors[0].load) && s->factors[0].load->id == weights_;
    const Factor& weight = s->factors[first ? 0 : 1];
    s_.values = s->factors[first ? 1 : 0].value;
    if (!is_weight(weight) || uses_axis(s_.values, shared_ - 1)) return false;
    if (!weight.conversions.empty()) s_.weights = weight.conversions[0];
    for (int id : group_.internal)
      if (loads(s_.values, id) || (id != s_.sum && loads(d.epilogue, id))) return false;
    bool rows = true;
    visit(d.epilogue,
          [&](Expr n) { rows = rows && (n->kind != ExprKind::load || n->id != s_.sum || is_of_row(n, s_.sum)); });
    s_.last = &d;
    return rows;
  }

  const Group& group_;
  int shared_;
  StreamedSoftmax s_;
  std::map<int, Expr> inlined_;
  int largest_ = -1, weights_ = -1;  // Var ids
};

}  // namespace

std::optional<StreamedSoftmax> match_streamed_softmax(const Group& group) { return SoftmaxMatcher(group).run(); }

}  // namespace metac
