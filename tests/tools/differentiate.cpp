// differentiate BATCH RESULTS First and second derivatives of many small models at one point each, on the reference
// evaluator in float64, and what central differences say about the same: what tests/derivatives/ judges operators by.
//
// BATCH is a sequence of samples: a record with an ONNX model, the number of tensors, that many TensorProtos: the model's
// inputs by name and, for direction d = 0, 1, ..., "tangent d NAME" for every float input. A record is its length and its
// bytes, numbers are uint64, little-endian. RESULTS has for every sample the number of tensors and the tensors:
//   "output NAME"                         the model's outputs
//   "cotangent NAME", "gradient NAME"     of every float output; of every float input
//   "tangent d NAME", "product d NAME"    J t of every float output; H t of every float input, forward over reverse
//   "reverse product d NAME"              the same, reverse over reverse
//   "output slope d NAME", "gradient slope d NAME"   the same two by differences: five points, the error is O(step^4)
// or one tensor of strings "error". Where an input is float32, all floats of the model become float64 first.
#include <cmath>
#include <cstring>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include "compiler/api/verify/verify_gradient.h"
#include "compiler/autodiff/derivative_program.h"
#include "compiler/autodiff/gradient.h"
#include "compiler/ir/builders.h"
#include "compiler/ops/lower_model.h"
#include "compiler/oracle/evaluate_graph.h"
#include "compiler/support/diagnostic.h"
#include "frontends/onnx/onnx.h"

using namespace metac;

namespace {

using Named = std::map<std::string, Tensor>;

constexpr double step = 1e-4;

class Reader {
 public:
  explicit Reader(const char* path) {
    std::ifstream in(path, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    bytes_ = text.str();
  }
  bool at_end() const { return at_ >= bytes_.size(); }
  uint64_t number() {
    uint64_t n = 0;
    METAC_ASSERT(at_ + 8 <= bytes_.size(), "the batch ends in the middle");
    std::memcpy(&n, bytes_.data() + at_, 8);
    at_ += 8;
    return n;
  }
  std::string_view record() {
    const uint64_t size = number();
    METAC_ASSERT(size <= bytes_.size() - at_, "the batch ends in the middle");
    at_ += size;
    return std::string_view(bytes_).substr(at_ - size, size);
  }

 private:
  std::string bytes_;
  size_t at_ = 0;
};

void write_number(std::ostream& out, uint64_t n) { out.write(reinterpret_cast<const char*>(&n), 8); }

void write_results(std::ostream& out, const Named& results) {
  write_number(out, results.size());
  for (const auto& [name, tensor] : results) {
    const std::string bytes = to_tensor_proto_bytes(tensor, name);
    write_number(out, bytes.size());
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
}

Tensor text_tensor(const std::string& text) {
  Tensor t;
  t.dtype = DType::string;
  t.strings = {text};
  return t;
}

// sum of factors[k] * terms[k]
Tensor combination(const std::vector<const Tensor*>& terms, const std::vector<double>& factors) {
  std::vector<double> values(static_cast<size_t>(terms[0]->element_count()));
  for (size_t i = 0; i < values.size(); ++i)
    for (size_t k = 0; k < terms.size(); ++k) values[i] += factors[k] * number_at(*terms[k], static_cast<int64_t>(i));
  return make_tensor<double>(DType::f64, terms[0]->shape, values);
}

// One derivative function of the model: its own graph, as a library has it.
class Function {
 public:
  Function(const Model& model, Derivative derivative, bool widen) : graph_(lower_model(model, {})) {
    if (widen) widen_floats(*graph_);
    model_inputs_ = graph_->inputs.size();
    differentiate(*graph_, derivative, Wrt::inputs);
    if (derivative == Derivative::vjp) add_reverse_products();
    evaluator_ = std::make_unique<GraphEvaluator>(*graph_);
  }
  // Outputs by name; inputs are taken by name.
  Named run(const Named& given) {
    std::vector<Tensor> inputs;
    for (const Var* v : graph_->inputs) {
      auto found = given.find(v->name);
      if (found == given.end()) fail("no value for ", quoted(v->name));
      inputs.push_back(found->second);
    }
    std::vector<Tensor> results = evaluator_->run(inputs);
    Named out;
    for (size_t k = 0; k < results.size(); ++k) out[graph_->output_names[k]] = results[k];
    return out;
  }
  const Graph& graph() const { return *graph_; }
  size_t model_inputs() const { return model_inputs_; }

 private:
  // The gradient of <gradient, tangent>: the Hessian-vector product in reverse mode alone.
  void add_reverse_products() {
    std::vector<Var*> wrt;
    for (size_t k = 0; k < model_inputs_; ++k)
      if (is_float(graph_->inputs[k]->dtype())) wrt.push_back(graph_->inputs[k]);
    const std::vector<Var*> gradients(graph_->outputs.end() - static_cast<std::ptrdiff_t>(wrt.size()),
                                      graph_->outputs.end());
    std::vector<Var*> tangents;
    for (const Var* v : wrt) tangents.push_back(graph_->add_input("tangent of " + v->name, v->type));
    const std::vector<Var*> products = gradient(*graph_, gradients, tangents, wrt);
    for (size_t k = 0; k < wrt.size(); ++k) {
      graph_->outputs.push_back(products[k]);
      graph_->output_names.push_back("product of " + wrt[k]->name);
    }
  }

  std::unique_ptr<Graph> graph_;
  std::unique_ptr<GraphEvaluator> evaluator_;
  size_t model_inputs_ = 0;
};

// Numbers in 0.3..1.3, all different, the same on every machine.
Tensor cotangent_like(const Tensor& output, size_t which) {
  std::vector<double> values(static_cast<size_t>(output.element_count()));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = 0.3 + std::fmod(0.6180339887498949 * static_cast<double>(i + 1) + 0.37 * static_cast<double>(which), 1.0);
  if (output.dtype == DType::f32)
    return make_tensor<float>(DType::f32, output.shape, std::vector<float>(values.begin(), values.end()));
  return make_tensor<double>(DType::f64, output.shape, values);
}

class Sample {
 public:
  Sample(const Model& model, Named given) : model_(model), given_(std::move(given)) {}

  Named run() {
    auto forward = lower_model(model_, {});
    bool widen = false;
    for (auto& [name, tensor] : given_) {
      if (tensor.dtype != DType::f32) continue;
      tensor = combination({&tensor}, {1});
      widen = true;
    }
    if (widen) widen_floats(*forward);
    std::vector<Tensor> inputs;
    for (Var* v : forward->inputs) {
      auto found = given_.find(v->name);
      if (found == given_.end()) fail("no value for ", quoted(v->name));
      inputs.push_back(found->second);
      if (is_float(v->dtype())) wrt_.push_back(v->name);
    }
    const std::vector<Tensor> outputs = evaluate(*forward, inputs);
    for (size_t k = 0; k < outputs.size(); ++k) {
      const std::string& name = forward->output_names[k].empty() ? forward->outputs[k]->name : forward->output_names[k];
      results_["output " + name] = outputs[k];
      if (!is_float(outputs[k].dtype)) continue;
      outputs_.push_back(name);
      results_["cotangent " + name] = cotangent_like(outputs[k], k);
      given_["cotangent of " + name] = results_["cotangent " + name];
    }
    Function vjp(model_, Derivative::vjp, widen), jvp(model_, Derivative::jvp, widen), hvp(model_, Derivative::hvp, widen);
    for (int d = 0; given_.contains(concat("tangent ", d, " ", wrt_.at(0))); ++d) along(d, vjp, jvp, hvp);
    return std::move(results_);
  }

 private:
  void along(int d, Function& vjp, Function& jvp, Function& hvp) {
    const std::string number = std::to_string(d) + " ";
    for (const std::string& name : wrt_) given_["tangent of " + name] = given_.at("tangent " + number + name);
    const Named here = vjp.run(given_), tangents = jvp.run(given_), products = hvp.run(given_);
    for (const std::string& name : wrt_) {
      results_["gradient " + name] = here.at("gradient of " + name);
      results_["reverse product " + number + name] = here.at("product of " + name);
      results_["product " + number + name] = products.at("product of " + name);
    }
    for (const std::string& name : outputs_) results_["tangent " + number + name] = tangents.at("tangent of " + name);
    // f' = (f(-2) - 8 f(-1) + 8 f(1) - f(2)) / 12 h
    std::vector<Named> points;
    for (double at : {-2.0, -1.0, 1.0, 2.0}) {
      Named moved = given_;
      for (const std::string& name : wrt_)
        moved[name] = combination({&given_.at(name), &given_.at("tangent of " + name)}, {1, at * step});
      points.push_back(vjp.run(moved));
    }
    const auto slope = [&](const std::string& of) {
      std::vector<const Tensor*> terms;
      for (const Named& p : points) {
        terms.push_back(&p.at(of));
        if (terms.back()->shape != terms[0]->shape) fail("the shape of ", quoted(of), " changes beside the point");
      }
      return combination(terms, {1 / (12 * step), -8 / (12 * step), 8 / (12 * step), -1 / (12 * step)});
    };
    for (const std::string& name : outputs_) results_["output slope " + number + name] = slope(name);
    for (const std::string& name : wrt_) results_["gradient slope " + number + name] = slope("gradient of " + name);
  }

  const Model& model_;
  Named given_, results_;
  std::vector<std::string> wrt_, outputs_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "differentiate BATCH RESULTS\n";
    return 2;
  }
  Reader batch(argv[1]);
  std::ofstream out(argv[2], std::ios::binary);
  while (!batch.at_end()) {
    Named results;
    const std::string_view bytes = batch.record();
    Named given;
    for (uint64_t n = batch.number(); n-- > 0;) {
      std::string name;
      const Tensor tensor = read_tensor_proto(batch.record(), "the batch", &name);
      given[name] = tensor;
    }
    try {
      const Model model = read_onnx(bytes, "sample");
      results = Sample(model, given).run();
    } catch (const CompileError& error) {
      results = {{"error", text_tensor(error.what())}};
    }
    write_results(out, results);
  }
  out.flush();
  return out ? 0 : 1;
}
