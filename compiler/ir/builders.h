// The specialised operators as named builders of the three meta-operators (the Jittor paper's 18 and what lowerings need
// besides). Axes may be negative as in ONNX; callers have checked attribute ranges with check_axis().
#pragma once
#include "compiler/ir/graph.h"

namespace metac {

int check_axis(int64_t axis, int rank, std::string_view what = "axis");  // normalises, or throws naming axis and rank

// ---- reindex ----
Shape broadcast_shapes(Graph& g, const std::vector<Shape>& shapes);  // NumPy's rule; unknown-equal dims become requirements
Var* broadcast_to(Graph& g, Var* x, const Shape& shape);             // aligned right
Var* broadcast_axes(Graph& g, Var* x, const Shape& shape, const std::vector<int>& axes);  // the paper's: new axes at `axes`
Var* transpose(Graph& g, Var* x, const std::vector<int>& perm);
Var* reshape(Graph& g, Var* x, const Shape& shape);  // requires equal element counts
Var* unsqueeze(Graph& g, Var* x, std::vector<int> axes);
Var* squeeze(Graph& g, Var* x, std::vector<int> axes);
Var* slice(Graph& g, Var* x, const std::vector<int>& axes, const std::vector<Expr>& starts, const std::vector<Expr>& extents,
           const std::vector<Expr>& steps);  // out[i] = x[start + i*step]
Var* pad(Graph& g, Var* x, const std::vector<Expr>& before, const std::vector<Expr>& after, Expr fill);
// An input behind which something is put, as it is or moved, may be of length 0 along the axis (Symbol::may_be_none).
Var* concat(Graph& g, const std::vector<Var*>& parts, int axis);
// Something is put behind `var` along an axis.
void note_extended(Graph& g, const Var* var, int axis);
Var* gather(Graph& g, Var* x, Var* indices, int axis);  // negative indices count from the end
Var* fill(Graph& g, const Shape& shape, Expr value);    // every element `value` (may use axes)
// ---- reindex-reduce ----
Var* reduce(Graph& g, Var* x, const std::vector<int>& axes, Reduce reduce, bool keepdims,
            std::optional<DType> accumulator = {});
Var* mean(Graph& g, Var* x, const std::vector<int>& axes, bool keepdims);
// ---- element-wise ----
Var* map(Graph& g, Fn fn, Var* x);
Var* map(Graph& g, Fn fn, Var* a, Var* b);  // broadcasts
Var* map(Graph& g, Fn fn, Var* a, Var* b, Var* c);
// body(loads) over the operands broadcast to one shape: elementwise(g, {a, b}, [](auto v) { return v[0] * v[1]; })
Var* elementwise(Graph& g, std::vector<Var*> operands, const std::function<Expr(const std::vector<Expr>&)>& body);
Var* cast(Graph& g, Var* x, DType dtype);
Var* scalar(Graph& g, DType dtype, double value);                                     // rank-0 constant
Var* vector_of(Graph& g, const std::vector<Expr>& values, DType dtype = DType::i64);  // shapes as tensors
// All elements of an integer Var of rank 0 or 1 as Exprs (Graph::element for each); throws if their number is not known.
std::vector<Expr> elements_of(Graph& g, Var* x, std::string_view what);
// ---- contractions, from reindex, mul and reduce ----
Var* matmul(Graph& g, Var* a, Var* b, std::optional<DType> accumulator = {});  // NumPy's matmul

}  // namespace metac
