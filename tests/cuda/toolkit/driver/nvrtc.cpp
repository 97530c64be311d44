// A stand-in for the run-time compiler, libnvrtc.so: compiles CUDA as C++ by the stand-in's nvcc (METAC_SHIM_NVCC) against
// its cuda_runtime.h. What it calls a binary is a library, which the stand-in's cuda.cpp loads. METAC_SHIM_CALLS=FILE: a
// line for each compilation.
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Program {
  std::string source, log, binary;
  std::vector<std::string> names, lowered;
};

std::string read(const std::filesystem::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace

extern "C" {
int nvrtcVersion(int* major, int* minor) { return *major = 13, *minor = 0, 0; }
const char* nvrtcGetErrorString(int) { return "the stand-in cannot"; }
int nvrtcCreateProgram(void** made, const char* source, const char*, int headers, const char* const*, const char* const*) {
  if (headers != 0) return 3;
  *made = new Program{source, {}, {}, {}, {}};
  return 0;
}
int nvrtcDestroyProgram(void** program) {
  delete static_cast<Program*>(*program);
  *program = nullptr;
  return 0;
}
int nvrtcAddNameExpression(void* program, const char* name) {
  return static_cast<Program*>(program)->names.push_back(name), 0;
}
int nvrtcCompileProgram(void* program, int count, const char* const* options) {
  Program& p = *static_cast<Program*>(program);
  std::string said = "compiled at run time";
  bool architecture = false;
  for (int k = 0; k < count; ++k) {
    said += std::string(" ") + options[k];
    architecture = architecture || std::strcmp(options[k], "--gpu-architecture=sm_90") == 0;
  }
  if (const char* calls = std::getenv("METAC_SHIM_CALLS")) std::ofstream(calls, std::ios::app) << said << "\n";
  const char* const nvcc = std::getenv("METAC_SHIM_NVCC");
  char name[] = "/tmp/metac-shim-rtc-XXXXXX";
  if (nvcc == nullptr || !architecture || mkdtemp(name) == nullptr) return 5;
  const std::filesystem::path folder = name;
  std::ofstream text(folder / "kernels.cu");
  text << "#include <cuda_runtime.h>\n#include <cmath>\n#include <cstring>\n"
          "static inline float __int_as_float(int i) { float f; std::memcpy(&f, &i, 4); return f; }\n"
          "static inline double __longlong_as_double(long long i) { double f; std::memcpy(&f, &i, 8); return f; }\n"
          "#define __CUDACC_RTC__\n"
       << p.source;
  for (size_t k = 0; k < p.names.size(); ++k) {
    p.lowered.push_back("shim_kernel_" + std::to_string(k));
    text << "\nextern \"C\" __attribute__((visibility(\"default\"))) int " << p.lowered[k]
         << "(unsigned x, unsigned y, unsigned threads, void** arguments) {\n"
         << "  const int status = cudaLaunchKernel(&" << p.names[k]
         << ", dim3(x, y), dim3(threads), arguments, 0, nullptr);\n"
         << "  return status != 0 ? status : cudaStreamSynchronize(nullptr);\n}\n";
  }
  text.close();
  const std::string command = std::string("'") + nvcc + "' -std=c++17 -O3 -shared '" + (folder / "kernels.cu").string() +
                              "' -o '" + (folder / "kernels.so").string() + "' > '" + (folder / "log").string() + "' 2>&1";
  const int status = std::system(command.c_str());
  p.log = read(folder / "log");
  const std::string library = read(folder / "kernels.so");
  const uint64_t size = library.size();
  p.binary = "SHIM" + std::string(reinterpret_cast<const char*>(&size), sizeof size) + library;
  std::filesystem::remove_all(folder);
  return status == 0 ? 0 : 6;
}
int nvrtcGetProgramLogSize(void* program, size_t* size) { return *size = static_cast<Program*>(program)->log.size() + 1, 0; }
int nvrtcGetProgramLog(void* program, char* log) { return std::strcpy(log, static_cast<Program*>(program)->log.c_str()), 0; }
int nvrtcGetCUBINSize(void* program, size_t* size) { return *size = static_cast<Program*>(program)->binary.size(), 0; }
int nvrtcGetCUBIN(void* program, char* binary) {
  return std::memcpy(binary, static_cast<Program*>(program)->binary.data(), static_cast<Program*>(program)->binary.size()),
         0;
}
int nvrtcGetLoweredName(void* program, const char* name, const char** lowered) {
  Program& p = *static_cast<Program*>(program);
  for (size_t k = 0; k < p.names.size(); ++k)
    if (p.names[k] == name) return *lowered = p.lowered[k].c_str(), 0;
  return 3;
}
}
