#include "compiler/tensor/streamed_softmax.h"

#include <algorithm>

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

  // Which factor of a product uses the axis, if exactly one does.
  static bool factors(Expr body, int axis_id, Expr& with, Expr& without) {
    if (body->kind != ExprKind::call || body->fn != Fn::mul) return false;
    const bool first = uses_axis(body->args[0], axis_id), second = uses_axis(body->args[1], axis_id);
    with = body->args[first ? 0 : 1];
    without = body->args[first ? 1 : 0];
    return first != second;
  }

  bool is_scores(const Definition& d) {
    if (!d.reduce || *d.reduce != Reduce::add || d.reduced != 1 || d.kept() != shared_ + 1 ||
        d.out_index != row_and(shared_))
      return false;
    if (!factors(d.body, shared_, s_.column_factor, s_.row_factor) || uses_axis(s_.column_factor, shared_ - 1)) return false;
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
          difference->args[0] != s_.score || !is_of_row(difference->args[1], largest_))
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

  // x of float32(float16(x))
  static Expr before_rounding(Expr e) {
    const bool rounded = e->kind == ExprKind::cast && e->dtype == DType::f32 && e->args[0]->kind == ExprKind::cast &&
                         e->args[0]->args[0]->dtype == DType::f32;
    return rounded ? e->args[0]->args[0] : e;
  }

  bool is_of_row(Expr e, int var) const {
    if (e->kind != ExprKind::load || e->id != var) return false;
    for (int k = 0; k < shared_; ++k)
      if (e->args[static_cast<size_t>(k)] != axis(k)) return false;
    return true;
  }

  bool is_last(const Definition& d) {
    if (!d.reduce || *d.reduce != Reduce::add || d.reduced != 1 || d.kept() != shared_ + 1 ||
        d.body->kind != ExprKind::call || d.body->fn != Fn::mul)
      return false;
    const Expr left = before_rounding(d.body->args[0]);
    const bool first = left->kind == ExprKind::load && left->id == weights_;
    const Expr rounded = d.body->args[first ? 0 : 1], weight = before_rounding(rounded);
    if (weight != rounded) s_.weights = rounded->args[0]->dtype;
    s_.values = d.body->args[first ? 1 : 0];
    if (weight->kind != ExprKind::load || weight->id != weights_ || weight->args != row_and(shared_ + 1) ||
        uses_axis(s_.values, shared_ - 1))
      return false;
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
