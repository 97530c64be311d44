#include "compiler/api/bench/bench_pair.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>

#include "compiler/api/compiled_folder.h"
#include "compiler/support/diagnostic.h"
#include "runtime/metac_model.h"

namespace metac {
namespace {

constexpr double sample_ms = 0.2;

double now_ms(clockid_t clock) {
  timespec now = {};
  clock_gettime(clock, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// A library of a folder, opened, with a context and its inputs.
class OpenedLibrary {
 public:
  OpenedLibrary(const std::string& folder, const std::map<std::string, Tensor>& inputs, int threads)
      : folder_(folder), clock_(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC) {
    const std::string path = concat(std::filesystem::absolute(folder).string(), "/lib/lib", name_in_manifest(folder), ".so.",
                                    METAC_MODEL_INTERFACE);
    if (!std::filesystem::exists(path))
      throw CompileError({folder, "", "was not built (compiled with --no-build or --no-programs?); build it with cmake"});
    const char* why = "";
    model_ = metac_model_open(path.c_str(), &why);
    if (!model_) throw CompileError({path, "", why});
    metac_model_options options = {};
    options.size = sizeof options;
    options.threads = threads;
    check(model_->create(&options, &context_));
    for (int32_t i = 0; i < model_->inputs; ++i) inputs_.push_back(input_of(*model_->input(i), inputs));
    run(3);
  }
  ~OpenedLibrary() { model_->destroy(context_); }
  OpenedLibrary(const OpenedLibrary&) = delete;
  OpenedLibrary& operator=(const OpenedLibrary&) = delete;

  // ms of one of `runs` runs.
  double run(int64_t runs) {
    std::vector<metac_model_tensor> outputs(static_cast<size_t>(model_->outputs) + 1);
    const double begin = now_ms(clock_);
    for (int64_t k = 0; k < runs; ++k) {
      for (metac_model_tensor& output : outputs) output.data = nullptr;
      if (METAC_MODEL_HAS(model_, state_reset)) check(model_->state_reset(context_));
      check(model_->run(context_, inputs_.data(), model_->inputs, outputs.data(), model_->outputs));
    }
    return (now_ms(clock_) - begin) / static_cast<double>(runs);
  }

 private:
  metac_model_tensor input_of(const metac_model_port& port, const std::map<std::string, Tensor>& inputs) const {
    const auto given = inputs.find(port.name);
    if (given == inputs.end())
      throw CompileError({folder_, "", concat("has an input ", quoted(std::string(port.name)), " that the other has not")});
    const Tensor& tensor = given->second;
    metac_model_tensor input = {};
    input.data = const_cast<std::byte*>(tensor.bytes.get());  // inputs are not changed
    input.rank = static_cast<int32_t>(tensor.shape.size());
    input.type = METAC_MODEL_TYPE(tensor.dtype);
    std::copy(tensor.shape.begin(), tensor.shape.end(), input.dims);
    return input;
  }
  void check(metac_model_status status) const {
    if (status != METAC_MODEL_OK) throw CompileError({folder_, "", model_->last_error(context_)});
  }

  std::string folder_;
  clockid_t clock_;
  const metac_model* model_ = nullptr;
  metac_model_context* context_ = nullptr;
  std::vector<metac_model_tensor> inputs_;
};

}  // namespace

PairComparison compare_times(const std::vector<double>& first, const std::vector<double>& second) {
  PairComparison result;
  std::vector<double> ratios;
  for (size_t k = 0; k < first.size(); ++k) ratios.push_back(first[k] / second[k] - 1);
  std::sort(ratios.begin(), ratios.end());
  const auto n = static_cast<double>(ratios.size());
  const double reach = 2.576 * std::sqrt(n) / 2;  // of a binomial distribution with p = 1/2, 99 %
  const auto at = [&](double place) { return ratios[static_cast<size_t>(std::clamp(place, 0.0, n - 1))]; };
  result.pairs = static_cast<int64_t>(ratios.size());
  result.first_ms = median(first);
  result.second_ms = median(second);
  result.change = at(n / 2);
  result.low = at(std::floor(n / 2 - reach) - 1);
  result.high = at(std::ceil(n / 2 + reach));
  return result;
}

PairComparison compare_processes(const std::vector<PairComparison>& processes) {
  METAC_ASSERT(!processes.empty(), "a comparison of no process");
  if (processes.size() == 1) return processes[0];
  const auto sorted = [&](double PairComparison::*member) {
    std::vector<double> values;
    for (const PairComparison& one : processes) values.push_back(one.*member);
    std::sort(values.begin(), values.end());
    return values;
  };
  // As many of the outermost as may be left out on either side: the true median is beyond them with 5 % at most.
  const size_t count = processes.size();
  size_t left_out = 0;
  double ways = 1, beyond = 1;  // of `left_out` processes among all; of so many or fewer
  for (size_t k = 1; 2 * k < count; ++k) {
    ways *= static_cast<double>(count - k + 1) / static_cast<double>(k);
    beyond += ways;
    if (std::ldexp(beyond, -static_cast<int>(count)) > 0.05) break;
    left_out = k;
  }
  PairComparison result;
  for (const PairComparison& one : processes) result.pairs += one.pairs;
  result.first_ms = median(sorted(&PairComparison::first_ms));
  result.second_ms = median(sorted(&PairComparison::second_ms));
  const std::vector<double> changes = sorted(&PairComparison::change);
  result.change = median(changes);
  result.low = changes[left_out];
  result.high = changes[count - 1 - left_out];
  return result;
}

PairComparison compare_speed(const std::string& folder, const std::string& against,
                             const std::map<std::string, Tensor>& inputs, int threads, double seconds) {
  OpenedLibrary first(folder, inputs, threads), second(against, inputs, threads);
  const int64_t runs = std::max<int64_t>(1, static_cast<int64_t>(sample_ms / std::max(1e-6, second.run(5))));
  std::vector<double> of_first, of_second;
  const double end = now_ms(CLOCK_MONOTONIC) + 1e3 * seconds;
  do {
    of_first.push_back(first.run(runs));
    of_second.push_back(second.run(runs));
    of_second.push_back(second.run(runs));
    of_first.push_back(first.run(runs));
  } while ((now_ms(CLOCK_MONOTONIC) < end || of_first.size() < 6) && of_first.size() < 1'000'000);
  return compare_times(of_first, of_second);
}

}  // namespace metac
