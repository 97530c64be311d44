// Machine code in memory: links objects of this process's compiler into it with LLVM ORC.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace metac {

// Owns linked code; addresses stay valid while it lives.
class LinkedCode {
 public:
  // Links all objects into one name space of their own. Undefined names resolve to this process (libm, libc). Throws CompileError.
  explicit LinkedCode(std::vector<std::string> objects);
  ~LinkedCode();
  LinkedCode(const LinkedCode&) = delete;
  LinkedCode& operator=(const LinkedCode&) = delete;

  // Addresses of C functions, in the order asked for; thread-safe. Throws CompileError where one is missing.
  std::vector<void*> addresses(const std::vector<std::string>& names) const;
  // No further addresses can be had, for there was no memory once; those that were given out stay valid.
  bool is_lost() const;
  int64_t bytes() const { return bytes_; }  // of the objects

 private:
  struct Space;
  std::unique_ptr<Space> space_;
  int64_t bytes_ = 0;
};

}  // namespace metac
