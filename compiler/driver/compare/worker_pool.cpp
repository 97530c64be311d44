#include "compiler/driver/compare/worker_pool.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "compiler/api/child_process.h"
#include "compiler/driver/command.h"
#include "compiler/driver/interrupts.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

constexpr char end_of_answer = 0;

using Clock = std::chrono::steady_clock;

using Items = std::vector<size_t>;

struct Worker {
  pid_t pid;
  Items items;  // the next one last
  Clock::time_point deadline;
  std::string text;
  bool late = false;
  bool retires = false;  // says so with its last answer
};

void send(int pipe, const std::string& text) {
  for (size_t done = 0; done < text.size();) {
    ssize_t n = write(pipe, text.data() + done, text.size() - done);
    if (n < 0 && errno != EINTR) _exit(exit_fault);
    if (n > 0) done += n;
  }
}

[[noreturn]] void work_in_child(int pipe, Items items, const WorkersJob& job, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(exit_fault);
  stop_watching_for_interrupts();
  for (bool goes_on = true; goes_on && !items.empty(); items.pop_back()) {
    std::string text;
    try {
      text = job.work(items.back());
    } catch (const std::exception& error) {
      std::fprintf(stderr, "metac: %s\n", error.what());
      _exit(exit_our_bug);
    }
    std::fflush(nullptr);
    goes_on = items.size() > 1 && job.may_go_on(text);
    send(pipe, text + end_of_answer);
  }
  // No destructors: they would wait for threads, and the process is done.
  _exit(exit_good);
}

Clock::time_point from_now(double seconds) {
  return Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

void start(Items items, const WorkersJob& job, std::map<int, Worker>& running) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail("cannot start a worker: ", std::strerror(errno));
  std::fflush(nullptr);
  pid_t parent = getpid(), child = fork();
  if (child == 0) work_in_child(ends[1], std::move(items), job, parent);
  int error = errno;
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    fail("cannot start a worker: ", std::strerror(error));
  }
  setpgid(child, child);
  register_child_group(child);
  running[ends[0]] = {child, std::move(items), from_now(job.seconds), {}};
}

// What is to be said of the item at which a worker ended; of one that ended between two items: nothing.
std::string problem_of(int pipe, const Worker& worker, double seconds) {
  int status = 0;
  while (waitpid(worker.pid, &status, 0) < 0 && errno == EINTR) {
  }
  forget_child_group(worker.pid);
  close(pipe);
  if (worker.late) return concat("no end after ", seconds, " s");
  if (WIFSIGNALED(status)) return concat("crashed (signal ", WTERMSIG(status), ", ", strsignal(WTERMSIG(status)), ")");
  if (WEXITSTATUS(status) == exit_our_bug) return "internal error of metac; its message is above";
  if (!worker.items.empty() && !worker.retires) return concat("ended with status ", WEXITSTATUS(status), " and no answer");
  return {};
}

// Hands on the answers that have come whole.
void take_answers(Worker& worker, const WorkersJob& job) {
  for (size_t end; (end = worker.text.find(end_of_answer)) != std::string::npos; worker.text.erase(0, end + 1)) {
    std::string text = worker.text.substr(0, end);
    worker.retires = !job.may_go_on(text);
    job.done(worker.items.back(), {std::move(text), ""});
    worker.items.pop_back();
    worker.deadline = from_now(job.seconds);
  }
}

}  // namespace

void run_in_workers(const WorkersJob& job) {
  std::map<int, Worker> running;  // by the pipe that answers come through
  std::vector<Items> waiting;     // what workers that ended have left
  size_t next = 0;
  auto take = [&] {
    Items items;
    if (!waiting.empty()) {
      items = std::move(waiting.back());
      waiting.pop_back();
      return items;
    }
    for (size_t end = std::min(job.count, next + std::max<size_t>(1, job.in_a_row)); next < end;) items.push_back(next++);
    std::reverse(items.begin(), items.end());
    return items;
  };
  while (next < job.count || !waiting.empty() || !running.empty()) {
    while ((next < job.count || !waiting.empty()) && running.size() < static_cast<size_t>(job.jobs))
      start(take(), job, running);
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
        take_answers(worker, job);
        continue;
      }
      if (n < 0 && errno == EINTR) continue;
      Worker ended = std::move(worker);
      running.erase(wait.fd);
      std::string problem = problem_of(wait.fd, ended, job.seconds);
      if (!problem.empty() && !ended.items.empty()) {
        job.done(ended.items.back(), {"", std::move(problem)});
        ended.items.pop_back();
      }
      if (!ended.items.empty()) waiting.push_back(std::move(ended.items));
    }
  }
}

}  // namespace metac
