// Machine code in memory: links objects of this process's compiler into it with LLVM ORC.
#pragma once
#include <memory>
#include <string>
#include <vector>

namespace metac {

// Owns linked code; addresses stay valid while it lives.
class LinkedCode {
 public:
  // Links all objects into one name space. Undefined names resolve to this process (libm, libc). Throws CompileError.
  explicit LinkedCode(std::vector<std::string> objects);
  ~LinkedCode();
  LinkedCode(const LinkedCode&) = delete;
  LinkedCode& operator=(const LinkedCode&) = delete;

  // Addresses of C functions, in the order asked for. Throws CompileError where one is missing.
  std::vector<void*> addresses(const std::vector<std::string>& names) const;

 private:
  struct Session;
  std::unique_ptr<Session> session_;
};

}  // namespace metac
