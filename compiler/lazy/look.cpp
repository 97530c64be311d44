// Looking at values: what is needed is cut out of the segment, compiled, and run.
#include <algorithm>

#include "compiler/jit/run_error.h"
#include "compiler/lazy/lazy_graph.h"
#include "compiler/support/diagnostic.h"

namespace metac::lazy {
namespace {

// What an empty tensor's pointer is: the executor takes null for "not given".
alignas(64) const std::byte no_bytes[128] = {};

constexpr uint64_t look_at = 0x6c6f6f6b;
constexpr size_t most_plans = 8192;

// The node as errors name it: where the user wrote it, and its operator.
std::string described(const Node& node) {
  const std::string place = text_of(node.site);
  const std::string name = node.operation ? node.operation->name : "data";
  return place.empty() ? name : place + ": " + name;
}

// Marks by the index of a node in the segment.
struct Marks {
  std::vector<char> of;
  explicit Marks(size_t count) : of(count, 0) {}
  bool operator()(const Node* node) const { return node->pending && of[node->index]; }
};

// Marks what the marked nodes need: operands stand before their readers.
void mark_operands(const std::vector<Node*>& nodes, Marks& marks) {
  for (size_t k = nodes.size(); k-- > 0;) {
    const Node* node = nodes[k];
    if (!node || !marks.of[k]) continue;
    for (uint32_t i = 0; i < node->input_count; ++i)
      if (const Value* operand = node->inputs()[i]; operand && operand->node->pending) marks.of[operand->node->index] = 1;
  }
}

// Marks nodes that read what marked nodes give, where a value of theirs, or of what reads them, is held.
bool mark_held_readers(const std::vector<Node*>& nodes, Marks& marks) {
  Marks held(nodes.size());
  for (size_t k = nodes.size(); k-- > 0;) {
    const Node* node = nodes[k];
    if (!node) continue;
    for (uint32_t i = 0; i < node->output_count; ++i) held.of[k] |= node->outputs()[i].handles > 0;
    if (!held.of[k]) continue;
    for (uint32_t i = 0; i < node->input_count; ++i)
      if (const Value* operand = node->inputs()[i]; operand && operand->node->pending) held.of[operand->node->index] = 1;
  }
  bool more = false;
  for (size_t k = 0; k < nodes.size(); ++k) {
    const Node* node = nodes[k];
    if (!node || marks.of[k] || !held.of[k]) continue;
    bool reads = false;
    for (uint32_t i = 0; i < node->input_count; ++i) {
      const Value* operand = node->inputs()[i];
      reads |= operand && marks(operand->node);
    }
    if (!reads) continue;
    marks.of[k] = 1;
    more = true;
  }
  return more;
}

bool stays(const Value& value) { return value.handles > 0 || value.node->operation->draws; }

}  // namespace

void LazyGraph::evaluate(Value* const* values, size_t count, Site site) {
  StructureHash key = segment_.hash;
  bool any = false;
  for (size_t k = 0; k < count; ++k) {
    const Value* value = values[k];
    if (value->state == ValueState::placeholder)
      throw CompileError({text_of(site), "", "a function that is traced looks at the values of an argument"});
    if (value->state != ValueState::pending) continue;
    if (!any) key.mix(look_at);
    key.mix(value->place);
    any = true;
  }
  if (!any) return;
  programs_.check_process();
  ++report_.looks;
  auto found = plans_.find(key);
  if (found == plans_.end()) {
    ++report_.walks;
    if (plans_.size() >= most_plans) plans_.clear();
    try {
      found = plans_.emplace(key, make_plan(values, count)).first;
    } catch (const CompileError& error) {
      if (!error.diagnostic.file.empty() || !site.file) throw;
      throw CompileError({"", "", concat(error.what(), "; it was looked at in ", text_of(site))});
    }
  }
  const Plan plan = found->second;  // a copy is small beside a run, and what runs may look at other values
  run(plan);
  take_over(plan);
  if (!waiting_.empty()) note_fetched();
}

LazyGraph::Plan LazyGraph::make_plan(Value* const* values, size_t count) {
  const std::vector<Node*>& nodes = segment_.nodes;
  Marks needed(nodes.size());
  for (size_t k = 0; k < count; ++k)
    if (values[k]->state == ValueState::pending) needed.of[values[k]->node->index] = 1;
  do mark_operands(nodes, needed);
  while (mark_held_readers(nodes, needed));

  Plan plan;
  Cut cut;
  std::vector<char> seen(segment_.inputs.size(), 0);
  for (Node* node : nodes) {
    if (!node) continue;
    if (!needed(node)) {
      plan.takes_all = false;
      continue;
    }
    plan.nodes.push_back(node->index);
    cut.nodes.push_back(node);
    for (uint32_t k = 0; k < node->input_count; ++k) {
      Value* const operand = node->inputs()[k];
      if (!operand || operand->content || operand->node->pending || seen[operand->place]) continue;
      if (operand->state == ValueState::placeholder)
        throw CompileError({"", "",
                            concat("a function that is traced looks at a value that depends on its arguments (",
                                   described(*values[0]->node), "): what it does then cannot be traced")});
      seen[operand->place] = 1;
      plan.inputs.push_back(operand->place);
      cut.inputs.push_back(operand);
    }
    for (uint32_t k = 0; k < node->output_count; ++k) {
      Value* const value = node->outputs() + k;
      if (!stays(*value) && std::find(values, values + count, value) == values + count) continue;
      plan.outputs.push_back(value->place);
      cut.outputs.push_back(value);
    }
  }
  cut.next_values = next_values(cut);
  try {
    plan.program = programs_.find(cut);
  } catch (const CompileError& error) {
    throw CompileError({"", "",
                        concat("the lazy step of ", described(*cut.nodes.front()), " to ", described(*cut.nodes.back()),
                               ": ", error.diagnostic.message)});
  }
  if (!plan.program->overwrites().empty()) {
    const std::vector<uint32_t> reads = reads_of_inputs(cut);
    for (const auto& [output, input] : plan.program->overwrites()) plan.overwriting.push_back({output, input, reads[input]});
  }
  return plan;
}

void LazyGraph::run(const Plan& plan) {
  input_views_.clear(), output_views_.clear();
  for (const uint32_t place : plan.inputs) {
    const Value& value = *segment_.inputs[place];
    const std::byte* data = value.bytes ? value.bytes.get() : no_bytes;
    input_views_.push_back({data, value.type->shape.data(), value.type->rank()});
  }
  std::vector<std::shared_ptr<std::byte>> results(plan.outputs.size());
  std::vector<Value*> overwritten;
  for (const Plan::Overwriting& each : plan.overwriting) {
    Value& last = *segment_.inputs[plan.inputs[each.input]];
    if (last.handles > 0 || last.readers != each.reads || last.bytes.use_count() > 1) continue;  // somebody can see it
    results[each.output] = std::const_pointer_cast<std::byte>(last.bytes);
    overwritten.push_back(&last);
  }
  for (size_t k = 0; k < results.size(); ++k) {
    const int64_t bytes = segment_.values[plan.outputs[k]]->type->bytes;
    if (!results[k]) results[k] = memory_for(bytes);
    output_views_.push_back({results[k].get(), bytes});
  }
  try {
    plan.program->run(input_views_, output_views_);
  } catch (const RunError& error) {
    throw RunError(error.status, {"", "", concat(place_of_failure(plan), error.diagnostic.message)});
  }
  for (size_t k = 0; k < results.size(); ++k) {
    Value* const value = segment_.values[plan.outputs[k]];
    value->bytes = std::move(results[k]);
    value->state = ValueState::exists;
  }
  for (Value* const last : overwritten) {
    last->bytes.reset();
    last->state = ValueState::overwritten;
  }
}

// The lines between which the failure lies.
std::string LazyGraph::place_of_failure(const Plan& plan) const {
  const std::string first = text_of(segment_.nodes[plan.nodes.front()]->site);
  const std::string last = text_of(segment_.nodes[plan.nodes.back()]->site);
  if (first.empty()) return "";
  return first == last ? first + ": " : concat("in what was written from ", first, " to ", last, ": ");
}

// What was run is no longer pending. Its nodes stay where a gradient may pass them or needs to compute them again, else they
// let their operands go.
void LazyGraph::take_over(const Plan& plan) {
  std::vector<Node*> done;
  done.reserve(plan.nodes.size());
  for (const uint32_t index : plan.nodes) {
    Node* const node = segment_.nodes[index];
    node->pending = false;
    for (uint32_t k = 0; k < node->output_count; ++k)
      if (Value& value = node->outputs()[k]; value.state == ValueState::pending) value.state = ValueState::let_go;
    done.push_back(node);
  }
  segment_.pending -= done.size();
  begin_segment();
  std::vector<Node*> ended;
  for (Node* node : done) {
    bool passes = false, told = false;  // a derivative; how a value comes about that nobody kept
    for (uint32_t k = 0; k < node->output_count; ++k) {
      const Value& value = node->outputs()[k];
      passes |= is_float(value.type->dtype) && !node->no_grad;
      told |= value.state == ValueState::let_go && value.readers > 0;
    }
    if ((passes || told) && node->input_count > 0) {
      keep_history(node);
    } else {
      ++node->references;  // until its operands are dropped: they may have been what refers to another of these
      ended.push_back(node);
    }
  }
  for (Node* node : ended) drop_operands(node);
  for (Node* node : ended)
    if (--node->references == 0) free_node(node);
  prune_history();
}

// A node whose shapes only its elements tell: its operands are computed, it is run by itself, and its values exist.
void LazyGraph::run_at_once(Node* node, Site site) {
  node->by_value = true;
  std::vector<Value*> operands;
  for (uint32_t k = 0; k < node->input_count; ++k)
    if (node->inputs()[k]) operands.push_back(node->inputs()[k]);
  evaluate(operands.data(), operands.size(), site);
  std::vector<Tensor> inputs;
  std::vector<const Value*> given;
  for (const Value* operand : operands) {
    if (operand->content || std::find(given.begin(), given.end(), operand) != given.end()) continue;
    given.push_back(operand);
    inputs.push_back(tensor_of(*operand));
  }
  ++report_.looks;
  const std::vector<Tensor> results = programs_.find(*node)->run(inputs);
  bool passes = false;
  for (uint32_t k = 0; k < node->output_count; ++k) {
    Value& value = node->outputs()[k];
    value.type = tensor_type(results[k].dtype, results[k].shape);
    value.bytes = results[k].bytes;
    value.state = ValueState::exists;
    passes |= is_float(value.type->dtype);
  }
  if (passes && !node->no_grad) {
    keep_history(node);
    return;
  }
  ++node->references;
  drop_operands(node);
  --node->references;
}

Cut LazyGraph::cut_of(const std::vector<Value*>& outputs) const {
  Marks needed(segment_.nodes.size());
  for (const Value* output : outputs)
    if (output->node->pending) needed.of[output->node->index] = 1;
  mark_operands(segment_.nodes, needed);
  Cut cut;
  cut.outputs = outputs;
  for (Node* node : segment_.nodes) {
    if (!node || !needed(node)) continue;
    cut.nodes.push_back(node);
    for (uint32_t k = 0; k < node->input_count; ++k) {
      Value* const operand = node->inputs()[k];
      if (!operand || operand->content || operand->node->pending) continue;
      if (std::find(cut.inputs.begin(), cut.inputs.end(), operand) == cut.inputs.end()) cut.inputs.push_back(operand);
    }
  }
  return cut;
}

}  // namespace metac::lazy
