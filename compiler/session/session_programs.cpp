// The programs of a session: made once, whoever asks, and dropped when they are too many.
#include <algorithm>

#include "compiler/session/session_state.h"
#include "compiler/support/diagnostic.h"
#include "compiler/support/trace.h"

namespace metac {
namespace {

std::string key_of(const Reliance& reliance, bool open) { return (open ? "open " : "own ") + reliance.key(); }

}  // namespace

// Whoever asks for a program that another thread is making waits for it.
SessionState::ProgramPtr SessionState::get(const Reliance& reliance, bool open, const std::string& reason) {
  const std::string key = key_of(reliance, open);
  std::unique_lock lock(mutex_);
  if (const auto found = slots_.find(key); found != slots_.end()) {
    const std::shared_ptr<Slot> slot = found->second;
    made_.wait(lock, [&] { return !slot->making; });
    if (slot->error) std::rethrow_exception(slot->error);
    return slot->program;
  }
  const std::shared_ptr<Slot> slot = slots_[key] = std::make_shared<Slot>();
  try {
    const trace::Span span(
        "session", open ? "make the open program" : "specialise",
        trace::on() ? trace::Arguments{{"for", reliance.text()}, {"reason", reason}} : trace::Arguments());
    std::shared_ptr<const Model> model;
    do {  // weights that are set meanwhile make what came of the old ones worthless
      model = model_;
      lock.unlock();
      SpecialisationTimes times;
      ProgramPtr program = maker_.make(*model, reliance, &times);
      lock.lock();
      if (model != model_) trace::instant("session", "make it again", {{"reason", "weights were set meanwhile"}});
      program->open = open;
      slot->program = std::move(program);
      times_ = times;
    } while (model != model_);
    slot->making = false;
    slot->program->last_use = ++clock_;
    forget_answers();
    if (!open) ++report_.compiled, tell_of_shapes_that_do_not_repeat();
    drop_beyond_limits(slot->program.get());
    lock.unlock();
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    slot->error = std::current_exception();
    slot->making = false;
    slots_.erase(key);
    lock.unlock();
    made_.notify_all();
    throw;
  }
  made_.notify_all();
  return slot->program;
}

SessionState::ProgramPtr SessionState::ready(const Reliance& reliance, bool open) const {
  const auto found = slots_.find(key_of(reliance, open));
  return found == slots_.end() || found->second->making ? nullptr : found->second->program;
}

SessionState::ProgramPtr SessionState::ready_open(const Reliance& wanted) const {
  if (ProgramPtr exact = ready(wanted, true)) return exact;
  for (const auto& [unused, slot] : slots_)
    if (!slot->making && slot->program->open && covers(slot->program->reliance, wanted)) return slot->program;
  return nullptr;
}

std::vector<SessionState::ProgramPtr> SessionState::specialisations() const {
  std::vector<ProgramPtr> made;
  for (const auto& [unused, slot] : slots_)
    if (!slot->making && !slot->program->open) made.push_back(slot->program);
  return made;
}

int64_t SessionState::specialised_bytes() const {
  const Contexts::Held held = contexts_.held();
  int64_t bytes = 0, open_weights = 0;
  for (const auto& [unused, slot] : slots_) {
    if (slot->making) continue;
    const SessionProgram& program = *slot->program;
    if (program.open) {
      open_weights += program.weight_bytes;
      continue;
    }
    bytes += program.code->code_bytes();
    if (const auto found = held.bytes_of.find(program.code.get()); found != held.bytes_of.end()) bytes += found->second;
  }
  return bytes + std::max<int64_t>(0, weights_.bytes() - open_weights);
}

void SessionState::tell_of_shapes_that_do_not_repeat() const {
  if (options_.specialise != Specialise::eager || repeated_ > 0 || report_.compiled % 16 != 0) return;
  trace::instant("session", "shapes do not repeat",
                 {{"compiled", std::to_string(report_.compiled)},
                  {"advice", concat("open programs would answer them; dims that change: ", changing_.names(1))}});
}

void SessionState::drop_beyond_limits(const SessionProgram* keep) {
  for (;;) {
    std::vector<ProgramPtr> made = specialisations();
    const bool too_many =
        options_.max_specialisations > 0 && made.size() > static_cast<size_t>(options_.max_specialisations);
    if (!too_many && (options_.max_memory <= 0 || specialised_bytes() <= options_.max_memory)) return;
    std::erase_if(made, [&](const ProgramPtr& one) { return one.get() == keep || one->for_caller; });
    if (made.empty()) return;
    const ProgramPtr oldest = *std::min_element(
        made.begin(), made.end(), [](const ProgramPtr& a, const ProgramPtr& b) { return a->last_use < b->last_use; });
    trace::instant("session", "drop a specialisation",
                   {{"for", oldest->reliance.text()}, {"runs", std::to_string(oldest->runs.load())}});
    // What is dropped before it ran often was not worth its compilation: the next one has to come more often first.
    if (oldest->runs.load() < 8 * runs_wanted_) runs_wanted_ = std::min<int64_t>(2 * runs_wanted_, 1 << 20);
    const std::string key = key_of(oldest->reliance, false);
    seen_.erase(oldest->reliance.key());
    oldest->dropped = true;
    contexts_.drop(oldest->code.get());
    slots_.erase(key);
    forget_answers();
    ++report_.dropped;
  }
}

}  // namespace metac
