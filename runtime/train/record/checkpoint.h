// Checkpoints of a run: all states and the place in the run, in files checkpoints/step-000000500.safetensors. A file is
// there whole or not at all; the newest that is whole is what a run resumes from.
#pragma once
#include <algorithm>
#include <chrono>
#include <thread>

#include "../data/dataset.h"
#include "../state_set.h"
#include "safetensors.h"

namespace metac::train {

// Sums of what the log will say about the calls since it last spoke.
struct RunningSums {
  double loss = 0;
  std::vector<double> metrics;
  std::vector<int64_t> metric_calls;  // a step that runs in some updates alone has its loss in fewer calls
  int64_t calls = 0;
  void resize(size_t count) {
    metrics.resize(count);
    metric_calls.resize(count);
  }
  void add(size_t metric, double value) {
    metrics[metric] += value;
    ++metric_calls[metric];
  }
  void clear() {
    loss = 0;
    calls = 0;
    for (double& m : metrics) m = 0;
    for (int64_t& m : metric_calls) m = 0;
  }
};

// Where a run is. With the states and the data this decides every bit of what follows.
struct Position {
  int64_t seed = 0;
  int64_t update = 0;            // updates done
  int64_t call = 0;              // calls of `step` done, those included that were skipped
  int64_t micro = 0;             // good calls since the last update
  int64_t epoch = 0, batch = 0;  // the next batch; batch = number of batches: the epoch is trained, not yet evaluated
  int64_t skipped = 0, skipped_in_a_row = 0;
  int64_t log_bytes = 0;
  int64_t worse = 0;  // epochs since the best one
  int64_t best_epoch = -1;
  double best = 0;
  double seconds = 0;               // spent so far
  int64_t epochs = 0, updates = 0;  // how long the run is to be: --epochs, --updates (0: no limit)
  double rate = 0;                  // the schedule's greatest rate: --rate
  RunningSums interval, whole_epoch;
  bool finished = false;
};

// Doubles by their bits: what is read is what was written.
inline std::string bits_text(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, 8);
  return hexadecimal(static_cast<uint32_t>(bits >> 32)) + hexadecimal(static_cast<uint32_t>(bits));
}

// Calls visit(name, value) for every int64 and every double of a position: writing and reading cannot differ.
template <class Integer, class Real>
void visit(Position& p, size_t metrics, Integer integer, Real real) {
  integer("seed", p.seed), integer("update", p.update), integer("call", p.call), integer("micro", p.micro),
      integer("epoch", p.epoch), integer("batch", p.batch);
  integer("skipped", p.skipped), integer("skipped_in_a_row", p.skipped_in_a_row), integer("log_bytes", p.log_bytes),
      integer("worse", p.worse);
  integer("best_epoch", p.best_epoch), real("best", p.best), real("seconds", p.seconds);
  integer("epochs", p.epochs), integer("updates", p.updates), real("rate", p.rate);
  int64_t finished = p.finished;
  integer("finished", finished);
  p.finished = finished != 0;
  for (const bool whole : {false, true}) {
    RunningSums& sums = whole ? p.whole_epoch : p.interval;
    const std::string prefix = whole ? "epoch " : "interval ";
    sums.resize(metrics);
    integer(prefix + "calls", sums.calls), real(prefix + "loss", sums.loss);
    for (size_t m = 0; m < metrics; ++m)
      real(prefix + "metric " + std::to_string(m), sums.metrics[m]),
          integer(prefix + "metric calls " + std::to_string(m), sums.metric_calls[m]);
  }
}

inline std::vector<NamedTensor> tensors_of(const StateSet& states) {
  std::vector<NamedTensor> tensors;
  for (int32_t s = 0; s < states.count(); ++s) {
    const State& about = states.about(s);
    tensors.push_back({about.name, about.dtype, {about.dims, about.dims + about.rank}, states.value(s), byte_count(about)});
  }
  return tensors;
}

// What a checkpoint belongs to.
struct CheckpointOwner {
  std::string program;  // which states, data and method: no other program reads it
  std::string version;
  size_t metrics = 0;  // that a position has sums of
};
inline CheckpointOwner owner_of(const TrainTables& tables) {
  return {tables.program, tables.version, static_cast<size_t>(tables.metric_count)};
}

inline void write_checkpoint(const std::string& path, const CheckpointOwner& owner, const std::vector<NamedTensor>& tensors,
                             Position position) {
  Metadata metadata = {{"format", "metac checkpoint 1"}, {"program", owner.program}, {"written by", owner.version}};
  visit(
      position, owner.metrics, [&](const std::string& name, int64_t& v) { metadata[name] = std::to_string(v); },
      [&](const std::string& name, double& v) { metadata[name] = bits_text(v); });
  for (int attempt = 1;; ++attempt) {  // what a network file system refuses now it may take in a moment
    try {
      return write_safetensors(path, tensors, metadata, true);
    } catch (const Fault&) {
      if (attempt == 3) throw;
      std::this_thread::sleep_for(std::chrono::milliseconds(200 * attempt));
    }
  }
}
inline void write_checkpoint(const std::string& path, const TrainTables& tables, const StateSet& states,
                             const Position& position) {
  write_checkpoint(path, owner_of(tables), tensors_of(states), position);
}

// A state that a checkpoint must have.
struct ExpectedState {
  std::string name;
  ScalarType dtype;
  std::vector<int64_t> dims;
  bool finite = true;  // a constant of the model may be infinite
};

// The states are in the result, in whatever order; a file that is not a whole checkpoint of this owner with all of them is a
// Fault.
inline SafeTensors read_checkpoint(const std::string& path, const CheckpointOwner& owner,
                                   const std::vector<ExpectedState>& expected, Position* position) {
  SafeTensors file = read_safetensors(path, true);
  auto value = [&](const std::string& name) -> const std::string& {
    const auto found = file.metadata.find(name);
    if (found == file.metadata.end()) fail(path, ": no ", quoted(name), " in its metadata: written by another version");
    return found->second;
  };
  if (value("format") != "metac checkpoint 1")
    fail(path, ": a checkpoint of the format ", quoted(value("format")), ", this program reads \"metac checkpoint 1\"");
  if (value("program") != owner.program) fail(path, ": a checkpoint of another program (other model or recipe)");
  for (const ExpectedState& about : expected) {
    const NamedTensor* tensor = file.find(about.name);
    if (tensor == nullptr) fail(path, ": no ", quoted(about.name));
    if (tensor->dtype != about.dtype || tensor->dims != about.dims)
      fail(path, ": ", quoted(about.name), " is ", dtype_name(tensor->dtype), " ",
           shape_text(tensor->dims.data(), tensor->dims.size()), ", not ", dtype_name(about.dtype), " ",
           shape_text(about.dims.data(), about.dims.size()));
    if (!about.finite) continue;
    const int64_t count = element_count(about.dims.data(), static_cast<int32_t>(about.dims.size()));
    const int64_t wrong = first_non_finite(about.dtype, tensor->data, count);
    if (wrong >= 0) fail(path, ": ", quoted(about.name), " holds NaN or infinity (element ", wrong, ")");
  }
  visit(
      *position, owner.metrics,
      [&](const std::string& name, int64_t& v) { v = std::strtoll(value(name).c_str(), nullptr, 10); },
      [&](const std::string& name, double& v) {
        const uint64_t bits = std::strtoull(value(name).c_str(), nullptr, 16);
        std::memcpy(&v, &bits, 8);
      });
  return file;
}
// Into `states` and `position`.
inline void read_checkpoint(const std::string& path, const TrainTables& tables, StateSet* states, Position* position) {
  std::vector<ExpectedState> expected;
  for (int32_t s = 0; s < tables.state_count; ++s) {
    const State& about = tables.states[s];
    expected.push_back({about.name, about.dtype, {about.dims, about.dims + about.rank}, states->written(s)});
  }
  const SafeTensors file = read_checkpoint(path, owner_of(tables), expected, position);
  for (int32_t s = 0; s < tables.state_count; ++s) {
    const NamedTensor* tensor = file.find(tables.states[s].name);
    std::memcpy(states->value(s), tensor->data, static_cast<size_t>(tensor->bytes));
  }
}

class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::string folder) : folder_(std::move(folder)) {}

  std::string path(int64_t update) const {
    char name[64];
    std::snprintf(name, sizeof name, "/step-%09lld.safetensors", static_cast<long long>(update));
    return folder_ + name;
  }

  // Updates of the checkpoints that are there, the newest first. Leftovers of interrupted writing are removed.
  std::vector<int64_t> list(bool sweep = false) const {
    std::vector<int64_t> found;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
      const std::string name = entry.path().filename().string();
      if (sweep && ends_in(name, ".tmp")) std::filesystem::remove(entry.path(), error);
      if (name.rfind("step-", 0) != 0 || !ends_in(name, ".safetensors")) continue;
      const std::string number = name.substr(5, name.size() - 5 - 12);
      if (!number.empty() && number.size() <= 18 && number.find_first_not_of("0123456789") == std::string::npos)
        found.push_back(std::stoll(number));
    }
    std::sort(found.rbegin(), found.rend());
    return found;
  }

  // The newest `keep` stay.
  void save(const CheckpointOwner& owner, const std::vector<NamedTensor>& tensors, const Position& position,
            int32_t keep) const {
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    if (error) fail("cannot make the folder ", folder_, ": ", error.message());
    write_checkpoint(path(position.update), owner, tensors, position);
    const std::vector<int64_t> all = list();
    for (size_t k = static_cast<size_t>(std::max(1, keep)); k < all.size(); ++k)
      std::filesystem::remove(path(all[k]), error);
  }

  void save(const TrainTables& tables, const StateSet& states, const Position& position, int32_t keep) const {
    save(owner_of(tables), tensors_of(states), position, keep);
  }

  template <class Say>
  bool load_newest(const TrainTables& tables, StateSet* states, Position* position, bool strict, Say say,
                   int64_t* update = nullptr) const {
    return load_newest([&](const std::string& path) { read_checkpoint(path, tables, states, position); }, strict, say,
                       update);
  }
  // The newest that `read` (a path) can read: the newest whole one. What is passed over is told to `say`; false where there
  // is none at all.
  template <class Read, class Say>
  bool load_newest(Read read, bool strict, Say say, int64_t* update = nullptr) const {
    const std::vector<int64_t> all = list();
    for (size_t k = 0; k < all.size(); ++k) {
      try {
        read(path(all[k]));
        if (k > 0) say(text_of("taking the checkpoint of step ", all[k], " instead"));
        if (update != nullptr) *update = all[k];
        return true;
      } catch (const Fault& fault) {
        if (strict) fail("checkpoint step ", all[k], " cannot be used: ", fault.what());
        say(text_of("checkpoint step ", all[k], " cannot be used: ", fault.what()));
      }
    }
    if (!all.empty()) fail("none of the ", all.size(), " checkpoints in ", folder_, " can be used");
    return false;
  }

 private:
  std::string folder_;
};

}  // namespace metac::train
