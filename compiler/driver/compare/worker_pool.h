// Work in forked processes, a few at a time, with a time limit for each item.
#pragma once
#include <cstddef>
#include <functional>
#include <string>

namespace metac {

struct WorkerAnswer {
  std::string text;     // what work() returned
  std::string problem;  // why there is none: "crashed (signal 11)", "no end after 300 s", ...
};

struct WorkersJob {
  size_t count = 0;
  int jobs = 1;                             // processes at once
  size_t in_a_row = 1;                      // items that one process works on, one after the other, where it may go on
  double seconds = 300;                     // of one item
  std::function<std::string(size_t)> work;  // in a forked process; its text holds no zero byte
  std::function<bool(const std::string&)> may_go_on;      // whether the process that made this text may make more
  std::function<void(size_t, const WorkerAnswer&)> done;  // in this process, in the order in which items end
};

// Calls work(i) in a forked process for every i < count, and done(i, answer) in this one. A process that crashes, or takes
// too long, is the problem of the item it works on alone: those behind it go to another. Must be called before this
// process has threads of its own.
void run_in_workers(const WorkersJob& job);

}  // namespace metac
