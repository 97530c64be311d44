#include "compiler/target/cpu/cpp_kernel.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <map>
#include <set>
#include <unordered_map>

#include "compiler/loops/loop_transforms.h"
#include "compiler/machine/cpu_costs.h"
#include "compiler/printing/cpp_text.h"
#include "compiler/printing/cpp_values.h"
#include "compiler/support/checked.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

class KernelPrinter : private ValuePrinter {
 public:
  using ValuePrinter::ValuePrinter;

  std::set<int> symbols() const { return used_symbols(); }

  std::string run() {
    for (const std::string& line : kernel_.comments) text_ += "// " + line + "\n";
    for (const std::string& line : kernel_.schedule) text_ += "// schedule: " + line + "\n";
    text_ += "extern \"C\" void " + kernel_.name +
             "(void* const* b, const int64_t* s, void* scratch, int64_t begin, int64_t end) {\n";
    depth_ = 1;
    print_arguments();
    print_symbols();
    print_names(kernel_.names);
    print_scratch();
    if (has_matrices(kernel_.root)) line("MatrixTiles matrix;");
    std::vector<Loop> parallel, rest;
    for (const Loop& l : kernel_.root.loops) (l.kind == LoopKind::parallel ? parallel : rest).push_back(l);
    print_first(parallel);
    line("for (int64_t task = begin; task < end; ++task) {");
    ++depth_;
    if (parallel.empty()) line("(void)task;");
    for (const Loop& l : parallel) print_names(l.names);
    LoopNode inner = kernel_.root;
    inner.loops = rest;
    print_node(inner);
    print_next(parallel);
    --depth_;
    line("}");
    text_ += "}\n";
    return text_;
  }

 private:
  // ---- head ----
  void print_arguments() {
    for (size_t k = 0; k < kernel_.arguments.size(); ++k) {
      const KernelArgument& a = kernel_.arguments[k];
      std::string type = std::string(info(a.var->dtype()).cpp_name);
      std::string comment = concat("  // v", a.var->id, " ", name_of(a.var->dtype()), to_string(a.var->shape()));
      if (!a.layout.order.empty()) {
        comment += ", axes stored as";
        for (int k : a.layout.order) comment += concat(" ", k);
      }
      if (a.layout.has_halo()) comment += ", with a halo of zeros";
      line(concat(a.written ? "" : "const ", type, a.shares_memory ? "* " : "* __restrict__ ",
                  argument_name(static_cast<int>(k)), " = (", a.written ? "" : "const ", type, "*)b[", k, "];", comment));
    }
  }

  void print_symbols() {
    std::set<int> used = used_symbols();
    for (int id : used) line(concat("const int64_t n", id, " = s[", id, "];"));
    if (used.empty()) line("(void)s;");
  }

  void print_scratch() {
    if (kernel_.scratch.empty()) return line("(void)scratch;");
    Expr offset = 0;
    for (const Local& l : kernel_.scratch) {
      std::string type = std::string(info(l.dtype).cpp_name);
      line(concat(type, "* t", l.id, " = (", type, "*)((char*)scratch + ", index_text(offset), ");"));
      offset = offset + ceil_div(l.count * Expr(static_cast<int64_t>(size_of(l.dtype))), 64) * Expr(64);
    }
  }

  // Where the first iteration stands in the flattened loops. The others count on from there: a division by each extent costs
  // more than a short sum.
  void print_first(const std::vector<Loop>& loops) {
    if (std::any_of(loops.begin(), loops.end(), [](const Loop& l) { return !l.extent.if_int(); }))
      line("if (begin >= end) return;");  // an extent may be 0
    Expr inner = 1;
    std::vector<std::string> lines;
    for (size_t k = loops.size(); k-- > 0;) {
      std::string value = inner.is_int(1) ? "begin" : "begin / " + factor_text(inner);
      if (k > 0) value = (inner.is_int(1) ? value : "(" + value + ")") + " % " + factor_text(loops[k].extent);
      lines.push_back(loops[k].extent.is_int(1) ? concat("const int64_t i", loops[k].axis, " = 0;")
                                                : concat("int64_t i", loops[k].axis, " = ", value, ";"));
      inner = inner * loops[k].extent;
    }
    for (size_t k = lines.size(); k-- > 0;) line(lines[k]);
  }

  void print_next(const std::vector<Loop>& loops) {
    std::string text;
    for (size_t k = 0; k < loops.size(); ++k) {
      if (loops[k].extent.is_int(1)) continue;
      const std::string i = concat("i", loops[k].axis);
      text = text.empty() ? concat("++", i, ";")
                          : concat("if (++", i, " == ", factor_text(loops[k].extent), ") { ", i, " = 0; ", text, " }");
    }
    if (!text.empty()) line(text);
  }

  std::string factor_text(Expr e) {
    return e.if_int() || e->kind == ExprKind::symbol ? index_text(e) : "(" + index_text(e) + ")";
  }

  // ---- tree ----
  void print_node(const LoopNode& node) {
    scopes_.emplace_back();
    const bool guarded = bool(node.guard);
    // Loops that run once open no block, and a neighbour may have locals of the same names.
    const bool once = !guarded && !node.locals.empty() && !node.loops.empty() &&
                      std::all_of(node.loops.begin(), node.loops.end(), [](const Loop& l) { return l.extent.is_int(1); });
    if (!node.comment.empty()) line("// " + node.comment);
    if (node.empties_registers) line("METAC_EMPTY_REGISTERS");
    if (guarded) {
      const std::string condition = without_parentheses(value_text(node.guard));
      line(concat("if (", node.prefetches.empty() ? condition : concat("asked_here(", condition, ")"), ") {"));
    }
    if (once) line("{");
    if (guarded || once) ++depth_;
    print_loops(node, 0);
    if (guarded || once) {
      --depth_;
      line("}");
    }
    scopes_.pop_back();
  }

  void print_loops(const LoopNode& node, size_t k) {
    if (k == node.loops.size()) return print_body(node);
    const Loop& loop = node.loops[k];
    std::string i = concat("i", loop.axis);
    if (loop.kind == LoopKind::vector && is_register_tile(node, k)) return print_register_tile(node, k);
    switch (loop.kind) {
      case LoopKind::vector:
        return print_vector_loop(node, k);
      case LoopKind::unrolled: {
        int64_t extent = loop.extent.as_int();
        for (int64_t n = 0; n < extent; ++n) {
          LoopNode copy = node;
          copy.loops.erase(copy.loops.begin(), copy.loops.begin() + static_cast<int64_t>(k) + 1);
          copy.comment.clear();
          copy.guard = Expr();
          substitute_axis(copy, loop.axis, n);
          scopes_.emplace_back();
          print_loops(copy, 0);
          scopes_.pop_back();
        }
        return;
      }
      default:
        if (loop.extent.is_int(1)) {
          line(concat("const int64_t ", i, " = 0;"));
          return print_loops(node, k + 1);
        }
        if (loop.kind == LoopKind::unroll_hint) line("METAC_UNROLL");
        open(concat("for (int64_t ", i, " = 0; ", i, " < ", index_text(loop.extent), "; ++", i, ") {"));
        print_names(loop.names);
        print_loops(node, k + 1);
        close();
    }
  }

  // One vector of lanes over printed-out loops: all statements stand in one scope, so that what they share (a vector of
  // weights, a broadcast element) is loaded once.
  bool is_register_tile(const LoopNode& node, size_t k) const {
    if (node.lane_reduced >= 0 || !node.children.empty() || !node.locals.empty() ||
        !node.loops[k].extent.is_int(options_.vector_bytes / 4))
      return false;
    return std::all_of(node.loops.begin() + static_cast<int64_t>(k) + 1, node.loops.end(),
                       [](const Loop& l) { return l.kind == LoopKind::unrolled; });
  }

  void print_register_tile(const LoopNode& node, size_t k) {
    const Loop& lane = node.loops[k];
    std::vector<LoopNode> copies = {node};
    for (size_t n = k + 1; n < node.loops.size(); ++n) {
      std::vector<LoopNode> next;
      for (const LoopNode& copy : copies)
        for (int64_t v = 0; v < node.loops[n].extent.as_int(); ++v) {
          next.push_back(copy);
          substitute_axis(next.back(), node.loops[n].axis, v);
        }
      copies = std::move(next);
    }
    uses_.clear();
    std::set<const ExprNode*> roots;
    for (const LoopNode& copy : copies)
      for (const Assign& a : copy.assigns)
        visit(a.value, [&](Expr n) {
          if (roots.insert(n.node()).second)
            for (Expr x : n->args) ++uses_[x.node()];
        });
    scopes_.emplace_back();
    vector_axis_ = lane.axis;
    width_ = options_.vector_bytes / 4;
    in_tile_ = true;
    for (const LoopNode& copy : copies) {
      active_ = copy.loops[k].active;
      for (const Assign& a : copy.assigns) print_assign(a);
    }
    in_tile_ = false;
    active_ = Expr();
    vector_axis_ = -1;
    scopes_.pop_back();
  }

  void print_vector_loop(const LoopNode& node, size_t k) {
    const Loop& loop = node.loops[k];
    std::string i = concat("i", loop.axis);
    const int64_t* extent = loop.extent.if_int();
    int width = options_.vector_bytes / 4;
    while (extent && width > 1 && width > *extent) width /= 2;
    bool whole = extent && width > 1 && *extent % width == 0;
    const bool again = extent && width > 1 && !whole && may_be_done_again(node);
    std::string lanes;
    if (width > 1) {
      METAC_ASSERT(vector_axis_ < 0, "nested vector loops");
      if (node.lane_reduced >= 0) {
        lanes = concat("lanes", node.lane_reduced);
        line(concat(vector_type(local_dtype(node.lane_reduced), width), " ", lanes, " = ",
                    broadcast_text(constant_text(identity_of(*node.assigns.back().update, local_dtype(node.lane_reduced))),
                                   local_dtype(node.lane_reduced), width),
                    ";"));
      }
      const std::string from = waits_for_itself(node) ? print_lanes_side_by_side(node, k, width, lanes) : "0";
      if (!whole && !again) line(concat("int64_t ", i, " = ", from, ";"));
      if (extent && *extent == width) {
        line(concat("{ const int64_t ", i, " = 0;"));
      } else if (whole || again) {
        line(concat("for (int64_t ", i, " = ", from, "; ", i, " < ", *extent - *extent % width, "; ", i, " += ", width,
                    ") {"));
      } else {
        line(concat("for (; ", i, " + ", width, " <= ", index_text(loop.extent), "; ", i, " += ", width, ") {"));
      }
      print_lanes(node, k, width, lanes);
      if (again) {
        line(concat("{ const int64_t ", i, " = ", *extent - width, ";  // the rest, and some a second time"));
        print_lanes(node, k, width, lanes);
      }
    }
    if (!whole && !again) {
      open(width > 1 ? concat("for (; ", i, " < ", index_text(loop.extent), "; ++", i, ") {")
                     : concat("for (int64_t ", i, " = 0; ", i, " < ", index_text(loop.extent), "; ++", i, ") {"));
      print_loops(node, k + 1);
      close();
    }
    if (!lanes.empty()) {
      Reduce reduce = *node.assigns.back().update;
      line(concat("t", node.lane_reduced, " = ",
                  combine_text(reduce, concat("t", node.lane_reduced), concat("reduce_", name_of(reduce), "(", lanes, ")"),
                               local_dtype(node.lane_reduced), false),
                  ";"));
    }
  }

  // A reduction whose steps take less time than combining them: one after the other, they would wait for the one before.
  bool waits_for_itself(const LoopNode& node) const {
    if (node.lane_reduced < 0 || node.assigns.size() != 1 || !node.children.empty() || node.loops.size() != 1) return false;
    const int64_t* extent = node.loops[0].extent.if_int();
    int parts = 0;
    visit(node.assigns[0].value, [&](Expr) { ++parts; });
    return parts <= 24 && !calls_elementary(node.assigns[0].value) &&
           (!extent || *extent >= 2 * chains * options_.vector_bytes / 4);
  }

  // The most of a reduction in lanes, by several vectors that come together in `lanes`; says where the rest begins.
  std::string print_lanes_side_by_side(const LoopNode& node, size_t k, int width, const std::string& lanes) {
    const Loop& loop = node.loops[k];
    const Reduce reduce = *node.assigns[0].update;
    const DType dtype = local_dtype(node.lane_reduced);
    const int64_t* extent = loop.extent.if_int();
    const int step = chains * width;
    const std::string end = extent ? std::to_string(*extent / step * step) : concat("e", loop.axis),
                      at = concat("v", loop.axis);
    if (!extent) line(concat("const int64_t ", end, " = ", factor_text(loop.extent), " / ", step, " * ", step, ";"));
    std::vector<std::string> names = {lanes};
    for (int n = 1; n < chains; ++n) {
      names.push_back(concat(lanes, "_", n));
      line(concat("auto ", names.back(), " = ", lanes, ";"));
    }
    line(concat("for (int64_t ", at, " = 0; ", at, " < ", end, "; ", at, " += ", step, ") {"));
    ++depth_;
    for (int n = 0; n < chains; ++n) {
      line(concat("{ const int64_t i", loop.axis, " = ", at, n ? concat(" + ", n * width) : "", ";"));
      print_lanes(node, k, width, names[static_cast<size_t>(n)]);
    }
    --depth_;
    line("}");
    const std::string low = combine_text(reduce, names[0], names[1], dtype, true),
                      high = combine_text(reduce, names[2], names[3], dtype, true);
    line(concat(lanes, " = ", combine_text(reduce, "(" + low + ")", "(" + high + ")", dtype, true), ";"));
    return end;
  }

  // One vector of the loop, and the end of the block that was opened for it.
  void print_lanes(const LoopNode& node, size_t k, int width, const std::string& lanes) {
    ++depth_;
    scopes_.emplace_back();
    vector_axis_ = node.loops[k].axis;
    width_ = width;
    active_ = node.loops[k].active;
    lane_target_ = lanes;
    lane_local_ = node.lane_reduced;
    print_loops(node, k + 1);
    vector_axis_ = -1;
    active_ = Expr();
    lane_local_ = -1;
    vector_locals_.clear();
    scopes_.pop_back();
    --depth_;
    line("}");
  }

  // Has an iteration that is done twice the same result: does nothing read what the node leaves in memory?
  bool may_be_done_again(const LoopNode& node) const {
    if (node.lane_reduced >= 0 ||
        std::any_of(node.loops.begin(), node.loops.end(), [](const Loop& l) { return bool(l.active); }))
      return false;
    std::set<int> stored, read;
    bool refused = false;
    const std::function<void(const LoopNode&)> look = [&](const LoopNode& n) {
      refused = refused || n.transposed >= 0;
      for (const Assign& a : n.assigns) {
        if (bool(a.offset)) {
          stored.insert(a.target);
          refused = refused || bool(a.update) ||
                    (a.target < first_local && kernel_.arguments[static_cast<size_t>(a.target)].shares_memory);
        }
        visit(a.value, [&](Expr e) {
          if (e->kind == ExprKind::load) read.insert(e->id);
        });
      }
      for (const LoopNode& child : n.children) look(child);
    };
    look(node);
    return !refused && std::none_of(stored.begin(), stored.end(), [&](int target) { return read.count(target) > 0; });
  }

  void print_body(const LoopNode& node) {
    for (const Local& local : node.locals) {
      dtypes_[local.id] = local.dtype;
      if (local.lanes > 0) {
        register_lanes_[local.id] = local.lanes;
        int64_t count = local.count.as_int() / local.lanes;
        std::string names;
        for (int64_t n = 0; n < count; ++n) {
          names += concat(names.empty() ? "" : ", ", "t", local.id, "_", n);
          if (n % 14 == 13 || n + 1 == count) {
            line(concat(vector_type(local.dtype, local.lanes), " ", names, ";"));
            names.clear();
          }
        }
      } else if (local.count) {
        line(concat("alignas(64) ", info(local.dtype).cpp_name, " t", local.id, "[", index_text(local.count), "];"));
      } else if (vector_axis_ >= 0) {
        vector_locals_.insert(local.id);
        line(concat(vector_type(local.dtype, width_), " t", local.id, ";"));
      } else {
        line(concat(info(local.dtype).cpp_name, " t", local.id, ";"));
      }
    }
    for (const Prefetch& f : node.prefetches)
      line(concat("prefetch(", argument_name(f.argument), " + ", without_parentheses(value_text(f.offset)), ");"));
    if (node.transposed >= 0) {
      std::string names;
      for (int n = 0; n < register_lanes_.at(node.transposed); ++n)
        names += concat(n ? ", " : "", "t", node.transposed, "_", n);
      line(concat("transpose(", names, ");"));
    }
    if (node.matrix)
      print_matrix(node);
    else
      for (const Assign& a : node.assigns) print_assign(a);
    for (const LoopNode& child : node.children) print_node(child);
  }

  static bool has_matrices(const LoopNode& node) {
    return node.matrix || std::any_of(node.children.begin(), node.children.end(), has_matrices);
  }

  void print_matrix(const LoopNode& node) {
    const MatrixTile& m = *node.matrix;
    const std::string shape = concat(m.points, ", ", m.vectors, ", ", m.words, ">(");
    if (m.does == MatrixTile::Does::clear) return line(concat("matrix.clear<", shape, ");"));
    if (m.does != MatrixTile::Does::multiply) {
      const std::string at = m.sums_at ? concat(" + ", address_text(m.sums_at)) : "";
      return line(
          concat(m.does == MatrixTile::Does::take ? "matrix.take<" : "matrix.resume<", shape, "t", m.sums, at, ");"));
    }
    const Expr product = node.assigns.at(0).value, data = product->args[0], packed = product->args[1];
    count_uses(product);
    const auto place = [&](Expr load) { return argument_name(load->id) + " + " + address_text(load->args[0]); };
    line(concat("matrix.multiply<detail::", name_of_matrix_product(product->fn), ", ", shape, place(data), ", ", m.data_step,
                ", ", place(packed), ", ", m.packed_step, ");"));
  }

  static const char* name_of_matrix_product(Fn fn) {
    switch (fn) {
      case Fn::dot_u8s8:
        return "UnsignedBySigned";
      case Fn::dot_s8u8:
        return "SignedByUnsigned";
      default:
        METAC_ASSERT(fn == Fn::dot_bf16, "no tile registers multiply so: ", name_of(fn));
        return "OfHalves";
    }
  }

  DType local_dtype(int id) const {
    auto found = dtypes_.find(id);
    METAC_ASSERT(found != dtypes_.end());
    return found->second;
  }

  void print_assign(const Assign& a) {
    if (!in_tile_) count_uses(a.value);
    name_branches(a.value);
    if (a.target >= first_local && register_lanes_.count(a.target - first_local)) {
      std::string name = register_name(a.target - first_local, a.offset);
      line(concat(name, " = ", a.update ? update_text(*a.update, name, a.value, true) : as_vector(a.value), ";"));
      return;
    }
    bool scalar_local = a.target >= first_local && !a.offset;
    int local = a.target - first_local;
    bool vector_target =
        scalar_local ? vector_locals_.count(local) > 0 : vector_axis_ >= 0 && uses_axis(a.offset, vector_axis_);
    if (scalar_local && local == lane_local_) {  // the lanes of a reduction
      line(concat(lane_target_, " = ", update_text(*a.update, lane_target_, a.value, true), ";"));
      return;
    }
    DType dtype = a.value->dtype;
    if (scalar_local) {
      std::string name = concat("t", local);
      std::string value = a.update        ? update_text(*a.update, name, a.value, vector_target)
                          : vector_target ? as_vector(a.value)
                                          : value_text(a.value);
      line(concat(name, " = ", value, ";"));
      return;
    }
    std::string base = a.target >= first_local ? concat("t", local) : argument_name(a.target);
    std::string at = address_text(a.offset);
    if (!vector_target) {
      std::string place = base + "[" + at + "]";
      line(concat(place, " = ", a.update ? update_text(*a.update, place, a.value, false) : value_text(a.value), ";"));
      return;
    }
    METAC_ASSERT(!a.update, "vector update of memory");
    (void)dtype;
    if (active_)
      line(concat("store_first(", base, " + ", at, ", ", as_vector(a.value), ", ", index_text(active_), ");"));
    else
      line(concat("store(", base, " + ", at, ", ", as_vector(a.value), ");"));
  }

  static constexpr int chains = static_cast<int>(cpu_costs.chains);  // vectors side by side of a reduction in lanes
  int lane_local_ = -1;
  std::string lane_target_;
};

}  // namespace

KernelSource print_kernel(const Kernel& kernel, const KernelPrinting& options) {
  KernelPrinter printer(kernel, options);
  std::string text = printer.run();
  return source_of(kernel, std::move(text), printer.symbols());
}

}  // namespace metac
