#include "compiler/session/session.h"

#include <algorithm>

#include "compiler/jit/device.h"
#include "compiler/session/lock_soon.h"
#include "compiler/session/naming_the_model.h"
#include "compiler/session/session_state.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/trace.h"
#include "compiler/target/target.h"

namespace metac {
namespace {

size_t most_values(const SessionOptions& options) {
  constexpr int usual = 64;
  return static_cast<size_t>(std::max(1, (options.max_specialisations > 0 ? options.max_specialisations : usual) / 2));
}

Model checked_model(Model model, Known least) {
  if (least < Known::shapes) open_all_dims(model);
  require_compilable(model);
  return model;
}

std::shared_ptr<const Model> with_named_dims(Model model) {
  name_open_dims(model);
  return std::make_shared<const Model>(std::move(model));
}

}  // namespace

std::optional<Specialise> specialise_named(const std::string& name) {
  if (name == "eager") return Specialise::eager;
  if (name == "background") return Specialise::background;
  if (name == "never") return Specialise::never;
  return std::nullopt;
}

SessionState::SessionState(Model model, SessionOptions options)
    : declared_(checked_model(std::move(model), options.least_known)),
      named_(with_named_dims(declared_)),
      states_(declared_, options.lower.states),
      accepted_(declared_, states_),
      options_(std::move(options)),
      maker_{&options_.lower, &options_.compile, {.device = device_of(*options_.compile.target)}, &weights_},
      contexts_(options_.max_contexts, options_.threads),
      model_(named_),
      special_level_{options_.least_known, false, {}},
      open_level_{Known::ranks, true, {}},
      changing_(*named_, most_values(options_)) {
  weights_.lend(options_.prepared);
  if (maker_.jit.device) maker_.weights = nullptr;  // a device's weights are copied as one block
}

metac_runtime::StatePlace SessionState::place_of_states() const {
  return maker_.jit.device ? maker_.jit.device->place_of_states() : metac_runtime::states_on_host(nullptr);
}

std::vector<Tensor> SessionState::ordered(const CompiledProgram& program, const NamedTensors& inputs) const {
  std::vector<Tensor> tensors;
  const size_t count = program.inputs.size() - program.states.size();
  tensors.reserve(count);
  for (size_t k = 0; k < count; ++k) {
    const CompiledPort& port = program.inputs[k];
    const auto found = inputs.find(port.name);
    const Initializer* otherwise = found == inputs.end() ? initializer_of(declared_, port.name) : nullptr;
    METAC_ASSERT(found != inputs.end() || otherwise, "the compiled program wants ", quoted(port.name));
    tensors.push_back(otherwise ? otherwise->tensor : found->second);
  }
  return tensors;
}

// True: it is time to look at what specialisations hold.
bool SessionState::count_run(SessionProgram& program) {
  ++runs_;
  const int64_t before = program.runs++;
  if (program.open)
    ++open_runs_;
  else if (before > 0)
    ++repeated_;
  return !program.open && options_.max_memory > 0 && before % 16 == 0;
}

std::shared_ptr<const JitCode> SessionState::code_of(SessionProgram& program) {
  program.last_use = ++clock_;
  return program.code;
}

SessionState::Outputs SessionState::run_in(const ProgramPtr& program, const NamedTensors& inputs, StreamStates* stream) {
  std::unique_lock lock(mutex_);
  const std::shared_ptr<const JitCode> code = code_of(*program);
  lock.unlock();
  return *run_code(program, code, inputs, stream, true);
}

std::optional<SessionState::Outputs> SessionState::run_code(const ProgramPtr& program,
                                                            const std::shared_ptr<const JitCode>& code,
                                                            const NamedTensors& inputs, StreamStates* stream, bool wait) {
  bool check_limits = false;
  const auto after = [&] {
    const auto lock = wait ? std::unique_lock(mutex_) : lock_soon(mutex_);
    if (!lock) return;
    // Of a program that went meanwhile, or was given other weights, nobody else drops the context.
    if (program->dropped || program->code != code) contexts_.drop(code.get());
    if (check_limits) drop_beyond_limits(program.get());
  };
  std::vector<Tensor> tensors;
  try {
    const bool ran = naming_the_model(declared_.path, [&] {
      const std::optional<Contexts::Hold> hold = wait ? contexts_.take(code) : contexts_.take_free(code);
      if (!hold) return false;
      check_limits = count_run(*program);
      const trace::Span span("session", program->open ? "run the open program" : "run a specialisation");
      const std::vector<Tensor> given = ordered(code->compiled(), inputs);
      const int64_t begin = rt::now_ns();
      tensors = stream ? stream->run(hold->context(), given) : hold->context().run(given);
      if (program->open) program->run_ns += rt::now_ns() - begin;
      return true;
    });
    if (!ran) return std::nullopt;
  } catch (...) {
    after();
    throw;
  }
  after();
  Outputs outputs;
  for (size_t i = 0; i < tensors.size(); ++i) outputs.emplace_back(code->compiled().outputs[i].name, std::move(tensors[i]));
  return outputs;
}

SessionState::Outputs SessionState::run(const NamedTensors& inputs, StreamStates* stream) {
  accepted_.check(inputs);
  std::unique_ptr<StreamStates> for_this_run;
  if (!stream && !states_.names().empty())
    stream = (for_this_run = std::make_unique<StreamStates>(states_, place_of_states(), state_bytes_)).get();
  const ProgramPtr program = choose(inputs);
  try {
    return run_in(program, inputs, stream);
  } catch (const CompileError& error) {
    if (is_for_want_of_memory(error)) throw;
    // A shape input's -1 or 0 has a meaning that only a program which knows the value can give it.
    constexpr int most_fruitless = 8;
    const RelianceLevel with_values{Known::small_integers, true, {}};
    const auto helps = [&](const auto& input) { return has_known_value(input.first, input.second, with_values); };
    RelianceLevel special, open;
    {
      const std::lock_guard lock(mutex_);
      special = special_level_, open = open_level_;
      if (special.known >= Known::small_integers || options_.most_known < Known::small_integers ||
          fruitless_ >= most_fruitless || std::none_of(inputs.begin(), inputs.end(), helps))
        throw;
      forget_answers();
      special_level_ = {Known::small_integers, false, {}};
      open_level_ = {Known::small_integers, true, {}};
      if (options_.specialise != Specialise::eager)
        for (const auto& [name, tensor] : inputs)
          if (has_known_value(name, tensor, with_values))
            special_level_.values.insert(name), open_level_.values.insert(name);
    }
    Outputs outputs;
    try {
      outputs = run_in(choose(inputs), inputs, stream);
      return outputs;
    } catch (const CompileError&) {
      const std::lock_guard lock(mutex_);
      special_level_ = special, open_level_ = open;
      forget_answers();
      ++fruitless_;
    }
    throw;  // the first reason
  }
}

std::optional<SessionState::Outputs> SessionState::try_run(const NamedTensors& inputs) {
  accepted_.check(inputs);
  METAC_ASSERT(states_.names().empty(), "runs that may not wait have no states");
  auto lock = lock_soon(mutex_);
  if (!lock) return std::nullopt;
  const ProgramPtr program = specialised_or_noted(inputs);
  if (!program) return std::nullopt;
  const std::shared_ptr<const JitCode> code = code_of(*program);
  lock.unlock();
  return run_code(program, code, inputs, nullptr, false);
}

void SessionState::set_weights(const NamedTensors& weights) {
  const std::lock_guard one_after_the_other(setting_weights_);
  const trace::Span span("session", "set weights");
  std::set<std::string> names;
  auto changed = std::make_shared<Model>(*model_);  // only set_weights changes it
  for (const auto& [name, tensor] : weights) {
    auto found = std::find_if(changed->graph.initializers.begin(), changed->graph.initializers.end(),
                              [&, &name = name](const Initializer& one) { return one.name == name; });
    if (found == changed->graph.initializers.end())
      throw CompileError({declared_.path, "", concat("there are no weights named ", quoted(name))});
    if (found->tensor.dtype != tensor.dtype || found->tensor.shape != tensor.shape)
      throw CompileError({declared_.path, "weights " + quoted(name),
                          concat("the model has ", name_of(found->tensor.dtype), " ", to_string(found->tensor.shape),
                                 ", given is ", name_of(tensor.dtype), " ", to_string(tensor.shape))});
    found->tensor = tensor;
    names.insert(name);
  }
  // Until no program is left that was made meanwhile; null: it must be made anew.
  std::map<ProgramPtr, std::shared_ptr<const JitCode>> fresh;
  for (;;) {
    std::vector<ProgramPtr> missing;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [unused, slot] : slots_)
        if (!slot->making && !fresh.count(slot->program)) missing.push_back(slot->program);
      if (missing.empty()) {
        model_ = changed;
        forget_answers();
        for (const auto& [program, code] : fresh) {
          contexts_.drop(program->code.get());
          if (code) program->code = code;
          program->dropped = !code;
          if (!code) std::erase_if(slots_, [&, &program = program](const auto& s) { return s.second->program == program; });
        }
        return;
      }
    }
    for (const ProgramPtr& program : missing)
      fresh[program] = maker_.with_weights(*program, *program->code, *changed, names);
  }
}

std::unique_ptr<StreamStates> SessionState::open_stream() {
  auto stream = std::make_unique<StreamStates>(states_, place_of_states(), state_bytes_);
  ++streams_;
  return stream;
}
void SessionState::close_stream(std::unique_ptr<StreamStates> stream) {
  stream.reset();
  --streams_;
}

void SessionState::wait() const { behind_.wait(); }

JitProgram& SessionState::program_for(const NamedTensors& inputs, std::vector<Tensor>* ordered_inputs) {
  accepted_.check(inputs);
  METAC_ASSERT(states_.names().empty(), "states are a stream's");
  const ProgramPtr program = make_for(inputs, false, "asked for");
  const std::lock_guard lock(mutex_);
  if (!program->for_caller || program->for_caller->code() != program->code)
    program->for_caller = std::make_unique<JitProgram>(program->code, options_.threads);
  *ordered_inputs = ordered(program->code->compiled(), inputs);
  return *program->for_caller;
}

SpecialisationTimes SessionState::times() const {
  const std::lock_guard lock(mutex_);
  return times_;
}

SessionReport SessionState::report() const {
  const std::lock_guard lock(mutex_);
  SessionReport report = report_;
  report.runs = runs_, report.open_runs = open_runs_;
  const Contexts::Held held = contexts_.held();
  report.waiting = static_cast<int64_t>(behind_.waiting());
  report.specialisations = static_cast<int64_t>(specialisations().size());
  report.contexts = held.contexts;
  report.threads = held.threads + (behind_.has_thread() ? 1 : 0);
  report.weight_bytes = weights_.bytes();
  report.working_bytes = held.bytes;
  report.specialised_bytes = specialised_bytes();
  report.streams = streams_, report.state_bytes = state_bytes_;
  report.changing_dims = changing_.names();
  return report;
}

Session::Session(Model model, SessionOptions options)
    : state_(std::make_unique<SessionState>(std::move(model), std::move(options))) {}
Session::~Session() = default;
std::vector<std::pair<std::string, Tensor>> Session::run(const std::map<std::string, Tensor>& inputs) {
  return state_->run(inputs);
}
std::optional<std::vector<std::pair<std::string, Tensor>>> Session::try_run(const std::map<std::string, Tensor>& inputs) {
  return state_->try_run(inputs);
}
void Session::set_weights(const std::map<std::string, Tensor>& weights) { state_->set_weights(weights); }
void Session::wait() const { state_->wait(); }
JitProgram& Session::program_for(const std::map<std::string, Tensor>& inputs, std::vector<Tensor>* ordered) {
  return state_->program_for(inputs, ordered);
}
const Model& Session::model() const { return state_->model(); }
SpecialisationTimes Session::times() const { return state_->times(); }
SessionReport Session::report() const { return state_->report(); }

Stream::Stream(Session& session) : Stream(session.state_.get()) {}
Stream::Stream(SessionState* session) : session_(session), states_(session->open_stream()) {}
Stream::~Stream() { session_->close_stream(std::move(states_)); }
std::vector<std::pair<std::string, Tensor>> Stream::run(const std::map<std::string, Tensor>& inputs) {
  return session_->run(inputs, states_.get());
}
void Stream::reset() { states_->reset(); }
Tensor Stream::get(const std::string& state) const { return states_->get(state); }
void Stream::set(const std::map<std::string, Tensor>& states) { states_->set(states); }
void Stream::truncate(int64_t length) { states_->truncate(length); }
std::unique_ptr<Stream> Stream::fork() const {
  std::unique_ptr<Stream> forked(new Stream(session_));
  forked->states_->copy(*states_);
  return forked;
}

bool draws(const CompiledProgram& program) {
  return std::count(program.routines.begin(), program.routines.end(), "draw_number") > 0;
}

void require_compilable(const Model& model) {
  std::vector<Finding> findings = check_model(model);
  if (findings.empty()) return;
  std::string text;
  for (const Diagnostic& finding : findings) {
    Diagnostic shown = finding;
    if (shown.file == model.path) shown.file.clear();
    text += (text.empty() ? "" : "\n  ") + shown.text();
  }
  throw CompileError(
      {model.path, "",
       findings.size() == 1 ? text : concat("cannot be compiled, for ", findings.size(), " reasons:\n  ", text)});
}

}  // namespace metac
