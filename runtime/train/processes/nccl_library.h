// NVIDIA's NCCL, which averages values of several GPUs: looked for when a program that trains on a GPU finds itself to be
// one of several, as MPI is (mpi_library.h), so that programs are built and run without it. What is declared here of its
// interface has been the same since NCCL 2.10 (ncclAvg); streams are CUDA's.
#pragma once
#include <dlfcn.h>

#include <cstring>
#include <string>

#include "../fault.h"

namespace metac::train {

class NcclLibrary {
 public:
  struct Id {  // ncclUniqueId
    char bytes[128];
  };
  using Communicator = void*;
  static constexpr int float16 = 6, float32 = 7, float64 = 8, bfloat16 = 9;  // ncclDataType_t
  static constexpr int sum = 0, mean = 4;                                    // ncclRedOp_t
  static constexpr int oldest = 21000;

  NcclLibrary() {
    for (const char* name : {"libnccl.so.2", "libnccl.so"}) {
      if (library_ == nullptr) library_ = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
      if (library_ == nullptr && reason_.empty()) reason_ = ::dlerror();
    }
    if (library_ == nullptr)
      fail("several processes train on GPUs by NCCL, which cannot be loaded: ", reason_,
           "\n(NVIDIA's package libnccl2; LD_LIBRARY_PATH names the folder of another one)");
    find(&get_version, "ncclGetVersion");
    find(&get_id, "ncclGetUniqueId");
    find(&join, "ncclCommInitRank");
    find(&all_reduce, "ncclAllReduce");
    find(&group_start, "ncclGroupStart");
    find(&group_end, "ncclGroupEnd");
    find(&error_text, "ncclGetErrorString");
    int version = 0;
    if (get_version(&version) != 0 || version < oldest)
      fail("NCCL is too old (", version, "): 2.10 is the oldest that can be used");
  }

  // Each returns 0 where it was good.
  int (*get_version)(int* version) = nullptr;
  int (*get_id)(Id* id) = nullptr;
  int (*join)(Communicator* made, int count, Id id, int rank) = nullptr;
  int (*all_reduce)(const void* from, void* to, size_t count, int type, int operation, Communicator communicator,
                    void* stream) = nullptr;
  int (*group_start)() = nullptr;
  int (*group_end)() = nullptr;
  const char* (*error_text)(int status) = nullptr;

 private:
  template <class Symbol>
  void find(Symbol* symbol, const char* name) {
    void* const found = ::dlsym(library_, name);
    if (found == nullptr) fail("NCCL's library has no ", name, ": it is a version that this program does not know");
    std::memcpy(symbol, &found, sizeof found);
  }

  void* library_ = nullptr;  // never closed: its threads stay
  std::string reason_;
};

}  // namespace metac::train
