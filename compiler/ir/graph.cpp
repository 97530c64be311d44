#include "compiler/ir/graph.h"

#include <algorithm>
#include <limits>

#include "compiler/ir/bounds.h"
#include "compiler/ir/reads.h"
#include "compiler/ir/walks.h"
#include "compiler/support/checked.h"

namespace metac {

std::string_view name_of(OpKind kind) {
  static constexpr std::string_view names[] = {"elementwise", "reindex", "reindex_reduce", "external", "code", "bind",
                                               "if",          "loop"};
  return names[static_cast<int>(kind)];
}

const Shape& domain_of(const Op& op) {
  METAC_ASSERT(is_meta(op.kind));
  return op.kind == OpKind::reindex_reduce ? op.inputs[0]->shape() : op.outputs[0]->shape();
}

std::string_view name_of(Reduce reduce) {
  static constexpr std::string_view names[] = {"add", "mul", "min", "max", "and", "or"};
  return names[static_cast<int>(reduce)];
}

Expr identity_of(Reduce reduce, DType dtype) {
  double infinity = std::numeric_limits<double>::infinity();
  switch (reduce) {
    case Reduce::add:
      return constant_of(dtype, 0);
    case Reduce::mul:
      return constant_of(dtype, 1);
    case Reduce::min:
      return is_float(dtype) ? float_constant(infinity, dtype)
                             : int_constant(dtype == DType::u64 ? -1 : max_value(dtype), dtype);
    case Reduce::max:
      return is_float(dtype) ? float_constant(-infinity, dtype) : int_constant(min_value(dtype), dtype);
    case Reduce::logical_and:
      return bool_constant(true);
    case Reduce::logical_or:
      return bool_constant(false);
  }
  return {};
}

Expr combine(Reduce reduce, Expr a, Expr b) {
  static constexpr Fn fns[] = {Fn::add, Fn::mul, Fn::min, Fn::max, Fn::logical_and, Fn::logical_or};
  return call(fns[static_cast<int>(reduce)], {a, b});
}

// ---- shapes ----
Expr element_count(const Shape& shape) {
  Expr count = 1;
  for (Dim d : shape) count = count * d;
  return count;
}

bool is_static(const Shape& shape) {
  return std::all_of(shape.begin(), shape.end(), [](Dim d) { return d.if_int() != nullptr; });
}

std::vector<int64_t> static_shape(const Shape& shape) {
  std::vector<int64_t> out;
  for (Dim d : shape) out.push_back(d.as_int());
  return out;
}

Shape shape_of(const std::vector<int64_t>& dims) { return Shape(dims.begin(), dims.end()); }

std::string to_string(const Shape& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) out += (i ? ", " : "") + to_string(shape[i]);
  return out + "]";
}

std::vector<Expr> identity_indices(int rank) {
  std::vector<Expr> out;
  for (int k = 0; k < rank; ++k) out.push_back(axis(k));
  return out;
}

Expr linear_index(const Shape& shape, const std::vector<Expr>& indices) {
  METAC_ASSERT(shape.size() == indices.size());
  if (indices.empty()) return 0;
  Expr at = indices[0];
  for (size_t k = 1; k < shape.size(); ++k) at = at * shape[k] + indices[k];
  return at;
}

std::vector<Expr> unravel_index(const Shape& shape, Expr linear) {
  std::vector<Expr> out(shape.size());
  Expr stride = 1;
  for (size_t k = shape.size(); k-- > 0;) {
    Expr q = floor_div(linear, stride);
    out[k] = k == 0 ? q : floor_mod(q, shape[k]);
    stride = stride * shape[k];
  }
  return out;
}

// ---- building ----
Var* Graph::make_var(Type type, std::string name) {
  vars_.push_back(std::make_unique<Var>());
  Var* var = vars_.back().get();
  var->id = static_cast<int>(vars_.size()) - 1;
  var->type = std::move(type);
  var->name = std::move(name);
  return var;
}

Op* Graph::detached_op(OpKind kind, std::vector<Var*> inputs, std::vector<Type> output_types) {
  ops_.push_back(std::make_unique<Op>());
  Op* op = ops_.back().get();
  op->id = static_cast<int>(ops_.size()) - 1;
  op->kind = kind;
  op->inputs = std::move(inputs);
  op->origin = origin_;
  for (Type& type : output_types) {
    Var* var = make_var(std::move(type));
    var->producer = op;
    var->output_index = static_cast<int>(op->outputs.size());
    op->outputs.push_back(var);
  }
  return op;
}

Op* Graph::make_op(OpKind kind, std::vector<Var*> inputs, std::vector<Type> output_types) {
  Op* op = detached_op(kind, std::move(inputs), std::move(output_types));
  (open_.empty() ? ops : open_.back()->ops).push_back(op);
  return op;
}

Var* Graph::add_input(std::string name, Type type) {
  Var* var = make_var(std::move(type), std::move(name));
  var->is_input = true;
  inputs.push_back(var);
  return var;
}

const std::optional<std::vector<Expr>>& Var::known_elements() const {
  for (const Var* parameter : elements_from_) parameter->is_relied_on = true;
  return elements_;
}

const Tensor& Var::known_constant() const {
  is_relied_on |= is_parameter;
  return *constant;
}

void Var::carry_elements(std::vector<Expr> elements, const std::vector<Var*>& from) {
  std::set<const Var*> parameters;
  for (const Var* one : from)
    if (one->is_parameter)
      parameters.insert(one);
    else
      parameters.insert(one->elements_from_.begin(), one->elements_from_.end());
  elements_ = std::move(elements);
  elements_from_ = std::move(parameters);
}

Var* Graph::add_constant(Tensor tensor, std::string name, bool is_parameter) {
  Var* var = make_var(Type{TypeKind::tensor, tensor.dtype, shape_of(tensor.shape)}, std::move(name));
  var->is_parameter = is_parameter;
  int64_t count = tensor.element_count();
  if (count <= 64 && is_numeric(tensor.dtype)) {
    std::vector<Expr> elements;
    for (int64_t i = 0; i < count; ++i)
      elements.push_back(is_float(tensor.dtype) ? float_constant(number_at(tensor, i), tensor.dtype)
                                                : int_constant(integer_at(tensor, i), tensor.dtype));
    var->carry_elements(std::move(elements), {var});
  }
  var->constant = std::move(tensor);
  return var;
}

int Graph::add_symbol(Symbol symbol) {
  symbols.push_back(std::move(symbol));
  return static_cast<int>(symbols.size()) - 1;
}

void Graph::require(Expr condition, std::string message) {
  if (condition.is_int(1)) return;
  if (condition.is_int(0)) fail(message);
  Bounds bounds(symbols);
  if (bounds.proves(condition)) return;
  for (const Requirement& r : requirements)
    if (r.condition == condition) return;
  requirements.push_back({condition, std::move(message)});
}

static void check_loads(const std::vector<Var*>& operands, const std::vector<Expr>& es) {
  for (Expr e : es)
    visit(e, [&](Expr n) {
      if (n->kind != ExprKind::load) return;
      METAC_ASSERT(n->id >= 0 && n->id < static_cast<int>(operands.size()), "load of operand ", n->id);
      METAC_ASSERT(operands[n->id]->rank() == static_cast<int>(n->args.size()), "load of rank ", n->args.size(), " from ",
                   to_string(operands[n->id]->shape()));
      METAC_ASSERT(operands[n->id]->dtype() == n->dtype, "load as ", name_of(n->dtype), " of ",
                   name_of(operands[n->id]->dtype()));
    });
}

Var* Graph::elementwise(std::vector<Var*> operands, Shape shape, Expr body) {
  check_loads(operands, {body});
  Type type{TypeKind::tensor, body->dtype, std::move(shape)};
  Op* op = make_op(OpKind::elementwise, std::move(operands), {type});
  op->bodies = {body};
  infer_elements(op);
  return op->outputs[0];
}

Var* Graph::elementwise(std::vector<Var*> operands, Expr body) {
  METAC_ASSERT(!operands.empty());
  Shape shape = operands[0]->shape();
  return elementwise(std::move(operands), std::move(shape), body);
}

Var* Graph::reindex(std::vector<Var*> operands, Shape shape, std::vector<Expr> indices, std::vector<Expr> conditions,
                    Expr fill) {
  METAC_ASSERT(static_cast<int>(indices.size()) == operands[0]->rank());
  check_loads(operands, indices);
  check_loads(operands, conditions);
  Bounds bounds(symbols, shape);
  std::vector<Expr> kept;
  indices = simplify(indices, bounds);
  for (Expr c : simplify(conditions, bounds))
    if (!c.is_int(1)) kept.push_back(c);
  DType dtype = operands[0]->dtype();
  Op* op = make_op(OpKind::reindex, std::move(operands), {Type{TypeKind::tensor, dtype, std::move(shape)}});
  op->indices = std::move(indices);
  op->conditions = std::move(kept);
  op->fill = fill ? fill : dtype == DType::string ? Expr(0) : constant_of(dtype, 0);
  METAC_ASSERT(dtype == DType::string || op->fill->dtype == dtype, "fill of ", name_of(op->fill->dtype), " for ",
               name_of(dtype));
  infer_elements(op);
  return op->outputs[0];
}

Var* Graph::reindex_reduce(std::vector<Var*> operands, Shape shape, std::vector<Expr> indices, Reduce reduce,
                           std::vector<Expr> conditions, std::optional<DType> accumulator) {
  METAC_ASSERT(indices.size() == shape.size());
  check_loads(operands, indices);
  check_loads(operands, conditions);
  Bounds bounds(symbols, operands[0]->shape());
  std::vector<Expr> kept;
  for (Expr c : simplify(conditions, bounds))
    if (!c.is_int(1)) kept.push_back(c);
  DType dtype = operands[0]->dtype();
  Op* op = make_op(OpKind::reindex_reduce, std::move(operands), {Type{TypeKind::tensor, dtype, std::move(shape)}});
  op->indices = simplify(indices, bounds);
  op->conditions = std::move(kept);
  op->reduce = reduce;
  op->accumulator = accumulator.value_or(is_half(dtype) ? DType::f32 : dtype);
  infer_elements(op);
  return op->outputs[0];
}

std::vector<Var*> Graph::external(std::string routine, std::vector<Var*> inputs, std::vector<Type> outputs,
                                  std::map<std::string, AttributeValue> attributes, std::vector<int> symbols) {
  Op* op = make_op(OpKind::external, std::move(inputs), std::move(outputs));
  op->routine = std::move(routine);
  op->attributes = std::move(attributes);
  op->symbols = std::move(symbols);
  return op->outputs;
}

Expr Graph::element(Var* var, int64_t index, const std::string& symbol_name, int64_t min, int64_t max) {
  METAC_ASSERT(is_integer(var->dtype()) || is_bool(var->dtype()), "an element of ", name_of(var->dtype()));
  if (var->carried_elements() && index < static_cast<int64_t>(var->carried_elements()->size()))
    if (Expr known = (*var->known_elements())[index]) return cast(known, DType::i64);
  if (var->constant) return integer_at(var->known_constant(), index);
  auto key = std::make_pair(var->id, index);
  if (auto found = bound_elements_.find(key); found != bound_elements_.end()) {
    Symbol& s = symbols[found->second];
    s.min = std::max(s.min, min);
    s.max = std::min(s.max, max);
    return symbol(found->second);
  }
  Symbol fresh;
  fresh.name = symbol_name;
  fresh.min = min;
  fresh.max = max;
  int id = add_symbol(fresh);
  // Inside a region the same Var may be bound again in another iteration; only top-level bindings are shared.
  if (open_.empty()) bound_elements_[key] = id;
  Op* op = make_op(OpKind::bind, {var}, {});
  op->symbols = {id};
  op->element = index;
  return symbol(id);
}

void Graph::open_region(Region* region) { open_.push_back(region); }

void Graph::close_region() {
  METAC_ASSERT(!open_.empty());
  open_.pop_back();
}

Op* Graph::if_(Var* condition, Region then_region, Region else_region) {
  METAC_ASSERT(then_region.results.size() == else_region.results.size());
  std::vector<Type> types;
  std::vector<int> fresh;
  for (size_t k = 0; k < then_region.results.size(); ++k) {
    Var *a = then_region.results[k], *b = else_region.results[k];
    if (a->dtype() != b->dtype() || a->rank() != b->rank())
      fail("output ", k, " is ", name_of(a->dtype()), " ", to_string(a->shape()), " in then_branch and ",
           name_of(b->dtype()), " ", to_string(b->shape()), " in else_branch; dtype and rank must agree");
    Type type = a->type;
    for (int d = 0; d < a->rank(); ++d) {
      if (a->shape()[d] == b->shape()[d]) continue;
      Symbol s;
      s.name = concat("if", ops_.size(), "_", k, "_", d);
      fresh.push_back(add_symbol(s));
      type.shape[d] = symbol(fresh.back());
    }
    types.push_back(type);
  }
  Op* op = make_op(OpKind::if_, {condition}, types);
  op->symbols = fresh;
  op->regions.push_back(std::move(then_region));
  op->regions.push_back(std::move(else_region));
  return op;
}

Op* Graph::loop(Var* trip_count, Var* condition, std::vector<Var*> initial, Region body) {
  size_t carried = initial.size();
  METAC_ASSERT(body.params.size() == carried && body.results.size() >= carried + 1);
  std::vector<Type> types;
  for (size_t k = 0; k < carried; ++k) types.push_back(body.params[k]->type);
  std::vector<int> fresh;
  Expr trips;
  if (trip_count && !body.results[0]) trips = max(element(trip_count, 0, "trip_count"), 0);
  for (size_t k = carried + 1; k < body.results.size(); ++k) {
    if (!trips) {
      Symbol s;
      s.name = "iterations";
      fresh.push_back(add_symbol(s));
      trips = symbol(fresh.back());
    }
    types.push_back(stacked_type(*this, body, initial, body.results[k]->type, trips, fresh));
  }
  std::vector<Var*> inputs = {trip_count, condition};
  inputs.insert(inputs.end(), initial.begin(), initial.end());
  Op* op = make_op(OpKind::loop, std::move(inputs), types);
  op->symbols = fresh;
  op->regions.push_back(std::move(body));
  return op;
}

// The value of each element of a small output, by substituting the output's index into the op's own expressions.
void Graph::infer_elements(Op* op) {
  constexpr int64_t most = 64;
  Var* out = op->outputs[0];
  if (op->outputs.size() != 1 || !is_numeric(out->dtype()) || !is_static(out->shape())) return;
  int64_t count = 1;
  for (int64_t d : static_shape(out->shape())) {
    if (d < 0 || d > most) return;  // before the product, which could pass 2^63
    count *= d;
    if (count > most) return;
  }
  for (Var* in : op->inputs)
    if (!in->carried_elements()) return;
  auto look_up = [&](Var* var, const std::vector<Expr>& indices) -> Expr {
    std::vector<int64_t> dims = static_shape(var->shape());
    int64_t at = 0;
    for (size_t k = 0; k < dims.size(); ++k) {
      const int64_t* index = indices[k].if_int();
      if (index == nullptr || *index < 0 || *index >= dims[k]) return {};
      at = at * dims[k] + *index;
    }
    return (*var->carried_elements())[at];
  };
  auto evaluate = [&](Expr e, const std::vector<Expr>& position) {
    bool known = true;
    Expr value = rewrite_loads(substitute_axes(e, position), [&](Expr n, const std::vector<Expr>& indices) {
      Expr element = look_up(op->inputs[n->id], indices);
      if (!element) known = false;
      return element ? element : n;
    });
    if (!known) return Expr();
    // Only constants, and int64 or bool arithmetic over symbols, stay meaningful.
    bool usable = value.is_constant() || !any_of(value, [](Expr n) { return is_float(n->dtype) || n->has_load; });
    // Repeated squaring would double the factors of a product every time: what no real shape needs is not followed.
    constexpr int largest = 512;
    int nodes = 0;
    visit(value, [&](Expr) { ++nodes; });
    return usable && nodes <= largest ? value : Expr();
  };
  auto position_of = [](const std::vector<int64_t>& dims, int64_t linear) {
    std::vector<Expr> position(dims.size());
    for (size_t k = dims.size(); k-- > 0;) {
      position[k] = linear % dims[k];
      linear /= dims[k];
    }
    return position;
  };
  std::vector<int64_t> dims = static_shape(out->shape());
  std::vector<Expr> elements(count);
  if (op->kind == OpKind::elementwise) {
    for (int64_t i = 0; i < count; ++i) elements[i] = evaluate(op->bodies[0], position_of(dims, i));
  } else if (op->kind == OpKind::reindex) {
    for (int64_t i = 0; i < count; ++i) {
      std::vector<Expr> position = position_of(dims, i), indices;
      Expr valid = bool_constant(true);
      for (Expr c : op->conditions) {
        Expr value = evaluate(c, position);
        valid = bool(value) && bool(valid) ? logical_and(valid, value) : Expr();
      }
      if (!bool(valid) || !valid.if_int()) continue;
      if (valid.is_int(0)) {
        elements[i] = op->fill;
        continue;
      }
      bool known = true;
      for (Expr e : op->indices) {
        indices.push_back(evaluate(e, position));
        known &= bool(indices.back());
      }
      if (known) elements[i] = look_up(op->inputs[0], indices);
    }
  } else if (op->kind == OpKind::reindex_reduce) {
    for (Expr& e : elements) e = identity_of(op->reduce, out->dtype());
    std::vector<int64_t> domain = static_shape(op->inputs[0]->shape());
    int64_t points = op->inputs[0]->carried_elements()->size();
    for (int64_t j = 0; j < points; ++j) {
      std::vector<Expr> position = position_of(domain, j);
      int64_t at = 0;
      bool known = true, skip = false;
      for (Expr c : op->conditions) {
        Expr value = evaluate(c, position);
        if (!bool(value) || !value.if_int())
          known = false;
        else
          skip |= value.is_int(0);
      }
      for (size_t k = 0; k < dims.size() && known; ++k) {
        Expr index = evaluate(op->indices[k], position);
        if (!bool(index) || !index.if_int())
          known = false;
        else if (*index.if_int() < 0 || *index.if_int() >= dims[k])
          skip = true;
        else
          at = at * dims[k] + *index.if_int();
      }
      if (!known) return;
      if (skip) continue;
      Expr value = (*op->inputs[0]->carried_elements())[j];
      if (!bool(value) || !bool(elements[at]))
        elements[at] = Expr();
      else
        elements[at] = combine(op->reduce, elements[at], value);
    }
  } else {
    return;
  }
  if (std::any_of(elements.begin(), elements.end(), [](Expr e) { return bool(e); }) || count == 0)
    out->carry_elements(std::move(elements), op->inputs);
}

}  // namespace metac
