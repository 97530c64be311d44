// Which of a session's programs answers inputs, and which is made for those that come.
#include <algorithm>

#include "compiler/jit/run_error.h"
#include "compiler/session/session_state.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/trace.h"

namespace metac {

// Dims that grow with a state stay open at every level: each run has another length.
Reliance SessionState::reliance(const NamedTensors& inputs, const RelianceLevel& level) const {
  Reliance reliance = reliance_on(*named_, inputs, level);
  if (!states_.growing_dims().empty()) open_dims(*named_, states_.growing_dims(), reliance);
  return reliance;
}

namespace {

// Equal for inputs of the same names and shapes.
std::string shapes_of(const NamedTensors& inputs) {
  std::string shapes;
  shapes.reserve(64 * inputs.size());
  for (const auto& [name, tensor] : inputs) {
    shapes += name;
    shapes.append(1, '\0').append(1, static_cast<char>(tensor.shape.size()));
    shapes.append(reinterpret_cast<const char*>(tensor.shape.data()), tensor.shape.size() * sizeof(int64_t));
  }
  return shapes;
}

}  // namespace

void SessionState::forget_answers() {
  answers_.clear();
  ++forgotten_;
}

SessionState::ProgramPtr SessionState::choose(const NamedTensors& inputs) {
  const std::string shapes = shapes_of(inputs);
  int64_t forgotten = 0;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = answers_.find(shapes); found != answers_.end()) return found->second;
    changing_.observe(inputs);
    forgotten = forgotten_;
  }
  bool settled = true;
  ProgramPtr program = find_or_make(inputs, &settled);
  const std::lock_guard lock(mutex_);
  // Where values are relied on, shapes do not tell.
  if (settled && forgotten == forgotten_ && std::max(special_level_.known, open_level_.known) < Known::small_integers) {
    constexpr size_t most_answers = 1024;
    if (answers_.size() >= most_answers) answers_.clear();
    answers_.emplace(shapes, program);
  }
  return program;
}

// `settled`: the next inputs of these shapes have the same answer, unless programs come or go.
SessionState::ProgramPtr SessionState::find_or_make(const NamedTensors& inputs, bool* settled) {
  bool eager = options_.specialise == Specialise::eager;
  Reliance wanted;
  if (!eager) {
    const std::lock_guard lock(mutex_);
    if (ProgramPtr own = ready_specialisation(inputs, &wanted)) return own;
    eager = open_impossible_;
  }
  const ProgramPtr open = eager ? nullptr : open_program(inputs);
  if (!open) return make_for(inputs, false, "the first run of this shape");
  if (options_.specialise == Specialise::background) {
    const std::lock_guard lock(mutex_);
    *settled = consider(wanted, open->reliance, open.get());
  }
  return open;
}

// Null: there is none yet; `wanted` is what one would rely on.
SessionState::ProgramPtr SessionState::ready_specialisation(const NamedTensors& inputs, Reliance* wanted) const {
  *wanted = reliance(inputs, special_level_);
  if (ProgramPtr own = ready(*wanted, false)) return own;
  *wanted = changing_.without_changing(std::move(*wanted));
  return ready(*wanted, false);
}

SessionState::ProgramPtr SessionState::specialised_or_noted(const NamedTensors& inputs) {
  changing_.observe(inputs);
  Reliance wanted;
  if (ProgramPtr own = ready_specialisation(inputs, &wanted)) return own;
  if (options_.specialise != Specialise::never) consider(wanted, reliance(inputs, open_level_), nullptr);
  return nullptr;
}

// Null: the model can be compiled for known shapes only.
SessionState::ProgramPtr SessionState::open_program(const NamedTensors& inputs) {
  {
    const std::lock_guard lock(mutex_);
    if (ProgramPtr known = ready_open(reliance(inputs, open_level_))) return known;
  }
  try {
    return make_for(inputs, true, "no program has these dims open yet");
  } catch (const CompileError& error) {
    if (is_for_want_of_memory(error)) throw;
    const std::lock_guard lock(mutex_);
    open_impossible_ = true;
    report_.open_problem = error.what();
    trace::instant("session", "no open program", {{"reason", error.what()}});
    return nullptr;
  }
}

// Some refusals are only for want of values that are at hand. If none helps, the first reason is the one to tell.
SessionState::ProgramPtr SessionState::make_for(const NamedTensors& inputs, bool open, const std::string& reason) {
  RelianceLevel level;
  {
    const std::lock_guard lock(mutex_);
    level = open ? open_level_ : special_level_;
  }
  try {
    return get(reliance(inputs, level), open, reason);
  } catch (const CompileError& error) {
    if (is_for_want_of_memory(error)) throw;
    for (const Known more : {Known::lengths, Known::small_integers, Known::small_inputs}) {
      if (more <= level.known || more > options_.most_known) continue;
      RelianceLevel wider{more, open, {}};
      const auto helps = [&](const auto& input) {
        return has_known_value(input.first, input.second, wider) ||
               (!has_known_shape(input.first, input.second, level) && has_known_shape(input.first, input.second, wider));
      };
      if (std::none_of(inputs.begin(), inputs.end(), helps)) continue;
      try {
        if (options_.specialise != Specialise::eager) narrow(inputs, open, wider);
        ProgramPtr made = get(reliance(inputs, wider), open, reason);
        const std::lock_guard lock(mutex_);
        (open ? open_level_ : special_level_) = wider;
        forget_answers();
        return made;
      } catch (const CompileError&) {
      }
    }
    throw;
  }
}

// Leaves the values that the program does not need: another value of one that is relied on means another program.
void SessionState::narrow(const NamedTensors& inputs, bool open, RelianceLevel& level) {
  if (level.known < Known::small_integers) return;
  for (const auto& [name, tensor] : inputs)
    if (has_known_value(name, tensor, {level.known, open, {}})) level.values.insert(name);
  std::shared_ptr<const Model> model;
  {
    const std::lock_guard lock(mutex_);
    model = model_;
  }
  const std::set<std::string> all = level.values;
  if (all.size() < 2 || !maker_.can_make(*model, reliance(inputs, level))) return;
  for (const std::string& name : all) {
    if (level.values.size() < 2) break;
    RelianceLevel less = level;
    less.values.erase(name);
    if (maker_.can_make(*model, reliance(inputs, less))) level = std::move(less);
  }
}

// Notes a run of a shape that has no program of its own; one that comes again gets one. True: it never will, as things are.
bool SessionState::consider(const Reliance& wanted, const Reliance& open, const SessionProgram* by) {
  if (covers(open, wanted)) return true;  // it is as special as can be
  const std::string key = wanted.key();
  constexpr size_t most_seen = 4096;
  if (seen_.size() >= most_seen) std::erase_if(seen_, [](const auto& entry) { return !entry.second.queued; });
  Seen& seen = seen_[key];
  ++seen.runs;
  if (seen.queued || seen.impossible || !is_worth_a_program(seen, by)) return seen.impossible;
  seen.queued = behind_.add([this, wanted] { specialise_behind(wanted); });
  return false;
}

// The first programs are for whatever comes again; further ones for shapes whose runs took a part of what a program takes to
// be made, so that a small model with many shapes is not compiled for all of them.
bool SessionState::is_worth_a_program(const Seen& seen, const SessionProgram* by) const {
  if (seen.runs < runs_wanted_) return false;
  constexpr int64_t first_programs = 16;
  constexpr double part = 1.0 / 8;
  if (report_.compiled < first_programs || !by || by->runs == 0) return true;
  const double ns_of_a_run = static_cast<double>(by->run_ns) / static_cast<double>(by->runs);
  return static_cast<double>(seen.runs) * ns_of_a_run >= part * 1e9 * times_.all();
}

void SessionState::specialise_behind(const Reliance& wanted) {
  const std::string key = wanted.key();
  std::string reason;
  {
    const std::lock_guard lock(mutex_);
    Seen& seen = seen_[key];
    if (changing_.without_changing(wanted).key() != key) {  // its dims keep changing, as is known by now
      seen.queued = false;
      return;
    }
    reason = concat("the shape came ", seen.runs, " times");
  }
  bool impossible = false;
  try {
    get(wanted, false, reason);
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& error) {
    impossible = !is_for_want_of_memory(error);
    trace::instant("session", "no specialisation", {{"for", wanted.text()}, {"reason", error.what()}});
  }
  const std::lock_guard lock(mutex_);
  if (impossible)
    seen_[key] = {.impossible = true};
  else
    seen_.erase(key);
}

}  // namespace metac
