// The graph that programs build while they run. Nothing is computed while it grows; when a value is looked at, what it needs
// is cut out, compiled once for its structure, and run.
//
// What was appended since the last look is the *segment*. Its hash is kept up with every node: operation, where the operands
// stand in the segment, types of the data that it reads, which values nobody holds any more. A program that does the same
// again appends the same, so that a look finds its plan (which inputs, which program, which outputs) by the hash alone,
// without walking over a node.
//
// A look computes what it asks for, and with it all that is held and reads something of it: what has a value is never needed
// again as a node, so the forward values of a step are shared by its gradients and updates. What is left over begins the
// next segment. docs/decisions/lazy.md tells why.
//
// For one thread at a time: whoever calls holds `mutex`.
#pragma once
#include <functional>
#include <mutex>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "compiler/lazy/infer_types.h"
#include "compiler/lazy/lazy_model.h"
#include "compiler/lazy/lazy_program.h"
#include "compiler/lazy/node.h"
#include "compiler/lazy/structure_hash.h"

namespace metac::lazy {

// What was done since the process began, and what is there now.
struct GraphReport {
  int64_t nodes = 0;       // appended
  int64_t looks = 0;       // that computed something
  int64_t walks = 0;       // of these, those that no plan was known for
  int64_t compiled = 0;    // programs made
  int64_t pending = 0;     // nodes
  int64_t history = 0;     // nodes that have been run and are kept for gradients
  int64_t live_nodes = 0;  // all, data too
};

class LazyGraph {
 public:
  static LazyGraph& of_process();
  std::mutex mutex;

  // Each returned value has one handle, which release() takes back.
  Value* data(const TensorType* type, std::shared_ptr<const std::byte> bytes);
  // Data whose elements are part of the structure: another content is another program. At most 64 elements.
  Value* literal(const TensorType* type, std::shared_ptr<const std::byte> bytes);
  Value* placeholder(const TensorType* type, Site site);
  void hold(Value* value) { ++value->handles, ++value->node->references; }
  void release(Value* value);

  // Appends a node. Operands may be null. Throws CompileError where the operation does not take them.
  void apply(const Operation* operation, Value* const* inputs, uint32_t input_count, Value** outputs, uint32_t output_count,
             Site site, bool no_grad = false);

  // The derivatives of the sum of y by each of xs. Throws CompileError where y does not depend on one of them.
  void gradient(Value* y, Value* const* xs, uint32_t count, Value** outputs, Site site);

  // Has all of these exist. Throws CompileError, RunError; what was pending is pending then.
  void evaluate(Value* const* values, size_t count, Site site);

  // Values that somebody waits for: `done` gets their elements, once, when a look has computed all of them. They are held
  // until then. It is called by who takes it from take_fetched(), outside of the graph, so that it may use the graph.
  using Fetched = std::function<void(std::vector<Tensor>)>;
  void fetch(const std::vector<Value*>& values, Fetched done);
  bool has_fetched() const { return !fetched_.empty(); }
  std::vector<std::function<void()>> take_fetched() { return std::exchange(fetched_, {}); }
  // Has all computed that somebody waits for.
  void evaluate_fetched(Site site);

  // What gives `outputs` from placeholders, constants and data, as it was written: those that exist are inputs of the cut.
  Cut cut_of(const std::vector<Value*>& outputs) const;

  GraphReport report() const;

 private:
  struct Segment {
    uint64_t number = 1;
    StructureHash hash;
    std::vector<Node*> nodes;    // null: freed
    std::vector<Value*> values;  // of the nodes, by place; null: freed
    std::vector<Value*> inputs;  // data that nodes read, by place; null: freed
    size_t pending = 0;          // nodes that are there
    bool reads_history = false;  // an input was computed, and how is known
  };
  // What a look does, by the places of the segment.
  struct Plan {
    std::shared_ptr<LazyProgram> program;
    std::vector<uint32_t> inputs, outputs, nodes;
    struct Overwriting {  // by the places in `outputs` and `inputs`
      size_t output, input;
      uint32_t reads;  // nodes of the plan that read the input; others must not
    };
    std::vector<Overwriting> overwriting;
    bool takes_all = true;  // no node is left over
  };

  struct Waiting {
    std::vector<Value*> values;
    Fetched done;
  };

  Value* made_data(const TensorType* type, std::shared_ptr<const std::byte> bytes);
  Value* literal_of(Value* operand, Site site);
  void run_at_once(Node* node, Site site);
  void enter(Node* node);
  uint64_t word_of(Value* operand);
  void begin_segment();
  void keep_segment_small();
  void free_node(Node* node);
  void drop(Value* operand, std::vector<Node*>& unreferenced);
  void drop_operands(Node* node);

  Plan make_plan(Value* const* values, size_t count);
  void run(const Plan& plan);
  void take_over(const Plan& plan);
  std::string place_of_failure(const Plan& plan) const;

  void note_fetched();

  void append_again(const std::vector<Node*>& way, std::vector<Value*>& operands, std::vector<Value*>& again);
  void keep_history(Node* node);
  void forget_history(Node* node);
  void prune_history();

  Segment segment_;
  TypeInference inference_;
  LazyPrograms programs_;
  std::unordered_map<StructureHash, Plan> plans_;
  std::unordered_map<StructureHash, uint64_t> contents_;  // of literals
  std::unordered_set<StructureHash> whole_gradients_;     // whose way lies in the segment: not walked again
  Node *first_in_history_ = nullptr, *last_in_history_ = nullptr;
  int64_t history_size_ = 0, prune_at_ = 4096;
  uint64_t serial_ = 0;  // of the last node
  GraphReport report_;
  std::vector<Waiting> waiting_;
  std::vector<std::function<void()>> fetched_;
  std::vector<rt::InputView> input_views_;  // of a run, kept for the next one
  std::vector<rt::OutputView> output_views_;
};

}  // namespace metac::lazy
