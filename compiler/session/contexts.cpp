#include "compiler/session/contexts.h"

#include <iterator>
#include <utility>

#include "compiler/session/lock_soon.h"
#include "runtime/process/usable_cpus.h"

namespace metac {

Contexts::Contexts(int most, int threads) : most_(most), threads_(threads) {
  if (most > 0 && threads > 0) return;
  const int cpus = metac_runtime::usable_cpus();  // which reads files
  if (most <= 0) most_ = cpus;
  if (threads <= 0) threads_ = cpus;
}

Contexts::Hold::Hold(Hold&& other) noexcept
    : of_(std::exchange(other.of_, nullptr)), place_(other.place_), context_(other.context_) {}

Contexts::Hold::~Hold() {
  if (of_) of_->give_back(place_, context_);
}

// A free place, best one where the program ran before; places_.size() where all are taken and no other may be made.
size_t Contexts::choose_place(const JitCode* code) {
  size_t chosen = places_.size();
  for (size_t k = 0; k < places_.size(); ++k) {
    if (places_[k]->taken) continue;
    if (places_[k]->kept.count(code)) return k;
    if (chosen == places_.size()) chosen = k;
  }
  if (chosen == places_.size() && static_cast<int>(places_.size()) < most_) places_.push_back(std::make_unique<Place>());
  return chosen;
}

Contexts::Hold Contexts::take(const std::shared_ptr<const JitCode>& code) {
  std::unique_lock lock(mutex_);
  size_t chosen = 0;
  free_.wait(lock, [&] { return (chosen = choose_place(code.get())) < places_.size(); });
  return enter(chosen, code, std::move(lock));
}

std::optional<Contexts::Hold> Contexts::take_free(const std::shared_ptr<const JitCode>& code) {
  auto lock = lock_soon(mutex_);
  if (!lock) return std::nullopt;
  const size_t chosen = choose_place(code.get());
  if (chosen == places_.size()) return std::nullopt;
  return enter(chosen, code, std::move(lock));
}

Contexts::Hold Contexts::enter(size_t chosen, const std::shared_ptr<const JitCode>& code,
                               std::unique_lock<std::mutex> lock) {
  Place& place = *places_[chosen];
  Kept& kept = place.kept[code.get()];
  place.taken = true;
  if (kept.context) return Hold(this, chosen, kept.context.get());
  lock.unlock();
  std::unique_ptr<JitProgram> context;
  std::shared_ptr<metac_runtime::ThreadPool> threads = place.threads;
  try {
    if (!threads && code->runs_on_threads()) threads = started_threads(threads_);
    context = std::make_unique<JitProgram>(code, threads, place.memory);
  } catch (...) {
    lock.lock();
    place.kept.erase(code.get());
    place.taken = false;
    free_.notify_one();
    throw;
  }
  lock.lock();
  JitProgram* const made = context.get();
  place.threads = std::move(threads);
  place.kept[code.get()].context = std::move(context);
  return Hold(this, chosen, made);
}

void Contexts::give_back(size_t place, JitProgram* context) {
  std::map<const JitCode*, Kept> dropped;  // destroyed without the lock; nothing here needs memory
  {
    const std::lock_guard lock(mutex_);
    std::map<const JitCode*, Kept>& kept = places_[place]->kept;
    kept.at(context->code().get()).bytes = context->held_bytes();
    for (auto one = kept.begin(); one != kept.end();) {
      const auto next = std::next(one);
      if (one->second.dropped) dropped.insert(kept.extract(one));
      one = next;
    }
    places_[place]->memory_bytes = places_[place]->memory->capacity();
    places_[place]->taken = false;
  }
  free_.notify_one();
}

void Contexts::drop(const JitCode* code) {
  std::multimap<const JitCode*, Kept> dropped;  // destroyed without the lock; nothing here needs memory
  const std::lock_guard lock(mutex_);
  for (const std::unique_ptr<Place>& place : places_) {
    const auto kept = place->kept.find(code);
    if (kept == place->kept.end()) continue;
    if (place->taken) {  // perhaps by this one
      kept->second.dropped = true;
      continue;
    }
    dropped.insert(place->kept.extract(kept));
  }
}

Contexts::Held Contexts::held() const {
  Held held;
  const std::lock_guard lock(mutex_);
  for (const std::unique_ptr<Place>& place : places_) {
    held.bytes += place->memory_bytes;
    if (place->threads) held.threads += place->threads->started();
    for (const auto& [code, kept] : place->kept) {
      ++held.contexts;
      held.bytes += kept.bytes;
      held.bytes_of[code] += kept.bytes;
    }
  }
  return held;
}

}  // namespace metac
