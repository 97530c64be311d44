#include "compiler/api/child_process.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>

#include "compiler/support/diagnostic.h"
#include "compiler/support/unfinished_folders.h"

namespace metac {
namespace {

constexpr size_t kept_output = 1 << 20;

struct Registry {
  std::mutex mutex;
  std::set<int> groups;
};
Registry& registry() {
  static Registry& instance = *new Registry;  // threads may use it until the process is gone
  return instance;
}

// In the child, between fork and exec: async-signal-safe calls only.
[[noreturn]] void become(const std::string& program, char* const* argv, const std::string& cwd, int output) {
  setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  int null = open("/dev/null", O_RDONLY);
  dup2(null, 0);
  dup2(output, 1);
  dup2(output, 2);
  if (!cwd.empty() && chdir(cwd.c_str()) != 0) _exit(127);
  execv(program.c_str(), argv);
  _exit(127);
}

// Reads until the end or the deadline. True: the deadline came first.
bool drain(int pipe, std::chrono::steady_clock::time_point deadline, std::string& output) {
  char piece[8192];
  for (;;) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    if (left <= 0) return true;
    pollfd wait{pipe, POLLIN, 0};
    int ready = poll(&wait, 1, static_cast<int>(std::min<int64_t>(left, 60000)));
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    ssize_t n = read(pipe, piece, sizeof piece);
    if (n <= 0) return false;
    output.append(piece, n);
    if (output.size() > 2 * kept_output) output.erase(0, output.size() - kept_output);
  }
}

}  // namespace

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return access(name.c_str(), X_OK) == 0 ? name : "";
  const char* path = std::getenv("PATH");
  std::string folders = path ? path : "";
  for (size_t begin = 0; begin < folders.size();) {
    size_t end = std::min(folders.find(':', begin), folders.size());
    std::string candidate = folders.substr(begin, end - begin) + "/" + name;
    if (end > begin && access(candidate.c_str(), X_OK) == 0) return candidate;
    begin = end + 1;
  }
  return "";
}

std::string find_tool(const std::string& name) {
  std::string found = find_program(name);
  if (found.find('/') != std::string::npos) found = std::filesystem::absolute(found);  // it runs in other folders
  Dl_info own{};
  if (!found.empty() || name != "zig" || dladdr(reinterpret_cast<const void*>(&find_tool), &own) == 0) return found;
  // site-packages/metac/lib/libmetac.so, site-packages/ziglang/zig
  std::error_code error;
  const std::filesystem::path here = std::filesystem::canonical(own.dli_fname, error);
  const std::filesystem::path package = here.parent_path().parent_path();
  if (error || !std::filesystem::exists(package / "__init__.py", error)) return "";
  return find_program(package.parent_path() / "ziglang" / "zig");
}

ProcessResult run_process(const std::vector<std::string>& argv, const std::string& cwd, double seconds) {
  std::string program = find_program(argv.at(0));
  if (program.empty()) fail(argv[0], " not found (looked in PATH)");
  std::vector<char*> pointers;
  for (const std::string& argument : argv) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail("cannot start ", argv[0], ": ", std::strerror(errno));
  std::unique_lock lock(registry().mutex);  // no child that kill_children does not know
  pid_t child = fork();
  if (child == 0) become(program, pointers.data(), cwd, ends[1]);
  int error = errno;
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    fail("cannot start ", argv[0], ": ", std::strerror(error));
  }
  setpgid(child, child);
  registry().groups.insert(child);
  lock.unlock();

  ProcessResult result;
  auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
  result.timed_out = drain(ends[0], deadline, result.output);
  if (result.timed_out) kill(-child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  forget_child_group(child);
  close(ends[0]);
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  result.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return result;
}

void register_child_group(int pid) {
  std::lock_guard lock(registry().mutex);
  registry().groups.insert(pid);
}

void forget_child_group(int pid) {
  std::lock_guard lock(registry().mutex);
  registry().groups.erase(pid);
}

void kill_children() {
  registry().mutex.lock();  // for ever: who waits for a child must not take its death for the child's own
  for (int pid : registry().groups) kill(-pid, SIGKILL);
}

TemporaryGuard::TemporaryGuard(std::string path) : path_(std::move(path)) { add_unfinished_folder(path_); }

TemporaryGuard::~TemporaryGuard() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  forget_unfinished_folder(path_);
}

}  // namespace metac
