// The meta-operators as operators of the domain "metac": what JSON programs are written in. The three general ones, and
// the specialised ones of the Jittor paper as names for common cases of them. Expressions are strings in the language of
// meta_expression.h; "let" gives names to dims ("N,C,H,W = x.shape").
#include <algorithm>

#include "compiler/ir/builders.h"
#include "compiler/ops/meta/meta_binding.h"
#include "compiler/ops/pointwise/arithmetic.h"
#include "compiler/ops/registry.h"
#include "compiler/ops/sums/softmax.h"

namespace metac {
namespace {

using Kind = Attribute::Kind;

constexpr const char* meta_domain = "metac";

MetaScope scope_of(Lowering& n) {
  std::vector<Var*> operands;
  for (size_t i = 0; i < n.input_count(); ++i) operands.push_back(n.optional_input(i));
  MetaScope scope(n.graph(), operands, n.node().inputs);
  for (const std::string& definition : n.strings("let")) scope.define(definition);
  return scope;
}

std::vector<int> ints_of(const std::vector<int64_t>& values, int rank, const char* what) {
  std::vector<int> out;
  for (int64_t value : values) {
    int axis = check_axis(value, rank, what);
    if (std::find(out.begin(), out.end(), axis) != out.end()) fail("axis ", axis, " is given twice in ", what);
    out.push_back(axis);
  }
  return out;
}

DType dtype_attribute(Lowering& n, DType otherwise) {
  if (!n.has("dtype")) return otherwise;
  std::string name = n.string("dtype", "");
  std::optional<DType> dtype = dtype_from_name(name);
  if (!dtype || !is_numeric(*dtype)) fail("dtype ", quoted(name), " is not known");
  return *dtype;
}

std::vector<Expr> index_list(MetaScope& scope, const std::vector<std::string>& sources, const Shape& domain,
                             const Shape& target, const char* of_what, std::vector<Expr>& conditions) {
  if (sources.size() != target.size())
    fail("indices are ", sources.size(), ", but ", of_what, " has rank ", target.size(), " (", to_string(target), ")");
  std::vector<Expr> indices;
  for (size_t k = 0; k < sources.size(); ++k) {
    Expr i = scope.index(sources[k], domain, conditions);
    conditions.push_back(Expr(0) <= i);
    conditions.push_back(i < target[k]);
    indices.push_back(i);
  }
  return indices;
}

Reduce reduce_named(const std::string& name) {
  if (name == "add" || name == "sum") return Reduce::add;
  if (name == "mul" || name == "product") return Reduce::mul;
  if (name == "max") return Reduce::max;
  if (name == "min") return Reduce::min;
  if (name == "and") return Reduce::logical_and;
  if (name == "or") return Reduce::logical_or;
  fail("reduce ", quoted(name), " is not known; known are add, mul, max, min, and, or");
}

void check_reducible(Reduce reduce, DType dtype) {
  bool logical = reduce == Reduce::logical_and || reduce == Reduce::logical_or;
  if (logical != is_bool(dtype))
    fail("reduction ", name_of(reduce), " of ", name_of(dtype), logical ? "; it takes bool" : "");
}

// out[i] = x[indices(i)] where all conditions hold and the indices are inside x, else fill.
METAC_OPERATOR("reindex", meta_domain)
    .since({1})
    .inputs(1, -1)
    .outputs(1)
    .required("shape", Kind::strings)
    .required("indices", Kind::strings)
    .attribute("conditions", Kind::strings)
    .attribute("fill", Kind::string)
    .attribute("let", Kind::strings)
    .lower([](Lowering& n) {
      MetaScope scope = scope_of(n);
      Var* x = n.input(0);
      scope.slot_of(x);
      Shape shape = scope.shape(n.strings("shape"));
      std::vector<Expr> conditions;
      std::vector<Expr> indices = index_list(scope, n.strings("indices"), shape, x->shape(), "the operand", conditions);
      for (const std::string& source : n.strings("conditions"))
        conditions.push_back(scope.condition(source, shape, conditions));
      Expr fill = n.has("fill") ? scope.body(n.string("fill", ""), shape, x->dtype()) : Expr();
      n.set_output(0, n.graph().reindex(scope.used(), shape, indices, conditions, fill));
    });

// out[indices(j)] (+)= x[j] for every j in x where all conditions hold and the indices are inside out.
METAC_OPERATOR("reindex_reduce", meta_domain)
    .since({1})
    .inputs(1, -1)
    .outputs(1)
    .required("shape", Kind::strings)
    .required("indices", Kind::strings)
    .attribute("conditions", Kind::strings)
    .attribute("reduce", Kind::string)
    .attribute("let", Kind::strings)
    .lower([](Lowering& n) {
      MetaScope scope = scope_of(n);
      Var* x = n.input(0);
      Reduce reduce = reduce_named(n.string("reduce", "add"));
      check_reducible(reduce, x->dtype());
      scope.slot_of(x);
      Shape shape = scope.shape(n.strings("shape"));
      std::vector<Expr> conditions;
      std::vector<Expr> indices = index_list(scope, n.strings("indices"), x->shape(), shape, "the result", conditions);
      for (const std::string& source : n.strings("conditions"))
        conditions.push_back(scope.condition(source, x->shape(), conditions));
      n.set_output(0, n.graph().reindex_reduce(scope.used(), shape, indices, reduce, conditions));
    });

// out_k[i] = body_k(operands at i): one body an output. The shape is that of the operands, broadcast, unless given.
METAC_OPERATOR("elementwise", meta_domain)
    .since({1})
    .inputs(0, -1)
    .outputs(1, -1)
    .required("body", Kind::strings)
    .attribute("shape", Kind::strings)
    .attribute("dtype", Kind::string)
    .attribute("let", Kind::strings)
    .lower([](Lowering& n) {
      std::vector<std::string> bodies = n.strings("body");
      if (bodies.size() != n.output_count()) fail(bodies.size(), " bodies for ", n.output_count(), " outputs");
      MetaScope scope = scope_of(n);
      Shape shape;
      if (n.has("shape")) {
        shape = scope.shape(n.strings("shape"));
      } else {
        std::vector<Shape> shapes;
        for (const std::string& body : bodies)
          for (Var* operand : scope.bare_operands(body)) shapes.push_back(operand->shape());
        if (shapes.empty()) fail("a body without operands needs a shape");
        shape = broadcast_shapes(n.graph(), shapes);
      }
      std::optional<DType> dtype;
      if (n.has("dtype")) dtype = dtype_attribute(n, DType::f32);
      for (size_t k = 0; k < bodies.size(); ++k) {
        MetaScope own = scope_of(n);  // each output is an Op with operands of its own
        Expr body = own.body(bodies[k], shape, dtype);
        n.set_output(k, own.used().empty() ? fill(n.graph(), shape, body) : n.graph().elementwise(own.used(), shape, body));
      }
    });

// The paper's broadcast: new axes at `dims`; the target is `shape` or the shape of a second operand.
METAC_OPERATOR("broadcast", meta_domain)
    .since({1})
    .inputs(1, -1)
    .outputs(1)
    .attribute("shape", Kind::strings)
    .attribute("dims", Kind::integers)
    .attribute("let", Kind::strings)
    .lower([](Lowering& n) {
      MetaScope scope = scope_of(n);
      if (!n.has("shape") && n.input_count() < 2) fail("broadcast needs a shape or a second operand");
      Shape shape = n.has("shape") ? scope.shape(n.strings("shape")) : n.input(1)->shape();
      int rank = static_cast<int>(shape.size());
      if (!n.has("dims")) return n.set_output(0, broadcast_to(n.graph(), n.input(0), shape));
      std::vector<int> dims = ints_of(n.integers("dims"), rank, "dims");
      std::sort(dims.begin(), dims.end());
      if (static_cast<int>(dims.size()) + n.input(0)->rank() != rank)
        fail("a shape of rank ", rank, " (", to_string(shape), ") is not the operand's rank ", n.input(0)->rank(), " and ",
             dims.size(), " new dims");
      // Of the operand's own dims each is the target's, or 1 and repeated.
      Var* x = n.input(0);
      std::vector<Expr> indices;
      for (int k = 0; k < rank; ++k) {
        if (std::find(dims.begin(), dims.end(), k) != dims.end()) continue;
        Expr dim = x->shape()[indices.size()];
        bool repeated = dim.is_int(1);
        if (!repeated)
          n.graph().require(equal(dim, shape[k]),
                            concat("cannot broadcast ", to_string(x->shape()), " to ", to_string(shape), ": dim ",
                                   to_string(dim), " meets ", to_string(shape[k])));
        indices.push_back(repeated ? Expr(0) : axis(k));
      }
      n.set_output(0, n.graph().reindex({x}, shape, indices));
    });

LowerFunction lower_reduction(Reduce reduce_by) {
  return [reduce_by](Lowering& n) {
    Var* x = n.input(0);
    check_reducible(reduce_by, x->dtype());
    std::vector<int> dims = ints_of(n.integers("dims"), x->rank(), "dims");
    if (!n.has("dims"))
      for (int k = 0; k < x->rank(); ++k) dims.push_back(k);
    n.set_output(0, reduce(n.graph(), x, dims, reduce_by, n.integer("keepdims", 0) != 0));
  };
}

#define METAC_REDUCTION(name, by)           \
  METAC_OPERATOR(name, meta_domain)         \
      .since({1})                           \
      .inputs(1)                            \
      .outputs(1)                           \
      .attribute("dims", Kind::integers)    \
      .attribute("keepdims", Kind::integer) \
      .lower(lower_reduction(by))
METAC_REDUCTION("sum", Reduce::add);
METAC_REDUCTION("product", Reduce::mul);
METAC_REDUCTION("max", Reduce::max);
METAC_REDUCTION("min", Reduce::min);
METAC_REDUCTION("all", Reduce::logical_and);
METAC_REDUCTION("any", Reduce::logical_or);
#undef METAC_REDUCTION

METAC_OPERATOR("mean", meta_domain)
    .since({1})
    .inputs(1)
    .outputs(1)
    .attribute("dims", Kind::integers)
    .attribute("keepdims", Kind::integer)
    .lower([](Lowering& n) {
      Var* x = n.input(0);
      if (!is_float(x->dtype())) fail("mean of ", name_of(x->dtype()), "; convert it to a float first");
      std::vector<int> dims = ints_of(n.integers("dims"), x->rank(), "dims");
      if (!n.has("dims"))
        for (int k = 0; k < x->rank(); ++k) dims.push_back(k);
      n.set_output(0, mean(n.graph(), x, dims, n.integer("keepdims", 0) != 0));
    });

METAC_OPERATOR("transpose", meta_domain)
    .since({1})
    .inputs(1)
    .outputs(1)
    .attribute("dims", Kind::integers)
    .lower([](Lowering& n) {
      Var* x = n.input(0);
      std::vector<int> dims = ints_of(n.integers("dims"), x->rank(), "dims");
      if (!n.has("dims"))
        for (int k = x->rank(); k-- > 0;) dims.push_back(k);
      if (static_cast<int>(dims.size()) != x->rank()) fail("dims are ", dims.size(), ", the operand has rank ", x->rank());
      n.set_output(0, transpose(n.graph(), x, dims));
    });

METAC_OPERATOR("reshape", meta_domain)
    .since({1})
    .inputs(1, -1)
    .outputs(1)
    .required("shape", Kind::strings)
    .attribute("let", Kind::strings)
    .lower([](Lowering& n) { n.set_output(0, reshape(n.graph(), n.input(0), scope_of(n).shape(n.strings("shape")))); });

// One number per axis before and after, possibly negative: then it cuts.
METAC_OPERATOR("pad", meta_domain)
    .since({1})
    .inputs(1, -1)
    .outputs(1)
    .required("before", Kind::strings)
    .required("after", Kind::strings)
    .attribute("fill", Kind::string)
    .attribute("let", Kind::strings)
    .lower([](Lowering& n) {
      MetaScope scope = scope_of(n);
      Var* x = n.input(0);
      std::vector<Expr> before, after, conditions;
      for (const std::string& source : n.strings("before")) before.push_back(scope.index(source, {}, conditions));
      for (const std::string& source : n.strings("after")) after.push_back(scope.index(source, {}, conditions));
      if (static_cast<int>(before.size()) != x->rank() || static_cast<int>(after.size()) != x->rank())
        fail(before.size(), " pads before and ", after.size(), " after for rank ", x->rank());
      Expr value = n.has("fill") ? scope.body(n.string("fill", ""), {}, x->dtype()) : constant_of(x->dtype(), 0);
      n.set_output(0, pad(n.graph(), x, before, after, value));
    });

// out[i] = x[start + i*step] along `dims` (all axes unless given); `extents` are the output's.
METAC_OPERATOR("slice", meta_domain)
    .since({1})
    .inputs(1, -1)
    .outputs(1)
    .required("starts", Kind::strings)
    .required("extents", Kind::strings)
    .attribute("steps", Kind::strings)
    .attribute("dims", Kind::integers)
    .attribute("let", Kind::strings)
    .lower([](Lowering& n) {
      MetaScope scope = scope_of(n);
      Var* x = n.input(0);
      std::vector<Expr> conditions, starts, extents = scope.shape(n.strings("extents")), steps;
      for (const std::string& source : n.strings("starts")) starts.push_back(scope.index(source, {}, conditions));
      for (const std::string& source : n.strings("steps")) steps.push_back(scope.index(source, {}, conditions));
      if (!n.has("steps")) steps.assign(starts.size(), Expr(1));
      std::vector<int> dims = ints_of(n.integers("dims"), x->rank(), "dims");
      if (!n.has("dims"))
        for (int k = 0; k < x->rank(); ++k) dims.push_back(k);
      if (starts.size() != dims.size() || extents.size() != dims.size() || steps.size() != dims.size())
        fail(starts.size(), " starts, ", extents.size(), " extents and ", steps.size(), " steps for ", dims.size(), " dims");
      for (size_t k = 0; k < dims.size(); ++k) {
        Expr last = starts[k] + (extents[k] - Expr(1)) * steps[k], dim = x->shape()[dims[k]];
        Expr inside =
            logical_and(logical_and(Expr(0) <= starts[k], starts[k] < dim), logical_and(Expr(0) <= last, last < dim));
        n.graph().require(logical_or(extents[k] <= Expr(0), inside),
                          concat("the slice of axis ", dims[k], " leaves its dim ", to_string(dim)));
      }
      n.set_output(0, slice(n.graph(), x, dims, starts, extents, steps));
    });

METAC_OPERATOR("concat", meta_domain)
    .since({1})
    .inputs(1, -1)
    .outputs(1)
    .attribute("dim", Kind::integer)
    .lower([](Lowering& n) {
      std::vector<Var*> parts;
      for (size_t i = 0; i < n.input_count(); ++i) {
        parts.push_back(n.input(i));
        if (parts[i]->rank() != parts[0]->rank() || parts[i]->dtype() != parts[0]->dtype())
          fail("operand ", i, " is ", name_of(parts[i]->dtype()), " of rank ", parts[i]->rank(), ", operand 0 ",
               name_of(parts[0]->dtype()), " of rank ", parts[0]->rank());
      }
      n.set_output(0, concat(n.graph(), parts, check_axis(n.integer("dim", 0), parts[0]->rank(), "dim")));
    });

// out[..., j, ...] = x[..., indices[j], ...]; negative indices count from the end.
METAC_OPERATOR("gather", meta_domain).since({1}).inputs(2).outputs(1).attribute("dim", Kind::integer).lower([](Lowering& n) {
  if (!is_integer(n.input(1)->dtype())) fail("indices are ", name_of(n.input(1)->dtype()), ", not integers");
  n.set_output(0, gather(n.graph(), n.input(0), n.input(1), check_axis(n.integer("dim", 0), n.input(0)->rank(), "dim")));
});

// out[i] = i along one axis of the shape.
METAC_OPERATOR("index", meta_domain)
    .since({1})
    .inputs(0, -1)
    .outputs(1)
    .required("shape", Kind::strings)
    .attribute("dim", Kind::integer)
    .attribute("dtype", Kind::string)
    .attribute("let", Kind::strings)
    .lower([](Lowering& n) {
      Shape shape = scope_of(n).shape(n.strings("shape"));
      int dim = check_axis(n.integer("dim", 0), static_cast<int>(shape.size()), "dim");
      n.set_output(0, fill(n.graph(), shape, cast(axis(dim), dtype_attribute(n, DType::i64))));
    });

METAC_OPERATOR("fill", meta_domain)
    .since({1})
    .inputs(0, -1)
    .outputs(1)
    .required("shape", Kind::strings)
    .required("value", Kind::string)
    .attribute("dtype", Kind::string)
    .attribute("let", Kind::strings)
    .lower([](Lowering& n) {
      MetaScope scope = scope_of(n);
      Shape shape = scope.shape(n.strings("shape"));
      n.set_output(0, fill(n.graph(), shape, scope.body(n.string("value", ""), {}, dtype_attribute(n, DType::f32))));
    });

METAC_OPERATOR("cast", meta_domain).since({1}).inputs(1).outputs(1).required("dtype", Kind::string).lower([](Lowering& n) {
  n.set_output(0, cast(n.graph(), n.input(0), dtype_attribute(n, DType::f32)));
});

METAC_OPERATOR("matmul", meta_domain).since({1}).inputs(2).outputs(1).lower([](Lowering& n) {
  n.set_output(0, matmul(n.graph(), n.input(0), n.input(1)));
});

// x along `dims` (the last axis) as logarithms of its softmax.
METAC_OPERATOR("log_softmax", meta_domain)
    .since({1})
    .inputs(1)
    .outputs(1)
    .attribute("dims", Kind::integers)
    .lower([](Lowering& n) {
      Var* x = n.input(0);
      require_float(x);
      std::vector<int> dims = ints_of(n.integers("dims", {-1}), x->rank(), "dims");
      n.set_output(0, cast(n.graph(), log_softmax(n.graph(), widen(n.graph(), x), dims), x->dtype()));
    });

// The same values, through which no derivative passes.
METAC_OPERATOR("stop_gradient", meta_domain).since({1}).inputs(1).outputs(1).lower([](Lowering& n) {
  Var* x = n.input(0);
  Var* same = n.graph().elementwise({x}, load(0, x->dtype(), identity_indices(x->rank())));
  if (same != x) same->stop_grad = true;
  n.set_output(0, same);
});

// The same values, which lie in memory: nothing is fused across them.
METAC_OPERATOR("stop_fuse", meta_domain).since({1}).inputs(1).outputs(1).lower([](Lowering& n) {
  Var* x = n.input(0);
  if (x->producer) x->stop_fuse = true;
  n.set_output(0, x);
});

// The same values; where several processes train together, their mean (docs/decisions/data_parallel.md), of static float32
// and float64.
METAC_OPERATOR("exchange", meta_domain)
    .since({1})
    .inputs(1)
    .outputs(1)
    .attribute("index", Kind::integer)
    .lower([](Lowering& n) {
      Var* x = n.input(0);
      Var* same = n.graph().elementwise({x}, load(0, x->dtype(), identity_indices(x->rank())));
      if (same != x && (x->dtype() == DType::f32 || x->dtype() == DType::f64) && is_static(x->shape())) {
        same->exchanged = static_cast<int>(n.integer("index", 0));
        same->stop_fuse = true;
      }
      n.set_output(0, same);
    });

}  // namespace
}  // namespace metac
