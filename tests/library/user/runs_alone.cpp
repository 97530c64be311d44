// Sessions where the system refuses every thread (no_threads.c is preloaded): the callers' do all the work.
//
//   runs_alone DIGITS.onnx
#include <cstdio>
#include <metac/metac.hpp>
#include <vector>

#include "small_model.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  metac::Options options;
  options.threads = 4;
  options.specialise = "background";
  metac::Session behind(small_model, sizeof small_model - 1, options);
  const std::vector<float> x(64, 3.f), z(16, 1.f);
  for (int run = 0; run < 3; ++run)
    for (const int64_t rows : {2, 16}) {
      const metac::Result result = behind.run({{"x", x.data(), {rows, 4}}, {"z", z.data(), {rows, 1}}});
      for (int64_t i = 0; i < result["y"].count(); ++i)
        if (result["y"].data<float>()[i] != 4) return std::puts("a wrong answer"), 1;
    }
  behind.wait();
  if (behind.report().specialisations != 0 || behind.report().threads != 0 || behind.report().open_runs != 6)
    return std::puts("there were threads: nothing was tested"), 1;

  options.specialise = "eager";  // a model of several modules of kernels, which are compiled in parallel
  metac::Session eager(argv[1], options);
  const std::vector<float> image(64 * 8);
  eager.run({{"image", image.data(), {8, 1, 8, 8}}});
  std::puts("good");
  return 0;
}
