// What a context's log is told while it is made. Fixed text.
#pragma once
#include "context.h"
#include "runtime/process/usable_cpus.h"

namespace {

// Which code runs, and why code that would be preferred does not.
void tell_variant(const @name@_context& context, const char* asked) {
  for (int32_t i = 0; asked == nullptr && &variants[i] != context.variant; ++i)
    context.log.info("the code for %s is not used: this CPU has no %s", variants[i].cpu, variants[i].lacking());
  context.log.info("the code for %s runs%s", context.variant->cpu, asked != nullptr ? ", as was asked for" : "");
}

// own: the context shares them with no other.
void tell_weights(const @name@_context& context, bool own) {
  if (file_bytes == 0) return context.log.info("the model has no weights");
  const Weights& weights = context.weights;
  const char* const place = !file_is_prepared ? own ? "prepared for the context from" : "prepared for the contexts of the process from" :
                            own ? "copied into memory of the context from" : weights.is_mapped() ? "mapped from" :
                            weights.is_held() ? "in memory that the contexts of the process share, of" : "in";
  context.log.info("%lld bytes of weights %s %s, %s", static_cast<long long>(file_bytes), place, weights.path(),
                   weights.is_unchecked() ? "not checked for damage" : "checked for damage as they are read");
}

void tell_threads(const @name@_context& context, const @name@_options& given) {
  const ThreadPool& pool = context.pool;
  if (pool.is_callers()) return context.log.info("a call gives the caller's thread pool %d tasks at most", pool.workers());
  const bool own = given.pin != 0 || given.private_threads != 0;
  context.log.info("a call runs in %d thread%s at most, the caller's among them; others are %s%s", pool.workers(), pool.workers() == 1 ? "" : "s",
                   own ? "the context's own" : "those that all libraries of the process share", given.pin != 0 ? " and stay on their CPUs" : "");
  if (const int32_t cpus = usable_cpus(); pool.workers() > cpus) context.log.warn("%d threads were asked for, and the process may use %d CPU%s", pool.workers(), cpus, cpus == 1 ? "" : "s");
}

}  // namespace
