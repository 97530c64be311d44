// The compiler and the libraries of a device, as projects for it are built with them.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace metac {

// Found on the machine that builds.
class DeviceToolkit {
 public:
  virtual ~DeviceToolkit() = default;
  // The compiler of device code: its path.
  virtual const std::string& compiler() const = 0;
  // What it is told for sources of kernels (where these lie: with -I) whose host part `host_compiler` compiles.
  virtual std::vector<std::string> compile_flags(const std::string& host_compiler) const = 0;
  // What the host's compiler is told besides for this source of the project ("src/api.cpp").
  virtual std::vector<std::string> host_flags(const std::string& source) const = 0;
  // What a library or program is linked with that may call these libraries of the vendor's ("cublasLt").
  virtual std::vector<std::string> link_flags(const std::vector<std::string>& vendors) const = 0;
};

// Where is a program of the system? "" where there is none.
using FindProgram = std::function<std::string(const std::string& program)>;
// Throws CompileError where the toolkit is not installed.
using FindToolkit = std::function<std::shared_ptr<const DeviceToolkit>(const FindProgram& find)>;

}  // namespace metac
