// What all contexts of a process share: an object for each thing that it is of, made by the first that asks and ended by the
// last user; and memory for much of it.
#pragma once
#include <sys/mman.h>

#include "../memory.h"
#include "process_lock.h"

namespace METAC_RUNTIME_NAMESPACE {

// Address space: the system gives memory where it is written to.
class AddressSpace {
 public:
  AddressSpace() = default;
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;
  ~AddressSpace() {
    if (map_ != nullptr) munmap(map_, map_bytes_);
  }

  bool take(int64_t bytes) {
    if (bytes > most_bytes) return false;
    map_bytes_ = static_cast<size_t>(bytes + (bytes >= huge ? huge : 1));
    void* const map = mmap(nullptr, map_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED) return false;
    map_ = map;
    uintptr_t begin = reinterpret_cast<uintptr_t>(map);
    if (bytes >= huge) {
      begin = (begin + huge - 1) / huge * huge;
      madvise(reinterpret_cast<void*>(begin), static_cast<size_t>(bytes), MADV_HUGEPAGE);
    }
    data_ = reinterpret_cast<char*>(begin);
    return true;
  }
  char* data() const { return data_; }

 private:
  static constexpr int64_t huge = int64_t{2} << 20;  // a page of them takes as long as a small one

  void* map_ = nullptr;
  size_t map_bytes_ = 0;
  char* data_ = nullptr;
};

// Base of those objects. Self is made and ended under a lock of its kind.
template <class Self>
class SharedByContexts {
 public:
  Self* join_again() {
    const ProcessLockHold held(registry_lock);
    ++users_;
    return static_cast<Self*>(this);
  }
  void leave() {
    const ProcessLockHold held(registry_lock);
    if (--users_ > 0) return;
    for (Self** place = &first; *place != nullptr; place = &(*place)->next_)
      if (*place == this) {
        *place = next_;
        break;
      }
    end(static_cast<Self*>(this));
  }
  // What the object guards with it is read and changed under this lock.
  ProcessLock& lock() { return lock_; }

 protected:
  // The one that `is` is true of, or else the one that `make` gives (null: it cannot).
  template <class Is, class Make>
  static Self* find_or_make(const Is& is, const Make& make) {
    const ProcessLockHold held(registry_lock);
    for (Self* one = first; one != nullptr; one = one->next_)
      if (is(*one)) {
        ++one->users_;
        return one;
      }
    Self* const made = make();
    if (made == nullptr) return nullptr;
    made->next_ = first;
    return first = made;
  }
  static void end(Self* one) {
    one->~Self();
    std::free(one);
  }

 private:
  static inline ProcessLock registry_lock;
  static inline Self* first = nullptr;

  ProcessLock lock_;
  int32_t users_ = 1;
  Self* next_ = nullptr;
};

// A use of such an object, or none.
template <class T>
class Joined {
 public:
  Joined() = default;
  Joined(const Joined&) = delete;
  Joined& operator=(const Joined&) = delete;
  ~Joined() {
    if (object_ != nullptr) object_->leave();
  }

  void take(T* joined) { object_ = joined; }  // once
  T* get() const { return object_; }
  T* operator->() const { return object_; }

 private:
  T* object_ = nullptr;
};

}  // namespace METAC_RUNTIME_NAMESPACE
