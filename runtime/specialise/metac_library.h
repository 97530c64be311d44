// libmetac as a generated library uses it: opened by dlopen alone, its functions found by name. The structs are those of
// metac/metac.h, which a library is built without; tests/unit/library/metac_library_test.cpp compares them.
#pragma once
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "../status.h"

namespace METAC_RUNTIME_NAMESPACE {

struct MetacSession;
struct MetacResult;
struct MetacTensor {
  const char* name;
  const void* data;
  int64_t bytes;
  const int64_t* dims;
  int32_t rank, dtype;
};
struct MetacDim {
  const char* name;
  int64_t min, max, divisor;
};
struct MetacBlock {
  const void* data;
  int64_t bytes;
};
struct MetacOptions {
  size_t size;
  const char* specialise;
  int32_t threads, max_contexts, max_specialisations, dim_count;
  int64_t max_memory;
  const MetacDim* dims;
  const char *cpu, *target;
  const MetacTensor* weights;
  int32_t weight_count, prepared_count;
  const MetacBlock* prepared;
};
struct MetacReport {
  size_t size;
  int64_t runs, open_runs, compiled, dropped, waiting, specialisations, contexts, threads, weight_bytes, working_bytes;
};

class MetacLibrary {
 public:
  static constexpr int32_t ok = 0, not_ready = 8;  // metac_status

  const char* (*version)() = nullptr;
  const char* (*last_error)() = nullptr;
  int32_t (*open_session)(const void* model, size_t bytes, const MetacOptions* options, MetacSession** session) = nullptr;
  void (*close_session)(MetacSession* session) = nullptr;
  int32_t (*try_run)(MetacSession* session, const MetacTensor* inputs, int32_t count, MetacResult** result) = nullptr;
  const MetacTensor* (*output)(const MetacResult* result, int32_t index) = nullptr;
  void (*free_result)(MetacResult* result) = nullptr;
  int32_t (*report)(const MetacSession* session, MetacReport* report) = nullptr;

  // `path`: the one to take; null or "": one beside the library (or program) that holds `address`, else the system's. It
  // must be of the major and minor version `wanted` ("0.1.0"). It stays loaded, as libmetac always does.
  bool open(const char* path, const void* address, const char* wanted, Failure& failure) {
    char found[PATH_MAX], soname[64];
    const int major_and_minor = static_cast<int>(std::strlen(wanted) - std::strlen(std::strrchr(wanted, '.')));
    std::snprintf(soname, sizeof soname, "libmetac.so.%.*s", major_and_minor, wanted);
    if (path == nullptr || path[0] == 0) path = is_beside(address, soname, found) ? found : soname;
    if (std::strchr(path, '/') != nullptr && !is_whole(path, failure)) return false;
    void* const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return failure.set(Status::unsupported, "%.400s", dlerror());
    if (take(library, path, wanted, major_and_minor, failure)) return true;
    dlclose(library);
    return false;
  }

 private:
  // Beside the library, where an application puts what it ships.
  static bool is_beside(const void* address, const char* name, char (&path)[PATH_MAX]) {
    Dl_info about;
    if (dladdr(address, &about) == 0 || about.dli_fname == nullptr) return false;
    const char* const slash = std::strrchr(about.dli_fname, '/');
    if (slash == nullptr) return false;
    const int folder = static_cast<int>(slash - about.dli_fname);
    return std::snprintf(path, sizeof path, "%.*s/%s", folder, about.dli_fname, name) < static_cast<int>(sizeof path) &&
           access(path, R_OK) == 0;
  }

  // A shared library that was cut short would end the process in dlopen, which reads behind the end of the file.
  static bool is_whole(const char* path, Failure& failure) {
    const int file = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return failure.set(Status::io, "cannot open %.300s: %s", path, std::strerror(errno));
    struct stat about;
    ElfW(Ehdr) header;
    bool whole = fstat(file, &about) == 0 && S_ISREG(about.st_mode) &&
                 pread(file, &header, sizeof header, 0) == static_cast<ssize_t>(sizeof header) &&
                 std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_phentsize == sizeof(ElfW(Phdr));
    const uint64_t size = whole ? static_cast<uint64_t>(about.st_size) : 0;
    if (whole) whole = header.e_shoff <= size && size - header.e_shoff >= uint64_t{header.e_shnum} * header.e_shentsize;
    for (uint64_t k = 0; whole && k < header.e_phnum; ++k) {
      ElfW(Phdr) part;
      whole = pread(file, &part, sizeof part, static_cast<off_t>(header.e_phoff + k * sizeof part)) ==
                  static_cast<ssize_t>(sizeof part) &&
              part.p_offset <= size && size - part.p_offset >= part.p_filesz;
    }
    ::close(file);
    return whole || failure.set(Status::io, "%.300s is no shared library, or was cut short", path);
  }

  template <class Function>
  static bool find(void* library, const char* name, Function*& function, const char* path, Failure& failure) {
    void* const found = dlsym(library, name);
    if (found == nullptr) return failure.set(Status::unsupported, "%.300s has no function %s", path, name);
    std::memcpy(&function, &found, sizeof found);
    return true;
  }

  bool take(void* library, const char* path, const char* wanted, int major_and_minor, Failure& failure) {
    if (!find(library, "metac_version", version, path, failure)) return false;
    const char* const own = version();
    if (own == nullptr || std::strncmp(own, wanted, static_cast<size_t>(major_and_minor) + 1) != 0)
      return failure.set(Status::unsupported, "%.300s is metac %.40s; this library was made by %s and takes %.*s", path,
                         own == nullptr ? "?" : own, wanted, major_and_minor, wanted);
    return find(library, "metac_last_error", last_error, path, failure) &&
           find(library, "metac_session_open_memory", open_session, path, failure) &&
           find(library, "metac_session_close", close_session, path, failure) &&
           find(library, "metac_session_try_run", try_run, path, failure) &&
           find(library, "metac_result_output", output, path, failure) &&
           find(library, "metac_result_free", free_result, path, failure) &&
           find(library, "metac_session_get_report", report, path, failure);
  }
};

}  // namespace METAC_RUNTIME_NAMESPACE
