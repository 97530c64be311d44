// Memory planning: what lives together does not overlap, and the arena stays near the bound.
#include "runtime/executor/planner.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace {

using namespace metac_runtime;

int64_t plan(std::vector<Placement>& items) {
  std::vector<int32_t> order(items.size()), live(items.size());
  return plan_memory(items.data(), static_cast<int32_t>(items.size()), order.data(), live.data());
}

TEST(Planner, ReusesWhatIsDead) {
  std::vector<Placement> items = {{100, 0, 1, 0}, {100, 1, 2, 0}, {100, 2, 3, 0}};
  EXPECT_EQ(plan(items), 256);
  EXPECT_EQ(items[0].offset, items[2].offset);
}

TEST(Planner, RandomProgramsNeverOverlap) {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<Placement> items(200);
    for (Placement& item : items) {
      item.bytes = static_cast<int64_t>(random() % 10000);
      item.first_step = static_cast<int32_t>(random() % 100);
      item.last_step = item.first_step + static_cast<int32_t>(random() % 8);
    }
    const int64_t total = plan(items);
    int64_t bound = 0;
    for (int32_t step = 0; step < 110; ++step) {
      int64_t live = 0;
      for (const Placement& item : items)
        if (item.first_step <= step && step <= item.last_step) live += (item.bytes + 63) / 64 * 64;
      bound = std::max(bound, live);
    }
    EXPECT_LE(total, bound * 5 / 4);
    for (size_t a = 0; a < items.size(); ++a) {
      EXPECT_EQ(items[a].offset % 64, 0);
      EXPECT_LE(items[a].offset + items[a].bytes, total);
      for (size_t b = 0; b < a; ++b) {
        if (items[a].last_step < items[b].first_step || items[b].last_step < items[a].first_step) continue;
        EXPECT_TRUE(items[a].offset + items[a].bytes <= items[b].offset ||
                    items[b].offset + items[b].bytes <= items[a].offset);
      }
    }
  }
}

}  // namespace
