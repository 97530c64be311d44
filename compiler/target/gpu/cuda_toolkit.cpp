#include "compiler/target/gpu/cuda_toolkit.h"

#include <filesystem>

#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

namespace fs = std::filesystem;

class CudaToolkit final : public DeviceToolkit {
 public:
  CudaToolkit(std::string nvcc, std::vector<std::string> architectures)
      : nvcc_(std::move(nvcc)),
        folder_(fs::canonical(nvcc_).parent_path().parent_path()),
        architectures_(std::move(architectures)) {}

  const std::string& compiler() const override { return nvcc_; }

  // Device code and its host part; CMakeLists_cuda.txt says the same.
  std::vector<std::string> compile_flags(const std::string& host_compiler) const override {
    std::vector<std::string> argv = {"-ccbin=" + host_compiler,
                                     "-std=c++17",
                                     "-O3",
                                     "--fmad=false",
                                     "--diag-suppress=177",
                                     "-DNDEBUG",
                                     "-Xcompiler=-fPIC,-fvisibility=hidden"};
    argv.insert(argv.end(), architectures_.begin(), architectures_.end());
    return argv;
  }

  std::vector<std::string> host_flags(const std::string& source) const override {
    std::vector<std::string> argv;
    if (source == "src/api.cpp" || source.rfind("src/library_", 0) == 0) argv.push_back("-isystem" + folder_ + "/include");
    if (source == "src/library_cudnn.cpp" && !has("cudnn"))
      argv.push_back("-DMETAC_NO_CUDNN");  // one that lies elsewhere would not be linked
    return argv;
  }

  std::vector<std::string> link_flags(const std::vector<std::string>& vendors) const override {
    std::vector<std::string> argv;
    for (const std::string& vendor : vendors)  // linked where the toolkit has it: its source looks for its header
      if (has(vendor)) argv.insert(argv.begin(), {"-l" + vendor, "-Wl,-rpath," + folder_ + "/lib64"});
    argv.insert(argv.end(), {"-L" + folder_ + "/lib64", "-L" + folder_ + "/lib", "-lcudart_static", "-lrt"});
    return argv;
  }

 private:
  bool has(const std::string& vendor) const { return fs::exists(folder_ + "/include/" + vendor + ".h"); }

  std::string nvcc_, folder_;
  std::vector<std::string> architectures_;
};

}  // namespace

std::shared_ptr<const DeviceToolkit> find_cuda_toolkit(const FindProgram& find, std::vector<std::string> architectures) {
  std::string nvcc = find("nvcc");
  for (const char* usual : {"/usr/local/cuda/bin/nvcc", "/opt/cuda/bin/nvcc"})
    if (nvcc.empty() && fs::exists(usual)) nvcc = usual;
  if (nvcc.empty())
    fail(
        "no nvcc found on PATH or in /usr/local/cuda; install the CUDA toolkit, or write the sources alone with --no-build");
  return std::make_shared<CudaToolkit>(std::move(nvcc), std::move(architectures));
}

}  // namespace metac
