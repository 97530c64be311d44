// Attention by fused multiply-adds. A block of 16 by 16 threads has a tile of scores, a thread every 16th row and every 16th
// column of it. The 16 threads of a row are neighbours in a warp; weights go through shared memory once, to be multiplied by
// v.
#include "compiler/target/gpu/strategies/gpu_attention.h"

namespace metac {
namespace {

class PlainGpuAttention : public GpuAttention {
 public:
  PlainGpuAttention(const Group& group, const LoweringContext& context, StreamedSoftmax softmax)
      : GpuAttention(group, context, std::move(softmax), DType::f32) {}

 private:
  const AttentionTiles& tile_sizes() const override { return gpu_costs.attention_plain; }
  int threads() const override { return static_cast<int>(edge * edge); }
  // An odd stride: threads of neighbouring rows read different banks.
  SharedTile factor_tile() const override { return {depth_, depth_ + 1}; }
  SharedTile value_tile() const override { return {padded_width(), padded_width()}; }
  int64_t weight_stride() const { return tile_.columns + 1; }
  int64_t weight_bytes() const override { return tile_.rows * weight_stride() * static_cast<int64_t>(sizeof(float)); }
  void declare_weights() override { weight_ = declare_local(tile_.rows * weight_stride(), true); }
  int64_t rows_of_thread() const override { return tile_.rows / edge; }
  int64_t columns_of_thread(int64_t columns) const override { return columns / edge; }
  int threads_of_row() const override { return static_cast<int>(edge); }
  Expr register_of(Expr row, Expr column, int64_t columns) const override { return row * Expr(columns) + column; }

  Share share(int64_t rows, int64_t others) override {
    Share s;
    s.threads = {fresh(edge, LoopKind::thread), fresh(edge, LoopKind::thread)};
    s.rows = fresh(Expr(rows), LoopKind::unrolled);
    s.others = fresh(Expr(others), LoopKind::unrolled);
    s.row = axis(s.threads[0].axis) + axis(s.rows.axis) * Expr(edge);
    s.column = axis(s.threads[1].axis) + axis(s.others.axis) * Expr(edge);
    s.at = register_of(axis(s.rows.axis), axis(s.others.axis), others);
    return s;
  }

  // sums[...] += left(row, k) * right(k, column) over all k.
  LoopNode multiply(int sums, int64_t others, int64_t steps, const std::function<Expr(Expr, Expr)>& left,
                    const std::function<Expr(Expr, Expr)>& right) {
    const Share s = share(rows_of_thread(), others);
    const Loop step = fresh(Expr(steps), LoopKind::serial);
    const Expr k = axis(step.axis);
    return node({s.threads[0], s.threads[1], step, s.rows, s.others},
                {set(sums, s.at, left(s.row, k) * right(k, s.column), Reduce::add)});
  }
  LoopNode multiply_scores() override {
    const Expr stride(factor_tile().stride);
    return multiply(
        score_, columns_of_thread(tile_.columns), depth_, [&](Expr row, Expr d) { return element(q_, row * stride + d); },
        [&](Expr d, Expr column) { return element(k_, column * stride + d); });
  }
  std::vector<LoopNode> share_weights() override {
    const Share s = share(rows_of_thread(), columns_of_thread(tile_.columns));
    return {node(s.loops(), {set(weight_, s.row * Expr(weight_stride()) + s.column, element(score_, s.at))})};
  }
  LoopNode multiply_values() override {
    const Expr stride(weight_stride()), value_stride(value_tile().stride);
    return multiply(
        out_, columns_of_thread(padded_width()), tile_.columns,
        [&](Expr row, Expr c) { return element(weight_, row * stride + c); },
        [&](Expr c, Expr w) { return element(v_, c * value_stride + w); });
  }

  int weight_ = 0;  // shared by the block
};

}  // namespace

std::unique_ptr<GpuAttention> plain_gpu_attention(const Group& group, const LoweringContext& context,
                                                  StreamedSoftmax softmax) {
  return std::make_unique<PlainGpuAttention>(group, context, std::move(softmax));
}

}  // namespace metac
