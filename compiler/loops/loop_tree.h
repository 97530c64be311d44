// A kernel as a tree of perfect loop nests with scoped locals: what schedules transform and printers print.
//
//   LoopNode = guard? loops... { locals; prefetches; assigns; children }
//
// A fused operator attaches where its LoopNode hangs: softmax is several nests under one row loop. Expressions are Exprs in
// which axis(k) is the loop with that id, load(argument, dtype, {offset}) an element of a kernel argument and
// load(first_local + n, dtype, {offset}) one of local n; offsets are in elements.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/bounds.h"
#include "compiler/tensor/layout.h"

namespace metac {

enum class LoopKind {
  serial,
  parallel,     // only in the root's loops; flattened into one iteration count
  vector,       // `width` iterations at once; a rest is done one by one
  unrolled,     // constant extent, printed out
  unroll_hint,  // constant extent, a loop that the C++ compiler is told to unroll
  // On a GPU, where `parallel` loops are the blocks of the grid:
  grid,    // only in the root's loops, instead of parallel ones; flattened, one iteration per thread of the grid
  thread,  // neighbours are flattened; iteration i is done by thread i modulo the block's size
};

// An axis that is not counted but worked out (compiler/loops/name_indices.h).
struct IndexName {
  int axis = 0;
  Expr value;  // over symbols, and axes of this loop and around it
};

struct Loop {
  int axis = 0;
  Expr extent;
  LoopKind kind = LoopKind::serial;
  // Vector loops of exactly one vector: how many of its lanes exist in memory (loads of the others give 0, stores leave
  // them alone). Empty: all.
  Expr active;
  std::vector<IndexName> names = {};  // worked out in each iteration, before what it does
};

constexpr int first_local = 1'000'000;

struct Local {
  int id = 0;  // load id is first_local + id
  DType dtype = DType::f32;
  Expr count;           // elements; empty: a scalar (a vector inside a vector loop)
  int lanes = 0;        // > 0: an array of registers of that many lanes; offsets are register * lanes + lane
  bool shared = false;  // GPU: one for the block's threads together, not one for each
};

struct Assign {
  int target = 0;  // argument, or first_local + local
  Expr offset;     // empty for scalar locals
  Expr value;
  std::optional<Reduce> update;  // target = combine(target, value)
  // GPU: the value of so many neighbouring threads of a warp (a power of two), combined by `update`, and what each of them
  // has then; `value` is the target itself.
  int neighbours = 0;
  // GPU: so many neighbouring elements (4, 8 or 16 bytes) come from memory into shared memory while the thread goes on,
  // until a node with `copies_done`. `value` is the first of them as it lies in memory, or a selection of it or zero.
  int copied = 0;
};

// A cache line of an argument, asked for ahead of its use. The offset may lie beyond the argument's end.
struct Prefetch {
  int argument = 0;
  Expr offset;
};

// GPU: the warps of a block multiply two tiles in shared memory on tensor cores and add to sums in registers, those of a
// thread as tensor_multiply of runtime/cuda/tensor_multiply.h has them.
struct TensorTile {
  int local = 0;
  int64_t stride = 0;   // words of 4 bytes from row to row
  bool across = false;  // a row is a step of the sum; else what the sum runs over lies together
  Expr first;           // its first element in the local; empty: 0
};
struct TensorProduct {
  std::string kind;  // of the instruction: "f16", "bf16", "tf32", "f64", "s8s8", ...
  int sums = 0;      // local
  TensorTile rows, columns;
  int64_t warps_across = 0;        // warps of a row of warps
  int64_t down = 0, across = 0;    // of a warp: 16 by 8 elements so many times
  int64_t words = 0;               // of 4 bytes (f64: of 8): steps of the sum
  bool rows_in_registers = false;  // `rows` are sums of a product before, 16 rows for each warp (tensor_multiply_sums)
};

// Behind it: each thread has four neighbouring sums of a row (tensor_rows_of_four).
struct TensorExchange {
  int sums = 0;       // local
  int64_t parts = 0;  // of 16 by 8 elements, side by side two by two
};

// CPU: what a node does with the processor's tile registers (runtime/device/matrix.h), which hold `points` by `vectors`
// times 16 sums of words' products: all become 0, or what the local `sums` holds; to each is added what `words` steps come
// to; all go to `sums`, in that order. The node's one assignment of `multiply` is that of the first sum and step, an update
// of that local.
struct MatrixTile {
  enum class Does { clear, resume, multiply, take } does = Does::clear;
  int points = 1, vectors = 1, words = 1;
  int sums = 0;                            // local
  int64_t data_step = 0, packed_step = 0;  // bytes from point to point, and from step to step
  Expr sums_at;                            // where the sums are in their local; empty: at its beginning
};

struct LoopNode {
  std::string comment;
  Expr guard;  // empty: always
  std::vector<Loop> loops;
  std::vector<Local> locals;
  std::vector<Prefetch> prefetches;
  std::vector<Assign> assigns;
  std::vector<LoopNode> children;  // after the assigns, in order
  int transposed = -1;  // local of as many registers as each has lanes: rows and columns change places before the assigns
  // A lane reduction: the only loop left of kind vector is a reduced axis; the scalar local `lane_reduced` (declared
  // outside), the target of the last assign, is combined lane by lane in a vector and once across lanes at the end.
  int lane_reduced = -1;
  // The same on a GPU, of a node whose loops are of kind thread: the block's threads combine `lane_reduced` at the end,
  // through the shared local `combined_in` (an element per warp), and all have the result.
  int combined_in = -1;
  std::optional<TensorProduct> tensor;     // instead of everything else
  std::optional<TensorExchange> exchange;  // instead of everything else
  std::optional<MatrixTile> matrix;        // instead of the assignments
  bool empties_registers = false;          // CPU: no vector stays in a register across this node's beginning
  bool copies_done = false;                // GPU: behind this node a thread waits for what it copies (Assign::copied)
  bool barrier = false;                    // GPU: behind this node the block's threads wait for each other
};

struct KernelArgument {
  Var* var = nullptr;
  bool written = false;
  Layout layout;
  bool padded = false;         // its rows are padded to whole vectors: no partial loads
  bool shares_memory = false;  // a result that takes the place of an operand, or that operand: not __restrict__
};

// What a vendor library is asked for before a GPU kernel is started (compiler/target/gpu/vendor/library_product.h):
// result = activation( scale * sum of a * b + residual + bias ). Sizes and distances in elements, over symbols.
struct LibraryMatrix {
  int argument = -1;            // -1: there is none
  Expr offset, batch, leading;  // of its first element; from one matrix to the next; between rows
  bool by_column = false;       // `leading` is between columns, and rows are neighbours
};
// gelu by its tanh approximation; its gradient: what it is applied to times the derivative at `aux`
enum class ProductActivation { none, relu, gelu_tanh, gelu_tanh_gradient };
enum class BiasGradient { none, of_rows, of_columns };
struct LibraryProduct {
  DType dtype = DType::f32;  // of everything; sums are float32
  Expr batch, rows, columns, steps;
  LibraryMatrix a, b, result, residual;
  LibraryMatrix aux;  // what gelu is applied to: a second result; of its gradient an operand
  int bias = -1;      // argument: an element for each column; -1: none
  Expr bias_offset;
  double scale = 1;
  ProductActivation activation = ProductActivation::none;
  BiasGradient bias_gradient = BiasGradient::none;  // a second result: the sums of a's rows or of b's columns
  int sums = -1;                                    // argument: where those are
  bool sums_only = false;                           // the rest of the epilogue is Kernel::finish
  bool with_beside = false;                         // it does what Kernel::beside does
};

// result = min( relu( convolution of data with weights + residual + biases ), most )
// (compiler/target/gpu/vendor/library_convolution.h). All values lie row by row: [images, channels, size...], [features,
// channels / groups, window...], [images, features, out...]. A gradient of such a convolution reads two of the three and
// writes the one of its name (compiler/target/gpu/vendor/library_gradient.h).
enum class ConvolutionKind { forward, data_gradient, weights_gradient };
struct LibraryWindow {  // of one spatial axis
  Expr size, window, out;
  int64_t stride = 1, dilation = 1, before = 0;  // zeros before the data
};
struct LibraryConvolution {
  ConvolutionKind kind = ConvolutionKind::forward;
  DType dtype = DType::f32;                                 // of everything; sums are float32
  int data = -1, weights = -1, result = -1, residual = -1;  // arguments; -1: there is none
  int bias = -1;                                            // argument: an element for each feature
  Expr images, channels, features;
  int64_t groups = 1;
  std::vector<LibraryWindow> windows;
  bool relu = false;
  bool sums_only = false;      // the rest of the epilogue is Kernel::finish
  bool channels_last = false;  // how all of them lie; else row by row
};

struct Kernel {
  std::string name;
  std::vector<KernelArgument> arguments;
  LoopNode root;
  std::vector<IndexName> names;  // over symbols: worked out once
  std::vector<Local> scratch;    // locals too large or of unknown size for the stack: in the worker's scratch, in order
  int next_axis = 0, next_local = 0;
  std::vector<std::string> comments;  // head of the printed kernel: what was fused and why
  std::vector<std::string> schedule;  // transforms applied
  std::vector<int> nodes;
  int block = 0;                         // threads of a block; 0: for the CPU
  std::vector<LibraryProduct> products;  // what cuBLASLt is asked for, one after the other: the first that it can
  std::optional<LibraryConvolution> convolution;
  std::shared_ptr<Kernel>
      finish;  // GPU: what follows sums that a library has left in the result's memory; its arguments are among these
  std::shared_ptr<Kernel> beside;  // GPU: starts behind this one, unless a library has done its work too (library_beside.h);
                                   // its arguments are among these
  double cost = 1;                 // estimated ns of one parallel iteration

  int argument(Var* var, const Layout& layout, bool written);  // index, added if new
};

// The number of parallel iterations (on a GPU: of blocks), as an Expr over symbols.
Expr parallel_extent(const Kernel& kernel);
// Ranges of all loops of the tree.
Bounds bounds_of(const Kernel& kernel, const std::vector<Symbol>& symbols);
std::string to_string(const Kernel& kernel);  // --emit loops

}  // namespace metac
