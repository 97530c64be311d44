#include "compiler/target/gpu/project_parts.h"

#include <algorithm>

#include "compiler/support/diagnostic.h"
#include "compiler/target/gpu/cuda_toolkit.h"

namespace metac {
namespace {

std::vector<int> numbers_of(const std::string& architectures) {
  std::vector<int> numbers;
  for (size_t at = 0; at <= architectures.size();) {
    const size_t end = std::min(architectures.find(',', at), architectures.size());
    const std::string word = architectures.substr(at, end - at);
    at = end + 1;
    const bool digits = !word.empty() && word.size() <= 3 && word.find_first_not_of("0123456789") == std::string::npos;
    const int number = digits ? std::stoi(word) : 0;
    if (number < 80 || (!numbers.empty() && number <= numbers.back()))
      fail("--arch ", architectures, ": expected ascending numbers from 80 on, such as 80,90");
    numbers.push_back(number);
  }
  return numbers;
}

VendorLibrary of_cmake(const std::string& name) {
  const std::string target = "$<TARGET_NAME_IF_EXISTS:CUDA::" + name + ">";
  return {";" + target, " " + target, ""};
}

}  // namespace

ProjectParts cuda_project_parts(const std::string& architectures) {
  ProjectParts parts;
  // Of nvcc an empty unit takes 1.6 s, as much as 45 KB of kernels (two architectures).
  parts.kernels = {".cu", "cuda/prelude.h", "#include \"runtime/cuda/prelude.h\"\n\n", 120000};
  parts.runtime = {"runtime/cuda/", "runtime/files/cache_directory.h"};
  parts.target_header = "cuda/cuda_target.h";
  parts.build_file = "cuda/CMakeLists.txt";
  parts.templates = {{"exchange_declarations", "cuda/exchange.h"}, {"exchange_functions", "cuda/exchange.cpp"},
                     {"device_declarations", "cuda/api.h"},        {"device_members", "cuda/api.hpp"},
                     {"device_functions", "cuda/api.cpp"},         {"device_members_of_table", "cuda/model_table.cpp"},
                     {"device_class", "cuda/python.py"},           {"device_signatures", "cuda/python_signatures.py"}};
  parts.find_packages = "\nfind_package(CUDAToolkit REQUIRED)";
  parts.static_libraries = ";CUDA::cudart_static";
  // CMake knows no target of cuDNN: the project's files look for it.
  parts.vendors = {
      {"cublasLt", of_cmake("cublasLt")},
      {"cudnn",
       {";${CUDNN_LIBRARY}", " ${cudnn}", "\nfind_library(CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR} REQUIRED)"}}};
  parts.several_cpus = false;
  parts.carries_model = false;
  parts.architectures = numbers_of(architectures.empty() ? "80,90" : architectures);
  parts.architectures_key = "cuda_architectures";
  parts.states = "cuda/train_states.cu";
  parts.states_header = "runtime/cuda/state_memory.h";
  parts.languages = "CXX CUDA";
  parts.needed = "the CUDA toolkit";
  parts.exchange = "METAC_TRAIN_EXCHANGE_ON_DEVICE";
  parts.memory = "train_state_memory";
  // Machine code for each architecture and PTX of the last, which drivers compile for later ones.
  std::string listed;
  std::vector<std::string> flags;
  for (size_t k = 0; k < parts.architectures.size(); ++k) {
    const int a = parts.architectures[k];
    const bool last = k + 1 == parts.architectures.size();
    flags.push_back(concat("-gencode=arch=compute_", a, ",code=sm_", a));
    if (last) flags.push_back(concat("-gencode=arch=compute_", a, ",code=compute_", a));
    parts.cmake_architectures += concat(k ? ";" : "", a, last ? "" : "-real");
    listed += concat(k ? ";" : "", a);
  }
  parts.find_toolkit = [flags](const FindProgram& find) { return find_cuda_toolkit(find, flags); };
  parts.training_architectures =
      concat("if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)\n  set(CMAKE_CUDA_ARCHITECTURES \"", listed, "\")\nendif()\n");
  return parts;
}

}  // namespace metac
