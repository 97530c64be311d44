// stand_in_faults KIND: one kernel of 2 blocks of 64 threads on the stand-in for CUDA, right or with a fault that the
// stand-in promises to find (toolkit/include/cuda_runtime.h). Prints what it computes.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstring>

constexpr unsigned threads = 64, blocks = 2;

__device__ unsigned place() { return blockIdx.x * threads + threadIdx.x; }

__global__ void reversed(float* x, bool waits) {
  __shared__ float shared[threads];
  shared[threadIdx.x] = static_cast<float>(threadIdx.x + 1);
  if (waits) __syncthreads();
  x[place()] = shared[threads - 1 - threadIdx.x];
}

// Sums of warps by both shuffles, and a barrier among them.
__global__ void shuffled(float* x, bool) {
  float all = static_cast<float>(threadIdx.x % 32), below = all;
  for (unsigned bits = 1; bits < 32; bits *= 2) all += __shfl_xor_sync(~0u, all, bits);
  __syncthreads();
  for (unsigned distance = 16; distance > 0; distance /= 2) below += __shfl_down_sync(~0u, below, distance);
  x[place()] = all + (threadIdx.x % 32 == 0 ? 1000 * below : 0);
}

__global__ void passed_by(float* x, bool waits) {
  if (waits || threadIdx.x < 8) __syncthreads();
  x[place()] = 1;
}

__global__ void two_barriers(float* x, bool) {
  if (threadIdx.x < 8)
    __syncthreads();
  else
    __syncthreads();
  x[place()] = 1;
}

__global__ void of_the_other_block(float* x, bool) {
  x[place()] = static_cast<float>(threadIdx.x);
  x[(place() + threads) % (threads * blocks)] += 1;
}

__global__ void unset(float* x, bool) {
  __shared__ float shared[threads];
  x[place()] = shared[threadIdx.x];
}

__global__ void beyond_the_end(float* x, bool) { x[place() + 1] = 1; }

int main(int count, char** words) {
  const struct {
    const char* name;
    void (*kernel)(float*, bool);
    bool waits;
  } kinds[] = {{"reversed", reversed, true},
               {"no_barrier", reversed, false},
               {"shuffled", shuffled, true},
               {"passed_by", passed_by, false},
               {"not_passed_by", passed_by, true},
               {"two_barriers", two_barriers, true},
               {"of_the_other_block", of_the_other_block, true},
               {"unset", unset, true},
               {"beyond_the_end", beyond_the_end, true}};
  float host[threads * blocks], *device = nullptr;
  if (count != 2 || cudaMalloc(reinterpret_cast<void**>(&device), sizeof host) != cudaSuccess) return 2;
  for (const auto& kind : kinds) {
    if (std::strcmp(words[1], kind.name) != 0) continue;
    bool waits = kind.waits;
    void* arguments[] = {&device, &waits};
    if (cudaLaunchKernel(kind.kernel, dim3(blocks), dim3(threads), arguments, 0, nullptr) != cudaSuccess ||
        cudaStreamSynchronize(nullptr) != cudaSuccess ||
        cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost) != cudaSuccess)
      return 1;
    for (float value : host) std::printf("%g ", static_cast<double>(value));
    return 0;
  }
  return 2;
}
