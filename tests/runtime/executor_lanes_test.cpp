// Lanes: steps that meet in memory stay in order, whatever lanes they are on, and steps that do not may run side by side.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "runtime/executor/lanes.h"

namespace {

using namespace metac_runtime;

struct Placed {
  std::vector<Span> spans;
  int32_t lane;
  std::vector<int> before;  // of each lane, how many works are done when it begins
};

// Follows the waits as streams and events would: what a lane has done or waited for is done.
// exchanged: every so-manieth is what processes exchange.
std::vector<Placed> place_all(const std::vector<std::vector<Span>>& works, size_t exchanged = SIZE_MAX) {
  LanePlan plan;
  EXPECT_TRUE(plan.start());
  std::vector<Placed> placed;
  std::vector<std::vector<int>> seen(LanePlan::all_lanes, std::vector<int>(LanePlan::all_lanes, 0));
  for (size_t k = 0; k < works.size(); ++k) {
    const std::vector<Span>& spans = works[k];
    const int32_t forced = k % exchanged == exchanged - 1 ? LanePlan::exchange_lane : -1;
    bool waits[LanePlan::all_lanes];
    const int32_t lane = plan.place(spans.data(), static_cast<int32_t>(spans.size()), waits, forced);
    EXPECT_EQ(lane == LanePlan::exchange_lane, forced >= 0);
    std::vector<int>& mine = seen[static_cast<size_t>(lane)];
    for (size_t b = 0; b < seen.size(); ++b) {
      if (!waits[b] || static_cast<int32_t>(b) == lane) continue;
      for (size_t c = 0; c < mine.size(); ++c) mine[c] = std::max(mine[c], seen[b][c]);
    }
    placed.push_back({spans, lane, mine});
    ++mine[static_cast<size_t>(lane)];
  }
  return placed;
}

bool meet(const std::vector<Span>& a, const std::vector<Span>& b) {
  for (const Span& x : a)
    for (const Span& y : b)
      if ((x.written || y.written) && x.begin < y.end && y.begin < x.end) return true;
  return false;
}

void expect_ordered(const std::vector<Placed>& placed) {
  std::vector<int> number(placed.size());
  std::vector<int> done(LanePlan::all_lanes, 0);
  for (size_t k = 0; k < placed.size(); ++k) number[k] = done[static_cast<size_t>(placed[k].lane)]++;
  for (size_t k = 0; k < placed.size(); ++k)
    for (size_t i = 0; i < k; ++i)
      if (meet(placed[i].spans, placed[k].spans)) {
        ASSERT_LT(number[i], placed[k].before[static_cast<size_t>(placed[i].lane)])
            << "step " << k << " does not wait for step " << i;
      }
}

TEST(Lanes, BranchesRunSideBySide) {
  // 0 -> 1 -> 2 and 0 -> 3 -> 4, which 5 joins.
  const std::vector<Placed> placed = place_all({{{0, 8, true}},
                                                {{0, 8, false}, {8, 16, true}},
                                                {{8, 16, false}, {16, 24, true}},
                                                {{0, 8, false}, {24, 32, true}},
                                                {{24, 32, false}, {32, 40, true}},
                                                {{16, 24, false}, {32, 40, false}, {40, 48, true}}});
  EXPECT_EQ(placed[1].lane, placed[2].lane);
  EXPECT_EQ(placed[3].lane, placed[4].lane);
  EXPECT_NE(placed[2].lane, placed[4].lane);
  expect_ordered(placed);
}

TEST(Lanes, AChainStaysOnOne) {
  std::vector<std::vector<Span>> works;
  for (uintptr_t k = 0; k < 40; ++k) works.push_back({{k * 8, k * 8 + 8, false}, {k * 8 + 8, k * 8 + 16, true}});
  for (const Placed& p : place_all(works)) EXPECT_EQ(p.lane, 0);
}

TEST(Lanes, WhatMeetsInMemoryStaysInOrder) {
  std::mt19937 random(5);
  for (size_t count : {30u, 300u, 2500u}) {  // the last more than are remembered
    for (int trial = 0; trial < 5; ++trial) {
      std::vector<std::vector<Span>> works(count);
      for (std::vector<Span>& spans : works)
        for (unsigned k = 0; k < 1 + random() % 4; ++k) {
          const uintptr_t begin = random() % 200;
          spans.push_back({begin, begin + 1 + random() % 12, random() % 3 == 0});
        }
      expect_ordered(place_all(works));
      expect_ordered(place_all(works, 7));
    }
  }
}

}  // namespace
