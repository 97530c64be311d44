// What a target puts into the projects that are written for it, as data: names of files in templates/project and runtime/,
// and what build files say. As it is by default it fits kernels that are C++ for the host.
#pragma once
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "compiler/target/device_toolkit.h"

namespace metac {

// The files of a program's kernels.
struct KernelFiles {
  std::string ending = ".cpp", prelude = "device/prelude.h";  // of runtime/
  // Behind the macro that names the namespace.
  std::string head =
      "#define METAC_PRELUDE_NO_USING\n#include \"runtime/device/prelude.h\"\n\n"
      "// A kernel names every buffer and symbol that it is given, used or not.\n"
      "#pragma GCC diagnostic ignored \"-Wunused-variable\"\n\n";
  // Kernels share a translation unit up to this many bytes of text: few enough units that headers do not cost, enough of
  // them that two cores are busy to the end. Fixed, because the sources may not depend on the machine.
  size_t unit_bytes = 40000;
};

// A library of the vendor's in the project's CMake file.
struct VendorLibrary {
  std::string exported;  // to users of the static library
  std::string linked;    // by the shared one
  std::string find;      // how it is found, if finding the toolkit does not do that
};

struct ProjectParts {
  KernelFiles kernels;               // of runs; what prepares weights is the host's in any case
  std::vector<std::string> runtime;  // files, or folders with a / behind them, that no other target's projects have
  std::string target_header = "host_target.h";  // of runtime/
  std::string build_file = "cmake/CMakeLists.txt";
  // Value of a template -> the template that gives it; of values that are not here the default is nothing.
  std::map<std::string, std::string> templates = {{"exchange_declarations", "exchange/api.h"},
                                                  {"exchange_functions", "exchange/api.cpp"}};
  std::string find_packages, static_libraries;   // of CMake
  std::map<std::string, VendorLibrary> vendors;  // by the names that kernels call them (KernelSource::libraries)
  bool several_cpus = true;                      // code for several of the host's processors in one project
  bool carries_model = true;                     // may have its model with it and specialise itself (--jit)
  std::vector<int> architectures;                // of the device; empty: there is none
  std::string architectures_key;                 // what the manifest calls them
  std::string cmake_architectures;
  FindToolkit find_toolkit;  // empty: the host's compiler makes all

  // ---- training programs ----
  std::string states;         // the template of the source that says where states live; empty: in the host's memory
  std::string states_header;  // of runtime/, that it includes
  std::string languages = "CXX", needed = "nothing else";
  std::string exchange = "METAC_TRAIN_EXCHANGE";  // of runtime/train/library_calls.h
  std::string memory;                             // the object of `states`
  std::string training_architectures;             // what the CMake file says of them
};

}  // namespace metac
