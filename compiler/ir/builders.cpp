#include "compiler/ir/builders.h"

#include <algorithm>

#include "compiler/ir/bounds.h"
#include "compiler/support/checked.h"
#include "compiler/support/diagnostic.h"

namespace metac {

int check_axis(int64_t axis, int rank, std::string_view what) {
  if (axis < -rank || axis >= rank) fail(what, " ", axis, " is out of range for rank ", rank);
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

// ---- broadcasting ----
// The extent of two dims that broadcast. Where it cannot be known which of two open dims is 1, the result is their
// maximum and operands are read at min(i, extent - 1), which is both 0 for 1 and i for n.
static Dim broadcast_dims(Graph& g, Dim a, Dim b) {
  if (a == b || b.is_int(1)) return a;
  if (a.is_int(1)) return b;
  Bounds bounds(g.symbols);
  bool a_wide = bounds.proves_less(1, a), b_wide = bounds.proves_less(1, b);
  if (a.if_int() && b.if_int()) fail("shapes do not broadcast: ", *a.if_int(), " against ", *b.if_int());
  if (a_wide && b_wide) {
    g.require(equal(a, b), concat("dims ", to_string(a), " and ", to_string(b), " must be equal to broadcast"));
    return a.if_int() ? a : b.if_int() ? b : a;
  }
  Expr one = Expr(1);
  g.require(logical_or(equal(a, b), logical_or(equal(a, one), equal(b, one))),
            concat("dims ", to_string(a), " and ", to_string(b), " must broadcast"));
  if (a_wide) return a;
  if (b_wide) return b;
  return select(equal(a, one), b, a);
}

Shape broadcast_shapes(Graph& g, const std::vector<Shape>& shapes) {
  size_t rank = 0;
  for (const Shape& s : shapes) rank = std::max(rank, s.size());
  Shape out(rank, Dim(1));
  for (size_t k = 0; k < rank; ++k) {
    std::vector<Dim> dims;  // the different ones
    for (const Shape& s : shapes)
      if (size_t shift = rank - s.size(); k >= shift && std::find(dims.begin(), dims.end(), s[k - shift]) == dims.end())
        dims.push_back(s[k - shift]);
    // In pairs, then pairs of pairs: what is said of one after the other doubles with every open dim.
    for (; dims.size() > 1; dims.resize((dims.size() + 1) / 2))
      for (size_t i = 0; i < dims.size(); i += 2) {
        try {
          dims[i / 2] = i + 1 < dims.size() ? broadcast_dims(g, dims[i], dims[i + 1]) : dims[i];
        } catch (const CompileError&) {
          std::string all;
          for (const Shape& t : shapes) all += (all.empty() ? "" : " and ") + to_string(t);
          fail("shapes ", all, " do not broadcast: ", to_string(dims[i]), " against ", to_string(dims[i + 1]), " in axis ",
               k);
        }
      }
    if (!dims.empty()) out[k] = dims[0];
  }
  return out;
}

static Expr broadcast_index(Graph& g, Dim from, Dim to, Expr index) {
  if (from == to) return index;
  if (from.is_int(1)) return 0;
  Bounds bounds(g.symbols);
  if (bounds.proves_less(1, from)) return index;
  return min(index, from - Expr(1));
}

Var* broadcast_to(Graph& g, Var* x, const Shape& shape) {
  if (x->shape() == shape) return x;
  int shift = static_cast<int>(shape.size()) - x->rank();
  if (shift < 0) fail("cannot broadcast ", to_string(x->shape()), " to ", to_string(shape));
  std::vector<Expr> indices;
  for (int k = 0; k < x->rank(); ++k) {
    const Dim from = x->shape()[k], to = shape[k + shift];
    broadcast_dims(g, from, to);
    if (from != to && (to.is_int(1) || to->kind == ExprKind::symbol))
      g.require(logical_or(equal(from, to), equal(from, Expr(1))),
                concat("cannot broadcast ", to_string(x->shape()), " to ", to_string(shape)));
    indices.push_back(broadcast_index(g, x->shape()[k], shape[k + shift], axis(k + shift)));
  }
  return g.reindex({x}, shape, indices);
}

Var* broadcast_axes(Graph& g, Var* x, const Shape& shape, const std::vector<int>& axes) {
  std::vector<Expr> indices;
  for (int k = 0; k < static_cast<int>(shape.size()); ++k)
    if (std::find(axes.begin(), axes.end(), k) == axes.end()) indices.push_back(axis(k));
  if (static_cast<int>(indices.size()) != x->rank())
    fail("broadcast of ", to_string(x->shape()), " to ", to_string(shape), " names ", axes.size(), " new axes");
  return g.reindex({x}, shape, indices);
}

// ---- moves ----
Var* transpose(Graph& g, Var* x, const std::vector<int>& perm) {
  Shape shape;
  std::vector<Expr> indices(perm.size());
  for (size_t k = 0; k < perm.size(); ++k) {
    shape.push_back(x->shape()[perm[k]]);
    indices[perm[k]] = axis(static_cast<int>(k));
  }
  return g.reindex({x}, shape, indices);
}

// Do the constant extents alone pass 2^63, where no count of elements means anything? 0 of anything is 0.
static bool count_overflows(const Shape& shape) {
  std::optional<int64_t> count = 1;
  for (Dim d : shape) {
    if (d.is_int(0)) return false;
    if (d.if_int() && count) count = checked_mul(*count, *d.if_int());
  }
  return !count;
}

Var* reshape(Graph& g, Var* x, const Shape& shape) {
  if (x->shape() == shape) return x;
  std::string asked = concat("cannot reshape ", to_string(x->shape()), " to ", to_string(shape), ": ");
  if (count_overflows(shape)) fail(asked, to_string(element_count(x->shape())), " elements against more than 2^63");
  Expr from = element_count(x->shape()), to = element_count(shape);
  g.require(equal(from, to), concat(asked, to_string(from), " elements against ", to_string(to)));
  // Runs of axes with equal products on both sides are independent: a split or a merge of one dim stays simple although
  // its neighbours are open.
  std::vector<Expr> indices(x->rank());
  size_t i = 0, j = 0, n = x->shape().size(), m = shape.size();
  while (i < n) {
    size_t i0 = i, j0 = j;
    Expr left = x->shape()[i++], right = 1;
    auto grow = [&] {  // the shortest run whose products agree
      for (;;) {
        if (left == right && j > j0) return true;
        const int64_t *l = left.if_int(), *r = right.if_int();
        if (l && r) {
          if (*r < *l || j == j0) {
            if (j == m) return false;
            right = right * shape[j++];
          } else {
            if (i == n) return false;
            left = left * x->shape()[i++];
          }
        } else if (j < m && (!l || j == j0)) {
          right = right * shape[j++];
        } else if (i < n) {
          left = left * x->shape()[i++];
        } else if (j < m) {
          right = right * shape[j++];
        } else {
          return false;
        }
      }
    };
    if (!grow()) {
      i = n;
      j = m;
    }
    if (i == n) j = m;  // trailing 1s
    Shape from_run(x->shape().begin() + i0, x->shape().begin() + i), to_run(shape.begin() + j0, shape.begin() + j);
    std::vector<Expr> to_axes;
    for (size_t k = j0; k < j; ++k) to_axes.push_back(axis(static_cast<int>(k)));
    std::vector<Expr> back = unravel_index(from_run, linear_index(to_run, to_axes));
    // floor_mod by the first dim of a run is redundant only when the runs' products agree, which the requirement says.
    std::copy(back.begin(), back.end(), indices.begin() + i0);
  }
  return g.reindex({x}, shape, indices);
}

Var* unsqueeze(Graph& g, Var* x, std::vector<int> axes) {
  Shape shape = x->shape();
  std::sort(axes.begin(), axes.end());
  for (int a : axes) shape.insert(shape.begin() + a, Dim(1));
  std::vector<Expr> indices;
  for (int k = 0; k < static_cast<int>(shape.size()); ++k)
    if (!std::count(axes.begin(), axes.end(), k)) indices.push_back(axis(k));
  return g.reindex({x}, shape, indices);
}

Var* squeeze(Graph& g, Var* x, std::vector<int> axes) {
  Shape shape;
  std::vector<Expr> indices;
  for (int k = 0; k < x->rank(); ++k) {
    if (std::count(axes.begin(), axes.end(), k)) {
      g.require(equal(x->shape()[k], Expr(1)), concat("cannot squeeze axis ", k, " of ", to_string(x->shape())));
      indices.push_back(0);
    } else {
      indices.push_back(axis(static_cast<int>(shape.size())));
      shape.push_back(x->shape()[k]);
    }
  }
  return g.reindex({x}, shape, indices);
}

Var* slice(Graph& g, Var* x, const std::vector<int>& axes, const std::vector<Expr>& starts, const std::vector<Expr>& extents,
           const std::vector<Expr>& steps) {
  Shape shape = x->shape();
  std::vector<Expr> indices = identity_indices(x->rank());
  for (size_t k = 0; k < axes.size(); ++k) {
    shape[axes[k]] = extents[k];
    indices[axes[k]] = starts[k] + axis(axes[k]) * steps[k];
  }
  return g.reindex({x}, shape, indices);
}

Var* pad(Graph& g, Var* x, const std::vector<Expr>& before, const std::vector<Expr>& after, Expr fill) {
  Shape shape;
  std::vector<Expr> indices, conditions;
  for (int k = 0; k < x->rank(); ++k) {
    shape.push_back(before[k] + x->shape()[k] + after[k]);
    indices.push_back(axis(k) - before[k]);
    conditions.push_back(Expr(0) <= indices[k]);
    conditions.push_back(indices[k] < x->shape()[k]);
  }
  return g.reindex({x}, shape, indices, conditions, fill);
}

void note_extended(Graph& g, const Var* var, int the_axis) {
  const Expr extent = var->shape()[static_cast<size_t>(the_axis)];
  if (extent->kind != ExprKind::symbol) return;
  while (!var->is_input && var->producer && !var->producer->inputs.empty() &&
         (var->producer->kind == OpKind::reindex ||
          (var->producer->kind == OpKind::elementwise && var->producer->inputs.size() == 1)))
    var = var->producer->inputs[0];
  if (var->is_input && std::count(var->shape().begin(), var->shape().end(), extent) > 0)
    g.symbols[static_cast<size_t>(extent->id)].may_be_none = true;
}

Var* concat(Graph& g, const std::vector<Var*>& parts, int the_axis) {
  if (parts.size() == 1) return parts[0];
  for (size_t p = 0; p + 1 < parts.size(); ++p) note_extended(g, parts[p], the_axis);
  Shape shape = parts[0]->shape();
  Expr total = 0;
  std::vector<Expr> starts;
  for (Var* part : parts) {
    if (part->rank() != parts[0]->rank())
      fail("concat of ", to_string(parts[0]->shape()), " and ", to_string(part->shape()), ": ranks differ");
    for (int k = 0; k < part->rank(); ++k)
      if (k != the_axis)
        g.require(equal(shape[k], part->shape()[k]),
                  concat("concat of ", to_string(shape), " and ", to_string(part->shape()), " along axis ", the_axis,
                         ": axis ", k, " differs"));
    starts.push_back(total);
    total = total + part->shape()[the_axis];
  }
  shape[the_axis] = total;
  // Each part is spread over the whole with a condition, and selects pick the right one: a chain of the few, of many a tree
  // of chains.
  std::vector<Var*> spread;
  for (size_t p = 0; p < parts.size(); ++p) {
    std::vector<Expr> indices = identity_indices(parts[p]->rank());
    indices[the_axis] = axis(the_axis) - starts[p];
    spread.push_back(g.reindex({parts[p]}, shape, indices,
                               {Expr(0) <= indices[the_axis], indices[the_axis] < parts[p]->shape()[the_axis]}));
  }
  int rank = static_cast<int>(shape.size());
  DType dtype = parts[0]->dtype();
  for (Var* part : parts)
    if (part->dtype() != dtype) fail("concat of ", name_of(dtype), " and ", name_of(part->dtype()));
  const std::function<Expr(size_t, size_t)> pick = [&](size_t begin, size_t end) -> Expr {
    if (end - begin == 1) return load(static_cast<int>(begin), dtype, identity_indices(rank));
    const size_t middle = begin + (end - begin <= 8 ? 1 : (end - begin) / 2);
    return select(axis(the_axis) < starts[middle], pick(begin, middle), pick(middle, end));
  };
  return g.elementwise(spread, shape, pick(0, parts.size()));
}

Var* gather(Graph& g, Var* x, Var* indices, int the_axis) {
  Shape shape(x->shape().begin(), x->shape().begin() + the_axis);
  shape.insert(shape.end(), indices->shape().begin(), indices->shape().end());
  shape.insert(shape.end(), x->shape().begin() + the_axis + 1, x->shape().end());
  std::vector<Expr> at, from;
  for (int k = 0; k < indices->rank(); ++k) at.push_back(axis(the_axis + k));
  Expr index = cast(load(1, indices->dtype(), at), DType::i64);
  Expr extent = x->shape()[the_axis];
  if (indices->known_elements()) {
    for (Expr e : *indices->known_elements())
      if (bool(e) && e.if_int() && extent.if_int() && (e.as_int() < -extent.as_int() || e.as_int() >= extent.as_int()))
        fail("index ", e.as_int(), " is out of range for axis ", the_axis, " of ", to_string(x->shape()));
  }
  // One index that is known, as of query, key and value in a tensor of all three, makes a slice.
  if (const auto& known = indices->known_elements(); known && indices->rank() == 0 && extent.if_int()) {
    if (const Expr one = known->front(); bool(one) && one.if_int()) {
      const int64_t place = one.as_int() < 0 ? one.as_int() + extent.as_int() : one.as_int();
      for (int k = 0; k < x->rank(); ++k)
        from.push_back(k < the_axis ? axis(k) : k > the_axis ? axis(k - 1) : Expr(place));
      return g.reindex({x}, shape, from);
    }
  }
  // Out-of-range run-time indices are clamped: no read outside the tensor, whatever the data says.
  index = select(index < Expr(0), index + extent, index);
  if (!indices->constant || (g.in_region() && !extent.if_int())) index = max(min(index, extent - Expr(1)), Expr(0));
  for (int k = 0; k < x->rank(); ++k)
    from.push_back(k < the_axis ? axis(k) : k == the_axis ? index : axis(k + indices->rank() - 1));
  return g.reindex({x, indices}, shape, from);
}

Var* fill(Graph& g, const Shape& shape, Expr value) { return g.elementwise({}, shape, value); }

// ---- reductions ----
Var* reduce(Graph& g, Var* x, const std::vector<int>& axes, Reduce reduce, bool keepdims, std::optional<DType> accumulator) {
  Shape shape;
  std::vector<Expr> indices;
  for (int k = 0; k < x->rank(); ++k) {
    bool reduced = std::count(axes.begin(), axes.end(), k) > 0;
    if (!reduced || keepdims) {
      shape.push_back(reduced ? Dim(1) : x->shape()[k]);
      indices.push_back(reduced ? Expr(0) : axis(k));
    }
  }
  return g.reindex_reduce({x}, shape, indices, reduce, {}, accumulator);
}

Var* mean(Graph& g, Var* x, const std::vector<int>& axes, bool keepdims) {
  Expr count = 1;
  for (int k : axes) count = count * x->shape()[k];
  Var* sum = reduce(g, x, axes, Reduce::add, keepdims);
  Expr n = is_float(x->dtype()) && count.if_int() ? float_constant(static_cast<double>(count.as_int()), x->dtype())
                                                  : cast(count, x->dtype());
  return elementwise(g, {sum}, [&](const std::vector<Expr>& v) { return v[0] / n; });
}

// ---- element-wise ----
Var* elementwise(Graph& g, std::vector<Var*> operands, const std::function<Expr(const std::vector<Expr>&)>& body) {
  std::vector<Shape> shapes;
  for (Var* x : operands) shapes.push_back(x->shape());
  Shape shape = broadcast_shapes(g, shapes);
  std::vector<Expr> loads;
  for (size_t k = 0; k < operands.size(); ++k) {
    // Scalars are read in place: a Reindex for them would only be noise.
    if (operands[k]->rank() == 0) {
      const auto& known = operands[k]->carried_elements();
      bool inline_it = known && (*known)[0] && (*known)[0].is_constant() && !operands[k]->is_parameter;
      loads.push_back(inline_it ? (*operands[k]->known_elements())[0] : load(static_cast<int>(k), operands[k]->dtype(), {}));
      continue;
    }
    operands[k] = broadcast_to(g, operands[k], shape);
    loads.push_back(load(static_cast<int>(k), operands[k]->dtype(), identity_indices(static_cast<int>(shape.size()))));
  }
  return g.elementwise(operands, shape, body(loads));
}

Var* map(Graph& g, Fn fn, Var* x) {
  return elementwise(g, {x}, [&](const std::vector<Expr>& v) { return call(fn, {v[0]}); });
}
static void check_same_dtype(Fn fn, Var* a, Var* b) {
  if (a->dtype() != b->dtype())
    fail(name_of(fn), " of ", name_of(a->dtype()), " ", to_string(a->shape()), " and ", name_of(b->dtype()), " ",
         to_string(b->shape()), ": the dtypes differ");
}
Var* map(Graph& g, Fn fn, Var* a, Var* b) {
  check_same_dtype(fn, a, b);
  return elementwise(g, {a, b}, [&](const std::vector<Expr>& v) { return call(fn, {v[0], v[1]}); });
}
Var* map(Graph& g, Fn fn, Var* a, Var* b, Var* c) {
  check_same_dtype(fn, b, c);
  return elementwise(g, {a, b, c}, [&](const std::vector<Expr>& v) { return call(fn, {v[0], v[1], v[2]}); });
}

Var* cast(Graph& g, Var* x, DType dtype) {
  if (x->dtype() == dtype) return x;
  return elementwise(g, {x}, [&](const std::vector<Expr>& v) { return cast(v[0], dtype); });
}

Var* scalar(Graph& g, DType dtype, double value) { return g.add_constant(filled_tensor(dtype, {}, value)); }

Var* vector_of(Graph& g, const std::vector<Expr>& values, DType dtype) {
  bool constant = std::all_of(values.begin(), values.end(), [](Expr e) { return e.if_int() != nullptr; });
  if (constant && dtype == DType::i64) {
    std::vector<int64_t> numbers;
    for (Expr e : values) numbers.push_back(e.as_int());
    return g.add_constant(make_tensor(DType::i64, {static_cast<int64_t>(numbers.size())}, numbers));
  }
  // select(i == 0, v0, select(i == 1, v1, ...)): an element-wise operator over symbols.
  Expr body = constant_of(dtype, 0);
  for (size_t k = values.size(); k-- > 0;)
    body = k + 1 == values.size() ? cast(values[k], dtype)
                                  : select(equal(axis(0), Expr(static_cast<int64_t>(k))), cast(values[k], dtype), body);
  Var* out = g.elementwise({}, {Dim(static_cast<int64_t>(values.size()))}, body);
  std::vector<Expr> elements;
  for (Expr e : values) elements.push_back(cast(e, dtype));
  out->carry_elements(std::move(elements), {});
  return out;
}

std::vector<Expr> elements_of(Graph& g, Var* x, std::string_view what) {
  if (x->rank() > 1) fail(what, " must have rank 0 or 1, not shape ", to_string(x->shape()));
  if (!is_integer(x->dtype())) fail(what, " must be integers, not ", name_of(x->dtype()));
  Expr count = element_count(x->shape());
  if (!count.if_int())
    fail(what, " has an unknown number of elements (shape ", to_string(x->shape()),
         "), which decides a rank; give the model static shapes");
  std::vector<Expr> out;
  for (int64_t k = 0; k < count.as_int(); ++k) out.push_back(g.element(x, k, concat(what, "_", k)));
  return out;
}

// ---- contractions ----
Var* matmul(Graph& g, Var* a, Var* b, std::optional<DType> accumulator) {
  if (a->rank() == 0 || b->rank() == 0)
    fail("matmul of ", to_string(a->shape()), " and ", to_string(b->shape()), ": operands must have rank 1 or more");
  bool left_vector = a->rank() == 1, right_vector = b->rank() == 1;
  if (left_vector) a = unsqueeze(g, a, {0});
  if (right_vector) b = unsqueeze(g, b, {1});
  Dim m = a->shape()[a->rank() - 2], k = a->shape()[a->rank() - 1], n = b->shape()[b->rank() - 1];
  Dim other = b->shape()[b->rank() - 2];
  g.require(equal(k, other), concat("matmul of ", to_string(a->shape()), " and ", to_string(b->shape()), ": ", to_string(k),
                                    " columns against ", to_string(other), " rows"));
  if (other.if_int()) k = other;  // a number where one of the two is: schedules know how long the sum is
  Shape batch = broadcast_shapes(
      g, {Shape(a->shape().begin(), a->shape().end() - 2), Shape(b->shape().begin(), b->shape().end() - 2)});
  int r = static_cast<int>(batch.size());
  Shape domain = batch;
  domain.insert(domain.end(), {m, n, k});
  auto spread = [&](Var* x, int row, int column) {
    std::vector<Expr> indices;
    int own = x->rank() - 2;
    for (int d = 0; d < own; ++d)
      indices.push_back(broadcast_index(g, x->shape()[d], batch[r - own + d], axis(r - own + d)));
    indices.push_back(axis(row));
    indices.push_back(axis(column));
    return g.reindex({x}, domain, indices);
  };
  Var* left = spread(a, r, r + 2);
  Var* right = spread(b, r + 2, r + 1);
  Var* out = reduce(g, map(g, Fn::mul, left, right), {r + 2}, Reduce::add, false, accumulator);
  if (left_vector) out = squeeze(g, out, {out->rank() - 2});
  if (right_vector) out = squeeze(g, out, {out->rank() - 1});
  return out;
}

}  // namespace metac
