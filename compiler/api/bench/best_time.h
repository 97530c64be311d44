// The time of a measurement that is repeated because machines are not as fast at all times.
#pragma once
#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

namespace metac {

// Seconds that part(0) ... part(threads - 1) take side by side, best of some rounds.
template <typename F>
double best_time(int threads, int rounds, F part) {
  double best = 1e30;
  for (int round = 0; round < rounds; ++round) {
    auto start = std::chrono::steady_clock::now();
    std::vector<std::thread> others;
    for (int t = 1; t < threads; ++t) others.emplace_back([&, t] { part(t); });
    part(0);
    for (std::thread& other : others) other.join();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

}  // namespace metac
