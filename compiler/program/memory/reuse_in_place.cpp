#include "compiler/program/memory/reuse_in_place.h"

#include <algorithm>

#include "compiler/ir/reads.h"
#include "compiler/loops/overwrite.h"

namespace metac {

std::set<int> handed_on(const std::vector<Op*>& ops) {
  std::set<int> kept;
  for (const Op* op : ops)
    for (const Region& region : op->regions) {
      for (const Var* result : region.results)
        if (result) kept.insert(result->id);
      kept.merge(handed_on(region.ops));
    }
  return kept;
}

LastReads::LastReads(const FusedRegion& region, const std::map<int, Var*>& views, const std::set<int>& kept)
    : views_(views), kept_(kept) {
  for (size_t k = 0; k < region.items.size(); ++k) {
    const Item& item = region.items[k];
    std::set<int> here;
    for (const Definition& d : item.group.stages) {
      made_.insert(d.out->id);
      makers_[d.out->id] += here.insert(d.out->id).second;
      visit_loads(d, [&](Expr n) { note_read(n->id, k); });
    }
    if (item.op)
      for (const Var* in : reads_of(*item.op).vars) note_read(in->id, k);
  }
  // A view of something that is kept keeps it.
  for (auto& [view, source] : views_)
    if (kept_.count(view)) kept_.insert(source->id);
}

const Var* LastReads::owner_of(const Var* var) const {
  for (auto view = views_.find(var->id); view != views_.end(); view = views_.find(var->id)) var = view->second;
  return var;
}

void LastReads::note_read(int id, size_t item) {
  for (auto view = views_.find(id); view != views_.end(); view = views_.find(id)) id = view->second->id;
  last_[id] = item;
}

bool LastReads::dies_at(const Var* var, size_t item) const {
  int id = owner_of(var)->id;
  auto last = last_.find(id);
  return made_.count(id) && !kept_.count(id) && last != last_.end() && last->second == item;
}

bool LastReads::last_read_by(const Var* var, size_t item) const {
  const int id = owner_of(var)->id;
  const auto last = last_.find(id);
  return !kept_.count(id) && last != last_.end() && last->second == item;
}

bool overwrite_input(Kernel& kernel, const Var* output, const Var* input, const LastReads& reads, size_t item,
                     const std::vector<Symbol>& symbols) {
  if (kernel.finish || kernel.beside || reads.is_made_in_parts(output) || !reads.last_read_by(input, item)) return false;
  int result = -1, operand = -1, names = 0;
  for (size_t k = 0; k < kernel.arguments.size(); ++k) {
    const KernelArgument& a = kernel.arguments[k];
    if (a.written && a.var == output) result = static_cast<int>(k);
    if (!a.written && a.var == input) operand = static_cast<int>(k);
    names += reads.owner_of(a.var) == input;  // under another name too, it is not only read where it is overwritten
  }
  if (result < 0 || operand < 0 || names != 1 || !may_overwrite(kernel, result, operand, symbols)) return false;
  for (int k : {result, operand}) kernel.arguments[static_cast<size_t>(k)].shares_memory = true;
  return true;
}

std::vector<std::pair<int, int>> reuse_in_place(Kernel& kernel, const LastReads& reads, size_t item,
                                                const std::vector<Symbol>& symbols) {
  std::vector<std::pair<int, int>> pairs;
  if (kernel.finish || kernel.beside)
    return pairs;  // the result's memory is written before operands of what follows are read
  std::set<const Var*> taken;
  int arguments = static_cast<int>(kernel.arguments.size());
  auto argument = [&](int k) -> KernelArgument& { return kernel.arguments[static_cast<size_t>(k)]; };
  for (int r = 0; r < arguments; ++r) {
    // What is made in parts has its own memory from the first part on.
    if (!argument(r).written || !reads.is_local(argument(r).var) || reads.is_made_in_parts(argument(r).var)) continue;
    for (int o = 0; o < arguments; ++o) {
      const Var* owner = reads.owner_of(argument(o).var);
      if (argument(o).written || taken.count(owner) || !reads.dies_at(owner, item)) continue;
      // Read under another name too, it is not only read where it is overwritten.
      int names = 0;
      for (const KernelArgument& a : kernel.arguments) names += reads.owner_of(a.var) == owner;
      if (names != 1 || !may_overwrite(kernel, r, o, symbols)) continue;
      taken.insert(owner);
      argument(r).shares_memory = argument(o).shares_memory = true;
      pairs.push_back({r, o});
      break;
    }
  }
  return pairs;
}

}  // namespace metac
