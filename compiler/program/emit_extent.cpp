#include "compiler/program/emit_extent.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "compiler/ir/walks.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

class ExtentCode {
 public:
  explicit ExtentCode(std::vector<rt::Instruction>& code) : code_(code) {}

  int emit(Expr e) {
    constexpr int64_t most = 64;  // so many nodes are not worth keeping any
    if (written_nodes(e) > most) keep_shared(e);
    value(e);
    return deepest_;
  }

 private:
  void keep_shared(Expr e) {
    std::unordered_map<const ExprNode*, int> uses;
    visit(e, [&](Expr n) {
      for (Expr a : n->args) ++uses[a.node()];
    });
    visit(e, [&](Expr n) {
      if (n->kind != ExprKind::call || uses[n.node()] < 2) return;
      value(n);
      add({rt::Code::keep, 0}, 0);
      kept_.emplace(n.node(), static_cast<int64_t>(kept_.size()));
    });
  }

  void add(rt::Instruction i, int change) {
    code_.push_back(i);
    deepest_ = std::max(deepest_, depth_ += change);
  }

  void value(Expr e) {
    if (const int64_t* constant = e.if_int()) return add({rt::Code::constant, *constant}, 1);
    if (e->kind == ExprKind::symbol) return add({rt::Code::symbol, e->id}, 1);
    if (auto found = kept_.find(e.node()); found != kept_.end()) return add({rt::Code::kept, found->second}, 1);
    if (e->kind == ExprKind::cast && !is_float(e->dtype) && !is_float(e->args[0]->dtype)) return value(e->args[0]);
    if (e->kind != ExprKind::call) fail("a dim is not integer arithmetic over the inputs' dims: ", to_string(e));
    for (Expr a : e->args) value(a);
    static const std::map<Fn, rt::Code> codes = {{Fn::add, rt::Code::add},
                                                 {Fn::sub, rt::Code::sub},
                                                 {Fn::mul, rt::Code::mul},
                                                 {Fn::floor_div, rt::Code::floor_div},
                                                 {Fn::floor_mod, rt::Code::floor_mod},
                                                 {Fn::min, rt::Code::min},
                                                 {Fn::max, rt::Code::max},
                                                 {Fn::lt, rt::Code::lt},
                                                 {Fn::le, rt::Code::le},
                                                 {Fn::eq, rt::Code::eq},
                                                 {Fn::ne, rt::Code::ne},
                                                 {Fn::logical_and, rt::Code::logical_and},
                                                 {Fn::logical_or, rt::Code::logical_or},
                                                 {Fn::logical_not, rt::Code::logical_not},
                                                 {Fn::select, rt::Code::select}};
    auto found = codes.find(e->fn);
    if (found == codes.end()) fail("a dim uses ", name_of(e->fn), ", which is not integer arithmetic: ", to_string(e));
    add({found->second, 0}, 1 - static_cast<int>(e->args.size()));
  }

  std::vector<rt::Instruction>& code_;
  std::unordered_map<const ExprNode*, int64_t> kept_;
  int depth_ = 0, deepest_ = 0;
};

}  // namespace

int emit_extent(Expr e, std::vector<rt::Instruction>& code) { return ExtentCode(code).emit(e); }

rt::Extent ExtentTable::of(Expr e, std::vector<rt::Instruction>& code) {
  if (const int64_t* value = e.if_int()) return {*value, 0};
  if (auto found = extents_.find(e.node()); found != extents_.end()) return found->second;
  const int64_t start = static_cast<int64_t>(code.size());
  if (emit_extent(e, code) > rt::deepest_extent)
    fail("a dim is worked out in too many steps, of which more than ", rt::deepest_extent,
         " values are alive at once: ", to_string(e).substr(0, 200));
  return extents_[e.node()] = {start, static_cast<int32_t>(static_cast<int64_t>(code.size()) - start)};
}

rt::Extent ExtentTable::if_known(Expr e, std::vector<rt::Instruction>& code) {
  const size_t size = code.size();
  try {
    if (e) return of(e, code);
  } catch (const CompileError&) {
    code.resize(size);
  }
  return {-1, 0};
}

int32_t ExtentTable::of_dims(const Shape& dims, std::vector<rt::Instruction>& code, std::vector<rt::Extent>& extents) {
  std::vector<rt::Extent> wanted;
  std::vector<std::pair<int64_t, int32_t>> key;
  for (Expr d : dims) {
    wanted.push_back(of(d, code));
    key.emplace_back(int64_t{wanted.back().value}, int32_t{wanted.back().length});
  }
  auto [found, is_new] = dims_.emplace(std::move(key), static_cast<int32_t>(extents.size()));
  if (is_new) extents.insert(extents.end(), wanted.begin(), wanted.end());
  return found->second;
}

}  // namespace metac
