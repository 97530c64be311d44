// Appends nodes to a model: the loss, the metrics and the updates are nodes like any others, so the model of a step can be
// inspected, converted to JSON and compiled as every model can.
#pragma once
#include <set>
#include <string>
#include <vector>

#include "compiler/ops/attributes.h"

namespace metac {

// One of ONNX's own.
inline bool is_operator(const Node& node, const char* op) { return node.domain.empty() && node.op_type == op; }

class NodeWriter {
 public:
  // `model` must outlive the writer. Names that the model has are never given again.
  explicit NodeWriter(Model& model);

  // An unused name like `hint`: "train/loss", "train/loss.2", ...
  std::string fresh(const std::string& hint);
  // A graph input of that name (which nothing in the model may have) and static shape.
  void add_input(const std::string& name, DType dtype, const std::vector<int64_t>& shape);
  void add_output(const std::string& name);
  // An initialiser of that name, which nothing in the model may have.
  void add_initializer(const std::string& name, Tensor tensor);

  // Meta-operators. In bodies operands go by position, "@0": names of the model could mean anything.
  std::string elementwise(const std::vector<std::string>& operands, const std::string& body, const std::string& hint,
                          const std::string& dtype = "");
  // Over the shape of operand 0 (bodies that read all operands at indices of their own do not say one).
  std::string elementwise_over(const std::vector<std::string>& operands, const std::string& body, const std::string& hint,
                               const std::string& dtype = "");
  // op: "sum", "mean", "max", "min", "any". dims may be negative; empty: all axes.
  std::string reduce(const std::string& op, const std::string& x, const std::vector<int64_t>& dims, bool keepdims,
                     const std::string& hint);
  std::string log_softmax(const std::string& x, int64_t axis, const std::string& hint);
  std::string cast(const std::string& x, DType dtype, const std::string& hint);
  std::string random(const std::string& seed, const std::string& call, const std::string& like, int64_t stream,
                     const std::string& hint);
  std::string random_of_shape(const std::string& seed, const std::string& call, const std::vector<std::string>& shape,
                              int64_t stream, const std::string& hint);
  std::string constant(const Tensor& tensor, const std::string& hint);
  // d y / d xs, one name each.
  std::vector<std::string> gradient(const std::string& y, const std::vector<std::string>& xs);
  // x, or where several processes train together its mean over them. Each has a number of its own.
  std::string exchange(const std::string& x, int index, const std::string& hint);
  // The value `from` also under the name `to`.
  void rename(const std::string& from, const std::string& to);

  Node& add(const std::string& domain, const std::string& op_type, std::vector<std::string> inputs,
            std::vector<std::string> outputs);
  bool has(const std::string& name) const { return names_.count(name) > 0; }

 private:
  Model& model_;
  std::set<std::string> names_;
};

// A double so that the expression language reads back the same: "0.1", "1e-08".
std::string literal(double value);

}  // namespace metac
