// code: the user's C++, in the manner of Jittor's code operator (the paper's section 3.6). "cpu" computes the output, "grad"
// for every input the gradient by it, "tangent" the tangent of the output. In the text @in0(i, j) is an element of an input,
// @out(i) one of what is computed, in0_shape0 a dim; what is what stands in docs/json_ir.md.
//
// The text is compiled and run as it stands, so it is taken from JSON documents alone and only where the user said
// --allow-code.
#include <algorithm>
#include <cctype>

#include "compiler/ir/code_op.h"
#include "compiler/ops/meta/meta_binding.h"
#include "compiler/ops/registry.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

struct Tensors {
  std::vector<std::string> names;
  std::vector<int> ranks;
  void add(const std::string& name, int rank) {
    names.push_back(name);
    ranks.push_back(rank);
  }
  std::string listed() const {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "@" : ", @") + name;
    return text;
  }
};

// The user's text with its @name(i, j) written as elements of row-major memory.
class CodeText {
 public:
  CodeText(const std::string& source, const Tensors& tensors, const std::string& field)
      : source_(source), tensors_(tensors), field_(field) {}

  std::string plain() {
    std::string out;
    while (at_ < source_.size()) {
      if (source_[at_] == '@')
        out += element();
      else
        out += source_[at_++];
    }
    return out;
  }

 private:
  [[noreturn]] void complain(const std::string& what) const { fail(quoted(field_), ", character ", at_ + 1, ": ", what); }

  std::string element() {
    const size_t start = at_++;
    std::string name;
    while (at_ < source_.size() && (std::isalnum(static_cast<unsigned char>(source_[at_])) || source_[at_] == '_'))
      name += source_[at_++];
    if (name == "shape") return dims();
    auto found = std::find(tensors_.names.begin(), tensors_.names.end(), name);
    if (found == tensors_.names.end()) {
      at_ = start;
      complain(concat("@", name, " is not known; there are ", tensors_.listed()));
    }
    const int rank = tensors_.ranks[static_cast<size_t>(found - tensors_.names.begin())];
    while (at_ < source_.size() && std::isspace(static_cast<unsigned char>(source_[at_]))) ++at_;
    if (at_ == source_.size() || source_[at_] != '(') {
      at_ = start;
      complain(concat("@", name, " wants its indices, as in @", name, "(i)"));
    }
    if (++depth_ > deepest) complain(concat("elements inside indices nest deeper than ", deepest));
    const std::vector<std::string> indices = arguments(name);
    --depth_;
    if (static_cast<int>(indices.size()) != rank) {
      at_ = start;
      complain(concat("@", name, " has rank ", rank, ", it is given ", indices.size(), " indices"));
    }
    std::string linear = rank == 0 ? "0" : "(" + indices[0] + ")";
    for (int k = 1; k < rank; ++k)
      linear = concat("(", linear, " * ", name, "_shape", k, " + (", indices[static_cast<size_t>(k)], "))");
    return name + "[" + linear + "]";
  }

  // @shape(in0): the dims of a tensor, one after the other; of one without axes a 0, so that it is a list in any case.
  std::string dims() {
    const size_t end = source_.find(')', at_);
    const std::string name = at_ < source_.size() && source_[at_] == '(' && end != std::string::npos
                                 ? source_.substr(at_ + 1, end - at_ - 1)
                                 : "";
    const auto found = std::find(tensors_.names.begin(), tensors_.names.end(), name);
    if (found == tensors_.names.end())
      complain(concat("@shape wants a tensor, as in @shape(in0); there are ", tensors_.listed()));
    at_ = end + 1;
    const int rank = tensors_.ranks[static_cast<size_t>(found - tensors_.names.begin())];
    std::string text = rank == 0 ? "0" : "";
    for (int k = 0; k < rank; ++k) text += concat(k ? ", " : "", name, "_shape", k);
    return text;
  }

  // What stands between the parentheses, split at its own commas; elements inside are written out as well.
  std::vector<std::string> arguments(const std::string& name) {
    std::vector<std::string> out;
    std::string part;
    int depth = 0;
    for (++at_; at_ < source_.size();) {
      const char c = source_[at_];
      if (c == '@') {
        part += element();
        continue;
      }
      ++at_;
      if (c == ')' && depth == 0) {
        if (!out.empty() || part.find_first_not_of(" \t\n\r") != std::string::npos) out.push_back(part);
        return out;
      }
      depth += c == '(' || c == '[';
      depth -= c == ')' || c == ']';
      if (c == ',' && depth == 0) {
        out.push_back(part);
        part.clear();
      } else {
        part += c;
      }
    }
    complain(concat("the parenthesis of @", name, "( is not closed"));
  }

  const std::string& source_;
  const Tensors& tensors_;
  static constexpr int deepest = 100;
  const std::string field_;
  size_t at_ = 0;
  int depth_ = 0;
};

void lower_code(Lowering& n) {
  if (n.node().line == 0) fail("C++ is taken from JSON documents only; this node comes out of another file");
  if (!n.allows_code())
    fail("its C++ would be compiled and run as it stands; --allow-code allows it, for a document that you trust");
  Graph& g = n.graph();
  std::vector<Var*> inputs;
  Tensors forward;
  for (size_t k = 0; k < n.input_count(); ++k) {
    inputs.push_back(n.input(k));
    if (!is_numeric(inputs[k]->dtype()))
      fail("input ", k, " is ", name_of(inputs[k]->dtype()), "; C++ reads numbers and truth values");
    forward.add(concat("in", k), inputs[k]->rank());
  }
  MetaScope scope(g, inputs, n.node().inputs);
  for (const std::string& definition : n.strings("let")) scope.define(definition);
  const Shape shape = scope.shape(n.strings("shape"));
  DType dtype = inputs.empty() ? DType::f32 : inputs[0]->dtype();
  if (n.has("dtype")) {
    std::optional<DType> stated = dtype_from_name(n.string("dtype", ""));
    if (!stated || !is_numeric(*stated)) fail("dtype ", quoted(n.string("dtype", "")), " is not known");
    dtype = *stated;
  }
  const int rank = static_cast<int>(shape.size());

  CodeBody body;
  Tensors computing = forward;
  computing.add("out", rank);
  body.source = CodeText(n.string("cpu", ""), computing, "cpu").plain();
  const std::vector<std::string> gradients = n.strings("grad");
  if (gradients.size() > inputs.size()) fail("\"grad\" has ", gradients.size(), " entries for ", inputs.size(), " inputs");
  for (size_t k = 0; k < gradients.size(); ++k) {
    Tensors known = forward;
    known.add("pout", rank);
    known.add("dout", rank);
    known.add("out", inputs[k]->rank());
    if (!gradients[k].empty() && !is_float(inputs[k]->dtype()))
      fail("\"grad\" of input ", k, ", which is ", name_of(inputs[k]->dtype()), ": only floats have a derivative");
    body.gradients.push_back(CodeText(gradients[k], known, concat("grad[", k, "]")).plain());
  }
  if (n.has("tangent")) {
    Tensors known = forward;
    for (size_t k = 0; k < inputs.size(); ++k)
      if (is_float(inputs[k]->dtype())) known.add(concat("tin", k), inputs[k]->rank());
    known.add("pout", rank);
    known.add("out", rank);
    body.tangent = CodeText(n.string("tangent", ""), known, "tangent").plain();
  }
  n.set_output(0, make_code(g, inputs, Type{TypeKind::tensor, dtype, shape}, body));
}

METAC_OPERATOR("code", "metac")
    .since({1})
    .inputs(0, -1)
    .outputs(1)
    .required("shape", Kind::strings)
    .required("cpu", Kind::string)
    .attribute("dtype", Kind::string)
    .attribute("grad", Kind::strings)
    .attribute("tangent", Kind::string)
    .attribute("let", Kind::strings)
    .lower(lower_code);

}  // namespace
}  // namespace metac
