// Runs whose trace is looked at (METAC_TRACE, tests/library/trace_checks.py): two threads with one session, shapes that come
// again and are compiled behind, new weights; then a session for which every shape is new.
//
//   new_shapes
#include <cstdio>
#include <exception>
#include <metac/metac.hpp>
#include <thread>
#include <vector>

#include "small_model.h"

namespace {

metac::Session open_small(const char* specialise) {
  metac::Options options;
  options.specialise = specialise;
  options.threads = 2;
  return {small_model, sizeof small_model - 1, options};
}

void run(metac::Session& session, int64_t rows) {
  const std::vector<float> x(static_cast<size_t>(rows) * 4, 1.f), z(static_cast<size_t>(rows), 2.f);
  if (session.run({{"x", x.data(), {rows, 4}}, {"z", z.data(), {rows, 1}}})["y"].data<float>()[0] != 3.f) std::terminate();
}

}  // namespace

int main() {
  metac::Session behind = open_small("background");
  const auto runs = [&] {
    for (const int64_t rows : {3, 5, 3, 3, 5}) run(behind, rows);
  };
  std::thread other(runs);
  runs();
  other.join();
  behind.wait();
  runs();
  const std::vector<float> w(4, 1.f);
  behind.set_weights({{"w", w.data(), {4}}});
  runs();
  metac::Session eager = open_small("eager");
  for (int64_t rows = 1; rows <= 20; ++rows) run(eager, rows);
  std::puts("good");
  return 0;
}
