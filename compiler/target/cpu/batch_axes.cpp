#include "compiler/target/cpu/batch_axes.h"

#include <algorithm>

namespace metac {
namespace {

const Var* var_of(const Graph& graph, int id) { return graph.vars()[static_cast<size_t>(id)].get(); }

// The rows of a domain along one axis as images of equally many rows.
class Images {
 public:
  // The axis has equally many rows of each.
  Images(const Definition& d, const std::vector<Symbol>& symbols, int axis_id, Expr images)
      : bounds_(symbols, d.domain),
        axis_(axis_id),
        images_(images),
        rows_(rows_of_image(d.domain[static_cast<size_t>(axis_id)], images)),
        image_(static_cast<int>(d.domain.size())) {
    bounds_.set_axis(axis_, rows_);
    bounds_.set_axis(image_, images);
  }

  // Is `e` the same for all images?
  bool same(Expr e) const { return !e || !uses_axis(e, axis_) || !uses_axis(of_image(e), image_); }

  // Does `index`, of an axis with `extent` rows, stay within an image's own rows?
  bool follows(Expr index, Expr extent) const {
    const Expr rows = rows_of_image(extent, images_);
    if (!rows) return false;
    Expr first = simplify(of_image(index) - axis(image_) * rows, bounds_);
    return !uses_axis(first, image_) && bounds_.proves_at_least(first, 0) && bounds_.proves_less(first, rows);
  }

 private:
  // `e` in a row of the first image, moved on by a number of images.
  Expr of_image(Expr e) const {
    return simplify(rewrite(e, [&](Expr n) { return n == axis(axis_) ? axis(axis_) + axis(image_) * rows_ : Expr(); }),
                    bounds_);
  }

  Bounds bounds_;
  int axis_;
  Expr images_, rows_;
  int image_;  // an axis beyond the domain's: which image
};

}  // namespace

Expr rows_of_image(Expr extent, Expr images) {
  if (extent.if_int() && images.if_int())
    return extent.as_int() > 0 && extent.as_int() % images.as_int() == 0 ? Expr(extent.as_int() / images.as_int()) : Expr();
  const Expr rows = quotient_of(extent, images);
  const bool mixed = !images.if_int() && any_of(rows, [&](Expr n) { return n == images; });
  return !mixed && !rows.is_int(0) && rows * images == extent ? rows : Expr();
}

BatchAxes::BatchAxes(const Graph& graph, const FusedRegion& region, const std::function<bool(const Var*)>& is_constant)
    : graph_(graph), is_constant_(is_constant), items_(region.items.size()) {
  for (const Var* in : graph.inputs) {
    if (in->rank() == 0) continue;
    const Expr rows = in->shape()[0];
    const bool several = rows.if_int() ? rows.as_int() > 1 : rows->kind == ExprKind::symbol;
    if (several && (batch_.is_int(1) || rows == batch_)) {
      if (!input_) input_ = in;
      batch_ = rows;
      vars_[in->id] = 0;
    }
  }
  if (batch_.is_int(1)) return;
  for (size_t k = 0; k < region.items.size(); ++k) {
    std::vector<int> axes;
    if (!region.items[k].op && follow(region.items[k].group, axes)) items_[k] = axes;
  }
}

std::optional<int> BatchAxes::axis_of(const Definition& d, const std::map<int, int>& vars) const {
  if (d.scatter) return std::nullopt;
  for (int axis_id = 0; axis_id < d.kept(); ++axis_id)
    if (bool(rows_of_image(d.domain[static_cast<size_t>(axis_id)], batch_)) && follows(d, axis_id, vars)) return axis_id;
  return std::nullopt;
}

// Does the axis take every load of a value that follows the batch to the rows of its own image, and change nothing else?
bool BatchAxes::follows(const Definition& d, int axis_id, const std::map<int, int>& vars) const {
  const Images images(d, graph_.symbols, axis_id, batch_);
  bool good = true, any = false;
  auto without_batch = [&](Expr e) {
    return e ? rewrite(e,
                       [&](Expr n) -> Expr {
                         if (n->kind != ExprKind::load || n->id == reduced_value) return {};
                         auto at = vars.find(n->id);
                         if (at == vars.end()) {
                           good = good &&
                                  is_constant_(var_of(
                                      graph_, n->id));  // what everyone reads whole is no obstacle only if it never changes
                           return {};
                         }
                         const size_t k = static_cast<size_t>(at->second);
                         good = good && images.follows(n->args[k], var_of(graph_, n->id)->shape()[k]);
                         any = true;
                         std::vector<Expr> args = n->args;
                         args[k] = 0;
                         return load(n->id, n->dtype, args);
                       })
             : e;
  };
  bool same = true;
  auto check = [&](Expr e) { same = same && images.same(without_batch(e)); };
  check(d.body);
  check(d.epilogue);
  for (Expr condition : d.conditions) check(condition);
  return same && good && any;
}

bool BatchAxes::follow(const Group& group, std::vector<int>& axes) {
  std::map<int, int> vars = vars_;
  for (const Definition& d : group.stages) {
    auto axis_id = axis_of(d, vars);
    if (!axis_id) return false;
    int out_axis = -1;
    const Images images(d, graph_.symbols, *axis_id, batch_);
    for (int k = 0; k < d.out->rank(); ++k) {
      Expr e = d.out_index[static_cast<size_t>(k)];
      if (images.same(e)) continue;
      if (out_axis >= 0 || !images.follows(e, d.out->shape()[static_cast<size_t>(k)])) return false;
      out_axis = k;
    }
    auto before = vars.find(d.out->id);
    if (out_axis < 0 || (before != vars.end() && before->second != out_axis)) return false;
    if (*axis_id < group.shared && !axes.empty() && axes[0] != *axis_id) return false;
    vars[d.out->id] = out_axis;
    axes.push_back(*axis_id);
  }
  vars_ = std::move(vars);  // what follows the item may be cut even where the item itself may not
  if (group.shared > 0 && axes[0] >= group.shared) return false;
  return !group.strategy || !group.strategy->holds_axis(axes[0]);
}

}  // namespace metac
