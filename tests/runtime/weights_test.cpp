// Weights files: read once for all who use them, whatever becomes of the file; every kind of damage is a message.
#include "runtime/files/weights.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace weights_test {
namespace {

using namespace metac_runtime;

constexpr int64_t bytes = 3 * 1024 * 1024 + 40;  // four pieces, the last one a short one
const std::string layout(64, '5');

class WeightsFile : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("metac_weights_test_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    path_ = folder_ / "net.weights";
    block_.resize(bytes);
    for (size_t i = 0; i < block_.size(); ++i) block_[i] = static_cast<char>(i * 31 + i / 997);
    write();
    ASSERT_TRUE(pool_.start(2));
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write() {
    Failure failure;
    ASSERT_TRUE(write_weights_file(path_.c_str(), block_.data(), bytes, layout.c_str(), failure)) << failure.message;
  }
  // Into the file as it lies there, and `when` later than it was: two writes may fall into one tick of the clock.
  void change(int64_t at, const std::string& with, int when) {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(at);
    file << with;
    file.close();
    std::filesystem::last_write_time(path_, std::filesystem::last_write_time(path_) + std::chrono::seconds(when));
  }
  // "": the weights were opened and are as they were written.
  std::string open(Weights& weights, Weights::Place place = Weights::shared, bool unchecked = false) {
    Failure failure;
    weights.choose(place, unchecked);
    const bool good = weights.open(path_.c_str(), bytes, layout.c_str(), failure) && weights.ready(0, bytes, pool_, failure);
    return good ? holds(weights) ? "" : "other weights" : failure.message;
  }
  bool holds(const Weights& weights) const { return std::memcmp(weights.block(), block_.data(), bytes) == 0; }

  std::filesystem::path folder_, path_;
  std::vector<char> block_;
  ThreadPool pool_;
};

TEST_F(WeightsFile, WhatIsReadStaysWhateverBecomesOfTheFile) {
  for (const Weights::Place place : {Weights::shared, Weights::own}) {
    write();
    Weights weights;
    ASSERT_EQ(open(weights, place), "");
    change(5000, "scribble", 1);
    EXPECT_TRUE(holds(weights));
    std::filesystem::resize_file(path_, 100);
    EXPECT_TRUE(holds(weights));
    std::filesystem::remove(path_);
    EXPECT_TRUE(holds(weights));
  }
}

TEST_F(WeightsFile, CutWhileOthersRead) {
  Weights weights;
  ASSERT_EQ(open(weights), "");
  std::atomic<bool> done{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i)
    readers.emplace_back([&] {
      while (!done) wrong += !holds(weights);
    });
  for (int round = 0; round < TEST_ITERATIONS / 200; ++round) {
    std::filesystem::resize_file(path_, static_cast<uintmax_t>(round * 1000));
    Weights late;
    EXPECT_NE(open(late), "");
    write();
    Weights later;
    EXPECT_EQ(open(later), "");
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(WeightsFile, CutBetweenTheCheckAndTheRead) {
  Failure failure;
  Weights weights;
  ASSERT_TRUE(weights.open(path_.c_str(), bytes, layout.c_str(), failure));
  std::filesystem::resize_file(path_, 2 << 20);
  EXPECT_FALSE(weights.ready(0, bytes, pool_, failure));
  EXPECT_EQ(failure.status, Status::io);
  EXPECT_NE(std::string(failure.message).find("became shorter while they were read"), std::string::npos) << failure.message;
}

TEST_F(WeightsFile, OverwrittenBetweenTheCheckAndTheRead) {
  for (const bool unchecked : {false, true}) {
    write();
    Failure failure;
    Weights weights;
    weights.choose(Weights::shared, unchecked);
    ASSERT_TRUE(weights.open(path_.c_str(), bytes, layout.c_str(), failure));
    ASSERT_TRUE(weights.ready(0, 100, pool_, failure));  // the first piece
    change(4096 + (2 << 20) + 5, "scribble", 1);
    EXPECT_FALSE(weights.ready(0, bytes, pool_, failure));
    const char* const expected = unchecked ? "changed while they were read" : "is damaged: bytes 2101248 to 3149823";
    EXPECT_NE(std::string(failure.message).find(expected), std::string::npos) << failure.message;
    EXPECT_FALSE(weights.ready(0, bytes, pool_, failure)) << "what was refused is there the second time";
  }
}

TEST_F(WeightsFile, UsersShareWhatIsReadAndNothingElse) {
  Weights one, same, other;
  ASSERT_EQ(open(one), "");
  ASSERT_EQ(open(same), "");
  EXPECT_EQ(one.block(), same.block());
  ASSERT_EQ(open(other, Weights::own), "");
  EXPECT_NE(one.block(), other.block());
  Failure failure;
  Weights again;
  ASSERT_TRUE(again.open_again(one, failure));
  EXPECT_EQ(one.block(), again.block());
  one.close(), same.close();
  EXPECT_TRUE(holds(again));

  // Another file of that name is another one, and so is one that was written into.
  const std::vector<char> before = block_;
  block_[77] ^= 1;
  write();
  Weights replaced;
  EXPECT_EQ(open(replaced), "");
  change(4096 + 50, "?", 1);
  Weights damaged;
  EXPECT_NE(open(damaged).find("is damaged: bytes 4096 to 1052671"), std::string::npos);
  EXPECT_TRUE(holds(replaced));
  change(4096 + 50, std::string(1, block_[50]), 1);
  EXPECT_EQ(open(damaged), "");
}

TEST_F(WeightsFile, WhoDoesNotLookLeavesTheLookingToOthers) {
  change(4096 + 50, "?", 1);
  Weights careless, careful;
  EXPECT_EQ(open(careless, Weights::shared, true), "other weights");
  EXPECT_NE(open(careful).find("is damaged"), std::string::npos);
}

TEST_F(WeightsFile, SealedMemoryIsMapped) {
  std::ifstream file(path_, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), {});
  const int memory = memfd_create("weights", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  ASSERT_GE(memory, 0);
  ASSERT_EQ(::write(memory, whole.data(), whole.size()), static_cast<ssize_t>(whole.size()));
  EXPECT_FALSE(is_unchangeable(memory));
  ASSERT_EQ(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE), 0);
  EXPECT_TRUE(is_unchangeable(memory));
  path_ = "/proc/self/fd/" + std::to_string(memory);
  Weights one, other;
  ASSERT_EQ(open(one), "");
  ASSERT_EQ(open(other), "");
  EXPECT_NE(one.block(), other.block());
  ::close(memory);
}

TEST_F(WeightsFile, TheChildOfAForkReadsOnItsOwn) {
  // A thread of the parent is reading at the moment of the fork, or so it seems to the child.
  Failure failure;
  Weights weights;
  ASSERT_TRUE(weights.open(path_.c_str(), bytes, layout.c_str(), failure));
  std::atomic<bool> done{false};
  std::thread busy([&] {
    while (!done) {
      Weights more;
      Failure none;
      if (more.open(path_.c_str(), bytes, layout.c_str(), none)) more.ready(0, bytes, pool_, none);
    }
  });
  for (int i = 0; i < 20; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      ThreadPool alone;
      Weights own;
      const bool good = own.open(path_.c_str(), bytes, layout.c_str(), failure) && own.ready(0, bytes, alone, failure) &&
                        weights.ready(0, bytes, alone, failure) && holds(own) && holds(weights);
      _exit(good ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  done = true;
  busy.join();
}

}  // namespace
}  // namespace weights_test
