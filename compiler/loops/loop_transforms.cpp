#include "compiler/loops/loop_transforms.h"

#include <algorithm>
#include <unordered_map>

#include "compiler/ir/walks.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tensor/axes.h"

namespace metac {

static Expr substitute_one(Expr e, int id, Expr value) {
  return rewrite(e, [&](Expr n) { return n->kind == ExprKind::axis && n->id == id ? value : Expr(); });
}

bool can_collapse(Expr e, const Loop& outer, const Loop& inner) {
  return answer_once<bool>(e, [&](Expr n, const auto& of) {
    if (n->has_load || n->dtype != DType::i64)
      return std::all_of(n->args.begin(), n->args.end(), [&](Expr a) { return of(a); });
    if (!uses_axis(n, outer.axis) && !uses_axis(n, inner.axis)) return true;
    Expr both = axis(outer.axis) * inner.extent + axis(inner.axis);
    return rewrite(n, [&](Expr part) -> Expr {
             if (part->kind != ExprKind::axis) return {};
             return part->id == outer.axis ? Expr(0) : part->id == inner.axis ? both : Expr();
           }) == n;
  });
}

Expr collapse_axes(Expr e, const Loop& outer, const Loop& inner, const Loop& merged) {
  return rewrite(e, [&](Expr n) -> Expr {
    if (n->kind != ExprKind::axis) return {};
    return n->id == outer.axis ? Expr(0) : n->id == inner.axis ? axis(merged.axis) : Expr();
  });
}

// What lanes can hold: there is one for every 4 bytes of a vector register, narrower elements are loaded and stored as
// narrower vectors.
static bool lane_dtype(DType dtype) {
  return !is_bool(dtype) && (is_float(dtype) || is_integer(dtype)) && size_of(dtype) <= 4;
}

// Can an expression be a value in lanes, along one axis? A shared node is asked once: a chain of x + x has
// exponentially many paths.
class VectorisableCheck {
 public:
  VectorisableCheck(int axis_id, int64_t most_step) : axis_(axis_id), most_step_(most_step) {}

  const std::string& reason() const { return reason_; }  // of the first refusal

  bool operator()(Expr e) {
    if (auto known = answers_.find(e); known != answers_.end()) return known->second;
    bool answer = check(e);
    answers_[e] = answer;
    return answer;
  }

 private:
  bool refuse(const std::string& reason) {
    if (reason_.empty()) reason_ = reason;
    return false;
  }

  bool check(Expr e) {
    if (!uses_axis(e, axis_)) return true;  // the same in all lanes
    switch (e->kind) {
      case ExprKind::load: {
        if (!lane_dtype(e->dtype)) return refuse(concat("lanes hold no ", name_of(e->dtype)));
        if (e->args.empty()) return refuse("a scalar local is read");
        if (const Expr byte = byte_looked_up(e)) return (*this)(byte);
        Expr step = stride_of(e->args[0], axis_);
        if (!step) return refuse("a load does not step evenly");
        if (step.if_int() && step.as_int() > 1 && step.as_int() <= most_step_ && size_of(e->dtype) != 2) return true;
        return step.is_int(1) || refuse("a load steps by " + to_string(step));
      }
      case ExprKind::call: {
        if (!lane_dtype(e->dtype) && !is_bool(e->dtype))
          return refuse(is_float(e->dtype) || e->has_load ? concat("lanes hold no ", name_of(e->dtype))
                                                          : "a value is made of its position");
        if (e->fn == Fn::select && !uses_axis(e->args[0], axis_)) return (*this)(e->args[1]) && (*this)(e->args[2]);
        for (Expr a : e->args)  // lanes hold half types as their bits, and masks are as wide as what was compared
          if ((is_half(a->dtype) && e->fn != Fn::select) ||
              (yields_bool(e->fn) && lane_dtype(a->dtype) && size_of(a->dtype) != 4))
            return refuse(concat(name_of(e->fn), " of ", name_of(a->dtype), " has no lanes"));
        for (Expr a : e->args) {
          if (!(lane_dtype(a->dtype) || (is_bool(a->dtype) && uses_axis(a, axis_))))
            return refuse(a->has_load ? concat("lanes hold no ", name_of(a->dtype)) : "a condition is on the position");
          if (!(*this)(a)) return false;
        }
        return true;
      }
      case ExprKind::cast:
        if (!lane_dtype(e->dtype) || !lane_dtype(e->args[0]->dtype))
          return refuse(concat("lanes hold no ", name_of(lane_dtype(e->dtype) ? e->args[0]->dtype : e->dtype)));
        return (*this)(e->args[0]);
      default:
        return refuse("a value is made of its position");
    }
  }

  int axis_;
  int64_t most_step_;
  std::string reason_;
  std::unordered_map<Expr, bool> answers_;
};

bool can_vectorise(const Loop& loop, const std::vector<Expr>& values, Expr store_offset, std::string* reason,
                   int64_t most_step) {
  auto refuse = [&](const std::string& why) {
    if (reason) *reason = why;
    return false;
  };
  if (loop.kind != LoopKind::serial) return refuse("the loop is not serial");
  if (store_offset) {
    Expr step = stride_of(store_offset, loop.axis);
    if (!step) return refuse("the result does not step evenly");
    if (!step.is_int(1)) return refuse("the result steps by " + to_string(step));
  }
  VectorisableCheck vectorisable(loop.axis, most_step);
  for (Expr e : values) {
    if (!e) continue;
    if (!lane_dtype(e->dtype)) return refuse(concat("lanes hold no ", name_of(e->dtype)));
    if (!vectorisable(e)) return refuse(vectorisable.reason());
    // Lane-wise selects on loaded data compute both sides; a condition must not guard a load then.
    bool guarded = any_of(e, [&](Expr n) {
      return n->kind == ExprKind::call && n->fn == Fn::select && uses_axis(n->args[0], loop.axis) && any_of(n, [&](Expr m) {
               return m->kind == ExprKind::load && !m->args.empty() && m->args[0]->has_load && !byte_looked_up(m);
             });
    });
    if (guarded) return refuse("a condition on the lanes guards a gather");
  }
  return true;
}

Expr masks_chosen(Expr e) {
  if (!e) return e;
  return rewrite(e, [](Expr n) -> Expr {
    const bool mask = n->kind == ExprKind::cast && n->args[0]->kind == ExprKind::call && is_bool(n->args[0]->dtype);
    if (!mask || !lane_dtype(n->dtype) || size_of(n->dtype) != 4) return {};
    return select(n->args[0], constant_of(n->dtype, 1), constant_of(n->dtype, 0));
  });
}

void substitute_axis(LoopNode& node, int id, Expr value) {
  auto apply = [&](Expr& e) {
    if (e) e = substitute_one(e, id, value);
  };
  apply(node.guard);
  for (Loop& l : node.loops) {
    apply(l.extent);
    apply(l.active);
  }
  for (Prefetch& f : node.prefetches) apply(f.offset);
  for (Assign& a : node.assigns) {
    apply(a.offset);
    apply(a.value);
  }
  for (LoopNode& child : node.children) substitute_axis(child, id, value);
}

}  // namespace metac
