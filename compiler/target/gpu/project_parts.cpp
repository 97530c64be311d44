#include "compiler/target/gpu/project_parts.h"

#include "compiler/support/diagnostic.h"

namespace metac {

ProjectParts cuda_project_parts(const CudaTarget& cuda) {
  ProjectParts parts;
  // Of nvcc an empty unit takes 1.6 s, as much as 45 KB of kernels (two architectures).
  parts.kernels = {".cu", "cuda/prelude.h", "#include \"runtime/cuda/prelude.h\"\n\n", 120000};
  parts.runtime = {"runtime/cuda/", "runtime/cache_directory.h"};
  parts.target_header = "cuda/cuda_target.h";
  parts.build_file = "CMakeLists_cuda.txt";
  parts.templates = {{"exchange_declarations", "api_exchange_cuda.h"},
                     {"exchange_functions", "api_exchange_cuda.cpp"},
                     {"device_declarations", "api_cuda.h"},
                     {"device_members", "api_cuda.hpp"},
                     {"device_functions", "api_cuda.cpp"},
                     {"device_class", "python_cuda.py"},
                     {"device_signatures", "python_cuda_signatures.py"}};
  parts.find_packages = "\nfind_package(CUDAToolkit REQUIRED)";
  parts.static_libraries = ";CUDA::cudart_static";
  parts.architectures = cuda.architectures;
  parts.states = "train_states.cu";
  parts.states_header = "runtime/cuda/state_memory.h";
  parts.languages = "CXX CUDA";
  parts.needed = "the CUDA toolkit";
  parts.exchange = "METAC_TRAIN_EXCHANGE_ON_DEVICE";
  parts.memory = "train_state_memory";
  // Machine code for each architecture and PTX of the last, which drivers compile for later ones.
  std::string listed;
  for (size_t k = 0; k < cuda.architectures.size(); ++k) {
    const int a = cuda.architectures[k];
    const bool last = k + 1 == cuda.architectures.size();
    parts.device_flags.push_back(concat("-gencode=arch=compute_", a, ",code=sm_", a));
    if (last) parts.device_flags.push_back(concat("-gencode=arch=compute_", a, ",code=compute_", a));
    parts.cmake_architectures += concat(k ? ";" : "", a, last ? "" : "-real");
    listed += concat(k ? ";" : "", a);
  }
  parts.training_architectures =
      concat("if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)\n  set(CMAKE_CUDA_ARCHITECTURES \"", listed, "\")\nendif()\n");
  return parts;
}

}  // namespace metac
