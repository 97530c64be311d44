// Appending, and the lives of nodes.
#include "compiler/lazy/lazy_graph.h"

#include <cstring>

#include "compiler/support/diagnostic.h"

namespace metac::lazy {
namespace {

// Words that events are mixed as. Places need 32 bits.
constexpr uint64_t of_input = uint64_t{1} << 62, of_literal = uint64_t{2} << 62, let_go_of = uint64_t{3} << 62;

}  // namespace

LazyGraph& LazyGraph::of_process() {
  static LazyGraph& graph = *new LazyGraph();  // never destroyed: handles of static objects end after it would
  return graph;
}

Value* LazyGraph::made_data(const TensorType* type, std::shared_ptr<const std::byte> bytes) {
  Node* const node = Node::make(nullptr, 1, 0);
  node->serial = ++serial_;
  Value* const value = node->outputs();
  value->type = type;
  value->bytes = std::move(bytes);
  value->state = ValueState::exists;
  ++report_.live_nodes;
  hold(value);
  return value;
}

Value* LazyGraph::data(const TensorType* type, std::shared_ptr<const std::byte> bytes) {
  return made_data(type, std::move(bytes));
}

Value* LazyGraph::literal(const TensorType* type, std::shared_ptr<const std::byte> bytes) {
  StructureHash content;
  content.mix(type->number);
  content.mix_bytes({reinterpret_cast<const char*>(bytes.get()), static_cast<size_t>(type->bytes)});
  Value* const value = made_data(type, std::move(bytes));
  value->content = contents_.try_emplace(content, contents_.size() + 1).first->second;
  return value;
}

Value* LazyGraph::placeholder(const TensorType* type, Site site) {
  Value* const value = made_data(type, nullptr);
  value->state = ValueState::placeholder;
  value->node->site = site;
  return value;
}

void LazyGraph::release(Value* value) {
  Node* const node = value->node;
  --value->handles;
  if (--node->references == 0)
    free_node(node);
  else if (value->handles == 0 && node->pending)
    segment_.hash.mix(let_go_of | value->place);
}

// The operand as a word of its reader's event; data that the segment reads for the first time gets a place.
uint64_t LazyGraph::word_of(Value* operand) {
  if (!operand) return 0;
  if (operand->content) return of_literal | operand->content;
  if (operand->node->pending) return uint64_t{1} + operand->place;
  METAC_ASSERT(operand->state != ValueState::let_go, "an operand that was let go");
  if (operand->segment != segment_.number) {
    operand->segment = segment_.number;
    operand->place = static_cast<uint32_t>(segment_.inputs.size());
    segment_.inputs.push_back(operand);
    const bool computed = operand->node->in_history;
    segment_.reads_history |= computed;
    segment_.hash.mix(operand->type->number << 2 | uint64_t{computed} << 1 |
                      uint64_t{operand->state == ValueState::placeholder});
  }
  return of_input | operand->place;
}

void LazyGraph::enter(Node* node) {
  uint64_t words[8];
  uint64_t pending = 0;
  for (uint32_t k = 0; k < node->input_count; ++k) {
    words[pending++] = word_of(node->inputs()[k]);
    if (pending < 8) continue;
    for (const uint64_t word : words) segment_.hash.mix(word);
    pending = 0;
  }
  for (uint64_t k = 0; k < pending; ++k) segment_.hash.mix(words[k]);
  segment_.hash.mix(node->operation->number << 33 | uint64_t{node->no_grad} << 32 | node->output_count << 16 |
                    node->input_count);
  node->pending = true;
  node->index = static_cast<uint32_t>(segment_.nodes.size());
  segment_.nodes.push_back(node);
  ++segment_.pending;
  for (uint32_t k = 0; k < node->output_count; ++k) {
    Value* const value = node->outputs() + k;
    value->place = static_cast<uint32_t>(segment_.values.size());
    segment_.values.push_back(value);
  }
}

// A literal of the content that the operand has, which is computed now if it is pending.
Value* LazyGraph::literal_of(Value* operand, Site site) {
  evaluate(&operand, 1, site);
  return literal(operand->type, operand->bytes);
}

void LazyGraph::apply(const Operation* operation, Value* const* inputs, uint32_t input_count, Value** outputs,
                      uint32_t output_count, Site site, bool no_grad) {
  METAC_ASSERT(!operation->is_gradient(), "gradient() appends gradients");
  std::vector<Value*> literals;  // that stand for operands; their handles are given back at the end
  std::vector<Value*> operands;
  const auto infer = [&] {
    try {
      return &inference_.infer(operation, inputs, input_count, output_count);
    } catch (const CompileError& error) {
      throw CompileError({text_of(site), "", error.diagnostic.message});
    }
  };
  const Inferred* inferred = infer();
  while (inferred->needs) {
    if (operands.empty()) operands.assign(inputs, inputs + input_count);
    const uint64_t needs = inferred->needs;
    for (uint32_t k = 0; k < input_count; ++k)
      if (needs >> k & 1) literals.push_back(operands[k] = literal_of(operands[k], site));
    inputs = operands.data();
    try {
      inferred = infer();
    } catch (...) {
      for (Value* each : literals) release(each);
      throw;
    }
  }
  Node* const node = Node::make(operation, output_count, input_count);
  ++report_.live_nodes, ++report_.nodes;
  node->serial = ++serial_;
  node->site = site;
  node->no_grad = no_grad || operation->stops;
  for (uint32_t k = 0; k < input_count; ++k) {
    node->inputs()[k] = inputs[k];
    if (inputs[k]) ++inputs[k]->readers, ++inputs[k]->node->references;
  }
  for (Value* each : literals) release(each);
  for (uint32_t k = 0; k < output_count; ++k) {
    outputs[k] = node->outputs() + k;
    outputs[k]->type = inferred->by_value ? nullptr : inferred->types[k];
    hold(outputs[k]);
  }
  if (inferred->by_value) {
    try {
      run_at_once(node, site);
    } catch (...) {
      for (uint32_t k = 0; k < output_count; ++k) release(outputs[k]);
      throw;
    }
    return;
  }
  enter(node);
  keep_segment_small();
}

// An operand is given back; nodes that nobody refers to any more are listed.
void LazyGraph::drop(Value* operand, std::vector<Node*>& unreferenced) {
  if (!operand) return;
  --operand->readers;
  if (--operand->node->references == 0) unreferenced.push_back(operand->node);
}

void LazyGraph::drop_operands(Node* node) {
  std::vector<Node*> unreferenced;
  for (uint32_t k = 0; k < node->input_count; ++k) drop(node->inputs()[k], unreferenced);
  node->input_count = 0;
  for (Node* each : unreferenced) free_node(each);
}

// With what nobody else refers to: chains may be as long as a program ran, so there is a list and no recursion.
void LazyGraph::free_node(Node* first) {
  static thread_local std::vector<Node*> unreferenced;
  const size_t mine = unreferenced.size();
  unreferenced.push_back(first);
  while (unreferenced.size() > mine) {
    Node* const node = unreferenced.back();
    unreferenced.pop_back();
    for (uint32_t k = 0; k < node->input_count; ++k) drop(node->inputs()[k], unreferenced);
    if (node->in_history) forget_history(node);
    if (node->pending) {
      segment_.nodes[node->index] = nullptr;
      for (uint32_t k = 0; k < node->output_count; ++k) segment_.values[node->outputs()[k].place] = nullptr;
      --segment_.pending;
    } else {
      for (uint32_t k = 0; k < node->output_count; ++k)
        if (node->outputs()[k].segment == segment_.number) segment_.inputs[node->outputs()[k].place] = nullptr;
    }
    Node::destroy(node);
    --report_.live_nodes;
  }
  if (segment_.pending == 0 && !segment_.nodes.empty()) begin_segment();
}

// What is pending begins a new segment, as if it were appended now: what comes next has a hash that does not depend on what
// was computed or freed before.
void LazyGraph::begin_segment() {
  std::vector<Node*> left;
  if (segment_.pending > 0)
    for (Node* node : segment_.nodes)
      if (node && node->pending) left.push_back(node);
  ++segment_.number;
  segment_.hash = StructureHash();
  segment_.nodes.clear(), segment_.values.clear(), segment_.inputs.clear();
  segment_.pending = 0;
  segment_.reads_history = false;
  for (Node* node : left) {
    enter(node);
    for (uint32_t k = 0; k < node->output_count; ++k)
      if (node->outputs()[k].handles == 0) segment_.hash.mix(let_go_of | node->outputs()[k].place);
  }
}

// Nodes that were freed unseen leave gaps.
void LazyGraph::keep_segment_small() {
  constexpr size_t few = 4096;
  if (segment_.nodes.size() > few + 4 * segment_.pending) begin_segment();
}

GraphReport LazyGraph::report() const {
  GraphReport now = report_;
  now.pending = static_cast<int64_t>(segment_.pending);
  now.history = history_size_;
  now.compiled = programs_.made();
  return now;
}

}  // namespace metac::lazy
