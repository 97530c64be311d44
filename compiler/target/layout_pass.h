// What passes that decide how values lie in memory have in common, whatever the target: who makes a value, which values must
// stay as they are, and kernels that come before and behind others.
#pragma once
#include "compiler/target/target.h"

namespace metac {

class LayoutPass {
 protected:
  explicit LayoutPass(RegionState& state)
      : graph_(state.graph),
        region_(state.region),
        layouts_(state.layouts),
        needed_(state.needed),
        is_constant_(state.is_constant),
        prepare_(state.prepare) {}

  Var* var(int id) const { return graph_.vars()[static_cast<size_t>(id)].get(); }
  // Who makes what, in the region as it is now.
  void note_makers();
  // Do others rely on the value being row-major? Only what the region makes may lie otherwise.
  bool must_be_plain(const Var* v) const;
  // How `prepare` makes a Var, in a kernel of its own; null: it does not.
  const Definition* made_by_prepare(int var) const;
  // Into `prepare`: its result depends on parameters alone. The Var that has it: another's, where one is made alike.
  Var* prepare(Definition d);
  // The same with loads of `to` for those of `from`.
  static Expr with_loads_of(Expr e, const Var* from, const Var* to);
  // Every item behind what comes before it; `place` appends item k itself, in whatever parts.
  void insert_items(const std::function<void(size_t k, std::vector<Item>& all)>& place);

  Graph& graph_;
  FusedRegion& region_;
  Layouts& layouts_;
  const Needed& needed_;
  const std::function<bool(const Var*)>& is_constant_;
  std::map<int, size_t> makers_;                        // Var id -> item
  std::map<size_t, std::vector<Item>> before_, after_;  // by item
  std::vector<Var*> prepared_;                          // what `prepare` makes in addition

 private:
  FusedRegion& prepare_;
};

}  // namespace metac
