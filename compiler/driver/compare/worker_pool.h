// Work in forked processes: one process an item, a few at a time, each with a time limit.
#pragma once
#include <cstddef>
#include <functional>
#include <string>

namespace metac {

struct WorkerAnswer {
  std::string text;     // what work() returned
  std::string problem;  // why there is none: "crashed (signal 11)", "no end after 300 s", ...
};

// Calls work(i) in a process of its own for every i < count and done(i, answer) in this one, in the order in which they
// end. Must be called before this process has threads of its own.
void run_in_workers(size_t count, int jobs, double seconds, const std::function<std::string(size_t)>& work,
                    const std::function<void(size_t, const WorkerAnswer&)>& done);

}  // namespace metac
