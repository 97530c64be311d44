// Who makes and who reads each Var of a region: the one index that passes over items ask. Of the items as they were when it
// was made; who rewrites them says so, or makes it anew.
#pragma once
#include <unordered_map>

#include "compiler/region/fused_region.h"

namespace metac {

class RegionUses {
 public:
  explicit RegionUses(const std::vector<Item>& items);

  // Items by their numbers, ascending, each once: kernels that store it or a part of it; kernels and host steps that read
  // it, or an If or Loop that reads it within.
  const std::vector<size_t>& makers(int var) const { return of(var).makers; }
  const std::vector<size_t>& readers(int var) const { return of(var).readers; }
  // Definitions that store it or a part of it.
  int stores(int var) const { return of(var).stores; }

  // Item `now` does what `before` did.
  void move_maker(int var, size_t before, size_t now);
  void add_store(int var) { ++uses_[var].stores; }

 private:
  struct Uses {
    std::vector<size_t> makers, readers;
    int stores = 0;
  };
  const Uses& of(int var) const;
  std::unordered_map<int, Uses> uses_;
};

}  // namespace metac
