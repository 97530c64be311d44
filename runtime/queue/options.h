// The options of a batching queue as it keeps them: checked, and with copies of the texts that the caller's point to.
#pragma once
#include "../caller/struct_size.h"
#include "../memory.h"

namespace METAC_RUNTIME_NAMESPACE {

class QueueOptions {
 public:
  QueueOptions() = default;
  QueueOptions(const QueueOptions&) = delete;
  QueueOptions& operator=(const QueueOptions&) = delete;
  ~QueueOptions() {
    for (char* text : texts_) std::free(text);
  }

  // `options` may be nullptr: all defaults.
  bool take(const metac_model_queue_options* options, Failure& failure) {
    constexpr size_t first = offsetof(metac_model_queue_options, threads) + sizeof(int32_t);
    metac_model_queue_options given{};
    if (options != nullptr && !take_struct("queue options", *options, first, given, failure)) return false;
    if (given.context != nullptr && !take_options(*given.context, context_, failure)) return false;
    context_.size = sizeof context_;
    if (!in_range("max_batch", given.max_batch, 1 << 20, failure) ||
        !in_range("max_delay_us", given.max_delay_us, most_delay_us, failure) ||
        !in_range("max_pending", given.max_pending, 1 << 20, failure) ||
        !in_range("contexts", given.contexts, 1024, failure) || !in_range("threads", given.threads, 1 << 20, failure))
      return false;
    if (given.threads > 0) context_.threads = given.threads;
    max_batch_ = given.max_batch > 0 ? given.max_batch : 32;
    max_pending_ = given.max_pending > 0 ? given.max_pending : 1024;
    contexts_ = given.contexts > 0 ? given.contexts : 1;
    delay_ = given.max_delay_us * 1000;
    return keep(0, context_.weights, failure) && keep(1, context_.cpu, failure) && keep(2, context_.metac, failure);
  }

  const metac_model_options& context() const { return context_; }
  int64_t max_batch() const { return max_batch_; }
  int64_t max_pending() const { return max_pending_; }
  int32_t contexts() const { return contexts_; }
  int64_t delay() const { return delay_; }  // nanoseconds

 private:
  static constexpr int64_t most_delay_us = int64_t{3600} * 1000000;

  static bool in_range(const char* name, int64_t value, int64_t most, Failure& failure) {
    return (value >= 0 && value <= most) ||
           failure.set(Status::invalid_argument, "%s is %lld; expected 0 (the default) to %lld", name,
                       static_cast<long long>(value), static_cast<long long>(most));
  }
  bool keep(int32_t which, const char*& text, Failure& failure) {
    if (text == nullptr) return true;
    const size_t bytes = std::strlen(text) + 1;
    texts_[which] = static_cast<char*>(std::calloc(bytes, 1));
    if (texts_[which] == nullptr) return failure.set(Status::out_of_memory, "no memory for the options of a queue");
    std::memcpy(texts_[which], text, bytes);
    text = texts_[which];
    return true;
  }

  metac_model_options context_{};
  char* texts_[3] = {};
  int64_t max_batch_ = 0, max_pending_ = 0, delay_ = 0;
  int32_t contexts_ = 0;
};

}  // namespace METAC_RUNTIME_NAMESPACE
