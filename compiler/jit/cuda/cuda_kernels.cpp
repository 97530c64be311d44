#include "compiler/jit/cuda/cuda_kernels.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <sstream>

#include "compiler/codegen/embedded_files.h"
#include "compiler/jit/cache/object_cache.h"
#include "compiler/jit/clang_compiler.h"
#include "compiler/jit/cuda/cuda_driver.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

const std::string space = "metac_runtime";

// The other end of DriverLaunch, and what a kernel of several members is told (runtime/cuda/members.h) (cuda_place.h).
const char host_prelude[] = R"(struct DeviceLaunch {
  void (*start)(DeviceLaunch*, const char*, int64_t, int, void**);
  void* scratch;
  int64_t scratch_bytes;
};
static inline void start(const char* kernel, int64_t blocks, int threads, void** arguments, void* launch) {
  DeviceLaunch* l = static_cast<DeviceLaunch*>(launch);
  l->start(l, kernel, blocks, threads, arguments);
}
)";

// A header of the runtime with all that it includes, each once: the run-time compiler is given one text.
void add_flat(const std::string& path, std::set<std::string>& seen, std::string& text) {
  if (!seen.insert(path).second) return;
  auto found = embedded_files().find(path);
  METAC_ASSERT(found != embedded_files().end(), "no header ", path);
  std::istringstream lines(found->second);
  bool host_only = false;  // between #ifndef __CUDACC_RTC__ and #endif: only prelude.h has such lines
  for (std::string line; std::getline(lines, line);) {
    if (line == "#ifndef __CUDACC_RTC__") host_only = true;
    const size_t quote = line.rfind("#include \"", 0) == 0 ? line.find('"') : std::string::npos;
    if (quote != std::string::npos && !host_only) {
      const std::string name = line.substr(quote + 1, line.rfind('"') - quote - 1);
      add_flat((std::filesystem::path(path).parent_path() / name).lexically_normal().string(), seen, text);
    } else if (quote == std::string::npos && line != "#pragma once") {
      text += line + "\n";
    }
    if (line == "#endif") host_only = false;
  }
}

// What the host's side of a kernel is written with: functions of sizes (floor_div and others), members.
std::string text_of_host_headers() {
  std::set<std::string> seen;
  std::string text = "#define METAC_RUNTIME_NAMESPACE " + space + "\n";
  for (const char* header : {"runtime/device/scalar.h", "runtime/cuda/members.h"}) add_flat(header, seen, text);
  return text + "using namespace " + space + ";\n";
}

std::string pack(const RuntimeCompiled& made) {
  std::string text = concat(made.names.size(), "\n");
  for (const auto& [name, lowered] : made.names) text += name + "\n" + lowered + "\n";
  return text + made.binary;
}

RuntimeCompiled unpack(const std::string& packed) {
  RuntimeCompiled made;
  size_t at = 0;
  auto next_line = [&] {
    const size_t end = packed.find('\n', at);
    METAC_ASSERT(end != std::string::npos, "a cache entry of CUDA kernels");
    std::string line = packed.substr(at, end - at);
    at = end + 1;
    return line;
  };
  for (size_t count = std::stoul(next_line()); count > 0; --count) {
    std::string name = next_line();
    made.names.emplace_back(std::move(name), next_line());
  }
  made.binary = packed.substr(at);
  return made;
}

}  // namespace

CudaKernelText split_cuda_text(const std::vector<KernelSource>& kernels) {
  CudaKernelText parts;
  const std::string head = "extern \"C\" void ", global = "static __global__ ", begin = "start(device_";
  for (const KernelSource& kernel : kernels) {
    std::istringstream lines(kernel.text);
    bool host = false;
    for (std::string line; std::getline(lines, line);) {
      if (line.rfind(head, 0) == 0) host = true;
      if (!host) {
        // What has no external name cannot be asked for.
        if (line.rfind(global, 0) == 0) line.erase(0, line.find("__global__"));
        parts.device += line + "\n";
        continue;
      }
      if (const size_t at = line.find(begin); at != std::string::npos) {
        const size_t name = at + begin.find("device_"), end = line.find(',', name);
        parts.kernels.push_back(line.substr(name, end - name));
        line.insert(end, "\"");
        line.insert(name, "\"");
      }
      parts.host += line + "\n";
      if (line == "}") host = false;
    }
  }
  std::sort(parts.kernels.begin(), parts.kernels.end());
  parts.kernels.erase(std::unique(parts.kernels.begin(), parts.kernels.end()), parts.kernels.end());
  return parts;
}

std::string device_module_text(const CudaKernelText& text) {
  std::string module;
  std::set<std::string> seen;
  add_flat("runtime/cuda/prelude.h", seen, module);
  return module + "namespace " + space + " {\n" + text.device + "}\n";
}

CudaKernels::CudaKernels(const std::vector<KernelSource>& kernels, const CpuTarget& cpu, const JitOptions& options) {
  const CudaDevice0& device = cuda_device();
  if (kernels.empty()) return;
  ObjectCache& cache = options.kernels().cache();
  const CudaKernelText text = split_cuda_text(kernels);
  const std::vector<std::string> words = {concat("--gpu-architecture=sm_", device.capability), "--std=c++17", "--fmad=false",
                                          "-w"};
  const std::string module = device_module_text(text);
  std::vector<std::string> names;
  for (const std::string& kernel : text.kernels) names.push_back(space + "::" + kernel);
  std::string key =
      concat("cuda, metac " METAC_VERSION ", compiler ", runtime_compiler_version(), ", driver ", device.version, "\n");
  for (const std::string& word : words) key += word + "\n";
  const RuntimeCompiled made =
      unpack(cache.get_or_make(key + module, [&] { return pack(compile_at_run_time(module, words, names)); }));
  const CudaDriver& driver = *device.driver;
  auto check = [&](int status, const char* what) {
    if (status != 0) fail("CUDA: ", what, ": ", driver.text_of(status));
  };
  check(driver.load_module(&module_, made.binary.data()), "loading the kernels");
  for (const auto& [name, lowered] : made.names) {
    void* function = nullptr;
    check(driver.function(&function, module_, lowered.c_str()), "finding a kernel");
    device_functions_[name.substr(space.size() + 2)] = function;
  }

  const std::string host = text_of_host_headers() + host_prelude + text.host;
  code_ = std::make_unique<LinkedCode>(
      std::vector<std::string>{cache.get_or_make(compiler_identity(cpu) + host, [&] { return compile_object(host, cpu); })});
  std::vector<std::string> sides;
  for (const KernelSource& kernel : kernels) sides.push_back(kernel.name);
  for (void* address : code_->addresses(sides)) functions_.push_back(reinterpret_cast<rt::KernelFunction>(address));
}

CudaKernels::~CudaKernels() {
  if (module_) cuda_device().driver->unload_module(module_);
}

}  // namespace metac
