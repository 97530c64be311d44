// Expressions of a kernel as C++ text: shared nodes become locals of the innermost scope, lanes become vectors, loads
// behind a condition stay behind it. The tree around them is printed by cpp_kernel.cpp for the CPU and by cpp_cuda.cpp for
// GPUs, where there are no lanes.
#pragma once
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "compiler/ir/reads.h"
#include "compiler/ir/walks.h"
#include "compiler/loops/loop_transforms.h"
#include "compiler/printing/byte_casts.h"
#include "compiler/printing/cpp_branches.h"
#include "compiler/printing/cpp_text.h"
#include "compiler/printing/kernel_source.h"
#include "compiler/support/checked.h"
#include "compiler/support/diagnostic.h"
#include "compiler/tensor/axes.h"

namespace metac {

class ValuePrinter {
 public:
  ValuePrinter(const Kernel& kernel, const KernelPrinting& options)
      : kernel_(kernel), options_(options), bounds_(bounds_of(kernel, *options.symbols)) {}

 protected:
  struct Scope {
    std::unordered_map<const ExprNode*, std::string> names, broadcasts;
    std::map<std::string, std::string> vectors;  // loads that shuffles share, by their text
  };

  void line(const std::string& s) { text_ += std::string(static_cast<size_t>(2 * depth_), ' ') + s + "\n"; }

  void open(const std::string& text) {
    line(text);
    ++depth_;
    scopes_.emplace_back();
  }
  void close() {
    scopes_.pop_back();
    --depth_;
    line("}");
  }

  void print_names(const std::vector<IndexName>& names) {
    for (const IndexName& name : names)
      line(concat("const int64_t i", name.axis, " = ", index_expression_text(name.value, bounds_), ";"));
  }

  std::string argument_name(int k) const { return concat(kernel_.arguments[k].written ? "out" : "in", k); }

  // Inside a register tile the lane axis stands for lane 0 of each vector.
  Expr lane_zero(Expr e) const {
    if (!in_tile_) return e;
    return rewrite(e, [&](Expr n) { return n->kind == ExprKind::axis && n->id == vector_axis_ ? Expr(0) : Expr(); });
  }

  // An element's place: that of lane 0 where it is a vector's.
  std::string address_text(Expr offset) {
    const int axis = vector_axis_;
    Expr first = lane_zero(offset);
    vector_axis_ = -1;
    std::string text = value_text(first);
    vector_axis_ = axis;
    return text;
  }

  std::string register_name(int local, Expr offset) const {
    int lanes = register_lanes_.at(local);
    return concat("t", local, "_", lane_zero(offset).as_int() / lanes);
  }

  bool is_vector(Expr e) const {
    if (vector_axis_ < 0) return false;
    auto found = vector_memo_.find({e.node(), vector_axis_});
    if (found != vector_memo_.end()) return found->second;
    bool vector = any_of(e, [&](Expr n) {
      return (n->kind == ExprKind::axis && n->id == vector_axis_) ||
             (n->kind == ExprKind::load && n->id >= first_local && n->args.empty() &&
              vector_locals_.count(n->id - first_local));
    });
    // Offsets are scalars: the axis stands for lane 0 there.
    if (e->dtype == DType::i64 && !e->has_load) vector = false;
    return vector;
  }

  std::string vector_type(DType dtype, int width) const { return concat("Vec<", info(dtype).cpp_name, ", ", width, ">"); }
  // Of a local that holds the value: booleans in lanes are masks.
  std::string local_type(Expr e) const {
    if (!is_vector(e)) return std::string(info(e->dtype).cpp_name);
    return vector_type(is_bool(e->dtype) ? DType::i32 : e->dtype, width_);
  }
  std::string broadcast_text(const std::string& value, DType dtype, int width) const {
    bool half = is_half(dtype);
    return concat("broadcast<", vector_type(dtype, width), ">(", half ? "(" : "", value, half ? ").bits)" : ")");
  }
  // Half types in lanes are held as their bits: they are widened and narrowed, never cast.
  std::string vector_cast_text(std::string value, DType from, DType to) const {
    if (from == to) return value;
    if (is_bool(from)) {  // lanes that are true are -1 in masks and 1 in loaded booleans
      from = is_half(to) ? DType::f32 : to;
      const std::string type = vector_type(from, width_);
      value = concat("select(", value, ", broadcast<", type, ">(1), broadcast<", type, ">(0))");
    }
    if (is_half(from)) value = concat("widen<", info(from).cpp_name, ">(", value, ")"), from = DType::f32;
    if (is_bool(to)) return concat("ne(", value, ", broadcast<", vector_type(from, width_), ">(0))");
    if (is_half(to) && from != DType::f32) value = concat("cast_to<", vector_type(DType::f32, width_), ">(", value, ")");
    if (is_half(to)) return concat("narrow<", info(to).cpp_name, ">(", value, ")");
    return from == to ? value : concat("cast_to<", vector_type(to, width_), ">(", value, ")");
  }
  // A boolean in lanes: a mask as wide as lanes of four bytes, whether it was compared, loaded or is the same in all lanes.
  std::string mask_text(Expr e) {
    const std::string text = value_text(e);
    if (!is_vector(e)) return concat("broadcast<", vector_type(DType::i32, width_), ">(-cast_to<int32_t>(", text, "))");
    return e->kind == ExprKind::load ? concat("to_mask<", vector_type(DType::f32, width_), ">(", text, ")") : text;
  }
  std::string as_vector(Expr e) {
    if (is_bool(e->dtype)) return mask_text(e);
    // A broadcast that several statements of a tile share is made once.
    auto& names = scopes_.back().broadcasts;
    if (auto found = names.find(e.node()); in_tile_ && found != names.end()) return found->second;
    if (in_tile_ && !is_vector(e) && !e.is_constant() && uses_[e.node()] > 1) {
      uses_[e.node()] = 1;
      std::string name = concat("x", next_name_++);
      line(concat("const auto ", name, " = ", broadcast_text(value_text(e), e->dtype, width_), ";"));
      return names[e.node()] = name;
    }
    std::string text = value_text(e);
    return is_vector(e) ? text : broadcast_text(text, e->dtype, width_);
  }

  void count_uses(Expr e) {
    uses_.clear();
    visit(e, [&](Expr n) {
      for (Expr a : n->args) ++uses_[a.node()];
    });
  }

  // A chain of selects each of which reads the one before in both its branches would be written 2^n times: what such values
  // share is a function that makes it when it is asked for the first time.
  void name_branches(Expr e) {
    constexpr int64_t most = 512;
    if (written_branches(e) <= most) return;
    for (Expr n : shared_branches(e)) {
      if (known(n)) continue;
      const int number = next_name_++;
      line(concat(local_type(n), " value", number, " = {};"));
      line(concat("bool made", number, " = false;"));
      line(concat("const auto x", number, " = [&]() __attribute__((noinline)) {"));
      ++depth_;
      line(concat("if (made", number, ") return value", number, ";"));
      scopes_.emplace_back();
      const std::string text = make_text(n);
      line(concat("value", number, " = ", text, ";"));
      scopes_.pop_back();
      line(concat("made", number, " = true;"));
      line(concat("return value", number, ";"));
      --depth_;
      line("};");
      scopes_.back().names[n.node()] = concat("x", number, "()");
    }
  }

  // Large index arithmetic has names for what it shares, like values.
  std::string index_text(Expr e) {
    constexpr int64_t most = 1024;
    if (e->has_load) return value_text(e);  // a loop that goes as far as a value says
    if (written_nodes(e) <= most) return index_expression_text(e, bounds_);
    std::unordered_map<const ExprNode*, int> uses;
    visit(e, [&](Expr n) {
      for (Expr a : n->args) ++uses[a.node()];
    });
    const NodeNames named = [this](Expr n) { return known(n); };
    visit(e, [&](Expr n) {
      if (n->args.empty() || uses[n.node()] < 2 || known(n)) return;
      std::string name = concat("x", next_name_++);
      line(concat("const auto ", name, " = ", index_expression_text(n, bounds_, named), ";"));
      scopes_.back().names[n.node()] = name;
    });
    return index_expression_text(e, bounds_, named);
  }

  const std::string* known(Expr e) const {
    for (size_t k = scopes_.size(); k-- > 0;)
      if (auto found = scopes_[k].names.find(e.node()); found != scopes_[k].names.end()) return &found->second;
    return nullptr;
  }

  std::string value_text(Expr e) {
    if (e.is_constant()) return constant_text(e);
    if (!e->has_load && e->dtype == DType::i64) return index_text(e);
    if (const std::string* name = known(e)) return *name;
    std::string text = make_text(e);
    bool scalar_local_load = e->kind == ExprKind::load &&
                             (e->args.empty() || (e->id >= first_local && register_lanes_.count(e->id - first_local)));
    if (!scalar_local_load && (uses_[e.node()] > 1 || text.size() > 90)) {
      std::string name = concat("x", next_name_++);
      line(concat("const auto ", name, " = ", text, ";"));
      scopes_.back().names[e.node()] = name;
      return name;
    }
    return text;
  }

  const KernelArgument& argument_of(Expr load) const { return kernel_.arguments[static_cast<size_t>(load->id)]; }

  // What memory holds where `e` reads, elements of `stored`.
  std::string element_text(Expr e, const std::string& base, DType stored) {
    const std::string vector = is_vector(e) ? vector_type(stored, width_) : "";
    if (is_vector(e))
      if (const Expr byte = byte_looked_up(e)) {
        const bool whole = e->id < first_local && argument_of(e).var->shape() == Shape{256};
        return concat(whole ? "look_up" : "gather", "<", vector, ">(", base, ", ", value_text(byte), ")");
      }
    const Expr step = is_vector(e) ? stride_of(e->args[0], vector_axis_) : Expr();
    if (bool(step) && step.if_int() && step.as_int() > 1)
      return concat("load_strided<", vector, ", ", step.as_int(), ">(", base, " + ", address_text(e->args[0]), ")");
    if (is_vector(e) && in_tile_)
      if (std::string text = shuffled_load(e, base, vector); !text.empty()) return text;
    std::string at = address_text(e->args[0]);
    const bool partial = bool(active_) && e->id < first_local && !argument_of(e).padded;
    if (is_vector(e) && partial) return concat("load_first<", vector, ">(", base, " + ", at, ", ", index_text(active_), ")");
    if (is_vector(e)) return concat("load<", vector, ">(", base, " + ", at, ")");
    if (in_tile_ && e->args[0].is_constant()) return concat("here(", base, ")[", at, "]");
    // Term by term, what a loop leaves alone is added once; of a sum in brackets LLVM makes new indices for each step,
    // and has no registers for sums.
    if (in_tile_) return "*(" + base + " + " + at + ")";
    return base + "[" + at + "]";
  }

  std::string make_text(Expr e) {
    switch (e->kind) {
      case ExprKind::load: {
        if (e->args.empty()) return concat("t", e->id - first_local);
        if (e->id >= first_local && register_lanes_.count(e->id - first_local))
          return register_name(e->id - first_local, e->args[0]);
        std::string base = e->id >= first_local ? concat("t", e->id - first_local) : argument_name(e->id);
        const DType stored = e->id < first_local ? argument_of(e).var->dtype() : e->dtype;
        if (stored == e->dtype) return element_text(e, base, stored);
        if (e->dtype == DType::i32) return words_text(e, base);
        const std::string element = element_text(e, base, stored);
        if (is_vector(e)) return vector_cast_text(element, stored, e->dtype);
        return concat("cast_to<", info(e->dtype).cpp_name, ">(", element, ")");
      }
      case ExprKind::cast: {
        if (std::string text = clamped_cast_text(e); !text.empty()) return text;
        if (std::string text = few_bits_text(e); !text.empty()) return text;
        if (std::string text = dequantised_text(e); !text.empty()) return text;
        std::string from = value_text(e->args[0]);
        if (is_vector(e)) return vector_cast_text(from, e->args[0]->dtype, e->dtype);
        return concat("cast_to<", info(e->dtype).cpp_name, ">(", from, ")");
      }
      case ExprKind::call:
        return call_text(e);
      default:
        METAC_ASSERT(false, to_string(e));
        return "";
    }
  }

  // The low bits of each lane, at most four of them, as float32; less a small whole number, a zero point.
  std::string few_bits_text(Expr e, int less = 0) {
    if (!is_vector(e) || e->kind != ExprKind::cast || e->dtype != DType::f32) return "";
    const Expr bits = e->args[0];
    if (bits->dtype != DType::i32 || bits->kind != ExprKind::call || bits->fn != Fn::bit_and) return "";
    const int64_t* mask = bits->args[1].if_int();
    if (!mask || (*mask != 3 && *mask != 15)) return "";
    return concat("low_bits<", vector_type(DType::f32, width_), ", ", *mask, less != 0 ? concat(", ", less) : "", ">(",
                  as_vector(bits->args[0]), ")");
  }
  std::string few_bits_less_text(Expr e) {
    if (e->fn != Fn::sub || e->args[1]->kind != ExprKind::float_constant) return "";
    constexpr double most = 16;
    const double number = e->args[1]->float_value;
    if (number <= 0 || number > most || number != std::floor(number)) return "";
    return few_bits_text(e->args[0], static_cast<int>(number));
  }

  static std::string float_text(double x) { return constant_text(float_constant(x, DType::f32)); }

  // Requantisation: see byte_casts.h.
  std::string clamped_cast_text(Expr e) {
    const std::optional<ClampedCast> c = is_vector(e) ? clamped_cast_of(e) : std::nullopt;
    if (!c) return "";
    return concat(c->rounds ? "rounded_cast<" : "clamped_cast<", vector_type(e->dtype, width_), ">(", as_vector(c->value),
                  ", ", float_text(c->low), ", ", float_text(c->high), c->more != 0 ? concat(", ", c->more) : "", ")");
  }
  std::string dequantised_text(Expr e) {
    const std::optional<ClampedFloats> c = is_vector(e) ? clamped_floats_of(e) : std::nullopt;
    if (!c || known(c->bytes) || uses_[c->bytes.node()] > 1) return "";
    const std::string text = concat("clamped<", vector_type(c->bytes->dtype, width_), ">(", as_vector(c->value), ", ",
                                    float_text(c->low), ", ", float_text(c->high), ")");
    return c->less == 0 ? text : concat("(", text, " - ", broadcast_text(float_text(c->less), DType::f32, width_), ")");
  }

  // A word of narrower elements.
  std::string words_text(Expr e, const std::string& base) {
    if (is_vector(e)) return shuffled_words(e, base);
    return concat("load_word(", base, " + ", value_text(lane_zero(e->args[0])), ")");
  }

  // Half types would become floats; their functions round.
  static bool has_operators(DType dtype) { return dtype == DType::f32 || dtype == DType::f64; }

  std::string call_text(Expr e) {
    bool vector = is_vector(e);
    if (e->fn == Fn::select) return select_text(e, vector);
    if (std::string text = few_bits_less_text(e); !text.empty()) return text;
    std::vector<std::string> args;
    for (Expr a : e->args) args.push_back(vector ? as_vector(a) : value_text(a));
    bool floats = has_operators(e->args[0]->dtype);
    auto infix = [&](const char* op) { return "(" + args[0] + " " + op + " " + args[1] + ")"; };
    if (floats) {
      if (e->fn == Fn::add) return infix("+");
      if (e->fn == Fn::sub) return infix("-");
      if (e->fn == Fn::mul) return infix("*");
      if (e->fn == Fn::div) return infix("/");
    }
    if (!vector && e->args[0]->dtype == DType::i64 && !e->has_load) {
      if (e->fn == Fn::lt) return infix("<");
      if (e->fn == Fn::le) return infix("<=");
      if (e->fn == Fn::eq) return infix("==");
      if (e->fn == Fn::ne) return infix("!=");
    }
    if (!vector && e->fn == Fn::logical_and && !e->has_load) return infix("&&");
    if (!vector && e->fn == Fn::logical_or && !e->has_load) return infix("||");
    std::string text = std::string(name_of(e->fn)) + "(";
    for (size_t k = 0; k < args.size(); ++k) text += (k ? ", " : "") + args[k];
    return text + ")";
  }

  // Lanes that read a few elements of one vector in another order: load it, then shuffle.
  // Words that lie within as many bytes as there are lanes, of neighbouring groups: one load of all that are there.
  std::string shuffled_words(Expr e, const std::string& base) {
    auto [first, offsets] = lane_offsets(e);
    std::string list;
    for (const int64_t offset : offsets) {
      METAC_ASSERT(offset % 4 == 0, "words in lanes are packed: ", to_string(e));
      list += concat(", ", offset / 4);
    }
    return concat("load_words<", vector_type(DType::i32, width_), list, ">(", base, " + ", value_text(first), ")");
  }

  std::string shuffled_load(Expr e, const std::string& base, const std::string& vector) {
    Expr step = stride_of(e->args[0], vector_axis_);
    if (bool(step) && step.is_int(1)) return "";
    auto [first, offsets] = lane_offsets(e);
    // The vector starts at a multiple of its width, so that printed-out neighbours share the load.
    Linear form = linear_form(first);
    int64_t into = floor_mod(form.constant, int64_t{width_});
    for (int64_t offset : offsets)
      if (offset + into >= width_) into = 0;
    std::string list;
    for (size_t k = 0; k < offsets.size(); ++k) list += concat(k ? ", " : "", offsets[k] + into);
    std::string from = index_text(first - Expr(into));
    auto [found, fresh] = scopes_.back().vectors.emplace(base + from, "");
    if (fresh) {
      found->second = concat("x", next_name_++);
      line(concat("const auto ", found->second, " = load<", vector, ">(", base, " + ", from, ");"));
    }
    return concat("shuffle<", list, ">(", found->second, ")");
  }

  // Where the first lane of a load lies, and how far behind it each lane: less than the lanes are many.
  std::pair<Expr, std::vector<int64_t>> lane_offsets(Expr e) {
    Expr first = lane_zero(e->args[0]);
    std::vector<int64_t> offsets;
    for (int lane = 0; lane < width_; ++lane) {
      Expr here = rewrite(e->args[0],
                          [&](Expr n) { return n->kind == ExprKind::axis && n->id == vector_axis_ ? Expr(lane) : Expr(); });
      Expr gap = simplify(here - first, bounds_);
      METAC_ASSERT(gap.if_int() && gap.as_int() >= 0 && gap.as_int() < width_, "lanes of ", to_string(e));
      offsets.push_back(gap.as_int());
    }
    return {first, offsets};
  }

  // A condition guards the loads of its branches: these are evaluated inside an if. Lane-wise conditions compute both.
  std::string select_text(Expr e, bool vector) {
    Expr condition = e->args[0], yes = e->args[1], no = e->args[2];
    if (vector && is_vector(condition))
      return concat("select(", value_text(condition), ", ", as_vector(yes), ", ", as_vector(no), ")");
    if (!yes->has_load && !no->has_load) {
      return concat("(", value_text(condition), " ? ", vector ? as_vector(yes) : value_text(yes), " : ",
                    vector ? as_vector(no) : value_text(no), ")");
    }
    std::string name = concat("x", next_name_++), test = value_text(condition);
    line(concat(local_type(e), " ", name, ";"));
    auto branch = [&](Expr value) {
      ++depth_;
      scopes_.emplace_back();
      std::string text = vector ? as_vector(value) : value_text(value);
      line(concat(name, " = ", text, ";"));
      scopes_.pop_back();
      --depth_;
    };
    line("if (" + without_parentheses(test) + ") {");
    branch(yes);
    line("} else {");
    branch(no);
    line("}");
    scopes_.back().names[e.node()] = name;
    return name;
  }

  // ---- assignments ----
  std::string update_text(Reduce reduce, const std::string& target, Expr value, bool vector) {
    if (reduce == Reduce::add && value->kind == ExprKind::call && value->fn == Fn::mul && value->dtype == DType::f32) {
      std::string a = vector ? as_vector(value->args[0]) : value_text(value->args[0]),
                  b = vector ? as_vector(value->args[1]) : value_text(value->args[1]);
      return concat("fma(", a, ", ", b, ", ", target, ")");
    }
    const bool words = value->kind == ExprKind::call && products_in_a_point(value->fn) > 1;
    if (reduce == Reduce::add && words) {
      std::string a = vector ? as_vector(value->args[0]) : value_text(value->args[0]),
                  b = vector ? as_vector(value->args[1]) : value_text(value->args[1]);
      return concat(name_of(value->fn), "(", a, ", ", b, ", ", target, ")");
    }
    return combine_text(reduce, target, vector ? as_vector(value) : value_text(value), value->dtype, vector);
  }

  std::string combine_text(Reduce reduce, const std::string& a, const std::string& b, DType dtype, bool vector) const {
    bool infix = has_operators(dtype);
    (void)vector;
    switch (reduce) {
      case Reduce::add:
        return infix ? a + " + " + b : "add(" + a + ", " + b + ")";
      case Reduce::mul:
        return infix ? a + " * " + b : "mul(" + a + ", " + b + ")";
      case Reduce::min:
        return "min(" + a + ", " + b + ")";
      case Reduce::max:
        return "max(" + a + ", " + b + ")";
      case Reduce::logical_and:
        return a + " && " + b;
      case Reduce::logical_or:
        return a + " || " + b;
    }
    return "";
  }

  std::set<int> used_symbols() const {
    std::set<int> used;
    auto collect = [&](Expr e) { visit_symbols(e, [&](int id) { used.insert(id); }); };
    std::function<void(const LoopNode&)> walk = [&](const LoopNode& node) {
      collect(node.guard);
      for (const Loop& l : node.loops) {
        collect(l.extent), collect(l.active);
        for (const IndexName& name : l.names) collect(name.value);
      }
      for (const Local& l : node.locals) collect(l.count);
      for (const Prefetch& f : node.prefetches) collect(f.offset);
      for (const Assign& a : node.assigns) collect(a.offset), collect(a.value);
      for (const LoopNode& child : node.children) walk(child);
    };
    walk(kernel_.root);
    for (const IndexName& name : kernel_.names) collect(name.value);
    for (const Local& l : kernel_.scratch) collect(l.count);
    return used;
  }

  const Kernel& kernel_;
  const KernelPrinting& options_;
  Bounds bounds_;
  std::string text_;
  int depth_ = 0, next_name_ = 0;
  std::vector<Scope> scopes_{Scope{}};
  std::map<int, DType> dtypes_;
  std::unordered_map<const ExprNode*, int> uses_;
  mutable std::map<std::pair<const ExprNode*, int>, bool> vector_memo_;
  int vector_axis_ = -1, width_ = 1;
  std::set<int> vector_locals_;
  std::map<int, int> register_lanes_;
  bool in_tile_ = false;
  Expr active_;
};

}  // namespace metac
