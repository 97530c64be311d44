// What the installed cuDNN would do with our convolutions on an H100, without one: cuDNN (9.8 and newer) proposes engines
// and makes their plans from the properties of a device. Every epilogue that target/gpu/vendor/library_convolution.cpp takes, and every
// gradient, must have an engine that may be used, with no more workspace than it is given; on tensor cores, with channels
// last, there is next to none (but for parts of sums), as nothing is turned around. Nothing is computed.
//
// Prints a line for each; the last is 'N of N convolutions have engines'. Exit status 3 where one has none, 4 where this
// cuDNN cannot tell.
#include <cstdio>
#include <string>

#define METAC_RUNTIME_NAMESPACE proposals_runtime
#include "runtime/cuda/prelude.h"
// (order matters)
#include "runtime/cuda/cudnn_convolution.h"

namespace proposals_runtime {

static const char h100[] =
    R"({"deviceName": "NVIDIA H100 80GB HBM3", "deviceVer": 900, "driverVer": 13000, "multiProcessorCount": 132, "warpSize": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "maxCtasPerSM": 32,)"
    R"( "regsPerBlock": 65536, "maxRegistersPerSM": 65536, "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024, "l2CacheSize": 52428800,)"
    R"( "totalGlobalMem": 85029158912, "smClockRateKHz": 1980000, "memClockRateKHz": 2619000, "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "supportCoopLaunch": 1,)"
    R"( "isTccDriver": 0, "smCountOrigin": 0, "cudaDeviceId": 0, "pciDeviceId": 0})";

struct CudnnProposals {
  DnnDescription device;

  bool open() {
    device.make(static_cast<cudnnBackendDescriptorType_t>(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR));
    return device.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, h100, sizeof h100 - 1).finish();
  }

  // How many of the first `most` proposals may be used; the workspace of the first one.
  int usable(const Convolution& c, int terms, int most, int64_t* workspace) {
    alignas(16) static char memory[16];
    const ConvolutionOperands o = {memory, memory, terms & 2 ? memory : nullptr, terms & 1 ? memory : nullptr, memory};
    CudnnConvolutions library;
    CudnnConvolutions::Plan plan(c, o);
    if (!library.describe(plan)) return 0;
    int count = 0;
    for (cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
      DnnDescription heuristic, found[CudnnConvolutions::most_proposals];
      heuristic.make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR).set_part(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, plan.graph).set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, &mode);
      if (!heuristic.set_part(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device).finish()) continue;
      cudnnBackendDescriptor_t raw[CudnnConvolutions::most_proposals];
      for (int k = 0; k < CudnnConvolutions::most_proposals; ++k) raw[k] = found[k].make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).get();
      const int64_t proposed = heuristic.read(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, CudnnConvolutions::most_proposals, raw);
      for (int64_t k = 0; k < proposed && k < CudnnConvolutions::most_proposals && count < most; ++k) {
        int64_t engine = 0, bytes = -1;
        if (!CudnnConvolutions::is_allowed(found[k], c, &engine)) continue;
        DnnDescription execution;
        execution.make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR).set_part(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, found[k]).set_part(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device);
        if (!execution.finish() || execution.read(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &bytes) != 1 || bytes > CudnnConvolutions::most_workspace(c)) continue;
        if (count++ == 0) *workspace = bytes;
      }
      if (count > 0) break;
    }
    return count;
  }
};

struct Shape {
  const char* word;
  int64_t spatial, images, channels, features, groups;
  Convolution::Axis axis;
};
static const Shape shapes[] = {{"3x3", 2, 8, 64, 64, 1, {56, 3, 56, 1, 1, 1}},           {"3x3 of 64 images", 2, 64, 64, 64, 1, {56, 3, 56, 1, 1, 1}}, {"3x3 strided", 2, 8, 64, 128, 1, {56, 3, 28, 2, 1, 1}},
                               {"1x1", 2, 8, 64, 256, 1, {56, 1, 56, 1, 1, 0}},          {"7x7 of colours", 2, 64, 3, 64, 1, {224, 7, 112, 2, 1, 3}},  {"3x3 of 32 groups", 2, 8, 128, 128, 32, {56, 3, 56, 1, 1, 1}},
                               {"3x3 depthwise", 2, 8, 64, 64, 64, {56, 3, 56, 1, 1, 1}}, {"3x3x3", 3, 2, 32, 32, 1, {14, 3, 14, 1, 1, 1}}};

static int ask_all() {
  CudnnProposals cudnn;
  if (cudnnGetVersion() < 90800 || !cudnn.open()) return std::printf("this cuDNN (%zu) cannot tell without a device\n", cudnnGetVersion()), 4;
  struct Type {
    const char* word;
    ScalarType type;
    int64_t tf32;
  };
  int asked = 0, answered = 0;
  for (const Type& type : {Type{"float32", ScalarType::f32, 0}, Type{"tf32", ScalarType::f32, 1}, Type{"float16", ScalarType::f16, 0}, Type{"bfloat16", ScalarType::bf16, 0}}) {
    const bool tensor_cores = type.type != ScalarType::f32 || type.tf32 != 0;
    for (const Shape& s : shapes) {
      for (int64_t last : {0, 1}) {
        if (last != 0 && !tensor_cores) continue;
        for (const int how : {0, 1, 2, 3, 4, 5}) {   // alone; bias; bias, relu; residual, bias, relu; gradients
          Convolution c = {how < 4 ? convolution_forward : how == 4 ? convolution_data_gradient : convolution_weights_gradient, static_cast<int64_t>(type.type), s.spatial, s.images, s.channels, s.features, s.groups,
                           {s.axis, s.axis, s.axis}, how == 2 || how == 3 ? relu_activation : no_activation, type.tf32, last};
          if (how == 4 && s.channels == 3) continue;   // nobody wants the gradient of an image
          int64_t workspace = 0;
          const int count = cudnn.usable(c, how == 1 || how == 2 ? 2 : how == 3 ? 3 : 0, 2, &workspace);
          static const char* const words[] = {"alone", "bias", "bias relu", "residual bias relu", "data gradient", "weights gradient"};
          // With few channels, or one to a group, operands are made wider; a gradient of weights is summed up in parts, each
          // as large as it.
          const bool turns_nothing = last != 0 && s.channels >= 8 && s.groups == 1 && how < 5;
          const bool good = count > 0 && (!turns_nothing || workspace < 1024);
          ++asked, answered += good;
          std::printf("%s%s %s %s %s: workspace %lld KiB\n", good ? "" : "FAIL ", type.word, last != 0 ? "channels last" : "row-major", s.word, words[how], count > 0 ? static_cast<long long>(workspace >> 10) : -1);
        }
      }
    }
  }
  std::printf("%d of %d convolutions have engines\n", answered, asked);
  return answered == asked ? 0 : 3;
}

}  // namespace proposals_runtime

int main() { return proposals_runtime::ask_all(); }
