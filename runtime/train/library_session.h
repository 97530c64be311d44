// A library at work: a context, the addresses of its inputs and outputs, and what came out.
#pragma once
#include <atomic>
#include <map>
#include <thread>

#include "../process/usable_cpus.h"
#include "data/batch_loader.h"
#include "state_set.h"

namespace metac::train {

// What a call is fed besides the batch and the states.
struct CallScalars {
  double learning_rate = 0;
  int64_t step = 0, call = 0, seed = 0;
  bool apply = true;
};

class LibrarySession {
 public:
  LibrarySession(const Library& library, int32_t threads)
      : library_(library),
        threads_(threads > 0 ? threads : METAC_RUNTIME_NAMESPACE::usable_cpus()),
        scalars_(static_cast<size_t>(library.input_count)) {
    if (library_.create(threads, &context_) != 0) {
      const std::string reason = context_ != nullptr ? library_.last_error(context_) : "no memory";
      if (context_ != nullptr) library_.destroy(context_);
      fail(library_.name, ": ", reason);
    }
    inputs_.resize(static_cast<size_t>(library.input_count));
    outputs_.resize(static_cast<size_t>(library.output_count));
    for (int32_t o = 0; o < library.output_count; ++o) {
      const Port& port = library.outputs[o];
      results_.push_back(std::make_unique<Block>());
      if (port.source != Source::state && !results_.back()->reserve(byte_count(port)))
        fail("no memory for the output ", quoted(port.name));
    }
  }
  LibrarySession(const LibrarySession&) = delete;
  LibrarySession& operator=(const LibrarySession&) = delete;
  ~LibrarySession() { library_.destroy(context_); }

  void run(const Batch& batch, StateSet& states, const CallScalars& scalars) {
    for (int32_t i = 0; i < library_.input_count; ++i)
      inputs_[static_cast<size_t>(i)] = input(library_.inputs[i], i, batch, states, scalars);
    for (int32_t o = 0; o < library_.output_count; ++o) {
      const Port& port = library_.outputs[o];
      outputs_[static_cast<size_t>(o)] =
          port.source == Source::state ? states.next_value(port.index) : results_[static_cast<size_t>(o)]->data();
    }
    if (library_.run(context_, inputs_.data(), outputs_.data()) != 0)
      fail(library_.name, ": ", library_.last_error(context_));
  }

  // Gradients are averaged with other processes from the next run on.
  void exchange(const Exchanger* exchanger) {
    if (library_.exchange != nullptr && library_.exchange(context_, exchanger) != 0)
      fail(library_.name, " cannot exchange its gradients: ", library_.last_error(context_));
  }

  // The elements of the output that is `source` number `index`, as doubles; empty where there is none.
  std::vector<double> result(Source source, int32_t index) const {
    for (int32_t o = 0; o < library_.output_count; ++o) {
      const Port& port = library_.outputs[o];
      if (port.source != source || (source == Source::metric && port.index != index)) continue;
      std::vector<double> values(static_cast<size_t>(elements(port)));
      read_elements(port.dtype, results_[static_cast<size_t>(o)]->data(), elements(port), values.data());
      return values;
    }
    return {};
  }

  // The first of `values` that has NaN or infinity, and where; -1: none. Large ones are searched by several threads.
  static std::pair<int32_t, int64_t> first_non_finite_of(const std::vector<StateValue>& values, int32_t threads) {
    constexpr int64_t bytes_worth_a_thread = 4 << 20;
    int64_t bytes = 0;
    for (const StateValue& v : values) bytes += v.count * size_of(v.dtype);
    std::vector<int64_t> found(values.size(), -1);
    std::atomic<size_t> next{0};
    auto search = [&] {
      for (size_t k = next++; k < values.size(); k = next++)
        found[k] = first_non_finite(values[k].dtype, values[k].data, values[k].count);
    };
    std::vector<std::thread> others;
    for (int64_t t = 1; t < std::min<int64_t>(threads, bytes / bytes_worth_a_thread); ++t) others.emplace_back(search);
    search();
    for (std::thread& t : others) t.join();
    for (size_t k = 0; k < values.size(); ++k)
      if (found[k] >= 0) return {static_cast<int32_t>(k), found[k]};
    return {-1, -1};
  }

  // "" or what of the last run is not finite: an output, or an element of a state's next value.
  std::string non_finite(const TrainTables& tables) const {
    std::vector<StateValue> here, there;
    std::vector<int32_t> here_ports, there_ports;
    for (int32_t o = 0; o < library_.output_count; ++o) {
      const Port& port = library_.outputs[o];
      const StateValue value{port.dtype, outputs_[static_cast<size_t>(o)], elements(port)};
      if (tables.memory != nullptr && port.source == Source::state) {
        there.push_back(value);
        there_ports.push_back(o);
        continue;
      }
      here.push_back(value);
      here_ports.push_back(o);
    }
    if (const auto [k, at] = first_non_finite_of(here, threads_); k >= 0)
      return non_finite_text(tables, here_ports[static_cast<size_t>(k)], at);
    int32_t found = -1;
    int64_t at = 0;
    if (!there.empty() && !tables.memory->find_non_finite(there.data(), static_cast<int32_t>(there.size()), &found, &at))
      fail(library_.name, ": looking for NaN: ", tables.memory->reason());
    return found < 0 ? "" : non_finite_text(tables, there_ports[static_cast<size_t>(found)], at);
  }

  // Which kernel made the first non-finite value of the last run; "" where the library cannot tell.
  std::string first_non_finite_kernel() {
    char report[512] = "";
    if (library_.find_non_finite == nullptr ||
        library_.find_non_finite(context_, inputs_.data(), outputs_.data(), report, sizeof report) != 0)
      return "";
    return report;
  }

  struct KernelTime {
    std::string name;
    int64_t runs, nanoseconds;
    double operations, bytes;  // of all runs; -1: not known
  };
  void profile() {
    if (library_.profile == nullptr || library_.profile(context_, 1) != 0)
      fail(library_.name, " cannot measure its kernels");
  }
  // What was measured, the longest first; launches of one kernel together.
  std::vector<KernelTime> kernel_times() const {
    std::map<std::string, KernelTime> by_name;
    int64_t runs = 0, nanoseconds = 0;
    for (int32_t k = 0; const char* name = library_.profile_row(context_, k, &runs, &nanoseconds); ++k) {
      if (runs == 0) continue;
      double operations = -1, bytes = -1;
      if (library_.profile_work != nullptr) library_.profile_work(context_, k, &operations, &bytes);
      KernelTime& row = by_name.emplace(name, KernelTime{name, 0, 0, 0, 0}).first->second;
      row.runs += runs;
      row.nanoseconds += nanoseconds;
      row.operations = row.operations < 0 || operations < 0 ? -1 : row.operations + operations;
      row.bytes = row.bytes < 0 || bytes < 0 ? -1 : row.bytes + bytes;
    }
    std::vector<KernelTime> rows;
    for (const auto& entry : by_name) rows.push_back(entry.second);
    std::stable_sort(rows.begin(), rows.end(),
                     [](const KernelTime& a, const KernelTime& b) { return a.nanoseconds > b.nanoseconds; });
    return rows;
  }

 private:
  std::string non_finite_text(const TrainTables& tables, int32_t o, int64_t at) const {
    const Port& port = library_.outputs[o];
    double value = 0;
    read_elements(port.dtype, static_cast<const char*>(outputs_[static_cast<size_t>(o)]) + at * size_of(port.dtype), 1,
                  &value);
    const std::string what = port.source == Source::loss     ? "the loss"
                             : port.source == Source::metric ? "the metric " + quoted(port.name)
                                                             : "the next " + quoted(tables.states[port.index].name);
    return what + " is " + (std::isnan(value) ? "NaN" : "infinite") +
           (port.rank > 0 ? text_of(" (element ", at, " of ", shape_text(port.dims, static_cast<size_t>(port.rank)), ")")
                          : "");
  }

  void* input(const Port& port, int32_t i, const Batch& batch, StateSet& states, const CallScalars& scalars) {
    double number = 0;
    switch (port.source) {
      case Source::data:
        return batch.fields[static_cast<size_t>(port.index)]->data();
      case Source::state:
        return states.value(port.index);
      case Source::learning_rate:
        number = scalars.learning_rate;
        break;
      case Source::step:
        number = static_cast<double>(scalars.step);
        break;
      case Source::call:
        number = static_cast<double>(scalars.call);
        break;
      case Source::apply:
        number = scalars.apply ? 1 : 0;
        break;
      case Source::seed:
        scalars_[static_cast<size_t>(i)].integer = scalars.seed;
        return &scalars_[static_cast<size_t>(i)];  // all 64 bits
      default:
        fail("the tables of this program contradict themselves: input ", quoted(port.name));
    }
    write_elements(port.dtype, &number, 1, &scalars_[static_cast<size_t>(i)]);
    return &scalars_[static_cast<size_t>(i)];
  }

  union Scalar {
    int64_t integer;
    double real;
    char bytes[16];
  };
  const Library& library_;
  const int32_t threads_;
  void* context_ = nullptr;
  std::vector<void*> inputs_, outputs_;
  std::vector<Scalar> scalars_;
  std::vector<std::unique_ptr<Block>> results_;
};

}  // namespace metac::train
