// Small random graphs of element-wise ops, reindexes and reductions, the same for the same seed: what fusion and memory
// planning are tested on.
#pragma once
#include <memory>
#include <random>
#include <vector>

#include "compiler/ir/builders.h"

namespace metac {

struct RandomGraphOptions {
  int ops = 14;
  bool sums = true;                    // else only maxima and minima: answers are exact
  std::vector<int64_t> dims = {4, 6};  // extents of the two axes that all values have
};

class RandomGraph {
 public:
  RandomGraph(unsigned seed, RandomGraphOptions options)
      : random_(seed), options_(options), graph(std::make_unique<Graph>()) {
    Shape full = shape_of(options.dims);
    for (const char* name : {"a", "b"}) values_.push_back(graph->add_input(name, Type{TypeKind::tensor, DType::f32, full}));
    for (int k = 0; k < options.ops; ++k) values_.push_back(next(full));
    // Every value that nobody reads is a result, and sometimes one that somebody reads.
    std::set<const Var*> read;
    for (const Op* op : graph->ops) read.insert(op->inputs.begin(), op->inputs.end());
    for (Var* v : values_)
      if (!v->is_input && (!read.count(v) || pick(6) == 0)) graph->outputs.push_back(v);
  }

  std::vector<Tensor> inputs() {
    std::vector<Tensor> out;
    for (const Var* in : graph->inputs) {
      std::vector<float> values;
      for (int64_t k = 0; k < element_count(in->shape()).as_int(); ++k)
        values.push_back(static_cast<float>(pick(17)) / 8 - 1);
      out.push_back(make_tensor<float>(DType::f32, static_shape(in->shape()), values));
    }
    return out;
  }

 private:
  int pick(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  Var* any() { return values_[static_cast<size_t>(pick(static_cast<int>(values_.size())))]; }
  Expr two() { return float_constant(2, DType::f32); }

  Var* next(const Shape& full) {
    Var* x = any();
    switch (pick(9)) {
      case 0:
        return map(*graph, Fn::add, x, any());
      case 1:
        return map(*graph, Fn::sub, x, any());
      case 2:
        return map(*graph, Fn::max, x, any());
      case 3:
        return elementwise(*graph, {x}, [&](const std::vector<Expr>& v) {
          return select(v[0] < float_constant(0, DType::f32), -v[0], v[0] / two());
        });
      case 4:
        return elementwise(*graph, {x, any()}, [&](const std::vector<Expr>& v) { return (v[0] - v[1]) / two(); });
      case 5: {  // the rows reversed
        std::vector<Expr> at = identity_indices(2);
        at[0] = full[0] - Expr(1) - axis(0);
        return x->shape() == full ? graph->reindex({x}, full, at) : map(*graph, Fn::neg, x);
      }
      case 6:
        return broadcast_to(*graph, x->shape() == full ? map(*graph, Fn::neg, x) : x, full);
      default: {
        if (x->shape() != full) return broadcast_to(*graph, x, full);
        Reduce how = options_.sums ? Reduce::add : pick(2) ? Reduce::max : Reduce::min;
        return reduce(*graph, x, {pick(2)}, how, true);
      }
    }
  }

  std::mt19937 random_;
  RandomGraphOptions options_;
  std::vector<Var*> values_;

 public:
  std::unique_ptr<Graph> graph;
};

}  // namespace metac
