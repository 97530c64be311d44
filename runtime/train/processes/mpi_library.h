// Open MPI as the launcher brings it along: looked for when a program finds itself to be one of several, so that programs
// are built and run without it. What is declared here of its interface has been the same since Open MPI 1.7 (libmpi.so.12 to
// .40): handles are addresses of objects that the library exports.
#pragma once
#include <dlfcn.h>

#include <cstdlib>

#include "../fault.h"

namespace metac::train {

// What the launcher says: Open MPI's mpirun tells it every process.
struct Launch {
  int rank = 0, size = 1, on_this_host = 1, rank_on_this_host = 0;
};

inline Launch launch_of_environment() {
  const auto number = [](const char* name, int otherwise) {
    const char* text = std::getenv(name);
    return text == nullptr ? otherwise : std::atoi(text);
  };
  Launch launch;
  launch.size = number("OMPI_COMM_WORLD_SIZE", 1);
  launch.rank = number("OMPI_COMM_WORLD_RANK", 0);
  launch.on_this_host = number("OMPI_COMM_WORLD_LOCAL_SIZE", launch.size);
  launch.rank_on_this_host = number("OMPI_COMM_WORLD_LOCAL_RANK", launch.rank);
  if (launch.size <= 1 && number("PMI_SIZE", 1) > 1)
    fail("this is one of ", number("PMI_SIZE", 1),
         " processes of a launcher that is not Open MPI's: start it with Open MPI's mpirun");
  if (launch.size < 1 || launch.rank < 0 || launch.rank >= launch.size)
    fail("the launcher says that this is process ", launch.rank, " of ", launch.size);
  return launch;
}

class MpiLibrary {
 public:
  using Request = void*;
  static constexpr int thread_funneled = 1;

  MpiLibrary() {
    for (const char* name : {"libmpi.so.40", "libmpi.so"}) {
      if (library_ == nullptr) library_ = ::dlopen(name, RTLD_NOW | RTLD_GLOBAL);  // its plugins look for its names
      if (library_ == nullptr && reason_.empty()) reason_ = ::dlerror();
    }
    if (library_ == nullptr)
      fail("mpirun started this program as one of several processes, and Open MPI's library cannot be loaded: ", reason_,
           "\n(Debian: apt-get install libopenmpi3)");
    find(&init_thread, "MPI_Init_thread");
    find(&finalize, "MPI_Finalize");
    find(&isend, "MPI_Isend");
    find(&irecv, "MPI_Irecv");
    find(&test, "MPI_Test");
    find(&cancel, "MPI_Cancel");
    find(&request_free, "MPI_Request_free");
    find(&comm_rank, "MPI_Comm_rank");
    find(&comm_size, "MPI_Comm_size");
    find(&world, "ompi_mpi_comm_world");
    find(&byte, "ompi_mpi_byte");
  }

  int (*init_thread)(int* count, char*** values, int required, int* provided) = nullptr;
  int (*finalize)() = nullptr;
  int (*isend)(const void* data, int count, void* type, int to, int tag, void* communicator, Request* request) = nullptr;
  int (*irecv)(void* data, int count, void* type, int from, int tag, void* communicator, Request* request) = nullptr;
  int (*test)(Request* request, int* done, void* status) = nullptr;  // status null: MPI_STATUS_IGNORE
  int (*cancel)(Request* request) = nullptr;
  int (*request_free)(Request* request) = nullptr;
  int (*comm_rank)(void* communicator, int* rank) = nullptr;
  int (*comm_size)(void* communicator, int* size) = nullptr;
  void *world = nullptr, *byte = nullptr;

 private:
  template <class Symbol>
  void find(Symbol* symbol, const char* name) {
    void* const found = ::dlsym(library_, name);
    if (found == nullptr)
      fail("Open MPI's library has no ", name, ": it is another MPI, or a version that this program does not know");
    std::memcpy(symbol, &found, sizeof found);
  }

  void* library_ = nullptr;  // never closed: its threads and exit handlers stay
  std::string reason_;
};

}  // namespace metac::train
