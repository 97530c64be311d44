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

// Items [begin, end) run `count` times, for symbol = 0, 1, ...
struct Repeat {
  size_t begin = 0, end = 0;
  int symbol = -1;
  int64_t count = 1;
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

std::string to_string(const FusedRegion& region);

}  // namespace metac
