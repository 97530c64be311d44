// Nodes that have been run and are kept, because a gradient may be asked for through them.
//
// A gradient can only be asked for by a value that somebody holds. So a node that has been run is of use while a value above
// it is held; a loop that computes the next weights out of the last ones, of which nobody holds any, keeps nothing. Whether
// one is held is found out now and then, when there are twice as many nodes as the last time.
#include <algorithm>
#include <unordered_set>

#include "compiler/lazy/lazy_graph.h"

namespace metac::lazy {

void LazyGraph::keep_history(Node* node) {
  node->in_history = true;
  node->before = last_in_history_;
  node->behind = nullptr;
  (last_in_history_ ? last_in_history_->behind : first_in_history_) = node;
  last_in_history_ = node;
  ++history_size_;
}

void LazyGraph::forget_history(Node* node) {
  (node->before ? node->before->behind : first_in_history_) = node->behind;
  (node->behind ? node->behind->before : last_in_history_) = node->before;
  node->before = node->behind = nullptr;
  node->in_history = false;
  --history_size_;
}

void LazyGraph::prune_history() {
  if (history_size_ < prune_at_) return;
  std::unordered_set<const Node*> useful;
  for (Node* node = first_in_history_; node; node = node->behind) {  // in the order in which they were appended
    bool wanted = false;
    for (uint32_t k = 0; k < node->input_count && !wanted; ++k) {
      const Value* operand = node->inputs()[k];
      wanted = operand && is_float(operand->type->dtype) &&
               (operand->handles > 0 || operand->node->pending || useful.count(operand->node) > 0);
    }
    if (wanted) useful.insert(node);
  }
  std::vector<Node*> useless;
  for (Node* node = last_in_history_; node; node = node->before) {  // what those are computed from again is of use too
    if (!useful.count(node)) {
      useless.push_back(node);
      continue;
    }
    for (uint32_t k = 0; k < node->input_count; ++k)
      if (const Value* operand = node->inputs()[k]; operand && operand->state == ValueState::let_go)
        useful.insert(operand->node);
  }
  for (Node* node : useless) ++node->references;  // dropping the operands of one may end another one
  for (Node* node : useless) {
    forget_history(node);
    drop_operands(node);
  }
  for (Node* node : useless)
    if (--node->references == 0) free_node(node);
  prune_at_ = std::max<int64_t>(4096, 2 * history_size_);
}

}  // namespace metac::lazy
