// The processes that train together. One thread of each speaks with the others (it alone calls MPI) while the trainer
// computes:
//
//   trainer:  begin(w9) begin(w8) ... kernels ... wait(w9)       gather(loss, metrics, signals)
//   thread:   [ bucket w9 w8 | bucket w7 ... ]  heartbeats       all of one call in the order in which they were asked for
//
// A bucket is cut in as many parts as there are processes. Each process gets one part from all others, adds them up in the
// order of the processes, and sends the sum to all: every byte is sent twice, all have the same bits, and two runs have them
// too. Which values share a bucket follows from the order of begin and wait, which is that of the program, and from nothing
// else.
//
// Every process says every second that it is there. Of whom nothing is heard for `silence` seconds is named, and all others
// end.
#pragma once
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "../average.h"
#include "../train_tables.h"
#include "mpi_library.h"

namespace metac::train {

class Processes {
 public:
  static constexpr int64_t bucket_bytes = 1 << 20, piece_bytes = 4 << 20;
  static constexpr double usual_silence = 20;  // seconds

  // Throws where MPI cannot be had. `sums`: values are added up, not averaged. `guest`: in somebody else's program, where
  // what goes wrong is a Fault of whoever waits, and nothing is printed or ended.
  Processes(const Launch& launch, bool sums, double silence = usual_silence, bool guest = false)
      : launch_(launch), sums_(sums), silence_(silence), guest_(guest) {
    names_.resize(static_cast<size_t>(launch.size));
    thread_ = std::thread([this] { work(); });
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return ready_; });
    if (!problem_.empty()) {
      lock.unlock();
      thread_.join();
      fail(problem_);
    }
  }
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;
  // Without finish() before it something went wrong here: the launcher sees that and ends the others.
  ~Processes() { stop(Ending::at_once); }

  int rank() const { return launch_.rank; }
  int size() const { return launch_.size; }
  bool first() const { return launch_.rank == 0; }

  // What others are called in messages: "process 1 (host, pid 123)".
  std::string name_of(int process) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return text_of("process ", process,
                   names_[static_cast<size_t>(process)].empty() ? "" : " (" + names_[static_cast<size_t>(process)] + ")");
  }
  void set_names(std::vector<std::string> names) {
    const std::lock_guard<std::mutex> lock(mutex_);
    names_ = std::move(names);
  }

  // ---- values averaged in place; by one thread, in the same order in all processes ----
  void begin(int32_t index, void* data, ScalarType dtype, int64_t bytes) {
    if (!open_.empty() && open_[0].dtype != dtype) close_bucket();
    char* at = static_cast<char*>(data);
    do {
      const int64_t piece = std::min(bytes, piece_bytes);
      open_.push_back({at, piece, index, dtype});
      open_bytes_ += piece;
      at += piece, bytes -= piece;
      if (open_bytes_ >= bucket_bytes) close_bucket();
    } while (bytes > 0);
  }
  void wait(int32_t index) {
    const auto is_it = [&](const Segment& s) { return s.index == index; };
    if (std::any_of(open_.begin(), open_.end(), is_it)) close_bucket();
    wait_until([&] { return static_cast<size_t>(index) >= pending_.size() || pending_[static_cast<size_t>(index)] == 0; });
  }

  // ---- all together: what each process says, by its number ----
  std::vector<std::string> gather(const std::string& mine) {
    int64_t length = static_cast<int64_t>(mine.size());
    std::vector<char> lengths = gather_bytes(&length, sizeof length);
    int64_t longest = 1;
    for (int p = 0; p < size(); ++p) {
      std::memcpy(&length, lengths.data() + static_cast<size_t>(p) * sizeof length, sizeof length);
      longest = std::max(longest, length);
    }
    std::string padded = mine;
    padded.resize(static_cast<size_t>(longest));
    const std::vector<char> all = gather_bytes(padded.data(), longest);
    std::vector<std::string> texts;
    for (int p = 0; p < size(); ++p) {
      std::memcpy(&length, lengths.data() + static_cast<size_t>(p) * sizeof length, sizeof length);
      texts.emplace_back(all.data() + p * longest, static_cast<size_t>(length));
    }
    return texts;
  }
  std::vector<std::vector<double>> gather(const std::vector<double>& mine) {
    const int64_t bytes = static_cast<int64_t>(mine.size() * sizeof(double));
    const std::vector<char> all = gather_bytes(mine.data(), bytes);
    std::vector<std::vector<double>> values(static_cast<size_t>(size()), std::vector<double>(mine.size()));
    for (int p = 0; p < size(); ++p)
      std::memcpy(values[static_cast<size_t>(p)].data(), all.data() + p * bytes, static_cast<size_t>(bytes));
    return values;
  }
  // What process 0 has.
  void broadcast(void* data, int64_t bytes) {
    for (char* at = static_cast<char*>(data); bytes > 0; at += piece_bytes, bytes -= piece_bytes) {
      auto job = std::make_unique<Job>();
      job->kind = Job::Kind::broadcast;
      job->data = at, job->bytes = std::min(bytes, piece_bytes);
      run_job(std::move(job));
    }
  }

  // All are done: they end together.
  void finish() {
    gather(std::string());
    stop(Ending::together);
  }
  // All know that nothing can come of it: `message` is said once, and all end.
  [[noreturn]] void fail_together(const std::string& message) {
    if (guest_) throw Fault(message);
    if (first()) std::fprintf(stderr, "%s\n", message.c_str());
    std::fflush(stderr);
    finish();
    throw Fault("", 1);
  }

 private:
  enum class Ending { none, together, at_once };
  struct Segment {
    char* data;
    int64_t bytes;
    int32_t index;
    ScalarType dtype;
  };
  struct Job {
    enum class Kind { average, gather, broadcast } kind = Kind::average;
    std::vector<Segment> segments;    // average
    std::vector<char> packed, parts;  // average: several segments in a row; what others sent of our part
    char* data = nullptr;             // of the whole
    int64_t bytes = 0;
    bool begun = false, second = false, done = false;
    std::vector<MpiLibrary::Request> requests;
  };

  void close_bucket() {
    auto job = std::make_unique<Job>();
    job->segments.swap(open_);
    job->bytes = open_bytes_;
    open_bytes_ = 0;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (const Segment& s : job->segments) {
        if (pending_.size() <= static_cast<size_t>(s.index)) pending_.resize(static_cast<size_t>(s.index) + 1);
        ++pending_[static_cast<size_t>(s.index)];
      }
      queue_.push_back(std::move(job));
    }
    asked_.notify_one();
  }

  void run_job(std::unique_ptr<Job> job) {
    Job* const own = job.get();
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      awaited_ = own;
      queue_.push_back(std::move(job));
    }
    asked_.notify_one();
    wait_until([&] { return awaited_ == nullptr; });
  }

  std::vector<char> gather_bytes(const void* mine, int64_t bytes) {
    std::vector<char> all(static_cast<size_t>(bytes * size()) + 1);
    std::memcpy(all.data() + bytes * rank(), mine, static_cast<size_t>(bytes));
    auto job = std::make_unique<Job>();
    job->kind = Job::Kind::gather;
    job->data = all.data(), job->bytes = bytes;
    run_job(std::move(job));
    return all;
  }

  template <class Condition>
  void wait_until(Condition condition) {
    std::unique_lock<std::mutex> lock(mutex_);
    if (condition()) return;
    waited_for_ = true;
    asked_.notify_one();
    changed_.wait(lock, [&] { return condition() || !problem_.empty(); });
    waited_for_ = false;
    if (!problem_.empty()) fail(problem_);
  }

  void stop(Ending how) {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ending_ = how;
    }
    asked_.notify_one();
    thread_.join();
  }

  // ---- the thread that speaks ----
  static double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

  void work() {
    try {
      mpi_ = std::make_unique<MpiLibrary>();
      int provided = 0, rank = -1, size = 0;
      if (mpi_->init_thread(nullptr, nullptr, MpiLibrary::thread_funneled, &provided) != 0) fail("MPI_Init_thread failed");
      mpi_->comm_rank(mpi_->world, &rank);
      mpi_->comm_size(mpi_->world, &size);
      if (rank != launch_.rank || size != launch_.size)
        fail("the launcher says that this is process ", launch_.rank, " of ", launch_.size, ", and MPI that it is ", rank,
             " of ", size);
    } catch (const Fault& fault) {
      problem_ = fault.what();
    }
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ready_ = true;
    }
    changed_.notify_all();
    if (!problem_.empty()) return;
    listen();
    while (step()) {
    }
    if (ending_ != Ending::together) return;
    for (Peer& peer : peers_)
      if (peer.hearing != nullptr) mpi_->cancel(&peer.hearing), mpi_->request_free(&peer.hearing);
    mpi_->finalize();
  }

  // False: it is over.
  bool step() {
    {
      std::unique_lock<std::mutex> lock(mutex_);
      if (ending_ == Ending::at_once) return false;
      if (queue_.empty() && active_.empty()) {
        if (ending_ == Ending::together) return false;
        asked_.wait_for(lock, std::chrono::milliseconds(100), [&] { return !queue_.empty() || ending_ != Ending::none; });
      }
      while (!queue_.empty() && active_.size() < most_active) {
        active_.push_back(std::move(queue_.front()));
        queue_.pop_front();
      }
    }
    bool moved = false;
    for (const auto& job : active_) moved |= advance(*job);
    if (moved) collect();
    heartbeats();
    if (moved || active_.empty()) return true;
    if (waited_for_)
      sched_yield();
    else
      ::usleep(200);  // kernels are running
    return true;
  }

  void collect() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (const auto& job : active_) {
        if (!job->done) continue;
        for (const Segment& s : job->segments) --pending_[static_cast<size_t>(s.index)];
        if (awaited_ == job.get()) awaited_ = nullptr;
      }
    }
    active_.remove_if([](const std::unique_ptr<Job>& job) { return job->done; });
    changed_.notify_all();
  }

  // ---- jobs ----
  int64_t part(const Job& job, int p) const {  // where part p begins: whole elements of 8 bytes
    return p >= size() ? job.bytes : job.bytes / 8 * p / size() * 8;
  }
  void send(Job& job, const char* data, int64_t bytes, int to) {
    if (bytes == 0) return;
    job.requests.emplace_back();
    mpi_->isend(data, static_cast<int>(bytes), mpi_->byte, to, job_tag, mpi_->world, &job.requests.back());
  }
  void receive(Job& job, char* data, int64_t bytes, int from) {
    if (bytes == 0) return;
    job.requests.emplace_back();
    mpi_->irecv(data, static_cast<int>(bytes), mpi_->byte, from, job_tag, mpi_->world, &job.requests.back());
  }

  // True: something has changed. Messages of one process to another arrive in the order of the jobs, as all have the same
  // jobs.
  bool advance(Job& job) {
    if (!job.begun) {
      if (!may_begin(job)) return false;
      job.begun = true;
      job.requests.reserve(static_cast<size_t>(2 * size()));
      start(job);
      return true;
    }
    if (job.done) return false;
    for (MpiLibrary::Request& request : job.requests) {
      if (request == nullptr) continue;
      int done = 0;
      mpi_->test(&request, &done, nullptr);
      if (done == 0) return false;
      request = nullptr;
    }
    job.requests.clear();
    if (job.kind == Job::Kind::average && !job.second) {
      job.second = true;
      add_up(job);
      return true;
    }
    finish(job);
    return job.done = true;
  }

  // Jobs begin one after the other, the second half of each before the first of the next: so messages match.
  bool may_begin(const Job& job) const {
    for (const auto& other : active_) {
      if (other.get() == &job) return true;
      if (!other->begun || (other->kind == Job::Kind::average && !other->second)) return false;
    }
    return true;
  }

  void start(Job& job) {
    switch (job.kind) {
      case Job::Kind::gather:
        for (int p = 0; p < size(); ++p)
          if (p != rank())
            send(job, job.data + job.bytes * rank(), job.bytes, p), receive(job, job.data + job.bytes * p, job.bytes, p);
        return;
      case Job::Kind::broadcast:
        if (rank() != 0) return receive(job, job.data, job.bytes, 0);
        for (int p = 1; p < size(); ++p) send(job, job.data, job.bytes, p);
        return;
      case Job::Kind::average:
        break;
    }
    job.data = job.segments[0].data;
    if (job.segments.size() > 1) {
      job.packed.reserve(static_cast<size_t>(job.bytes));
      for (const Segment& s : job.segments) job.packed.insert(job.packed.end(), s.data, s.data + s.bytes);
      job.data = job.packed.data();
    }
    const int64_t own = part(job, rank() + 1) - part(job, rank());
    job.parts.resize(static_cast<size_t>(own * size()));
    for (int p = 0; p < size(); ++p)
      if (p != rank())
        send(job, job.data + part(job, p), part(job, p + 1) - part(job, p), p),
            receive(job, job.parts.data() + own * p, own, p);
  }

  void add_up(Job& job) {
    const int64_t at = part(job, rank()), own = part(job, rank() + 1) - at;
    std::vector<const char*> parts;
    for (int p = 0; p < size(); ++p) parts.push_back(p == rank() ? job.data + at : job.parts.data() + own * p);
    add_in_order(job.segments[0].dtype, parts, own, sums_, job.data + at);
    for (int p = 0; p < size(); ++p)
      if (p != rank())
        send(job, job.data + at, own, p), receive(job, job.data + part(job, p), part(job, p + 1) - part(job, p), p);
  }

  void finish(Job& job) {
    if (job.packed.empty()) return;
    const char* from = job.packed.data();
    for (const Segment& s : job.segments) std::memcpy(s.data, from, static_cast<size_t>(s.bytes)), from += s.bytes;
  }

  // ---- heartbeats ----
  struct Peer {
    char heard = 0, said = 0;
    MpiLibrary::Request hearing = nullptr, saying = nullptr;
    double last = 0;
  };
  void listen() {
    peers_.resize(static_cast<size_t>(size()));
    for (int p = 0; p < size(); ++p) {
      peers_[static_cast<size_t>(p)].last = now();
      if (p != rank()) hear(p);
    }
  }
  void hear(int p) {
    Peer& peer = peers_[static_cast<size_t>(p)];
    mpi_->irecv(&peer.heard, 1, mpi_->byte, p, heartbeat_tag, mpi_->world, &peer.hearing);
  }
  void heartbeats() {
    const double time = now();
    if (time - looked_ < 0.1) return;
    // Who was stopped himself judges nobody by it.
    const bool slept = looked_ > 0 && time - looked_ > silence_ / 4;
    looked_ = time;
    const bool speaks = time - spoke_ >= 1;
    if (speaks) spoke_ = time;
    for (int p = 0; p < size(); ++p) {
      if (p == rank()) continue;
      Peer& peer = peers_[static_cast<size_t>(p)];
      if (slept) peer.last = time;
      for (int done = 1; done != 0;) {
        mpi_->test(&peer.hearing, &done, nullptr);
        if (done != 0) peer.last = time, hear(p);
      }
      int done = 1;
      if (peer.saying != nullptr) mpi_->test(&peer.saying, &done, nullptr);
      if (done != 0) peer.saying = nullptr;
      if (speaks && peer.saying == nullptr)
        mpi_->isend(&peer.said, 1, mpi_->byte, p, heartbeat_tag, mpi_->world, &peer.saying);
      if (time - peer.last > silence_) lost(p);
    }
  }
  void lost(int p) {
    const std::string what = text_of("process ", rank(), ": nothing has been heard of ", name_of(p), " for ", silence_,
                                     " s: it or its machine is gone");
    if (guest_) {
      const std::lock_guard<std::mutex> lock(mutex_);
      problem_ = what;
      ending_ = Ending::at_once;
      return changed_.notify_all();
    }
    std::fprintf(stderr, "%s. All end; mpirun ... --resume goes on from the newest checkpoint\n", what.c_str());
    std::fflush(stderr);
    std::_Exit(1);  // the trainer may be in a long kernel
  }

  static constexpr int job_tag = 1, heartbeat_tag = 2;
  static constexpr size_t most_active = 8;

  const Launch launch_;
  const bool sums_;
  const double silence_;
  const bool guest_;
  // Of the trainer's thread.
  std::vector<Segment> open_;
  int64_t open_bytes_ = 0;
  // Of both.
  std::mutex mutex_;
  std::condition_variable asked_, changed_;
  std::deque<std::unique_ptr<Job>> queue_;
  std::vector<int64_t> pending_;  // by index: segments that are not averaged yet
  std::vector<std::string> names_;
  const Job* awaited_ = nullptr;
  Ending ending_ = Ending::none;
  std::string problem_;
  bool ready_ = false;
  std::atomic<bool> waited_for_{false};
  // Of the thread that speaks.
  std::unique_ptr<MpiLibrary> mpi_;
  std::list<std::unique_ptr<Job>> active_;
  std::vector<Peer> peers_;
  double looked_ = 0, spoke_ = 0;
  std::thread thread_;
};

}  // namespace metac::train
