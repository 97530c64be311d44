// Einsum: every operand becomes a tensor over named axes; operands are contracted in order, two at a time, and an axis
// is summed as soon as no later operand and not the result needs it.
#include <algorithm>
#include <cctype>
#include <map>

#include "compiler/ops/pointwise/arithmetic.h"

namespace metac {
namespace {

// An axis name: a letter, or -1 - k for the k-th of the axes that "..." stands for.
using Labels = std::vector<int>;

struct Operand {
  Var* value;
  Labels labels;  // one per axis
};

struct Equation {
  std::vector<Labels> terms;
  Labels result;
  std::map<int, Dim> extents;
};

bool contains(const Labels& labels, int label) { return std::find(labels.begin(), labels.end(), label) != labels.end(); }

std::string shown(int label) {
  return label < 0 ? concat("axis ", -1 - label, " of \"...\"") : concat("axis \"", static_cast<char>(label), "\"");
}

// One term; "..." becomes `ellipsis` of the labels counted from the last of `most`.
Labels parse_term(const std::string& text, int ellipsis, int most) {
  Labels labels;
  bool seen = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(text[i]))) {
      labels.push_back(text[i]);
    } else if (text.compare(i, 3, "...") == 0 && !seen) {
      for (int k = 0; k < ellipsis; ++k) labels.push_back(-1 - (most - ellipsis + k));
      seen = true;
      i += 2;
    } else {
      fail("equation term ", quoted(text), " has an unexpected character at position ", i);
    }
  }
  return labels;
}

Equation parse(Graph& g, std::string text, const std::vector<Var*>& operands) {
  std::string whole = text;
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  size_t arrow = text.find("->");
  std::string left = text.substr(0, arrow);
  std::vector<std::string> terms(1);
  for (char c : left) {
    if (c == ',')
      terms.emplace_back();
    else
      terms.back() += c;
  }
  if (terms.size() != operands.size())
    fail("equation ", quoted(whole), " has ", terms.size(), " terms, the node has ", operands.size(), " operands");
  std::vector<int> ellipsis(terms.size(), 0);
  int most = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    int letters =
        static_cast<int>(std::count_if(terms[i].begin(), terms[i].end(), [](unsigned char c) { return std::isalpha(c); }));
    bool dots = terms[i].find("...") != std::string::npos;
    int rank = operands[i]->rank();
    if (dots ? letters > rank : letters != rank)
      fail("term ", quoted(terms[i]), " of equation ", quoted(whole), " has ", letters, " letters, its operand has shape ",
           to_string(operands[i]->shape()));
    if (dots) ellipsis[i] = rank - letters;
    most = std::max(most, ellipsis[i]);
  }
  Equation e;
  std::map<int, int> uses;
  for (size_t i = 0; i < terms.size(); ++i) {
    e.terms.push_back(parse_term(terms[i], ellipsis[i], most));
    for (size_t k = 0; k < e.terms[i].size(); ++k) {
      int label = e.terms[i][k];
      Dim extent = operands[i]->shape()[k];
      ++uses[label];
      auto [found, fresh] = e.extents.emplace(label, extent);
      if (fresh || extent.is_int(1)) continue;
      if (found->second.is_int(1))
        found->second = extent;
      else if (label < 0)
        found->second = broadcast_shapes(g, {{found->second}, {extent}})[0];
      else
        require_equal(g, found->second, extent, concat("extents of ", shown(label), " in equation ", quoted(whole)));
      if (extent.if_int() && !extent.is_int(1)) found->second = extent;  // a number where one of the two is
    }
  }
  if (arrow == std::string::npos) {
    for (int k = 0; k < most; ++k) e.result.push_back(-1 - k);
    for (auto [label, count] : uses)
      if (label > 0 && count == 1) e.result.push_back(label);
  } else {
    e.result = parse_term(text.substr(arrow + 2), most, most);
    for (size_t k = 0; k < e.result.size(); ++k) {
      if (!e.extents.count(e.result[k]))
        fail("the result of equation ", quoted(whole), " has ", shown(e.result[k]), " that no operand has");
      if (std::count(e.result.begin(), e.result.end(), e.result[k]) > 1)
        fail("the result of equation ", quoted(whole), " repeats ", shown(e.result[k]));
    }
  }
  return e;
}

Shape shape_over(const Equation& e, const Labels& labels) {
  Shape shape;
  for (int label : labels) shape.push_back(e.extents.at(label));
  return shape;
}

// The operand over the axes `domain`: what it lacks is broadcast, a label that it repeats reads its diagonal.
Var* over(Graph& g, const Equation& e, const Operand& x, const Labels& domain) {
  if (x.labels == domain && x.value->shape() == shape_over(e, domain)) return x.value;
  // Of open dims that "..." stands for it is not known which are 1.
  Shape spread = x.value->shape();
  for (size_t k = 0; k < x.labels.size(); ++k)
    if (x.labels[k] < 0 && !spread[k].is_int(1)) spread[k] = e.extents.at(x.labels[k]);
  if (spread != x.value->shape()) return over(g, e, {broadcast_to(g, x.value, spread), x.labels}, domain);
  std::vector<Expr> indices;
  for (size_t k = 0; k < x.labels.size(); ++k) {
    int at = static_cast<int>(std::find(domain.begin(), domain.end(), x.labels[k]) - domain.begin());
    indices.push_back(x.value->shape()[k].is_int(1) ? Expr(0) : axis(at));
  }
  return g.reindex({x.value}, shape_over(e, domain), indices);
}

// Keeps `kept`, in that order, and sums the other labels of `domain`, which begins with `kept`.
Var* sum_to(Graph& g, Var* x, size_t kept) {
  std::vector<int> axes;
  for (int k = static_cast<int>(kept); k < x->rank(); ++k) axes.push_back(k);
  return axes.empty() ? x : reduce(g, x, axes, Reduce::add, false);
}

void lower_einsum(Lowering& n) {
  Graph& g = n.graph();
  std::vector<Operand> operands;
  std::vector<Var*> inputs;
  DType dtype = n.input(0)->dtype();
  for (size_t i = 0; i < n.input_count(); ++i) {
    require_numeric(n.input(i), concat("operand ", i));
    require_same_dtype(n.input(0), n.input(i), "operand 0", concat("operand ", i));
    inputs.push_back(n.input(i));
  }
  Equation e = parse(g, n.string("equation", ""), inputs);
  for (size_t i = 0; i < inputs.size(); ++i) operands.push_back({widen(g, inputs[i]), e.terms[i]});

  auto needed_after = [&](size_t from, int label) {
    if (contains(e.result, label)) return true;
    for (size_t i = from; i < operands.size(); ++i)
      if (contains(operands[i].labels, label)) return true;
    return false;
  };
  // The labels of `found` that are needed go first: in the result's order, then in the order met.
  auto split = [&](const Labels& found, size_t from) {
    Labels kept, summed;
    for (int label : e.result)
      if (contains(found, label)) kept.push_back(label);
    for (int label : found) {
      if (contains(kept, label) || contains(summed, label)) continue;
      (needed_after(from, label) ? kept : summed).push_back(label);
    }
    return std::pair(kept, summed);
  };
  auto joined = [](Labels a, const Labels& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  auto [kept, summed] = split(operands[0].labels, 1);
  Operand total{sum_to(g, over(g, e, operands[0], joined(kept, summed)), kept.size()), kept};
  for (size_t i = 1; i < operands.size(); ++i) {
    std::tie(kept, summed) = split(joined(total.labels, operands[i].labels), i + 1);
    Labels domain = joined(kept, summed);
    Var* product = map(g, Fn::mul, over(g, e, total, domain), over(g, e, operands[i], domain));
    total = {sum_to(g, product, kept.size()), kept};
  }
  n.set_output(0, cast(g, over(g, e, total, e.result), dtype));
}

METAC_OPERATOR("Einsum")
    .since({12, 28})
    .inputs(1, -1)
    .outputs(1)
    .required("equation", Attribute::Kind::string)
    .lower(lower_einsum);

}  // namespace
}  // namespace metac
