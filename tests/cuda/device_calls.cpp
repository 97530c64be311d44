// Calls a library of models/digits by memory of the device: with and without a stream, by DLPack, with outputs of the
// context's. run_cuda.py compiles it against the stand-in (or a toolkit) and compares what it prints.
//
//   device_calls IMAGE.raw WEIGHTS      64 floats; prints the 10 probabilities
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "digits.hpp"

namespace {

int failures = 0;
void expect(bool good, const char* what) {
  if (good) return;
  std::printf("FAIL %s\n", what);
  ++failures;
}

void must(cudaError_t status) {
  if (status == cudaSuccess) return;
  std::printf("FAIL CUDA: %s\n", cudaGetErrorString(status));
  std::exit(1);
}

struct DeviceMemory {
  explicit DeviceMemory(size_t bytes) { must(cudaMalloc(&data, bytes)); }
  ~DeviceMemory() { cudaFree(data); }
  void* data = nullptr;
};

struct DlTensor {  // as dlpack.h has it
  void* data;
  int32_t device_type, device_id, rank;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t *dims, *strides;
  uint64_t byte_offset;
};

std::vector<float> fetch(const void* data, size_t count) {
  std::vector<float> values(count);
  must(cudaMemcpy(values.data(), data, count * sizeof(float), cudaMemcpyDeviceToHost));
  return values;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  std::vector<float> image(64);
  std::FILE* file = std::fopen(arguments[1], "rb");
  if (file == nullptr || std::fread(image.data(), sizeof(float), image.size(), file) != image.size()) return 2;
  std::fclose(file);
  digits_options options{};
  options.size = sizeof options;
  options.weights = arguments[2];
  digits::Model model(options);
  const digits_port& port = *digits_input(0);
  std::vector<int64_t> dims(port.dims, port.dims + port.rank);
  dims[0] = 1;

  const std::vector<digits::Tensor> plain = model.run({digits::tensor(image.data(), dims)});
  const std::vector<float> expected(static_cast<const float*>(plain[0].data), static_cast<const float*>(plain[0].data) + 10);
  for (float p : expected) std::printf("%.9g\n", static_cast<double>(p));

  DeviceMemory in(65 * sizeof(float)), out(10 * sizeof(float));
  must(cudaMemcpy(in.data, image.data(), 64 * sizeof(float), cudaMemcpyHostToDevice));
  digits::Tensor result{};
  result.data = out.data;
  result.bytes = 10 * sizeof(float);
  std::vector<digits::Tensor> results = {result};
  model.run({digits::tensor(in.data, dims)}, results);
  expect(results[0].data == out.data, "an output on the device stays where the caller wants it");
  expect(fetch(out.data, 10) == expected, "device memory in and out");

  // Memory that is not aligned for wide loads is copied.
  float* const odd = static_cast<float*>(in.data) + 1;
  must(cudaMemcpy(odd, image.data(), 64 * sizeof(float), cudaMemcpyHostToDevice));
  std::vector<digits::Tensor> on_host = model.run({digits::tensor(odd, dims)});
  expect(std::vector<float>(static_cast<float*>(on_host[0].data), static_cast<float*>(on_host[0].data) + 10) == expected,
         "an input that is not aligned");
  must(cudaMemcpy(in.data, image.data(), 64 * sizeof(float), cudaMemcpyHostToDevice));

  // Runs on two streams by turns, none waited for; the callback is called once the last is done.
  cudaStream_t streams[2];
  for (cudaStream_t& s : streams) must(cudaStreamCreate(&s));
  int called = 0;
  for (int k = 0; k < 6; ++k) {
    results = {digits::Tensor{}};
    model.run_async(
        {digits::tensor(in.data, dims)}, results, streams[k % 2], [](void* user) { ++*static_cast<int*>(user); }, &called);
  }
  must(cudaStreamSynchronize(streams[1]));
  expect(called == 6, "called when done");
  cudaPointerAttributes where{};
  must(cudaPointerGetAttributes(&where, results[0].data));
  expect(where.type == cudaMemoryTypeDevice, "an output without memory is on the device");
  expect(results[0].rank == 2 && results[0].dims[1] == 10 && results[0].bytes == 10 * sizeof(float),
         "what a run tells of an output");
  expect(fetch(results[0].data, 10) == expected, "a run on a stream");

  // An output on the host is waited for.
  std::vector<float> host(10);
  result.data = host.data();
  results = {result};
  model.run_async({digits::tensor(image.data(), dims)}, results, streams[0]);
  expect(host == expected, "a run on a stream into the host's memory");
  model.run_async({digits::tensor(in.data, dims)}, results);
  expect(host == expected, "a run on the context's stream");

  // Host memory is the caller's again once the call is back, however late the run: inputs are staged.
  DeviceMemory many(6 * 10 * sizeof(float));
  std::vector<std::vector<float>> wanted;
  for (int k = 0; k < 6; ++k) {
    std::vector<float> mine(image.size());
    for (size_t i = 0; i < mine.size(); ++i) mine[i] = image[(i + static_cast<size_t>(k)) % mine.size()];
    const std::vector<digits::Tensor> slow = model.run({digits::tensor(mine.data(), dims)});
    wanted.emplace_back(static_cast<const float*>(slow[0].data), static_cast<const float*>(slow[0].data) + 10);
  }
  for (int k = 0; k < 6; ++k) {
    std::vector<float> mine(image.size());
    for (size_t i = 0; i < mine.size(); ++i) mine[i] = image[(i + static_cast<size_t>(k)) % mine.size()];
    digits::Tensor place{};
    place.data = static_cast<float*>(many.data) + 10 * k;
    place.bytes = 10 * sizeof(float);
    results = {place};
    // Output memory that is not aligned for wide stores is copied to, behind the run.
    model.run_async({digits::tensor(mine.data(), dims)}, results, streams[k % 2]);
    for (float& value : mine) value = NAN;
  }
  for (cudaStream_t s : streams) must(cudaStreamSynchronize(s));
  for (int k = 0; k < 6; ++k)
    expect(fetch(static_cast<float*>(many.data) + 10 * k, 10) == wanted[static_cast<size_t>(k)], "an input that was staged");

  // DLPack.
  DlTensor given{in.data, 2, 0, port.rank, 2, 32, 1, dims.data(), nullptr, 0};
  digits_tensor taken{};
  expect(digits_from_dlpack(model.get(), &port, &given, &taken) == DIGITS_OK && taken.data == in.data &&
             taken.rank == port.rank && taken.bytes == 256,
         "from DLPack");
  results = {digits::Tensor{}};
  model.run_async({taken}, results);
  DlTensor handed{};
  expect(digits_to_dlpack(model.get(), digits_output(0), &results[0], &handed) == DIGITS_OK, "to DLPack");
  expect(handed.device_type == 2 && handed.device_id == 0 && handed.rank == 2 && handed.dims[1] == 10 && handed.code == 2 &&
             handed.bits == 32 && handed.lanes == 1,
         "what DLPack tells");
  expect(fetch(handed.data, 10) == expected, "a run by DLPack");
  auto refused = [&](const char* what, const char* message) {
    digits_tensor unused{};
    expect(digits_from_dlpack(model.get(), &port, &given, &unused) == DIGITS_INVALID_ARGUMENT &&
               std::strstr(digits_last_error(model.get()), message) != nullptr,
           what);
    given = {in.data, 2, 0, port.rank, 2, 32, 1, dims.data(), nullptr, 0};
  };
  given.bits = 16;
  refused("another dtype", "16 bits");
  given.device_id = 3;
  refused("another device", "on CUDA device 3");
  given.device_type = 7;
  refused("another kind of device", "of type 7");
  std::vector<int64_t> strides(dims.size(), 2);
  given.strides = strides.data();
  refused("strides", "not contiguous");
  std::vector<int64_t> huge(dims.size(), int64_t{1} << 40);
  given.dims = huge.data();
  refused("a size beyond all memory", "dim ");

  // A memory of the caller's that is too small is told, on the device too.
  result.data = out.data;
  result.bytes = 8;
  results = {result};
  try {
    model.run({taken}, results);
    expect(false, "too small an output");
  } catch (const digits::Error& error) {
    expect(error.status == DIGITS_INVALID_ARGUMENT && std::strstr(error.what(), "40 bytes") != nullptr, error.what());
  }
  for (cudaStream_t s : streams) cudaStreamDestroy(s);
  return failures == 0 ? 0 : 1;
}
