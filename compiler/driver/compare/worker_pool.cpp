#include "compiler/driver/compare/worker_pool.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>

#include "compiler/api/child_process.h"
#include "compiler/driver/command.h"
#include "compiler/driver/interrupts.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

using Clock = std::chrono::steady_clock;

struct Worker {
  pid_t pid;
  size_t item;
  Clock::time_point deadline;
  std::string text;
  bool late = false;
};

[[noreturn]] void work_in_child(int pipe, size_t item, const std::function<std::string(size_t)>& work, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(exit_fault);
  stop_watching_for_interrupts();
  std::string text;
  try {
    text = work(item);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "metac: %s\n", error.what());
    _exit(exit_our_bug);
  }
  for (size_t done = 0; done < text.size();) {
    ssize_t n = write(pipe, text.data() + done, text.size() - done);
    if (n < 0 && errno != EINTR) _exit(exit_fault);
    if (n > 0) done += n;
  }
  // No destructors: they would wait for threads, and the process is done.
  _exit(exit_good);
}

int start(size_t item, double seconds, const std::function<std::string(size_t)>& work, std::map<int, Worker>& running) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail("cannot start a worker: ", std::strerror(errno));
  std::fflush(nullptr);
  pid_t parent = getpid(), child = fork();
  if (child == 0) work_in_child(ends[1], item, work, parent);
  int error = errno;
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    fail("cannot start a worker: ", std::strerror(error));
  }
  setpgid(child, child);
  register_child_group(child);
  running[ends[0]] = {child, item, Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000)), {}};
  return ends[0];
}

WorkerAnswer finish(int pipe, Worker& worker, double seconds) {
  int status = 0;
  while (waitpid(worker.pid, &status, 0) < 0 && errno == EINTR) {
  }
  forget_child_group(worker.pid);
  close(pipe);
  if (worker.late) return {"", concat("no end after ", seconds, " s")};
  if (WIFSIGNALED(status)) return {"", concat("crashed (signal ", WTERMSIG(status), ", ", strsignal(WTERMSIG(status)), ")")};
  if (WEXITSTATUS(status) == exit_our_bug) return {"", "internal error of metac; its message is above"};
  if (WEXITSTATUS(status) != 0 || worker.text.empty())
    return {"", concat("ended with status ", WEXITSTATUS(status), " and no answer")};
  return {std::move(worker.text), ""};
}

}  // namespace

void run_in_workers(size_t count, int jobs, double seconds, const std::function<std::string(size_t)>& work,
                    const std::function<void(size_t, const WorkerAnswer&)>& done) {
  std::map<int, Worker> running;  // by the pipe that the answer comes through
  size_t next = 0;
  while (next < count || !running.empty()) {
    while (next < count && running.size() < static_cast<size_t>(jobs)) start(next++, seconds, work, running);
    std::vector<pollfd> waits;
    for (const auto& [pipe, worker] : running) waits.push_back({pipe, POLLIN, 0});
    poll(waits.data(), waits.size(), 200);
    for (const pollfd& wait : waits) {
      Worker& worker = running.at(wait.fd);
      if (!worker.late && Clock::now() > worker.deadline) {
        worker.late = true;
        kill(-worker.pid, SIGKILL);
      }
      if (!wait.revents) continue;
      char piece[4096];
      ssize_t n = read(wait.fd, piece, sizeof piece);
      if (n > 0) {
        worker.text.append(piece, n);
        continue;
      }
      if (n < 0 && errno == EINTR) continue;
      size_t item = worker.item;
      WorkerAnswer answer = finish(wait.fd, worker, seconds);
      running.erase(wait.fd);
      done(item, answer);
    }
  }
}

}  // namespace metac
