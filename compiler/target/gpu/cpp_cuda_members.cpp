#include "compiler/printing/cpp_values.h"
#include "compiler/target/gpu/cpp_cuda.h"

namespace metac {
namespace {

// Prints over the first member, whose arguments stand for those of each.
class MembersPrinter : private ValuePrinter {
 public:
  MembersPrinter(const Kernel& all, const std::vector<FlatKernel>& members, const KernelPrinting& options)
      : ValuePrinter(members[0].kernel, options), all_(all), members_(members), pack_(members[0].pack) {}

  std::string run() {
    for (const std::string& comment : all_.comments) text_ += "// " + comment + "\n";
    for (const std::string& said : all_.schedule) text_ += "// schedule: " + said + "\n";
    print_device();
    print_start();
    return text_;
  }

 private:
  std::string cpp_name(DType dtype) const { return std::string(info(dtype).cpp_name); }
  std::string type() const { return concat("Members<", members_.size(), ", ", kernel_.arguments.size(), ">"); }
  const std::vector<Assign>& assigns() const { return kernel_.root.children[0].assigns; }

  void print_device() {
    text_ += concat("static __global__ void __launch_bounds__(", kernel_.block, ") device_", all_.name,
                    "(\n    const __grid_constant__ ", type(), " all, int64_t blocks) {\n");
    depth_ = 1;
    line("const int block = static_cast<int>(block_index());");
    line("if (block >= blocks) return;");
    line("const int member = member_of(all, block), count = all.counts[member];");
    for (size_t k = 0; k < kernel_.arguments.size(); ++k) {
      const KernelArgument& a = kernel_.arguments[k];
      const std::string pointer = concat(a.written ? "" : "const ", cpp_name(a.var->dtype()), "*");
      line(concat(pointer, " const __restrict__ ", argument_name(static_cast<int>(k)), " = static_cast<", pointer,
                  ">(all.data[member][", k, "]);"));
    }
    line(concat("const int at = ((block - all.first_block[member]) * ", kernel_.block, " + static_cast<int>(threadIdx.x))",
                pack_ > 1 ? concat(" * ", pack_) : "", ";"));
    if (pack_ > 1) {
      open(concat("if (at + ", pack_, " <= count) {"));
      print_packs();
      line("return;");
      close();
    }
    open("for (int i0 = at; i0 < count && i0 < at + " + std::to_string(pack_) + "; ++i0) {");
    for (const Assign& a : assigns()) {
      scopes_.emplace_back();
      count_uses(a.value);
      name_branches(a.value);
      line(concat(argument_name(a.target), "[i0] = ", value_text(a.value), ";"));
      scopes_.pop_back();
    }
    close();
    text_ += "}\n";
  }

  // Every value is read and written once, 16 bytes or less at a time; what an assignment makes the next one has in
  // registers.
  void print_packs() {
    std::map<int, Expr> packs;  // argument -> its elements in registers
    auto declare = [&](int argument) {
      const DType dtype = kernel_.arguments[static_cast<size_t>(argument)].var->dtype();
      line(concat("alignas(", pack_ * static_cast<int64_t>(size_of(dtype)), ") ", cpp_name(dtype), " t", argument, "[",
                  pack_, "];"));
      packs[argument] = load(first_local + argument, dtype, {axis(0)});
    };
    std::vector<Expr> values;  // over the place in the pack and that in the whole
    constexpr int place = 1;
    bool by_place = false;
    for (const Assign& a : assigns()) {
      visit(a.value, [&](Expr n) {
        if (n->kind != ExprKind::load || n->args[0] != axis(0) || packs.count(n->id)) return;
        declare(n->id);
        line(concat("load_pack<", pack_, ">(t", n->id, ", ", argument_name(n->id), " + at);"));
      });
      if (!packs.count(a.target)) declare(a.target);
      values.push_back(rewrite(a.value, [&](Expr n) {
        if (n->kind == ExprKind::load && n->args[0] == axis(0)) return packs.at(n->id);
        return n == axis(0) ? axis(place) : Expr();
      }));
      by_place |= uses_axis(values.back(), place);
    }
    line("#pragma unroll");
    open(concat("for (int i0 = 0; i0 < ", pack_, "; ++i0) {"));
    if (by_place) line(concat("const int i", place, " = at + i0;"));
    for (size_t k = 0; k < values.size(); ++k) {
      scopes_.emplace_back();
      count_uses(values[k]);
      name_branches(values[k]);
      line(concat("t", assigns()[k].target, "[i0] = ", value_text(values[k]), ";"));
      scopes_.pop_back();
    }
    close();
    for (const Assign& a : assigns())
      line(concat("store_pack<", pack_, ">(", argument_name(a.target), " + at, t", a.target, ");"));
  }

  void print_start() {
    const size_t arguments = kernel_.arguments.size();
    std::string counts, firsts;
    int64_t blocks = 0;
    for (const FlatKernel& member : members_) {
      counts += concat(counts.empty() ? "" : ", ", member.count());
      firsts += concat(firsts.empty() ? "" : ", ", blocks);
      blocks += member.blocks();
    }
    text_ +=
        "extern \"C\" void " + all_.name + "(void* const* b, const int64_t*, void* launch, int64_t, int64_t blocks) {\n";
    depth_ = 1;
    line(concat(type(), " all = {{", counts, "}, {", firsts, "}, {}};"));
    line(concat("for (int k = 0; k < ", members_.size() * arguments, "; ++k) all.data[k / ", arguments, "][k % ", arguments,
                "] = b[k];"));
    line("void* arguments[] = {&all, &blocks};");
    line(concat("start(device_", all_.name, ", blocks, ", kernel_.block, ", arguments, launch);"));
    text_ += "}\n";
  }

  const Kernel& all_;
  const std::vector<FlatKernel>& members_;
  const int64_t pack_;
};

}  // namespace

KernelSource print_members(const Kernel& all, const std::vector<FlatKernel>& members, const KernelPrinting& options) {
  return source_of(all, MembersPrinter(all, members, options).run(), {});
}

}  // namespace metac
