// The CUDA toolkit: nvcc, and the folder with its headers and libraries.
#pragma once
#include "compiler/target/device_toolkit.h"

namespace metac {

// `architectures`: what nvcc is told of them. Throws CompileError where there is no nvcc.
std::shared_ptr<const DeviceToolkit> find_cuda_toolkit(const FindProgram& find, std::vector<std::string> architectures);

}  // namespace metac
