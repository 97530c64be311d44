// Batches made by background threads while the model works. A batch depends on the seed, the epoch and its number alone:
// however many threads there are and wherever a run resumes, it is the same.
#pragma once
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "../../process/usable_cpus.h"
#include "open_dataset.h"
#include "read_sample.h"

namespace metac::train {

using METAC_RUNTIME_NAMESPACE::Block;

// Threads that make batches, unless somebody says how many: pictures are decoded by several.
inline int usual_loaders(DataFormat format) {
  if (format != DataFormat::images) return 1;
  return static_cast<int>(std::min(8u, std::max(2u, static_cast<unsigned>(METAC_RUNTIME_NAMESPACE::usable_cpus()))));
}

struct Batch {
  std::vector<std::unique_ptr<Block>> fields;
  std::vector<int64_t> samples;  // in the dataset's numbering
  int64_t valid = 0;             // the first so many count, the rest fills the batch up
};

class BatchLoader {
 public:
  struct Options {
    bool shuffle = false, drop_last = false, augment = false;
    int64_t seed = 0;
    int threads = 1;
    int process = 0, processes = 1;  // a batch of all processes is cut into one for each, in their order
  };

  BatchLoader(const TrainTables& tables, const DataOf& data, const Options& options)
      : tables_(tables), data_(data), o_(options) {
    const int64_t count = static_cast<int64_t>(data_.samples.size()), batch = tables_.settings.batch * o_.processes;
    batches_ = o_.drop_last ? count / batch : (count + batch - 1) / batch;
  }
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;
  ~BatchLoader() { stop(); }

  int64_t batches_per_epoch() const { return batches_; }
  int64_t samples() const { return static_cast<int64_t>(data_.samples.size()); }
  const DataOf& data() const { return data_; }

  // The next batch will be number `batch` of `epoch` (both from 0); the one after the last is the next epoch's first.
  void start(int64_t epoch, int64_t batch) {
    stop();
    stopping_ = false;
    wanted_ = claimed_ = epoch * batches_ + batch;
    holding_ = false;
    slots_ = std::vector<Slot>(static_cast<size_t>(o_.threads + 1));
    for (Slot& slot : slots_) allocate(&slot.batch);
    for (int t = 0; t < o_.threads; ++t) workers_.emplace_back([this] { work(); });
  }

  // Valid until the next call.
  const Batch& next() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (holding_) {
      slot_of(wanted_).state = State::empty;
      ++wanted_;
      room_.notify_all();
    }
    holding_ = true;
    Slot& slot = slot_of(wanted_);
    ready_.wait(lock, [&] { return slot.state == State::full && slot.ticket == wanted_; });
    if (slot.error) std::rethrow_exception(slot.error);
    return slot.batch;
  }

 private:
  enum class State { empty, filling, full };
  struct Slot {
    State state = State::empty;
    int64_t ticket = -1;
    Batch batch;
    std::exception_ptr error;
  };

  Slot& slot_of(int64_t ticket) { return slots_[static_cast<size_t>(ticket) % slots_.size()]; }

  void allocate(Batch* batch) {
    for (int32_t f = 0; f < tables_.field_count; ++f) {
      batch->fields.push_back(std::make_unique<Block>());
      const int64_t bytes = byte_count(tables_.fields[f]) * tables_.settings.batch;
      if (!batch->fields.back()->reserve(bytes))
        fail("no memory for a batch: ", bytes, " bytes for ", quoted(tables_.fields[f].name));
    }
  }

  void stop() {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    room_.notify_all();
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
  }

  void work() {
    SampleReader reader;
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      room_.wait(lock, [&] {
        return stopping_ ||
               (claimed_ < wanted_ + static_cast<int64_t>(slots_.size()) && slot_of(claimed_).state == State::empty);
      });
      if (stopping_) return;
      const int64_t ticket = claimed_++;
      Slot& slot = slot_of(ticket);
      slot.state = State::filling;
      slot.error = nullptr;
      std::shared_ptr<const std::vector<int64_t>> order;
      lock.unlock();
      try {
        fill(ticket, order_of(ticket / batches_), &reader, &slot.batch);
      } catch (...) {
        slot.error = std::current_exception();
      }
      lock.lock();
      slot.ticket = ticket;
      slot.state = State::full;
      ready_.notify_all();
    }
  }

  // Positions in data_.samples in this epoch's order.
  std::shared_ptr<const std::vector<int64_t>> order_of(int64_t epoch) {
    const std::lock_guard<std::mutex> lock(order_mutex_);
    if (!o_.shuffle) epoch = 0;
    for (const auto& known : orders_)
      if (known.second != nullptr && known.first == epoch) return known.second;
    std::vector<int64_t> order;
    if (o_.shuffle) {
      order = permutation(samples(), o_.seed, Stream::order, epoch);
    } else {
      order.resize(data_.samples.size());
      std::iota(order.begin(), order.end(), int64_t{0});
    }
    auto& place = orders_[static_cast<size_t>(epoch) % 2];  // batches of two epochs at most are being made
    place = {epoch, std::make_shared<const std::vector<int64_t>>(std::move(order))};
    return place.second;
  }

  void fill(int64_t ticket, const std::shared_ptr<const std::vector<int64_t>>& order, SampleReader* reader, Batch* batch) {
    const int64_t size = tables_.settings.batch, epoch = ticket / batches_,
                  first = (ticket % batches_ * o_.processes + o_.process) * size;
    batch->valid = std::max<int64_t>(0, std::min(size, samples() - first));
    batch->samples.resize(static_cast<size_t>(size));
    for (int64_t k = 0; k < size; ++k) {
      const int64_t position = (first + k) % samples();  // beyond the end: the epoch's first ones again
      batch->samples[static_cast<size_t>(k)] = data_.samples[static_cast<size_t>((*order)[static_cast<size_t>(position)])];
    }
    for (int32_t f = 0; f < tables_.field_count; ++f)
      reader->read_all(data_.data->columns[static_cast<size_t>(f)], tables_.data.fields[f], tables_.fields[f],
                       batch->samples, {o_.augment, o_.seed, epoch, first},
                       static_cast<char*>(batch->fields[static_cast<size_t>(f)]->data()));
  }

  const TrainTables& tables_;
  const DataOf data_;
  const Options o_;
  int64_t batches_ = 0;
  std::vector<Slot> slots_;
  std::vector<std::thread> workers_;
  std::mutex mutex_, order_mutex_;
  std::condition_variable room_, ready_;
  int64_t wanted_ = 0, claimed_ = 0;
  bool holding_ = false, stopping_ = false;
  std::pair<int64_t, std::shared_ptr<const std::vector<int64_t>>> orders_[2];
};

}  // namespace metac::train
