#include "compiler/loops/verify_kernel.h"

#include <map>
#include <ostream>
#include <set>

#include "compiler/ir/reads.h"
#include "compiler/ir/walks.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

// Its text is made where somebody reads it: there are as many checks as nodes.
struct ShownExpr {
  Expr e;
  friend std::ostream& operator<<(std::ostream& out, const ShownExpr& shown) { return out << to_string(shown.e); }
};

class KernelVerifier {
 public:
  KernelVerifier(const Kernel& kernel, std::string_view what) : k_(kernel), what_(what) {}

  void run() {
    for (const IndexName& name : k_.names) add_name(name);
    for (const Local& local : k_.scratch) declare(local);
    node(k_.root, true);
  }

 private:
  template <class... Parts>
  void require(bool holds, const Parts&... parts) const {
    METAC_ASSERT(holds, what_, ": ", concat(parts...), "\n", to_string(k_));
  }

  void add_axis(int axis) {
    require(0 <= axis && axis < k_.next_axis, "there is no axis ", axis);
    require(axes_.insert(axis).second, "axis ", axis, " inside itself");
  }
  void add_name(const IndexName& name) {
    check(name.value, "a name");
    add_axis(name.axis);
  }
  void declare(const Local& local) {
    require(0 <= local.id && local.id < k_.next_local, "there is no local ", local.id);
    if (local.count) check(local.count, "the size of a local");
    require(locals_.emplace(local.id, &local).second, "local ", local.id, " is declared twice");
  }

  DType dtype_of(int place, const char* where) const {
    if (place >= first_local) {
      auto local = locals_.find(place - first_local);
      require(local != locals_.end(), where, ": local ", place - first_local, " is not declared");
      return local->second->dtype;
    }
    require(0 <= place && static_cast<size_t>(place) < k_.arguments.size(), where, ": no argument ", place);
    return k_.arguments[static_cast<size_t>(place)].var->dtype();
  }

  void check(Expr e, const char* where) const {
    require(bool(e), where, " is empty");
    visit(e, [&](Expr n) {
      if (n->kind == ExprKind::axis) {
        require(axes_.count(n->id) > 0, where, " reads axis ", n->id, " outside of its loop: ", ShownExpr{e});
      } else if (n->kind == ExprKind::load) {
        require(is_read_as(dtype_of(n->id, where), n->dtype), where, " reads as another dtype: ", ShownExpr{n});
        const bool scalar = n->id >= first_local && !locals_.at(n->id - first_local)->count;
        require(scalar ? n->args.empty() : n->args.size() == 1, where, " has other offsets: ", ShownExpr{n});
      }
    });
  }

  void check_local(int local, const char* where) const {
    require(local < 0 || locals_.count(local), where, ": local ", local, " is not declared");
  }

  void assign(const Assign& a) const {
    const DType dtype = dtype_of(a.target, "an assignment");
    const bool local = a.target >= first_local;
    require(local || k_.arguments[static_cast<size_t>(a.target)].written, "argument ", a.target, " is only read");
    const bool scalar = local && !locals_.at(a.target - first_local)->count;
    require(scalar != bool(a.offset), "an assignment to ", a.target, " with other offsets");
    if (a.offset) check(a.offset, "an offset");
    check(a.value, "a value");
    require(a.value->dtype == dtype, "a value of another dtype than its place: ", ShownExpr{a.value});
  }

  void node(const LoopNode& n, bool root) {
    if (n.guard) check(n.guard, "a guard");
    std::vector<int> axes, locals;
    for (const Loop& loop : n.loops) {
      require(root || (loop.kind != LoopKind::parallel && loop.kind != LoopKind::grid), "a parallel loop inside the tree");
      check(loop.extent, "an extent");
      add_axis(loop.axis);
      axes.push_back(loop.axis);
      for (const IndexName& name : loop.names) {
        add_name(name);
        axes.push_back(name.axis);
      }
    }
    for (const Loop& loop : n.loops)  // a vector's place is a matter of the loops inside it too
      if (loop.active) check(loop.active, "active lanes");
    for (const Local& local : n.locals) {
      declare(local);
      locals.push_back(local.id);
    }
    for (const Prefetch& p : n.prefetches) {
      dtype_of(p.argument, "a prefetch");
      check(p.offset, "a prefetch");
    }
    check_local(n.transposed, "a transposition");
    check_local(n.lane_reduced, "a reduction of lanes");
    check_local(n.combined_in, "a reduction of threads");
    if (n.tensor)
      for (int local : {n.tensor->sums, n.tensor->rows.local, n.tensor->columns.local})
        check_local(local, "a tensor product");
    if (n.matrix) check_local(n.matrix->sums, "a tile of a matrix");
    if (n.matrix && n.matrix->sums_at) check(n.matrix->sums_at, "a tile of a matrix");
    if (n.exchange) check_local(n.exchange->sums, "an exchange");
    for (const Assign& a : n.assigns) assign(a);
    for (const LoopNode& child : n.children) node(child, false);
    for (int axis : axes) axes_.erase(axis);
    for (int local : locals) locals_.erase(local);
  }

  const Kernel& k_;
  std::string_view what_;
  std::set<int> axes_;                  // of the loops around, and worked out
  std::map<int, const Local*> locals_;  // declared around
};

}  // namespace

void verify_kernel(const Kernel& kernel, std::string_view what) { KernelVerifier(kernel, what).run(); }

}  // namespace metac
