#include "compiler/oracle/evaluate_program.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "compiler/ir/element.h"
#include "compiler/support/diagnostic.h"

namespace metac {

ScalarProgram compile_scalars(const std::vector<Expr>& roots) {
  ScalarProgram program;
  std::unordered_map<const ExprNode*, int> row_of;
  for (Expr root : roots) {
    visit(root, [&](Expr e) {
      if (row_of.contains(e.node())) return;
      ScalarProgram::Row row{e.node(), {}, e->kind == ExprKind::axis ? e->id + 1 : 0};
      for (Expr a : e->args) {
        row.args.push_back(row_of.at(a.node()));
        row.depth = std::max(row.depth, program.rows[row.args.back()].depth);
      }
      row_of[e.node()] = static_cast<int>(program.rows.size());
      program.rows.push_back(std::move(row));
    });
    program.roots.push_back(row_of.at(root.node()));
  }
  return program;
}

namespace {

// Calls f(T{}, T -> Scalar, Scalar -> T) with the class of the dtype in memory.
template <typename F>
void with_storage(DType dtype, const F& f) {
  METAC_ASSERT(is_numeric(dtype), "strings have no scalar value");
  with_element(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, double>)
      f(zero, [](T v) { return real_scalar(v); }, [](Scalar s) { return s.real; });
    else if constexpr (is_real_element<T>)
      f(
          zero, [](T v) { return real_scalar(value_of(v)); },
          [](Scalar s) { return to_element<T>(static_cast<float>(s.real)); });
    else
      f(
          zero, [](T v) { return integer_scalar(static_cast<int64_t>(value_of(v))); },
          [](Scalar s) { return to_element<T>(s.integer); });
  });
}

constexpr int lanes_per_block = 256;

class Walk {
 public:
  Walk(const ScalarProgram& program, const std::vector<int64_t>& domain, const int64_t* symbols,
       const std::map<int, const Tensor*>& operands)
      : program_(program), domain_(domain), symbols_(symbols) {
    // Leading axes go one by one, trailing ones in lanes.
    first_lane_axis_ = static_cast<int>(domain.size());
    while (first_lane_axis_ > 0 && lane_count_ < lanes_per_block) lane_count_ *= domain[--first_lane_axis_];
    index_.assign(domain.size(), 0);
    storage_.resize(program.rows.size());
    lanes_.resize(program.rows.size());
    operands_.resize(program.rows.size(), nullptr);
    for (size_t r = 0; r < program.rows.size(); ++r) {
      const ScalarProgram::Row& row = program.rows[r];
      const bool uniform = row.depth <= first_lane_axis_;
      storage_[r].resize(uniform ? 1 : lanes_per_block);
      lanes_[r] = {storage_[r].data(), uniform ? 0 : 1};
      (row.depth == 0 ? once_ : uniform ? outer_ : inner_).push_back(static_cast<int>(r));
      if (row.node->kind == ExprKind::load) operands_[r] = operands.at(row.node->id);
    }
  }

  void run(const BlockFunction& block) {
    for (int64_t d : domain_)
      if (d == 0) return;
    for (int r : once_) compute(r, 1);
    std::vector<Lanes> values;
    for (int root : program_.roots) values.push_back(lanes_[root]);
    for (int64_t base = 0;; base += lane_count_) {
      for (int r : outer_) compute(r, 1);
      std::fill(index_.begin() + first_lane_axis_, index_.end(), 0);
      for (int64_t at = 0; at < lane_count_; at += lanes_per_block) {
        const int n = static_cast<int>(std::min<int64_t>(lanes_per_block, lane_count_ - at));
        begin_ = at;
        for (int r : inner_) compute(r, n);
        block(base + at, n, values);
      }
      int k = first_lane_axis_ - 1;
      while (k >= 0 && ++index_[k] == domain_[k]) index_[k--] = 0;
      if (k < 0) return;
    }
  }

 private:
  Lanes arg(const ScalarProgram::Row& row, size_t i) const { return i < row.args.size() ? lanes_[row.args[i]] : Lanes{}; }

  void compute(int r, int n) {
    const ScalarProgram::Row& row = program_.rows[r];
    const ExprNode& node = *row.node;
    Scalar* out = storage_[r].data();
    switch (node.kind) {
      case ExprKind::int_constant:
        out[0].integer = node.int_value;
        break;
      case ExprKind::float_constant:
        out[0].real = node.float_value;
        break;
      case ExprKind::symbol:
        out[0].integer = symbols_[node.id];
        break;
      case ExprKind::axis:
        axis_lanes(node.id, out, n);
        break;
      case ExprKind::call:
        apply_lanes(node.fn, operand_dtype(node), arg(row, 0), arg(row, 1), arg(row, 2), out, n);
        break;
      case ExprKind::cast:
        convert_lanes(arg(row, 0), node.args[0]->dtype, node.dtype, out, n);
        break;
      case ExprKind::load:
        load_lanes(row, *operands_[r], out, n);
        break;
    }
  }

  // The values of a lane axis at flattened positions begin_ .. begin_ + n.
  void axis_lanes(int id, Scalar* out, int n) {
    if (id < first_lane_axis_) {
      out[0].integer = index_[id];
      return;
    }
    int64_t inner = 1;
    for (size_t k = id + 1; k < domain_.size(); ++k) inner *= domain_[k];
    int64_t value = begin_ / inner % domain_[id], rest = begin_ % inner;
    for (int i = 0; i < n; ++i) {
      out[i].integer = value;
      if (++rest == inner) {
        rest = 0;
        if (++value == domain_[id]) value = 0;
      }
    }
  }

  void load_lanes(const ScalarProgram::Row& row, const Tensor& tensor, Scalar* out, int n) {
    int64_t offsets[lanes_per_block];
    std::fill(offsets, offsets + n, 0);
    for (size_t k = 0; k < row.args.size(); ++k) {
      const Lanes index = lanes_[row.args[k]];
      const int64_t extent = tensor.shape[k];
      for (int i = 0; i < n; ++i) {
        const int64_t at = index[i].integer;
        // A negative offset stays negative: the mark of an element outside.
        offsets[i] = at < 0 || at >= extent || offsets[i] < 0 ? -1 : offsets[i] * extent + at;
      }
    }
    with_storage(tensor.dtype, [&](auto zero, auto widen, auto) {
      using T = decltype(zero);
      const T* data = tensor.data<T>();
      for (int i = 0; i < n; ++i) out[i] = offsets[i] < 0 ? integer_scalar(0) : widen(data[offsets[i]]);
    });
  }

  const ScalarProgram& program_;
  const std::vector<int64_t>& domain_;
  const int64_t* symbols_;
  int first_lane_axis_ = 0;
  int64_t lane_count_ = 1, begin_ = 0;
  std::vector<int64_t> index_;
  std::vector<std::vector<Scalar>> storage_;
  std::vector<Lanes> lanes_;
  std::vector<const Tensor*> operands_;
  std::vector<int> once_, outer_, inner_;
};

}  // namespace

void read_elements(const Tensor& tensor, int64_t begin, int64_t count, Scalar* out) {
  with_storage(tensor.dtype, [&](auto zero, auto widen, auto) {
    const auto* data = tensor.data<decltype(zero)>() + begin;
    for (int64_t i = 0; i < count; ++i) out[i] = widen(data[i]);
  });
}

void write_elements(DType dtype, const Scalar* values, int64_t count, std::byte* out) {
  with_storage(dtype, [&](auto zero, auto, auto narrow) {
    auto* data = reinterpret_cast<decltype(zero)*>(out);
    for (int64_t i = 0; i < count; ++i) data[i] = narrow(values[i]);
  });
}

Scalar element_at(const Tensor& tensor, int64_t index) {
  Scalar value;
  read_elements(tensor, index, 1, &value);
  return value;
}

void run_over(const ScalarProgram& program, const std::vector<int64_t>& domain, const int64_t* symbols,
              const std::map<int, const Tensor*>& operands, const BlockFunction& block) {
  Walk(program, domain, symbols, operands).run(block);
}

}  // namespace metac
