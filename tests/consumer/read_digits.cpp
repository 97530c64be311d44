// Reads a digit with two libraries in one program: one with an open batch, one made for a single image. Prints both answers.
#include <algorithm>
#include <cstdio>
#include <thread>

#include "digits.hpp"
#include "one_digit.hpp"
#include "read_pgm.h"

template <typename Tensor>
int most_probable(const Tensor& probabilities) {
  const float* first = static_cast<const float*>(probabilities.data);
  return static_cast<int>(std::max_element(first, first + 10) - first);
}

int main(int argc, char** argv) {
  float image[64];
  if (argc != 2 || read_pgm(argv[1], image, 64)) {
    std::fprintf(stderr, "usage: read_digits IMAGE.pgm (8x8)\n");
    return 2;
  }
  try {
    int open = -1, single = -1;
    digits::Model first, second;  // two contexts of one library and one of another, all at work at once
    one_digit::Model third;
    int again = -1;
    std::thread other([&] { again = most_probable(second.run({digits::tensor(image, {1, 1, 8, 8})})[0]); });
    std::thread another([&] { single = most_probable(third.run({one_digit::tensor(image, {1, 1, 8, 8})})[0]); });
    open = most_probable(first.run({digits::tensor(image, {1, 1, 8, 8})})[0]);
    other.join();
    another.join();
    std::printf("%d %d\n", open, single);
    return open == again ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
