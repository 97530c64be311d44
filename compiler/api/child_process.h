// Other programs, run without a shell: an argument vector, a time limit, output into a string. Written
// here: Boost.Process would be a dependency larger than this file, and does not kill what the child started.
#pragma once
#include <string>
#include <vector>

namespace metac {

struct ProcessResult {
  int status = 0;  // the exit status; -1 where it did not exit by itself
  int signal = 0;  // that ended it
  bool timed_out = false;
  std::string output;  // standard output and error, at most the last MiB
  bool good() const { return status == 0 && signal == 0 && !timed_out; }
};

// Runs argv[0] (searched for on PATH) in folder `cwd` (empty: this one) and waits, at most `seconds`; then the child and
// everything it started is killed. Throws CompileError where it cannot be started.
ProcessResult run_process(const std::vector<std::string>& argv, const std::string& cwd = "", double seconds = 600);

// The full path of a program on PATH, empty where there is none.
std::string find_program(const std::string& name);
// The same for what builds libraries. zig is also found as the Python package that lies beside this one.
std::string find_tool(const std::string& name);

// For the end by a signal, which must follow: kills every running child with all it started. No more are started then, and
// run_process does not return.
void kill_children();
void register_child_group(int pid);
void forget_child_group(int pid);

// A folder that disappears with this object, or when the program is interrupted.
class TemporaryGuard {
 public:
  explicit TemporaryGuard(std::string path);
  ~TemporaryGuard();
  TemporaryGuard(const TemporaryGuard&) = delete;
  TemporaryGuard& operator=(const TemporaryGuard&) = delete;

 private:
  std::string path_;
};

}  // namespace metac
