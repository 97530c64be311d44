// The unified graph: Vars (values), Ops (the three meta-operators, External, Code, Bind and the regions If and Loop),
// forward, backward and update in one. Everything is owned by the Graph and ordered by creation id, never by pointer.
//
// Mathematics is in three kinds of Op only:
//   Elementwise     out_k[i]    = body_k(loads of the operands, i)            one or more bodies, all of the output's shape
//   Reindex         out[i]      = all conditions(i) ? in[indices(i)] : fill   i ranges over the OUTPUT's shape
//   ReindexReduce   out[g(j)] (+)= all conditions(j) ? in[j] : nothing        j ranges over the INPUT's shape, g = indices
// In their expressions axis(k) is the index along the k-th axis of the domain named above, and load(n, dtype, idx) is an
// element of operand n. Elementwise bodies load operands at any indices that stay in bounds, usually the identity;
// Reindex and ReindexReduce may load further operands 1, 2, ... (index Vars) inside `indices` and `conditions`: gather
// and scatter.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "compiler/ir/expr.h"
#include "compiler/ir/tensor.h"

namespace metac {

using Dim = Expr;                // an int64 Expr over symbols only
using Shape = std::vector<Dim>;  // the rank is static

enum class TypeKind : uint8_t { tensor, sequence, optional, map };

struct Type {
  TypeKind kind = TypeKind::tensor;
  DType dtype = DType::f32;  // of the elements
  Shape shape;               // tensors only
};

// A symbol: an integer known only at run time. Inputs' open dims are symbols; so is every count and every integer that
// a Bind op or an External op reads out of data.
struct Symbol {
  std::string name;  // display only ("batch"); never printed into generated code
  int64_t min = 0, max = int64_t{1} << 40;
  int64_t divisor = 1;       // the value is a multiple of this
  int64_t hint = 0;          // a typical value, 0: unknown
  bool from_input = false;   // fixed by the shapes of the model's inputs (else: bound while running)
  bool may_be_none = false;  // something is put behind what is as long, as new keys behind a cache: it may be of length 0
  Expr most;  // of one bound while running: by the inputs' dims it never is more; what is as long has its place before the
              // run
  int64_t raised_from = -1;  // min, before requirements raised it: a run with less hears from these what is wrong

  int64_t stated_min() const { return raised_from >= 0 ? raised_from : min; }
};

struct Op;

// Where in the model something came from; names are untrusted text.
struct Origin {
  int node = -1;           // index of the model node, -1: none
  std::string name;        // the node's name or, without one, its first output
  std::string op_type;     // "Conv"
  bool int8_data = false;  // it lets its products round what is no weight to int8 (MatMulNBits's accuracy_level)
};

struct Var {
  int id = 0;
  Type type;
  std::string name;        // the model's name of the value; untrusted, may be empty
  Op* producer = nullptr;  // null for inputs and constants
  int output_index = 0;
  bool is_input = false;      // a graph input
  bool is_state = false;      // an input that is a value of the run before (State)
  bool is_parameter = false;  // a constant that may be refitted (initialiser of the model)
  bool stop_grad = false, stop_fuse = false;
  int exchanged =
      -1;  // its number among the values that processes training together average while a run goes on; -1: it is none
  std::optional<Tensor> constant;     // initialiser or folded value (weights are Vars with this)
  mutable bool is_relied_on = false;  // a parameter: what is compiled holds for its elements of now alone

  const Shape& shape() const { return type.shape; }
  DType dtype() const { return type.dtype; }
  int rank() const { return static_cast<int>(type.shape.size()); }

  // <= 64 elements: the value of each as an Expr over symbols (integers and bool) or a constant (floats too); an empty Expr:
  // not known. For who decides something by them: the parameters that they come from are relied on from now on.
  const std::optional<std::vector<Expr>>& known_elements() const;
  // The elements of a constant, for the same.
  const Tensor& known_constant() const;
  // For who only hands them on, with what they come from.
  const std::optional<std::vector<Expr>>& carried_elements() const { return elements_; }
  void carry_elements(std::vector<Expr> elements, const std::vector<Var*>& from);
  void forget_elements() { elements_.reset(); }

 private:
  std::optional<std::vector<Expr>> elements_;
  std::set<const Var*> elements_from_;  // parameters
};

enum class OpKind : uint8_t { elementwise, reindex, reindex_reduce, external, code, bind, if_, loop };
std::string_view name_of(OpKind kind);
// Is it mathematics: one of the three meta-operators?
inline bool is_meta(OpKind kind) {
  return kind == OpKind::elementwise || kind == OpKind::reindex || kind == OpKind::reindex_reduce;
}

enum class Reduce : uint8_t { add, mul, min, max, logical_and, logical_or };
std::string_view name_of(Reduce reduce);
Expr identity_of(Reduce reduce, DType dtype);  // 0, 1, +inf or the greatest integer, ...
Expr combine(Reduce reduce, Expr a, Expr b);

// Attributes of External ops (and of model nodes).
using AttributeValue =
    std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>, std::vector<std::string>>;

// A body of If or Loop: ops of the same Graph in order. It may use Vars of the surrounding scopes directly.
struct Region {
  std::vector<Op*> ops;
  std::vector<Var*> params;   // Loop: the carried values of this iteration
  std::vector<Var*> results;  // If: one per output. Loop: [condition or null], carried..., then the per-iteration outputs
  int iteration = -1;         // Loop: the symbol that counts iterations from 0
};

struct Op {
  int id = 0;
  OpKind kind = OpKind::elementwise;
  std::vector<Var*> inputs, outputs;
  Origin origin;

  std::vector<Expr> bodies;      // elementwise: one per output
  std::vector<Expr> indices;     // reindex: per input axis; reindex_reduce: per output axis
  std::vector<Expr> conditions;  // reindex, reindex_reduce: all must hold
  Expr fill;                     // reindex: value where a condition fails
  Reduce reduce = Reduce::add;   // reindex_reduce
  DType accumulator = DType::f32;

  // The checkpoint that the op lies in: derivatives compute it again (autodiff/checkpoint.h); -1: none. `copied_for`: the
  // op is such a computation, which must not be merged with the first one.
  int checkpoint = -1, copied_for = -1;

  std::string routine;  // external: name in the runtime's table ("top_k"), code: the function's name
  std::map<std::string, AttributeValue> attributes;
  std::string source;  // code: the user's C++ (printed verbatim; never model text of an ONNX file)

  // bind: inputs[0] element `element` becomes the value of symbols[0]. external: symbols the routine binds (counts).
  std::vector<int> symbols;
  int64_t element = 0;

  // if_: inputs = {condition}; regions = {then, else}. A symbol in `symbols` stands for a dim in which the branches differ.
  // loop: inputs = {trip count or null, condition or null, initial carried...}; regions = {body};
  //       outputs = final carried..., then stacked per-iteration outputs (leading dim: the trip count or a symbol).
  std::vector<Region> regions;
};

// What the axes of a meta-operator's expressions range over.
const Shape& domain_of(const Op& op);

// A run-time requirement on symbols, checked when they are bound; violated: an error with the message.
struct Requirement {
  Expr condition;
  std::string message;
};

// A value that one run hands to the next: output `output` is the next run's input `input`. States are the last inputs and
// the last outputs, in the same order.
struct State {
  size_t input = 0, output = 0;
  int axis = -1;      // along which it grows from run to run; -1: it has the same shape
  int capacity = -1;  // symbol: how long its storage is along that axis, where the old part stays in its place and the new
                      // one is put behind it; -1: every value is written whole
};

class Graph {
 public:
  Graph() = default;
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // ---- building; all check shapes and throw CompileError on the user's mistakes ----
  Var* add_input(std::string name, Type type);
  Var* add_constant(Tensor tensor, std::string name = "", bool is_parameter = false);
  int add_symbol(Symbol symbol);
  void require(Expr condition, std::string message);  // folds; a constant false throws at once

  Var* elementwise(std::vector<Var*> operands, Expr body);  // operands and body over `operands[0]`'s shape
  Var* elementwise(std::vector<Var*> operands, Shape shape, Expr body);
  Var* reindex(std::vector<Var*> operands, Shape shape, std::vector<Expr> indices, std::vector<Expr> conditions = {},
               Expr fill = {});
  Var* reindex_reduce(std::vector<Var*> operands, Shape shape, std::vector<Expr> indices, Reduce reduce,
                      std::vector<Expr> conditions = {}, std::optional<DType> accumulator = {});
  std::vector<Var*> external(std::string routine, std::vector<Var*> inputs, std::vector<Type> outputs,
                             std::map<std::string, AttributeValue> attributes = {}, std::vector<int> symbols = {});
  // The integer element `index` of a Var as an Expr: from `elements` when known, else a fresh symbol bound at run time.
  Expr element(Var* var, int64_t index, const std::string& symbol_name = "value", int64_t min = INT64_MIN,
               int64_t max = INT64_MAX);
  // Ops created while a region is open go into it. A region closes in reverse order of opening.
  void open_region(Region* region);
  bool in_region() const { return !open_.empty(); }
  std::vector<Op*>& open_ops() { return open_.empty() ? ops : open_.back()->ops; }  // where new ops go
  void close_region();
  Op* if_(Var* condition, Region then_region, Region else_region);
  Op* loop(Var* trip_count, Var* condition, std::vector<Var*> initial, Region body);

  // Sets `origin` of all ops made until the next call.
  void set_origin(Origin origin) { origin_ = std::move(origin); }
  const Origin& origin() const { return origin_; }

  std::vector<Op*> ops;  // top level, a valid execution order
  std::vector<Var*> inputs, outputs;
  std::vector<std::string> output_names;
  std::vector<Symbol> symbols;
  std::vector<Requirement> requirements;
  std::vector<State> states;
  // The output behind the caller's, ahead of the states', is the last step of this one: a decoder's logits of the last
  // token, for the library's own loop. -1: there is none.
  int last_step_of = -1;
  int checkpoints = 0;  // how many there are: their numbers are below
  const std::deque<std::unique_ptr<Var>>& vars() const { return vars_; }

  // For passes: raw creation without checks or folding.
  Var* make_var(Type type, std::string name = "");
  Op* make_op(OpKind kind, std::vector<Var*> inputs, std::vector<Type> output_types);      // appended to the open region
  Op* detached_op(OpKind kind, std::vector<Var*> inputs, std::vector<Type> output_types);  // not appended anywhere

 private:
  void infer_elements(Op* op);  // symbolic values of small outputs, by evaluating the op's own expressions
  std::deque<std::unique_ptr<Var>> vars_;
  std::deque<std::unique_ptr<Op>> ops_;
  std::vector<Region*> open_;
  std::map<std::pair<int, int64_t>, int> bound_elements_;
  Origin origin_;
};

// The number of elements as an Expr; rank 0: 1.
Expr element_count(const Shape& shape);
bool is_static(const Shape& shape);
std::vector<int64_t> static_shape(const Shape& shape);  // asserts is_static
Shape shape_of(const std::vector<int64_t>& dims);
std::string to_string(const Shape& shape);
std::vector<Expr> identity_indices(int rank);                             // axis(0), axis(1), ...
Expr linear_index(const Shape& shape, const std::vector<Expr>& indices);  // row-major
std::vector<Expr> unravel_index(const Shape& shape, Expr linear);

// The meta-operator program as text (--emit meta); deterministic.
std::string to_string(const Graph& graph);
// Aborts with METAC_ASSERT where an invariant of the graph is broken. Runs after every pass.
void verify(const Graph& graph);

}  // namespace metac
