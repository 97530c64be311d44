#include "compiler/driver/compare/worker_pool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <stdexcept>
#include <string>

namespace metac {
namespace {

// Items and what came of each; an item that is answered twice is an error.
std::map<size_t, WorkerAnswer> done_by(WorkersJob job) {
  std::map<size_t, WorkerAnswer> answers;
  job.done = [&](size_t item, const WorkerAnswer& answer) { EXPECT_TRUE(answers.emplace(item, answer).second) << item; };
  run_in_workers(job);
  EXPECT_EQ(answers.size(), job.count);
  return answers;
}

WorkersJob job_of(size_t count, size_t in_a_row, std::function<std::string(size_t)> work) {
  WorkersJob job;
  job.count = count, job.jobs = 3, job.in_a_row = in_a_row, job.seconds = 20;
  job.work = std::move(work);
  job.may_go_on = [](const std::string& text) { return text.find("tired") == std::string::npos; };
  return job;
}

std::string process() { return std::to_string(getpid()); }

TEST(WorkerPool, AProcessWorksOnSeveralItemsInARow) {
  std::map<std::string, size_t> items;
  for (const auto& [item, answer] : done_by(job_of(20, 8, [](size_t) { return process(); }))) ++items[answer.text];
  EXPECT_EQ(items.size(), 3u);
  for (const auto& [pid, count] : items) EXPECT_LE(count, 8u);
}

TEST(WorkerPool, EachItemHasAProcessOfItsOwnAsARule) {
  std::map<std::string, size_t> items;
  for (const auto& [item, answer] : done_by(job_of(9, 1, [](size_t) { return process(); }))) ++items[answer.text];
  EXPECT_EQ(items.size(), 9u);
}

TEST(WorkerPool, WhatCrashesOrEndsIsTheProblemOfOneItem) {
  const auto answers = done_by(job_of(30, 7, [](size_t item) {
    if (item == 0 || item == 9) std::raise(SIGKILL);
    if (item == 17) _exit(0);
    if (item == 18) throw std::runtime_error("a test's own");
    return std::to_string(item);
  }));
  for (const auto& [item, answer] : answers) {
    if (item == 0 || item == 9)
      EXPECT_NE(answer.problem.find("signal 9"), std::string::npos) << answer.problem;
    else if (item == 17)
      EXPECT_NE(answer.problem.find("no answer"), std::string::npos) << answer.problem;
    else if (item == 18)
      EXPECT_NE(answer.problem.find("internal error"), std::string::npos) << answer.problem;
    else
      EXPECT_EQ(answer.text, std::to_string(item));
  }
}

TEST(WorkerPool, AnItemThatTakesTooLongIsEndedAndTheNextOneHasItsWholeTime) {
  WorkersJob job = job_of(6, 6, [](size_t item) {
    if (item == 4) sleep(100);
    usleep(400'000);
    return std::to_string(item);
  });
  job.seconds = 1.2;  // less than four items take together
  for (const auto& [item, answer] : done_by(job)) EXPECT_EQ(answer.problem.empty(), item != 4) << item << answer.problem;
}

TEST(WorkerPool, AProcessThatMayNotGoOnHandsOnWhatItHasLeft) {
  const auto answers = done_by(job_of(6, 6, [](size_t item) { return process() + (item == 2 ? " tired" : ""); }));
  const auto made_by = [&](size_t item) { return answers.at(item).text.substr(0, answers.at(item).text.find(' ')); };
  EXPECT_EQ(made_by(0), made_by(2));
  EXPECT_NE(made_by(2), made_by(3));
  EXPECT_EQ(made_by(3), made_by(5));
}

}  // namespace
}  // namespace metac
