// The nodes of adapters, put behind the products that they belong to. They are ONNX's own operators alone, as opset 7 and
// all later ones have them, so the model can be written as a file that others read.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "compiler/train/adapters/product_weights.h"
#include "compiler/train/node_writer.h"

namespace metac {

// Of A and B beside a weight: float64 where a product with it is of float64, else float32.
DType adapter_dtype(const ProductWeight& weight);

// What y = x W becomes: y = x W + scale * (x A) B.
struct AdapterTerm {
  std::string a, b;  // values [depth, rank] and [rank, columns], of the weight's adapter_dtype
  double scale = 1;
  double dropout = 0;     // of the x that A multiplies
  bool each_row = false;  // A and B are [batch, depth, rank] and [batch, rank, columns], x and y [batch, ...]
};

class AdapterNodes {
 public:
  // Takes the model's nodes; finish() puts them back. `model` must outlive this. Throws CompileError where its opset is one
  // before 7, whose Mul and Add do not broadcast by themselves.
  explicit AdapterNodes(Model& model);

  // Writes nodes before the model's own, and initialisers.
  NodeWriter& write() { return write_; }
  // Behind every product with `weight`, of the model as it was given.
  void add(const ProductWeight& weight, const AdapterTerm& term);
  void finish();

 private:
  struct Addition {
    WeightProduct product;
    int64_t depth;
    DType dtype;
    AdapterTerm term;
  };
  void write_addition(const Addition& addition, const std::string& data, const std::string& product, const std::string& y);
  std::string written(const std::string& op, std::vector<std::string> inputs, const std::string& hint);
  std::string cast(const std::string& x, DType dtype, const std::string& hint);
  std::string dropped(const std::string& x, double ratio, const std::string& hint);

  Model& model_;
  NodeWriter write_;
  std::vector<Node> nodes_;
  std::map<int, Addition> additions_;  // by node
};

}  // namespace metac
