// The schedule of attention on a GPU (lower_gpu_attention.cpp), and what it leaves to one of two ways to multiply: fused
// multiply-adds (gpu_attention_plain.cpp) or tensor cores (gpu_attention_tensor.cpp). A way says how a tile of scores is
// dealt to the threads of a block, how the operands lie in shared memory, and makes the two products; everything
// element-wise goes by that.
#pragma once
#include <functional>
#include <memory>

#include "compiler/loops/loop_tree.h"
#include "compiler/loops/stage_lowering.h"
#include "compiler/machine/gpu_costs.h"
#include "compiler/target/gpu/strategies/lower_gpu.h"
#include "compiler/tensor/streamed_softmax.h"

namespace metac {

class GpuAttention : protected StageLowering {
 public:
  Kernel run();

 protected:
  GpuAttention(const Group& group, const LoweringContext& context, StreamedSoftmax softmax, DType type)
      : StageLowering(group, context), s_(std::move(softmax)), type_(type) {}

  static constexpr int64_t edge = gpu_costs.edge;  // tiles are whole multiples of it

  // How a part of q, k or v lies in shared memory: rows (of v: columns of the scores), whose elements are neighbours.
  struct SharedTile {
    int64_t row_size;  // elements of a row; zeros where the operand has fewer
    int64_t stride;    // from row to row
  };
  // A thread's share of a tile: loops over its threads, its rows, and what it has of the other direction.
  struct Share {
    std::vector<Loop> threads;
    Loop rows, others;
    Expr row, column;      // in the tile
    Expr at;               // in the thread's registers
    Loop neighbours = {};  // of what lies together in a row; without an extent: nothing does
    std::vector<Loop> loops() const;
  };

  virtual const AttentionTiles& tile_sizes() const = 0;  // the largest first
  virtual int threads() const = 0;                       // of a block
  virtual SharedTile factor_tile() const = 0;            // of q and k
  virtual SharedTile value_tile() const = 0;
  virtual int64_t weight_bytes() const { return 0; }  // of shared memory, for weights on their way to the second product
  virtual void declare_weights() {}
  virtual int64_t rows_of_thread() const = 0;
  virtual int64_t columns_of_thread(int64_t columns) const = 0;  // of so many of the tile
  virtual int threads_of_row() const = 0;                        // neighbours in a warp
  // Where among its registers a thread has an element of its own rows and columns.
  virtual Expr register_of(Expr row, Expr column, int64_t columns) const = 0;
  virtual Share share(int64_t rows, int64_t others) = 0;
  // The same of the result, so many neighbours at once; empty: it has none.
  virtual std::optional<Share> share_of_neighbours(int64_t) { return std::nullopt; }
  virtual std::string description() const { return {}; }
  // scores += q k, and out += weights v, where the weights stand in the registers of the scores.
  virtual LoopNode multiply_scores() = 0;
  virtual LoopNode multiply_values() = 0;
  // Puts the weights where the second product reads them, if that is not where they are.
  virtual std::vector<LoopNode> share_weights() { return {}; }

  Loop fresh(Expr extent, LoopKind kind);
  int declare_local(int64_t count, bool shared, DType type = DType::f32);
  static Expr element(int local, Expr at) { return load(first_local + local, DType::f32, {at}); }
  static Assign set(int local, Expr at, Expr value, std::optional<Reduce> update = {}) {
    return {first_local + local, at, value, update};
  }
  static LoopNode node(std::vector<Loop> loops, std::vector<Assign> assigns = {});
  int64_t padded_width() const { return (width_ + edge - 1) / edge * edge; }

  StreamedSoftmax s_;
  DType type_;                     // of q, k and v in shared memory
  int64_t depth_ = 0, width_ = 0;  // elements of a row of q and k; of v
  AttentionTile tile_ = {};
  int q_ = 0, k_ = 0, v_ = 0;  // shared by the block
  int score_ = 0, out_ = 0;    // of a thread

 private:
  void choose_tile();
  int64_t shared_bytes() const;
  void declare();
  void build();
  Expr placed(Expr e, Expr row, Expr second, Expr third, int local = -1, Expr at = {});
  LoopNode load_part(int local, const SharedTile& tile, int64_t rows, Expr first, Expr size, int64_t row_size,
                     const std::function<Expr(Expr, Expr)>& value_at);
  LoopNode load_columns(Expr first_column);
  LoopNode begin();
  LoopNode clear_scores();
  LoopNode finish_scores(Expr first_column);
  LoopNode weigh();
  void store();
  LoopNode store_share(const Share& share);
  void place_local(const Local&) override;

  Bounds bounds_;
  std::vector<Expr> outer_;
  Expr row_count_, column_count_, first_row_, row_in_thread_;
  int largest_ = 0, before_ = 0, from_ = 0, scale_ = 0, sum_ = 0;  // of a thread
};

std::unique_ptr<GpuAttention> plain_gpu_attention(const Group& group, const LoweringContext& context,
                                                  StreamedSoftmax softmax);
// `kind` is TensorProduct::kind. The factors of `softmax` have the type that the instruction takes.
std::unique_ptr<GpuAttention> tensor_gpu_attention(const Group& group, const LoweringContext& context,
                                                   StreamedSoftmax softmax, const std::string& kind);

}  // namespace metac
