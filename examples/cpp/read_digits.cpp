// Reads several digits side by side: read_digits FILE.npy... Each thread has a context of its own; they share the weights.
#include <algorithm>
#include <array>
#include <cstdio>
#include <digits.hpp>
#include <fstream>
#include <thread>
#include <vector>

using Image = std::array<float, 64>;

static Image read_image(const char* path) {
  Image image{};
  std::ifstream file(path, std::ios::binary);
  file.seekg(-static_cast<long>(sizeof image), std::ios::end);
  if (!file.read(reinterpret_cast<char*>(image.data()), sizeof image))
    throw std::runtime_error(std::string("cannot read ") + path);
  return image;
}

static int digit_in(const Image& image) {
  digits::Model model(/*threads=*/1);
  const digits::Tensor answer = model.run({digits::tensor_of(image.data(), {1, 1, 8, 8})})[0];
  const float* probabilities = static_cast<const float*>(answer.data);
  return static_cast<int>(std::max_element(probabilities, probabilities + 10) - probabilities);
}

int main(int count, char** values) {
  std::vector<int> found(static_cast<size_t>(count), -1);
  std::vector<std::thread> threads;
  for (int k = 1; k < count; ++k)
    threads.emplace_back([&, k] {
      try {
        found[static_cast<size_t>(k)] = digit_in(read_image(values[k]));
      } catch (const std::exception& error) {  // digits::Error, or a file that is none
        std::fprintf(stderr, "%s: %s\n", values[k], error.what());
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (int k = 1; k < count; ++k) std::printf("%d\n", found[static_cast<size_t>(k)]);
  return std::count(found.begin() + 1, found.end(), -1) > 0;
}
