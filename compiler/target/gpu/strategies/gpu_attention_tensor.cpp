// Attention on tensor cores, where q, k and v are float16 or bfloat16 (float32 that may be rounded to TF32). Each warp has
// 16 rows, and an instruction says which elements a thread has: two rows that are eight apart, two neighbours of every eight
// columns. So four neighbouring threads share a row, and their weights are the left side of the second product as they stand
// in registers. Weights are rounded as q, k and v are; their sum is of what they were before.
#include "compiler/target/gpu/strategies/gpu_attention.h"
#include "compiler/target/gpu/strategies/wide_store.h"

namespace metac {
namespace {

class TensorGpuAttention : public GpuAttention {
 public:
  TensorGpuAttention(const Group& group, const LoweringContext& context, StreamedSoftmax softmax, const std::string& kind)
      : GpuAttention(group, context, softmax, softmax.row_factor->dtype), kind_(kind) {}

 private:
  static constexpr TensorFragment fragment = gpu_machine.fragment;

  const AttentionTiles& tile_sizes() const override { return gpu_costs.attention_tensor; }
  int threads() const override { return static_cast<int>(tile_.rows / fragment.rows * gpu_machine.warp); }
  // Whole instructions are read; with an access more the eight rows that a warp reads lie in different banks.
  int64_t per_word() const { return gpu_machine.word_bytes / static_cast<int64_t>(size_of(type_)); }
  SharedTile row_of(int64_t elements) const {
    return {elements, elements + gpu_costs.tensor_pad_bytes / gpu_machine.word_bytes * per_word()};
  }
  SharedTile factor_tile() const override {
    const int64_t whole = fragment.step_words * per_word();
    return row_of((depth_ + whole - 1) / whole * whole);
  }
  SharedTile value_tile() const override { return row_of(padded_width()); }
  TensorTile operand(int local, const SharedTile& tile, bool across) const {
    return {local, tile.stride / per_word(), across, {}};
  }
  int64_t rows_of_thread() const override { return fragment.rows_of_thread; }
  int64_t columns_of_thread(int64_t columns) const override { return columns / fragment.threads_of_row; }
  int threads_of_row() const override { return static_cast<int>(fragment.threads_of_row); }
  Expr register_of(Expr row, Expr column, int64_t) const override {
    const int64_t neighbours = fragment.neighbours;
    return floor_div(column, neighbours) * Expr(fragment.elements_of_thread) + row * Expr(neighbours) +
           floor_mod(column, neighbours);
  }

  // The row of the tile of which a thread has elements, in its upper or lower half of a fragment.
  static Expr row_of_thread(Expr thread, Expr half) {
    return floor_div(thread, gpu_machine.warp) * Expr(fragment.rows) + half * Expr(fragment.rows_apart) +
           floor_div(floor_mod(thread, gpu_machine.warp), fragment.threads_of_row);
  }

  Share share(int64_t rows, int64_t others) override {
    Share s;
    s.threads = {fresh(Expr(threads()), LoopKind::thread)};
    s.rows = fresh(Expr(rows), LoopKind::unrolled);
    s.others = fresh(Expr(others), LoopKind::unrolled);
    const Expr i = axis(s.rows.axis), j = axis(s.others.axis), thread = axis(s.threads[0].axis);
    s.row = row_of_thread(thread, i);
    s.column = floor_div(j, fragment.neighbours) * Expr(fragment.columns) +
               floor_mod(thread, fragment.threads_of_row) * Expr(fragment.neighbours) + floor_mod(j, fragment.neighbours);
    s.at = register_of(i, j, others);
    return s;
  }

  // Sums are two rows of each part, or of every two parts behind an exchange (tensor_rows_of_four).
  std::optional<Share> share_of_neighbours(int64_t count) override {
    Share s;
    s.threads = {fresh(Expr(threads()), LoopKind::thread)};
    s.rows = fresh(Expr(fragment.rows_of_thread), LoopKind::unrolled);
    s.others = fresh(Expr(columns_of_thread(padded_width()) / count), LoopKind::unrolled);
    s.neighbours = fresh(Expr(count), LoopKind::unrolled);
    const Expr i = axis(s.rows.axis), j = axis(s.others.axis), k = axis(s.neighbours.axis), thread = axis(s.threads[0].axis);
    s.row = row_of_thread(thread, i);
    s.column = tensor_column(count, floor_mod(thread, gpu_machine.warp), j, k);
    s.at = (j * Expr(fragment.rows_of_thread) + i) * Expr(count) + k;
    return s;
  }

  std::string description() const override { return "products on tensor cores: " + kind_; }
  LoopNode multiply_scores() override {
    LoopNode n;
    n.tensor = TensorProduct{kind_, score_, operand(q_, factor_tile(), false), operand(k_, factor_tile(), false),
                             1,     1,      tile_.columns / fragment.columns,  factor_tile().row_size / per_word()};
    return n;
  }
  LoopNode multiply_values() override {
    LoopNode n;
    n.tensor = TensorProduct{kind_,
                             out_,
                             {score_, 0, false, {}},
                             operand(v_, value_tile(), true),
                             1,
                             1,
                             padded_width() / fragment.columns,
                             tile_.columns / per_word(),
                             true};
    return n;
  }

  std::string kind_;
};

}  // namespace

std::unique_ptr<GpuAttention> tensor_gpu_attention(const Group& group, const LoweringContext& context,
                                                   StreamedSoftmax softmax, const std::string& kind) {
  return std::make_unique<TensorGpuAttention>(group, context, std::move(softmax), kind);
}

}  // namespace metac
