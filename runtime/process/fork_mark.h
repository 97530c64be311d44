// Tells the child of a fork() from the process that made something: threads, locks and devices of the parent are not there
// in the child.
#pragma once
#include <sys/mman.h>
#include <unistd.h>

#include "../program.h"

namespace METAC_RUNTIME_NAMESPACE {

// A page that the system clears in the child, so that asking costs one load; where the system cannot, the process's number.
class ForkMark {
 public:
  ForkMark() = default;
  ForkMark(const ForkMark&) = delete;
  ForkMark& operator=(const ForkMark&) = delete;
  ~ForkMark() {
    if (page_ != nullptr) munmap(const_cast<char*>(page_), page_bytes);
  }

  // This process is the one.
  void set() {
    constexpr int wipe_on_fork = 18;  // MADV_WIPEONFORK of Linux 4.14, which older headers lack
    pid_ = getpid();
    if (page_ == nullptr) {
      void* const page = mmap(nullptr, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (page == MAP_FAILED) return;
      if (madvise(page, page_bytes, wipe_on_fork) != 0) {
        munmap(page, page_bytes);
        return;
      }
      page_ = static_cast<volatile char*>(page);
    }
    *page_ = 1;
  }
  // Is this another process than the one that called set()?
  bool in_child() const { return page_ != nullptr ? *page_ == 0 : pid_ != 0 && pid_ != getpid(); }

 private:
  static constexpr size_t page_bytes = 4096;  // or the one page that this is a part of
  volatile char* page_ = nullptr;
  pid_t pid_ = 0;
};

}  // namespace METAC_RUNTIME_NAMESPACE
