// Gradients, as a node that the compiler's differentiation is the lowering of (ONNX's operator Gradient): its operands are
// the values it is taken by and the value that is differentiated, and what lies between them must stand in the same program.
// So where a part of that has been run already, it is appended once more, to be computed again with the gradient.
#include <algorithm>

#include "compiler/lazy/lazy_graph.h"
#include "compiler/support/diagnostic.h"

namespace metac::lazy {
namespace {

bool passes(const Node& node) { return !node.no_grad && node.input_count > 0; }

// The nodes at or above `roots` that `enters` lets through, operands before their readers. Chains may be as long as a
// program ran: there is a list and no recursion.
template <class Enters>
std::vector<Node*> operands_first(const std::vector<Node*>& roots, Enters enters) {
  std::vector<Node*> order;
  std::unordered_set<const Node*> entered;
  std::vector<std::pair<Node*, uint32_t>> way;
  for (Node* root : roots) {
    if (!enters(root) || !entered.insert(root).second) continue;
    way.emplace_back(root, 0);
    while (!way.empty()) {
      auto& [node, next] = way.back();
      if (next == node->input_count) {
        order.push_back(node);
        way.pop_back();
        continue;
      }
      const Value* operand = node->inputs()[next++];
      if (operand && enters(operand->node) && entered.insert(operand->node).second) way.emplace_back(operand->node, 0);
    }
  }
  return order;
}

// Those that a derivative of `y` can reach on its way to one of xs, none of which was made before `first`.
std::vector<Node*> nodes_above(const Value* y, uint64_t first) {
  return operands_first({y->node}, [&](const Node* node) { return passes(*node) && node->serial > first; });
}

std::string at(const Site& site) { return site.file ? concat(" (written in ", text_of(site), ")") : ""; }

}  // namespace

// Appends the nodes `way` anew, with those that give them operands which nobody kept; `operands` become their copies, and
// `again` gets what was appended.
void LazyGraph::append_again(const std::vector<Node*>& way, std::vector<Value*>& operands, std::vector<Value*>& again) {
  std::unordered_set<const Node*> wanted(way.begin(), way.end());
  for (std::vector<Node*> open(way); !open.empty();) {
    Node* const node = open.back();
    open.pop_back();
    if (node->by_value)
      fail("no derivative passes ", node->operation->name, at(node->site), ": its shape follows from values");
    if (node->operation->draws && !node->pending)
      fail(node->operation->name, at(node->site),
           " has drawn its random numbers: a gradient that passes it must be asked for before anything is looked at");
    for (uint32_t k = 0; k < node->input_count; ++k) {
      const Value* operand = node->inputs()[k];
      if (operand && operand->state == ValueState::overwritten)
        fail(node->operation->name, at(node->site), " read a ", text_of(*operand->type),
             " that its next version has overwritten since: a gradient that passes it must be asked for before the step is "
             "looked at, or the older version be held");
      const bool lost = operand && operand->state == ValueState::let_go;
      if (lost && wanted.insert(operand->node).second) open.push_back(operand->node);
    }
  }
  std::unordered_map<const Value*, Value*> copies;
  const auto copy_of = [&](Value* value) {
    const auto found = copies.find(value);
    return found == copies.end() ? value : found->second;
  };
  for (Node* node : operands_first(way, [&](const Node* each) { return wanted.count(each) > 0; })) {
    std::vector<Value*> inputs;
    for (uint32_t k = 0; k < node->input_count; ++k)
      inputs.push_back(node->inputs()[k] ? copy_of(node->inputs()[k]) : nullptr);
    std::vector<Value*> made(node->output_count);
    if (node->operation->is_gradient())
      gradient(inputs.back(), inputs.data(), node->input_count - 1, made.data(), node->site);
    else
      apply(node->operation, inputs.data(), node->input_count, made.data(), node->output_count, node->site, node->no_grad);
    for (uint32_t k = 0; k < node->output_count; ++k) {
      copies.emplace(node->outputs() + k, made[k]);
      again.push_back(made[k]);
    }
  }
  for (Value*& operand : operands) operand = copy_of(operand);
}

void LazyGraph::gradient(Value* y, Value* const* xs, uint32_t count, Value** outputs, Site site) {
  if (!is_float(y->type->dtype)) fail("a gradient is taken of a ", text_of(*y->type), "; its elements must be real numbers");
  for (uint32_t k = 0; k < count; ++k)
    if (!is_float(xs[k]->type->dtype))
      fail("a gradient is taken by a ", text_of(*xs[k]->type), "; its elements must be real numbers");

  // Where the segment holds all that was appended between them, and it did so before, the way need not be walked again.
  StructureHash key = segment_.hash;
  bool in_segment = !segment_.reads_history && y->node->pending;
  key.mix(y->place);
  for (uint32_t k = 0; k < count; ++k) {
    in_segment &= xs[k]->node->pending || xs[k]->segment == segment_.number;
    key.mix(uint64_t{xs[k]->place} << 1 | uint64_t{xs[k]->node->pending});
  }
  std::vector<Value*> operands(xs, xs + count);
  operands.push_back(y);
  std::vector<Value*> again;  // appended here: the handles are given back at the end
  if (!in_segment || !whole_gradients_.count(key)) {
    std::unordered_set<const Value*> dependent(xs, xs + count);
    std::unordered_set<const Value*> reached;  // of xs
    std::vector<Node*> way;
    bool computed = false;
    uint64_t first = xs[0]->node->serial;
    for (uint32_t k = 1; k < count; ++k) first = std::min(first, xs[k]->node->serial);
    for (Node* node : nodes_above(y, first)) {
      bool depends = false;
      for (uint32_t k = 0; k < node->input_count; ++k) {
        const Value* operand = node->inputs()[k];
        if (!operand || !dependent.count(operand)) continue;
        depends = true;
        if (std::find(xs, xs + count, operand) != xs + count) reached.insert(operand);
      }
      if (!depends) continue;
      way.push_back(node);
      computed |= !node->pending;
      for (uint32_t k = 0; k < node->output_count; ++k) dependent.insert(node->outputs() + k);
    }
    for (uint32_t k = 0; k < count; ++k)
      if (xs[k] != y && !reached.count(xs[k]))
        fail("the gradient by operand ", k, ", a ", text_of(*xs[k]->type), at(xs[k]->node->site),
             ": what is differentiated does not depend on it by anything that a derivative passes");
    if (computed) {
      append_again(way, operands, again);
    } else if (in_segment) {
      if (whole_gradients_.size() > 65536) whole_gradients_.clear();
      whole_gradients_.insert(key);
    }
  }

  Node* const node = Node::make(gradient_operation(), count, count + 1);
  ++report_.live_nodes, ++report_.nodes;
  node->serial = ++serial_;
  node->site = site;
  for (uint32_t k = 0; k <= count; ++k) {
    node->inputs()[k] = operands[k];
    ++operands[k]->readers, ++operands[k]->node->references;
  }
  for (uint32_t k = 0; k < count; ++k) {
    outputs[k] = node->outputs() + k;
    outputs[k]->type = xs[k]->type;
    hold(outputs[k]);
  }
  enter(node);
  for (Value* each : again) release(each);
  keep_segment_small();
}

}  // namespace metac::lazy
