// Which results of a kernel take the memory of an operand: those that may (compiler/loops/overwrite.h) of an operand that
// nobody reads afterwards. Chains that cannot be fused, and residual additions in the epilogue of a convolution, then need
// one value's memory instead of two.
#pragma once
#include <map>
#include <set>

#include "compiler/loops/loop_tree.h"
#include "compiler/region/fusion/fuse.h"

namespace metac {

// The results of regions, by Var id: they are read when the region's steps are done.
std::set<int> handed_on(const std::vector<Op*>& ops);

// When the Vars that the items of one region make are read for the last time.
class LastReads {
 public:
  // `views`: Var id -> the Var whose memory it shares. `kept`: Vars that are read when all items are done.
  LastReads(const FusedRegion& region, const std::map<int, Var*>& views, const std::set<int>& kept);

  // Is what `var` shares its memory with made in this region, and read by item `item` and none after it?
  bool dies_at(const Var* var, size_t item) const;
  // Is it made in this region and of no use after it?
  bool is_local(const Var* var) const { return made_.count(var->id) && !kept_.count(var->id); }
  // Do several items of this region make it, each a part?
  bool is_made_in_parts(const Var* var) const { return makers_.count(var->id) && makers_.at(var->id) > 1; }
  // Does nothing of this region read it behind item `item`?
  bool last_read_by(const Var* var, size_t item) const;
  // The Var whose memory it has: itself, unless it is a view.
  const Var* owner_of(const Var* var) const;

 private:
  void note_read(int id, size_t item);
  const std::map<int, Var*>& views_;
  std::set<int> made_, kept_;
  std::map<int, int> makers_;   // Var id -> how many items store it
  std::map<int, size_t> last_;  // Var id of the owner -> item
};

// Pairs (result, operand) of arguments of the kernel of item `item`: each result and each operand at most once. Marks the
// arguments, so that printers do not promise that they are apart.
std::vector<std::pair<int, int>> reuse_in_place(Kernel& kernel, const LastReads& reads, size_t item,
                                                const std::vector<Symbol>& symbols);

// May a caller have `output`, which the kernel of item `item` of the top level makes, in the memory of `input`? Then the
// kernel's arguments are marked as above. An input is never written otherwise, so whoever read it before has read the
// present value.
bool overwrite_input(Kernel& kernel, const Var* output, const Var* input, const LastReads& reads, size_t item,
                     const std::vector<Symbol>& symbols);

}  // namespace metac
