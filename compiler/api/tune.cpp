#include "compiler/api/tune.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>

#include "compiler/ir/expr_table.h"
#include "compiler/jit/jit_program.h"
#include "compiler/machine/cpu_target.h"
#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

using Json = nlohmann::ordered_json;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

Tensor random_tensor(DType dtype, const std::vector<int64_t>& shape, std::mt19937& random) {
  std::byte* data = nullptr;
  Tensor tensor = make_tensor(dtype, shape, &data);
  for (int64_t i = 0; i < static_cast<int64_t>(tensor.element_count()); ++i) {
    const float value = static_cast<float>(random()) * 0x1p-31f - 1;
    const double wide = value;
    if (dtype == DType::f32) std::memcpy(data + 4 * i, &value, 4);
    if (dtype == DType::f64) std::memcpy(data + 8 * i, &wide, 8);
  }
  return tensor;
}

// A compilation that runs: what it was offered and how long its kernels take.
class Trial {
 public:
  Trial(const Model& model, const SessionOptions& options, const Choices& choices) : choices_(choices) {
    CompileOptions compile = options.compile;
    choices_.forget_offers();
    compile.choices = &choices_;
    const ExprScope scope;
    std::unique_ptr<Graph> graph = lower_model(model, options.lower);
    std::mt19937 random(1);
    for (const Var* in : graph->inputs) {
      if (!is_static(in->shape()))
        fail("input ", quoted(in->name), " has the shape ", to_string(in->shape()),
             ": --tune measures, and needs every dim; give --shape or --dim");
      inputs_.push_back(random_tensor(in->dtype(), static_shape(in->shape()), random));
    }
    CompiledModel compiled = compile_graph(*graph, compile);
    compiled.drop_expressions();
    WeightsBlock weights = run_prepare(compiled, compile.cpu);
    run_ = std::make_shared<CompiledProgram>(std::move(compiled.run));
    program_ = std::make_unique<JitProgram>(run_, weights, compile.cpu, options.threads);
    for (const KernelSource& kernel : run_->kernels) subjects_[kernel.name] = kernel.subject;
  }

  void forget_times() {
    times_.clear();
    total_ = 0;
  }

  // The least that was seen since forget_times().
  void measure(double seconds) {
    runs_ = 0;
    for (double end = now() + seconds / 2; now() < end || runs_ < 3; ++runs_) {
      const double start = now();
      program_->run_only(inputs_);
      least(total_, (now() - start) * 1e9);
    }
    for (double end = now() + seconds / 2; now() < end;) {
      program_->start_profile();
      program_->run_only(inputs_);
      std::map<std::string, double> sums;
      for (const StepProfile& row : program_->profile())
        if (auto found = subjects_.find(row.what); found != subjects_.end() && !found->second.empty())
          sums[found->second] += static_cast<double>(row.ns);
      for (const auto& [subject, ns] : sums) least(times_[subject], ns);
      program_->stop_profile();
    }
  }

  double total() const { return total_; }
  // Of what is about no kernel: of the whole.
  double time_of(const std::string& subject) const {
    auto found = times_.find(subject);
    return found == times_.end() ? total_ : found->second;
  }
  const Choices& choices() const { return choices_; }

 private:
  static void least(double& so_far, double ns) { so_far = so_far == 0 ? ns : std::min(so_far, ns); }

  Choices choices_;
  std::vector<Tensor> inputs_;
  std::shared_ptr<const CompiledProgram> run_;
  std::unique_ptr<JitProgram> program_;
  std::map<std::string, std::string> subjects_;  // by kernel name
  std::map<std::string, double> times_;          // ns of a run, by subject
  double total_ = 0;
  int runs_ = 0;
};

class Tuner {
 public:
  Tuner(const Model& model, const TuneOptions& options) : model_(model), o_(options) {}

  Tuning run() {
    best_ = trial(Choices(), "the model's choice");
    for (const Choices::Offer& offer : best_->choices().offers())
      tuning_.offered += offer.candidates.empty() ? 0 : offer.candidates.size() - 1;
    for (const char* kind : {"algorithm", "tile", "block", "slices"}) try_all(kind);
    finish();
    return std::move(tuning_);
  }

 private:
  std::unique_ptr<Trial> trial(const Choices& choices, const std::string& what) {
    if (o_.progress) o_.progress(what, static_cast<int>(tuning_.rounds));
    ++tuning_.rounds;
    return std::make_unique<Trial>(model_, o_.session, choices);
  }

  // The machine is not as fast at all times: two are compared by measuring them in turn.
  void compare(Trial& a, Trial& b, int turns) const {
    a.forget_times(), b.forget_times();
    for (int turn = 0; turn < turns; ++turn) a.measure(o_.seconds / 3), b.measure(o_.seconds / 3);
  }

  // Round k takes candidate k of every decision of this kind.
  void try_all(const std::string& kind) {
    constexpr double gain = 0.97;
    std::vector<Choices::Offer> offers;
    size_t most = 0;
    for (const Choices::Offer& offer : best_->choices().offers())
      if (offer.kind == kind) offers.push_back(offer), most = std::max(most, offer.candidates.size());
    std::map<std::string, std::pair<double, std::optional<Transform>>> fastest;  // by subject
    for (size_t k = 1; k < most; ++k) {
      Choices choices = best_->choices();
      for (const Choices::Offer& offer : offers)
        if (k < offer.candidates.size()) choices.take(offer.subject, offer.candidates[k]);
      auto tried = trial(choices, concat(kind, " ", k, " of ", most - 1));
      compare(*best_, *tried, 3);
      for (const Choices::Offer& offer : offers) {
        if (k >= offer.candidates.size()) continue;
        const double share = tried->time_of(offer.subject) / best_->time_of(offer.subject);
        auto [found, fresh] = fastest.emplace(offer.subject, std::pair(gain, std::optional<Transform>()));
        if (share < found->second.first) found->second = {share, offer.candidates[k]};
      }
    }
    Choices choices = best_->choices();
    bool any = false;
    for (const auto& [subject, found] : fastest)
      if (found.second) choices.take(subject, *found.second), any = true;
    if (any) best_ = trial(choices, concat(kind, ", the fastest of each"));
  }

  // Side by side with the model's choice, by turns; what is no faster, and what nobody asked for in the end, is dropped.
  void finish() {
    auto own = trial(Choices(), "the model's choice again");
    std::unique_ptr<Trial> tuned = std::move(best_);
    Choices kept = tuned->choices();
    if (kept.taken().empty()) own->measure(o_.seconds);
    for (bool fewer = true; fewer && !kept.taken().empty();) {
      compare(*own, *tuned, 10);
      kept = faster_of(*tuned, *own);
      fewer = kept.taken() != tuned->choices().taken();
      if (fewer) tuned = trial(kept, "what was kept");
    }
    if (tuned->total() >= own->total()) kept = Choices();
    tuning_.tuned_ms = (kept.taken().empty() ? own : tuned)->total() * 1e-6;
    tuning_.model_ms = own->total() * 1e-6;
    Json rows = Json::array();
    for (const auto& [subject, schedule] : kept.taken()) {
      Json row = {{"subject", subject}, {"schedule", to_string(schedule)}};
      tuning_.taken += schedule.size();
      row["model_us"] = std::round(own->time_of(subject) * 1e-2) / 10;
      row["tuned_us"] = std::round(tuned->time_of(subject) * 1e-2) / 10;
      rows.push_back(row);
    }
    Json text = {{"metac", METAC_VERSION},
                 {"cpu", o_.session.compile.cpu.name},
                 {"threads", o_.session.threads},
                 {"model_sha256", model_.sha256},
                 {"model_ms", tuning_.model_ms},
                 {"tuned_ms", tuning_.tuned_ms},
                 {"choices", rows}};
    tuning_.text = text.dump(1, ' ', true, Json::error_handler_t::replace) + "\n";
  }

  static Choices faster_of(const Trial& tuned, const Trial& own) {
    Choices faster;
    for (const auto& [subject, schedule] : tuned.choices().taken())
      for (const Transform& t : schedule)
        if (!tuned.choices().is_refused(subject, t) && tuned.time_of(subject) < 0.98 * own.time_of(subject))
          faster.take(subject, t);
    return faster;
  }

  const Model& model_;
  const TuneOptions& o_;
  Tuning tuning_;
  std::unique_ptr<Trial> best_;
};

}  // namespace

Tuning tune(const Model& model, const TuneOptions& options) {
  require_compilable(model);
  return Tuner(model, options).run();
}

}  // namespace metac
