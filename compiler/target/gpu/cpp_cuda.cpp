#include "compiler/target/gpu/cpp_cuda.h"

#include <algorithm>

#include "compiler/printing/cpp_values.h"

namespace metac {
namespace {

class CudaPrinter : private ValuePrinter {
 public:
  using ValuePrinter::ValuePrinter;

  std::string run() {
    if (kernel_.finish) print_part(*kernel_.finish, "_finish", "what follows the sums where a library has computed them");
    if (kernel_.beside)
      print_part(*kernel_.beside, "_beside", "what a library may do in the call that does the kernel below");
    for (const std::string& line : kernel_.comments) text_ += "// " + line + "\n";
    for (const std::string& line : kernel_.schedule) text_ += "// schedule: " + line + "\n";
    symbols_ = used_symbols();
    read_.insert(symbols_.begin(), symbols_.end());
    choose_index();
    print_head();
    depth_ = 1;
    grid_ = !kernel_.root.loops.empty() && kernel_.root.loops[0].kind == LoopKind::grid;
    print_place();
    print_scratch();
    LoopNode inner = kernel_.root;
    inner.loops.clear();
    print_body(inner);
    text_ += "}\n";
    print_start();
    return text_;
  }

  // On both sides, by the parts too.
  const std::set<int>& symbols() const { return read_; }

 private:
  // GPUs divide 64-bit integers slowly, so indices are 32 bits wide where all sizes are far below 2^31. Where that depends
  // on symbols the kernel is a template and the host's side picks. Sizes that must be small stand in small_, in elements.
  void choose_index() {
    constexpr int64_t most = int64_t{1} << 30;
    bool fits = true;
    auto check = [&](Expr e) {
      if (!e || !fits) return;
      visit(e, [&](Expr n) {
        if (n->dtype == DType::i64 && (n->kind == ExprKind::load || n->has_load)) fits = false;
        if (n->kind != ExprKind::call || n->args[0]->dtype != DType::i64) return;
        switch (n->fn) {
          case Fn::add:
          case Fn::sub:
          case Fn::mul:
          case Fn::lt:
          case Fn::le:
          case Fn::eq:
          case Fn::ne:
            return;
          case Fn::floor_div:
          case Fn::floor_mod:
            fits = fits && bounds_.interval(n->args[0]).low >= 0 && bounds_.interval(n->args[1]).low > 0;
            return;
          default:
            fits = false;
        }
      });
    };
    auto bounded = [&](Expr size, int64_t times) {
      size = size * Expr(times);
      if (bounds_.interval(size).high < most) return;
      if (size.if_int() || any_of(size, [](Expr n) { return n->kind == ExprKind::axis; }))
        fits = false;
      else if (std::find(small_.begin(), small_.end(), size) == small_.end())
        small_.push_back(size);
    };
    bounded(parallel_extent(kernel_), kernel_.block);
    for (const KernelArgument& a : kernel_.arguments) bounded(element_count(a.var->shape()), 1);
    for (const Local& l : kernel_.scratch) bounded(l.count, 1);
    std::function<void(const LoopNode&)> walk = [&](const LoopNode& node) {
      check(node.guard);
      for (const Loop& l : node.loops) check(l.extent), bounded(l.extent, 16);  // of a sum's steps 16 are one iteration
      for (const Assign& a : node.assigns) check(a.offset), check(a.value);
      for (const LoopNode& child : node.children) walk(child);
    };
    walk(kernel_.root);
    if (!fits) small_.clear();
    index_ = !fits ? "int64_t" : small_.empty() ? "int" : "Index";
  }

  std::string cpp_name(DType dtype) const { return std::string(info(dtype).cpp_name); }

  // ---- head ----
  void print_head() {
    if (!small_.empty()) text_ += "template <class Index>\n";
    text_ += concat("static __global__ void __launch_bounds__(", kernel_.block, ") device_", kernel_.name, "(\n");
    for (size_t k = 0; k < kernel_.arguments.size(); ++k) {
      const KernelArgument& a = kernel_.arguments[k];
      text_ += concat("    ", a.written ? "" : "const ", cpp_name(a.var->dtype()),
                      a.shares_memory ? "* " : "* __restrict__ ", argument_name(static_cast<int>(k)), ",  // v", a.var->id,
                      " ", name_of(a.var->dtype()), to_string(a.var->shape()), "\n");
    }
    text_ += "    ";
    for (int id : symbols_) text_ += concat(small_.empty() ? "int64_t" : index_, " n", id, ", ");
    if (!kernel_.scratch.empty()) text_ += "char* scratch, int64_t scratch_bytes, ";
    text_ += "int64_t blocks) {\n";
  }

  // Which iteration of the root's loops this block (or this thread) does.
  void print_place() {
    line(concat("const ", index_, " block = block_index();"));
    line("if (block >= blocks) return;");
    if (kernel_.root.loops.empty()) return;
    if (!grid_) return print_indices(kernel_.root.loops, "block");
    Expr all = 1;
    for (const Loop& l : kernel_.root.loops) all = all * l.extent;
    line(concat("const ", index_, " at = block * ", kernel_.block, " + threadIdx.x;"));
    line(concat("if (at >= ", index_text(all), ") return;"));
    print_indices(kernel_.root.loops, "at");
  }

  void print_indices(const std::vector<Loop>& loops, const std::string& flat) {
    Expr inner = 1;
    std::vector<std::string> lines;
    for (size_t k = loops.size(); k-- > 0;) {
      std::string value = inner.is_int(1) ? flat : flat + " / " + factor_text(inner);
      if (k > 0) value = (inner.is_int(1) ? value : "(" + value + ")") + " % " + factor_text(loops[k].extent);
      if (loops[k].extent.is_int(1)) value = "0";
      lines.push_back(concat("const ", index_, " i", loops[k].axis, " = ", value, ";"));
      inner = inner * loops[k].extent;
    }
    for (size_t k = lines.size(); k-- > 0;) line(lines[k]);
  }

  std::string factor_text(Expr e) {
    return e.if_int() || e->kind == ExprKind::symbol ? index_text(e) : "(" + index_text(e) + ")";
  }

  void print_scratch() {
    METAC_ASSERT(!grid_ || kernel_.scratch.empty(), "scratch is a block's");
    Expr offset = 0;
    for (const Local& l : kernel_.scratch) {
      line(concat(cpp_name(l.dtype), "* t", l.id, " = (", cpp_name(l.dtype),
                  "*)(scratch + int64_t(block) * scratch_bytes + ", index_text(offset), ");"));
      offset = offset + ceil_div(l.count * Expr(static_cast<int64_t>(size_of(l.dtype))), 64) * Expr(64);
    }
  }

  // ---- the host's side ----
  // A kernel with a host's side of its own, which gets the arguments that it has in common with this one.
  void print_part(Kernel part, const char* word, const char* comment) {
    part.name = kernel_.name + word;
    part.comments = {comment};
    CudaPrinter printer(part, options_);
    text_ += printer.run();
    read_.insert(printer.read_.begin(), printer.read_.end());
  }

  void start_part(const Kernel& part, const char* word) {
    std::string arguments;
    for (const KernelArgument& a : part.arguments) {
      auto found = std::find_if(kernel_.arguments.begin(), kernel_.arguments.end(),
                                [&](const KernelArgument& mine) { return mine.var == a.var; });
      METAC_ASSERT(found != kernel_.arguments.end(), "a part reads what its kernel does not");
      arguments += concat("b[", found - kernel_.arguments.begin(), "], ");
    }
    arguments.resize(arguments.size() - 2);
    line(concat("{ void* const rest[] = {", arguments, "}; ", kernel_.name, word, "(rest, s, launch, 0, ",
                index_text(parallel_extent(part)), "); }"));
  }

  // What is left to do where a library has done as much as is said.
  void if_done(const std::string& call, bool sums_only, bool with_beside) {
    const bool finish = sums_only, beside = kernel_.beside && !with_beside;
    if (!finish && !beside) return line("if (" + call + ") return;");
    open("if (" + call + ") {");
    if (finish) start_part(*kernel_.finish, "_finish");
    if (beside) start_part(*kernel_.beside, "_beside");
    line("return;");
    close();
  }

  void print_start() {
    scopes_.assign(1, Scope{});  // what the device's side has named is not here
    text_ += "extern \"C\" void " + kernel_.name +
             "(void* const* b, const int64_t* s, void* launch, int64_t, int64_t blocks) {\n";
    std::string arguments;
    for (size_t k = 0; k < kernel_.arguments.size(); ++k) arguments += concat("(void*)&b[", k, "], ");
    std::set<int> named;  // symbols that this side computes with
    for (const LibraryProduct& p : kernel_.products) visit_sizes(p, [&](Expr e) { add_symbols(e, named); });
    if (kernel_.convolution) visit_sizes(*kernel_.convolution, [&](Expr e) { add_symbols(e, named); });
    for (const auto& part : {kernel_.finish, kernel_.beside})
      if (part) add_symbols(parallel_extent(*part), named);
    if (!small_.empty()) {
      named.insert(symbols_.begin(), symbols_.end());
      for (Expr size : small_) add_symbols(size, named);
    }
    read_.insert(named.begin(), named.end());
    for (int id : named) line(concat("const int64_t n", id, " = s[", id, "];"));
    for (const LibraryProduct& p : kernel_.products) print_product(p, &p - kernel_.products.data());
    if (kernel_.convolution) print_convolution(*kernel_.convolution);
    if (!small_.empty()) {
      std::string test;
      for (Expr size : small_) test += (test.empty() ? "" : " && ") + index_text(size) + " < (1 << 30)";
      line(concat("const bool small = ", test, ";"));
      for (int id : symbols_) line(concat("const int small_n", id, " = static_cast<int>(n", id, ");"));
      for (int id : symbols_) arguments += concat("small ? (void*)&small_n", id, " : (void*)&n", id, ", ");
    } else {
      for (int id : symbols_) arguments += concat("(void*)&s[", id, "], ");
    }
    if (!kernel_.scratch.empty()) {
      line("DeviceLaunch& l = *(DeviceLaunch*)launch;");
      arguments += "&l.scratch, &l.scratch_bytes, ";
    }
    line(concat("void* arguments[] = {", arguments, "&blocks};"));
    if (symbols_.empty() && named.empty()) line("(void)s;");
    auto start = [&](const std::string& type) {
      return concat("start(device_", kernel_.name, type, ", blocks, ", kernel_.block, ", arguments, launch);");
    };
    if (small_.empty()) {
      line(start(""));
    } else {
      line("if (small) " + start("<int>"));
      line("else " + start("<int64_t>"));
    }
    if (kernel_.beside) start_part(*kernel_.beside, "_beside");
    text_ += "}\n";
  }

  static void add_symbols(Expr e, std::set<int>& ids) {
    visit_symbols(e, [&](int id) { ids.insert(id); });
  }

  static void visit_sizes(const LibraryProduct& p, const std::function<void(Expr)>& f) {
    for (Expr e : {p.batch, p.rows, p.columns, p.steps}) f(e);
    for (const LibraryMatrix* m : {&p.a, &p.b, &p.result, &p.residual, &p.aux})
      if (m->argument >= 0)
        for (Expr e : {m->offset, m->batch, m->leading}) f(e);
    if (p.bias >= 0) f(p.bias_offset);
  }

  static void visit_sizes(const LibraryConvolution& c, const std::function<void(Expr)>& f) {
    for (Expr e : {c.images, c.channels, c.features}) f(e);
    for (const LibraryWindow& w : c.windows)
      for (Expr e : {w.size, w.window, w.out}) f(e);
  }

  void print_convolution(const LibraryConvolution& c) {
    std::string windows;
    // One spatial axis is the second of two.
    if (c.windows.size() == 1) windows = "{1, 1, 1, 1, 1, 0}, ";
    for (const LibraryWindow& w : c.windows)
      windows += concat("{", index_text(w.size), ", ", index_text(w.window), ", ", index_text(w.out), ", ", w.stride, ", ",
                        w.dilation, ", ", w.before, "}, ");
    windows.resize(windows.size() - 2);
    auto address = [&](int argument) { return argument < 0 ? std::string("nullptr") : concat("b[", argument, "]"); };
    line(
        "// A convolution with an epilogue: a library is asked first. Of each spatial axis: size, window, result, stride, "
        "dilation, zeros before.");
    const char* const kinds[] = {"convolution_forward", "convolution_data_gradient", "convolution_weights_gradient"};
    line(concat("const Convolution convolution = {", kinds[static_cast<size_t>(c.kind)], ", ", static_cast<int>(c.dtype),
                " /* ", name_of(c.dtype), " */, ", std::max<size_t>(2, c.windows.size()), ", ", index_text(c.images), ", ",
                index_text(c.channels), ", ", index_text(c.features), ", ", c.groups, ", {", windows, "}, ",
                c.relu ? "relu_activation" : "no_activation", ", ", options_.tf32 ? 1 : 0, ", ", c.channels_last ? 1 : 0,
                "};"));
    line(concat("const ConvolutionOperands filtered = {", address(c.data), ", ", address(c.weights), ", ", address(c.bias),
                ", ", address(c.residual), ", ", address(c.result), "};"));
    if_done("convolve(convolution, filtered, launch)", c.sums_only, false);
  }

  // A vendor library is asked first, for less and less.
  void print_product(const LibraryProduct& p, int64_t number) {
    auto matrix = [&](const LibraryMatrix& m) {
      return m.argument < 0 ? std::string("{0, 0, 0}")
                            : concat("{", index_text(m.batch), ", ", index_text(m.leading), ", ", m.by_column ? 1 : 0, "}");
    };
    auto address = [&](int argument, Expr offset) {
      if (argument < 0) return std::string("nullptr");
      return offset.is_int(0) ? concat("b[", argument, "]")
                              : concat("(", cpp_name(p.dtype), "*)b[", argument, "] + ", index_text(offset));
    };
    char scale[40];
    std::snprintf(scale, sizeof scale, "%.17g", p.scale);
    const char* const activations[] = {"no_activation", "relu_activation", "gelu_tanh_activation", "gelu_tanh_gradient"};
    const char* const gradients[] = {"no_bias_gradient", "bias_gradient_of_rows", "bias_gradient_of_columns"};
    const std::string name = number > 0 ? std::to_string(number + 1) : "";
    line(number > 0 ? "// The product with less beside it."
                    : "// A matrix product with an epilogue: a library is asked first.");
    line(concat("const MatrixProduct product", name, " = {", static_cast<int>(p.dtype), " /* ", name_of(p.dtype), " */, ",
                index_text(p.batch), ", ", index_text(p.rows), ", ", index_text(p.columns), ", ", index_text(p.steps), ", ",
                matrix(p.a), ", ", matrix(p.b), ", ", matrix(p.result), ", ", matrix(p.residual), ", ", matrix(p.aux), ", ",
                scale, ", ", activations[static_cast<size_t>(p.activation)], ", ",
                gradients[static_cast<size_t>(p.bias_gradient)], ", ", options_.tf32 ? 1 : 0, "};"));
    line(concat("const MatrixOperands operands", name, " = {", address(p.a.argument, p.a.offset), ", ",
                address(p.b.argument, p.b.offset), ", ", address(p.bias, p.bias_offset), ", ",
                address(p.residual.argument, p.residual.offset), ", ", address(p.result.argument, p.result.offset), ", ",
                address(p.aux.argument, p.aux.offset), ", ", address(p.sums, 0), "};"));
    if_done(concat("multiply(product", name, ", operands", name, ", launch)"), p.sums_only, p.with_beside);
  }

  // ---- tree ----
  void print_node(const LoopNode& node) {
    scopes_.emplace_back();
    if (!node.comment.empty()) line("// " + node.comment);
    if (node.guard) open("if (" + without_parentheses(value_text(node.guard)) + ") {");
    print_loops(node, 0);
    if (node.guard) close();
    if (node.combined_in >= 0) {
      std::string name = concat("t", node.lane_reduced);
      line(concat(name, " = block_", name_of(*node.assigns[0].update), "<", kernel_.block, ">(", name, ", t",
                  node.combined_in, ");"));
    }
    if (node.copies_done) line("wait_for_copies();");
    if (node.barrier) line("__syncthreads();");
    scopes_.pop_back();
  }

  void print_loops(const LoopNode& node, size_t k) {
    if (k == node.loops.size()) return print_body(node);
    const Loop& loop = node.loops[k];
    std::string i = concat("i", loop.axis);
    if (loop.kind == LoopKind::thread) return print_threads(node, k);
    if (loop.kind == LoopKind::vector) return print_packs(node, loop);
    if (loop.extent.is_int(1)) {
      open("{");
      line(concat("const ", index_, " ", i, " = 0;"));
    } else {
      if (loop.kind == LoopKind::unrolled) line("#pragma unroll");
      open(concat("for (", index_, " ", i, " = 0; ", i, " < ", index_text(loop.extent), "; ++", i, ") {"));
    }
    print_loops(node, k + 1);
    close();
  }

  // Neighbouring thread loops are one run of iterations, dealt to the threads in turn.
  void print_threads(const LoopNode& node, size_t k) {
    std::vector<Loop> loops;
    Expr all = 1;
    while (k < node.loops.size() && node.loops[k].kind == LoopKind::thread) {
      loops.push_back(node.loops[k]);
      all = all * node.loops[k++].extent;
    }
    bool one = loops.size() == 1;
    std::string flat = one ? concat("i", loops[0].axis) : concat("share", loops[0].axis);
    if (all.is_int(1)) {
      open("if (threadIdx.x == 0) {");
      for (const Loop& l : loops) line(concat("const ", index_, " i", l.axis, " = 0;"));
    } else if (all.if_int() && all.as_int() <= kernel_.block) {
      open(all.is_int(kernel_.block) ? "{" : concat("if (threadIdx.x < ", all.as_int(), ") {"));
      line(concat("const ", index_, " ", flat, " = threadIdx.x;"));
      if (!one) print_indices(loops, flat);
    } else {
      // Loads of several iterations are on their way at once where loops are unrolled: of as many as each thread has, where
      // that is the same for all.
      const bool even = all.if_int() && all.as_int() % kernel_.block == 0;
      if (even && all.as_int() <= 8 * kernel_.block)
        line("#pragma unroll");
      else if (node.combined_in >= 0)
        line("#pragma unroll 4");
      const std::string turn = concat("turn", loops[0].axis);
      if (even) open(concat("for (int ", turn, " = 0; ", turn, " < ", all.as_int() / kernel_.block, "; ++", turn, ") {"));
      if (even)
        line(concat("const ", index_, " ", flat, " = ", turn, " * ", kernel_.block, " + threadIdx.x;"));
      else
        open(concat("for (", index_, " ", flat, " = threadIdx.x; ", flat, " < ", index_text(all), "; ", flat,
                    " += ", kernel_.block, ") {"));
      if (!one) print_indices(loops, flat);
    }
    print_loops(node, k);
    close();
  }

  // Neighbouring elements that one thread does: each load that steps by one is one wide access, and so is the store where
  // there is one; the elements wait in registers. lower_gpu says that the places are aligned and that nothing is loaded
  // under a condition.
  void print_packs(const LoopNode& node, const Loop& loop) {
    METAC_ASSERT(node.assigns.size() == 1 && node.children.empty() && loop.extent.if_int(), "a pack of several statements");
    const Assign& a = node.assigns[0];
    const int64_t width = loop.extent.as_int();
    auto first = [&](Expr offset) {
      return rewrite(offset, [&](Expr n) { return n->kind == ExprKind::axis && n->id == loop.axis ? Expr(0) : Expr(); });
    };
    auto declare = [&](DType dtype) {
      const int id = next_pack_++;
      line(concat("alignas(", width * static_cast<int64_t>(size_of(dtype)), ") ", cpp_name(dtype), " t", id, "[", width,
                  "];"));
      return id;
    };
    std::map<const ExprNode*, Expr> packs;
    visit(a.value, [&](Expr n) {
      if (n->kind != ExprKind::load || n->args.size() != 1 || packs.count(n.node()) ||
          !stride_of(n->args[0], loop.axis).is_int(1))
        return;
      const int id = declare(n->dtype);
      line(concat("load_pack<", width, ">(t", id, ", ", memory_name(n->id), " + ", index_text(first(n->args[0])), ");"));
      packs[n.node()] = load(first_local + id, n->dtype, {axis(loop.axis)});
    });
    const int result = a.offset ? declare(a.value->dtype) : -1;
    const Expr value = rewrite(a.value, [&](Expr n) {
      auto found = packs.find(n.node());
      return found == packs.end() ? Expr() : found->second;
    });
    line("#pragma unroll");
    open(concat("for (int i", loop.axis, " = 0; i", loop.axis, " < ", width, "; ++i", loop.axis, ") {"));
    if (a.offset) {
      count_uses(value);
      name_branches(value);
      line(concat("t", result, "[i", loop.axis, "] = ", value_text(value), ";"));
    } else {
      print_assign({a.target, {}, value, a.update});
    }
    close();
    if (a.offset)
      line(concat("store_pack<", width, ">(", memory_name(a.target), " + ", index_text(first(a.offset)), ", t", result,
                  ");"));
  }

  // Of an argument or a local array.
  std::string memory_name(int id) const { return id >= first_local ? concat("t", id - first_local) : argument_name(id); }

  void print_body(const LoopNode& node) {
    for (const Local& local : node.locals) {
      std::string count = local.count ? "[" + index_text(local.count) + "]" : "";
      // Tiles are copied and read in words of up to 16 bytes.
      line(concat(local.shared ? bool(local.count) ? "alignas(16) __shared__ " : "__shared__ " : "", cpp_name(local.dtype),
                  " t", local.id, count, ";"));
    }
    if (node.tensor) print_tensor(*node.tensor);
    if (node.exchange) line(concat("tensor_rows_of_four<", node.exchange->parts, ">(t", node.exchange->sums, ");"));
    for (const Assign& a : node.assigns) print_assign(a);
    for (const LoopNode& child : node.children) print_node(child);
  }

  void print_tensor(const TensorProduct& t) {
    auto tile = [&](const TensorTile& tile) {
      const std::string first = bool(tile.first) && !tile.first.is_int(0) ? " + " + index_text(tile.first) : "";
      return concat(tile.across ? "Across<" : "Lengthwise<", tile.stride, ">{t", tile.local, first, "}");
    };
    if (t.rows_in_registers)
      line(concat("tensor_multiply_sums<Tensor_", t.kind, ", ", t.across, ", ", t.words, ">(t", t.sums, ", t", t.rows.local,
                  ", ", tile(t.columns), ");"));
    else
      line(concat("tensor_multiply<Tensor_", t.kind, ", ", t.warps_across, ", ", t.down, ", ", t.across, ", ", t.words,
                  ">(t", t.sums, ", ", tile(t.rows), ", ", tile(t.columns), ");"));
  }

  void print_copy(const Assign& a) {
    const bool may_be_outside = a.value->kind == ExprKind::call;
    const Expr from = may_be_outside ? a.value->args[1] : a.value;
    METAC_ASSERT(from->kind == ExprKind::load && a.target >= first_local, "what is copied lies in memory");
    count_uses(a.value);
    const std::string inside = may_be_outside ? without_parentheses(value_text(a.value->args[0])) : "true";
    line(concat("start_copy<", a.copied, ">(t", a.target - first_local, " + ", value_text(a.offset), ", ",
                argument_name(from->id), " + ", value_text(from->args[0]), ", ", inside, ");"));
  }

  void print_assign(const Assign& a) {
    if (a.copied > 0) return print_copy(a);
    count_uses(a.value);
    name_branches(a.value);
    std::string place = a.target >= first_local ? concat("t", a.target - first_local) : argument_name(a.target);
    if (a.offset) place += "[" + value_text(a.offset) + "]";
    if (a.neighbours > 0)
      return line(concat(place, " = neighbours_", name_of(*a.update), "<", a.neighbours, ">(", place, ");"));
    line(concat(place, " = ", a.update ? update_text(*a.update, place, a.value, false) : value_text(a.value), ";"));
  }

  std::set<int> symbols_, read_;
  bool grid_ = false;
  int next_pack_ = 100000;   // locals of packs: numbers that no other local has
  std::string index_;        // the type of indices
  std::vector<Expr> small_;  // sizes over symbols that decide it
};

}  // namespace

KernelSource print_cuda_kernel(const Kernel& kernel, const KernelPrinting& options) {
  CudaPrinter printer(kernel, options);
  std::string text = printer.run();
  KernelSource source = source_of(kernel, std::move(text), printer.symbols());
  if (!kernel.products.empty()) source.libraries.push_back("cublasLt");
  if (kernel.convolution) source.libraries.push_back("cudnn");
  return source;
}

}  // namespace metac
