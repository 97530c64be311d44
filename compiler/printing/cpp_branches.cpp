#include "compiler/printing/cpp_branches.h"

#include <unordered_map>
#include <unordered_set>

#include "compiler/ir/walks.h"

namespace metac {

bool is_branch(Expr e) {
  return e->kind == ExprKind::call && e->fn == Fn::select && (e->args[1]->has_load || e->args[2]->has_load);
}

// The branches that stand in the same scope as a value.
static void visit_scope(Expr e, NodeSet& seen, std::vector<Expr>& branches) {
  if (!seen.insert(e.node(), {})) return;
  if (!is_branch(e)) {
    for (Expr a : e->args) visit_scope(a, seen, branches);
    return;
  }
  branches.push_back(e);
  visit_scope(e->args[0], seen, branches);
}

int64_t written_branches(Expr e) {
  return answer_once<int64_t>(e, [](Expr root, const auto& of) {
    NodeSet seen;
    std::vector<Expr> branches;
    visit_scope(root, seen, branches);
    int64_t written = static_cast<int64_t>(branches.size());
    for (Expr b : branches)
      for (size_t side : {1, 2})
        if (__builtin_add_overflow(written, of(b->args[side]), &written)) written = INT64_MAX;
    return written;
  });
}

std::vector<Expr> shared_branches(Expr e) {
  std::unordered_map<const ExprNode*, int> uses;
  std::unordered_set<const ExprNode*> branching;
  std::vector<Expr> shared;
  visit(e, [&](Expr n) {
    bool any = is_branch(n);
    for (Expr a : n->args) {
      ++uses[a.node()];
      any = any || branching.count(a.node()) > 0;
    }
    if (any) branching.insert(n.node());
  });
  visit(e, [&](Expr n) {
    if (uses[n.node()] > 1 && branching.count(n.node())) shared.push_back(n);
  });
  return shared;
}

}  // namespace metac
