// Comparing speed by turns: on a machine whose speed drifts and jumps, a slow-down of 3 % is found and none is invented.
#include "compiler/api/bench/bench_pair.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace metac::bench_pair_test {
namespace {

// Of 100 trials, how many say that the first is slower than by 1.5 % with 99 %. Times have noise of 4 % each, a common drift
// of 20 % over the trial, and every tenth sample is held up by something else for up to twice its time.
int found_of_100(double slow_down) {
  std::mt19937 random(7);
  std::normal_distribution<double> noise(0, 0.04);
  std::uniform_real_distribution<double> part(0, 1);
  int found = 0;
  for (int trial = 0; trial < 100; ++trial) {
    std::vector<double> first, second;
    const auto sample = [&](double time, double drift) {
      time *= (1 + drift) * std::exp(noise(random));
      return part(random) < 0.1 ? time * (1 + part(random)) : time;
    };
    for (int k = 0; k < 2000; ++k) {
      const double drift = 0.2 * std::sin(k * 0.004 + trial);
      first.push_back(sample(1 + slow_down, drift));
      second.push_back(sample(1, drift));
    }
    found += compare_times(first, second).low > 0.015;
  }
  return found;
}

TEST(BenchPair, ThreePercentAreFoundAndNothingIsInvented) {
  EXPECT_GE(found_of_100(0.03), 95);
  EXPECT_LE(found_of_100(0), 2);
  EXPECT_LE(found_of_100(-0.03), 0);
}

// Of 100 trials, how many say so where each of 20 processes has a bias of its own, of `bias` in the mean.
int found_of_100_in_processes(double slow_down, double bias) {
  std::mt19937 random(11);
  std::normal_distribution<double> between(0, bias), within(0, 0.04);
  int found = 0;
  for (int trial = 0; trial < 100; ++trial) {
    std::vector<PairComparison> processes;
    for (int k = 0; k < 20; ++k) {
      const double own = 1 + slow_down + between(random);
      std::vector<double> first, second;
      for (int sample = 0; sample < 150; ++sample) {
        first.push_back(own * std::exp(within(random)));
        second.push_back(std::exp(within(random)));
      }
      processes.push_back(compare_times(first, second));
    }
    found += compare_processes(processes).low > 0.015;
  }
  return found;
}

TEST(BenchPair, WhatIsOfAProcessIsNoChange) {
  EXPECT_LE(found_of_100_in_processes(0, 0.02), 1);
  EXPECT_GE(found_of_100_in_processes(0.03, 0.012), 95);
}

TEST(BenchPair, OfProcessesTheOutermostAreLeftOut) {
  std::vector<PairComparison> processes;
  for (int k = 0; k < 8; ++k) processes.push_back({10, 1, 1, k / 100.0, k / 100.0 - 0.001, k / 100.0 + 0.001});
  const PairComparison eight = compare_processes(processes);
  EXPECT_EQ(eight.pairs, 80);
  EXPECT_DOUBLE_EQ(eight.low, 0.01);
  EXPECT_DOUBLE_EQ(eight.high, 0.06);
  processes.resize(4);
  EXPECT_DOUBLE_EQ(compare_processes(processes).low, 0);
  processes.resize(1);
  EXPECT_DOUBLE_EQ(compare_processes(processes).high, 0.001);
}

TEST(BenchPair, IntervalHoldsTheMedian) {
  const PairComparison c = compare_times({2, 2, 2, 2.1, 9}, {1, 1, 1, 1, 1});
  EXPECT_EQ(c.pairs, 5);
  EXPECT_EQ(c.first_ms, 2);
  EXPECT_EQ(c.second_ms, 1);
  EXPECT_DOUBLE_EQ(c.change, 1);
  EXPECT_LE(c.low, c.change);
  EXPECT_GE(c.high, 8);
  EXPECT_EQ(compare_times({1}, {1}).change, 0);
}

}  // namespace
}  // namespace metac::bench_pair_test
