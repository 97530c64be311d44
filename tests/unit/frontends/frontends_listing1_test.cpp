// The Jittor paper's Listing 1 as a JSON document, against the sum it stands for.
#include <gtest/gtest.h>

#include <random>

#include "compiler/ops/lower_model.h"
#include "compiler/oracle/evaluate_graph.h"
#include "frontends/convert.h"
#include "frontends/json/json.h"
#include "frontends/onnx/onnx.h"
#include "frontends/read_model.h"

namespace metac::frontends_listing1_test {
namespace {

constexpr const char* path = METAC_SOURCE_DIR "/models/listing1/conv.json";

Tensor random_tensor(std::vector<int64_t> shape, unsigned seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::byte* data = nullptr;
  Tensor tensor = make_tensor(DType::f32, std::move(shape), &data);
  for (int64_t i = 0; i < tensor.element_count(); ++i) reinterpret_cast<float*>(data)[i] = uniform(generator);
  return tensor;
}

// y[n,o,a,b] = sum over c,h,w of x[n,c,a-h,b-w] * p[o,c,h,w], outside x: 0.
std::vector<float> expected(const Tensor& x, const Tensor& p) {
  int64_t N = x.shape[0], C = x.shape[1], H = x.shape[2], W = x.shape[3], O = p.shape[0], KH = p.shape[2], KW = p.shape[3];
  std::vector<float> y;
  for (int64_t n = 0; n < N; ++n)
    for (int64_t o = 0; o < O; ++o)
      for (int64_t a = 0; a < H; ++a)
        for (int64_t b = 0; b < W; ++b) {
          double sum = 0;
          for (int64_t c = 0; c < C; ++c)
            for (int64_t h = 0; h <= std::min(a, KH - 1); ++h)
              for (int64_t w = 0; w <= std::min(b, KW - 1); ++w)
                sum += double(x.data<float>()[((n * C + c) * H + a - h) * W + b - w]) *
                       p.data<float>()[((o * C + c) * KH + h) * KW + w];
          y.push_back(static_cast<float>(sum));
        }
  return y;
}

void check(const Model& model, const LowerOptions& options) {
  std::unique_ptr<Graph> graph = lower_model(model, options);
  Tensor x = random_tensor({2, 3, 6, 5}, 1), p = random_tensor({4, 3, 3, 2}, 2);
  std::vector<Tensor> outputs = evaluate(*graph, std::map<std::string, Tensor>{{"x", x}, {"p", p}});
  ASSERT_EQ(outputs.size(), 1u);
  EXPECT_EQ(outputs[0].shape, (std::vector<int64_t>{2, 4, 6, 5}));
  std::vector<float> y = expected(x, p);
  for (size_t i = 0; i < y.size(); ++i) ASSERT_NEAR(outputs[0].data<float>()[i], y[i], 1e-5) << i;
}

TEST(Listing1, OpenDims) { check(read_model(path), {}); }

TEST(Listing1, FixedDims) {
  LowerOptions options;
  options.input_shapes = {{"x", {2, 3, 6, 5}}, {"p", {4, 3, 3, 2}}};
  check(read_model(path), options);
}

TEST(Listing1, ThroughOnnx) {
  Model model = read_model(path);
  check(read_onnx(to_onnx_bytes(model), "conv.onnx"), {});
}

}  // namespace
}  // namespace metac::frontends_listing1_test
