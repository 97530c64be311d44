#include "compiler/api/tensor_files.h"

#include <cmath>
#include <numbers>

#include "compiler/api/npz.h"
#include "compiler/ir/element.h"
#include "compiler/support/checked.h"
#include "compiler/support/file_system.h"
#include "frontends/json/npy.h"
#include "frontends/onnx/onnx.h"

namespace metac {

Tensor read_tensor(const std::string& path, const std::string& name) {
  if (path.ends_with(".npy")) return read_npy(path);
  if (path.ends_with(".pb")) return read_tensor_proto(read_file(path).view(), path);
  if (!path.ends_with(".npz")) throw CompileError({path, "", "expected a name that ends with .npy, .npz or .pb"});
  std::map<std::string, Tensor> arrays = read_npz(read_file(path).view(), path);
  auto found = arrays.find(name);
  if (found == arrays.end() && arrays.size() == 1) found = arrays.begin();
  if (found == arrays.end())
    throw CompileError({path, "", concat("holds ", arrays.size(), " arrays and none is called ", quoted(name))});
  return found->second;
}

namespace {

// splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
class Generator {
 public:
  explicit Generator(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  double uniform() { return static_cast<double>((next() >> 11) + 1) / 9007199254740992.0; }  // (0, 1]
  double normal() { return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform()); }

 private:
  uint64_t state_;
};

}  // namespace

Tensor random_tensor(DType dtype, const std::vector<int64_t>& shape, uint64_t seed) {
  std::optional<int64_t> bytes = static_cast<int64_t>(size_of(dtype));
  for (int64_t d : shape) bytes = bytes ? checked_mul(*bytes, d) : bytes;
  if (!bytes || *bytes > int64_t{1} << 40)
    fail("a random tensor of shape ", to_string(shape), " would be larger than 1 TiB");
  std::byte* data = nullptr;
  Tensor tensor = make_tensor(dtype, shape, &data);
  int64_t n = tensor.element_count();
  Generator g(seed);
  if (dtype == DType::string) fail("random strings cannot be made");
  with_element(dtype, [&](auto zero) {
    using T = decltype(zero);
    T* out = reinterpret_cast<T*>(data);
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (std::is_same_v<T, double>)
        out[i] = g.normal();
      else if constexpr (is_real_element<T>)
        out[i] = to_element<T>(static_cast<float>(g.normal()));
      else
        out[i] = to_element<T>(is_truth_element<T> ? g.next() & 1 : g.next() % 100);
    }
  });
  return tensor;
}

std::string output_file_name(const std::string& output, size_t index, std::map<std::string, int>& taken) {
  std::string name;
  for (char c : output.substr(0, 100)) {
    bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
                 c == ':' || (c == '.' && !name.empty());
    name += plain ? c : '_';
  }
  if (name.empty() || taken[name]++ > 0) name += "_" + std::to_string(index);
  return name + ".npy";
}

}  // namespace metac
