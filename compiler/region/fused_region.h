// What fusion makes of a list of ops and every later pass changes: kernels-to-be (Groups) and host steps in the order in
// which they run, and Vars that share the memory of others.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "compiler/tensor/group.h"

namespace metac {

struct Item {
  Group group;             // a kernel, or
  const Op* op = nullptr;  // a host step: bind, external, code, if_, loop
};

// A kernel of its own.
inline Item item_of(Definition d) {
  Item item;
  item.group.stages = {std::move(d)};
  return item;
}

// Items [begin, end) run `count` times, once at least, for symbol = 0, 1, ...
struct Repeat {
  struct Assignment {
    int symbol = -1;
    Expr value;
  };
  size_t begin = 0, end = 0;
  int symbol = -1;
  Expr count = 1;                        // a number, or by the dims of inputs
  std::vector<Assignment> before, each;  // in this order: before the first round, and at the beginning of each
  int length = -1;                       // a symbol that says how much of `whole` a round does; -1: all do as much
  Expr whole;                            // what it sums up to over all rounds
};

struct FusedRegion {
  std::vector<Item> items;      // in execution order
  std::map<int, Var*> views;    // Var id -> the Var whose memory it shares (plain layout, other dims)
  std::vector<Repeat> repeats;  // in order, apart from each other
};

// A region whose items are in the order in which they are started; those that one start does stand side by side.
struct GatheredRegion {
  FusedRegion region;
  std::map<size_t, int> members;  // item -> how many from it on are one start; absent: one
};

// The regions nested in a program, in its order: passes over them make Vars, and the same model makes the same ones.
class NestedRegions {
 public:
  void add(const Region& of, FusedRegion fused) {
    place_[&of] = in_order_.size();
    in_order_.emplace_back(&of, std::move(fused));
  }
  const FusedRegion& at(const Region& of) const { return in_order_[place_.at(&of)].second; }
  auto begin() { return in_order_.begin(); }
  auto end() { return in_order_.end(); }
  auto begin() const { return in_order_.begin(); }
  auto end() const { return in_order_.end(); }

 private:
  std::vector<std::pair<const Region*, FusedRegion>> in_order_;
  std::map<const Region*, size_t> place_;
};

std::string to_string(const FusedRegion& region);

}  // namespace metac
