// The batching queue of @name@.h over the functions of every model. Fixed text. Nothing else of the library needs this file but the table.
#define METAC_RUNTIME_NAMESPACE @namespace@
#include "runtime/queue/@queue_file@.h"

#include "../include/@name@.h"

using namespace METAC_RUNTIME_NAMESPACE;

namespace {

using Queue = @queue_type@;

Queue* of(const @name@_queue* queue) { return reinterpret_cast<Queue*>(const_cast<@name@_queue*>(queue)); }

// A call with a queue, if there is one.
template <class Work>
@name@_status use(@name@_queue* queue, Work work) {
  return queue == nullptr ? @NAME@_INVALID_ARGUMENT : static_cast<@name@_status>(work(*of(queue)));
}

}  // namespace

extern "C" {

@name@_status @name@_queue_create(const @name@_queue_options* options, @name@_queue** result) {
  if (result == nullptr) return @NAME@_INVALID_ARGUMENT;
  *result = nullptr;
  void* const memory = std::aligned_alloc(alignof(Queue), sizeof(Queue));
  if (memory == nullptr) return @NAME@_OUT_OF_MEMORY;
  Queue* const queue = new (memory) Queue(*@name@_model());
  *result = reinterpret_cast<@name@_queue*>(queue);
  return static_cast<@name@_status>(queue->create(options));
}

void @name@_queue_destroy(@name@_queue* queue) {
  if (queue == nullptr) return;
  of(queue)->~Queue();
  std::free(queue);
}

@name@_status @name@_queue_stop(@name@_queue* queue, int32_t drain) {
  return use(queue, [&](Queue& q) { return q.stop(drain != 0); });
}

@name@_status @name@_queue_run(@name@_queue* queue, const @name@_tensor* inputs, int32_t input_count, @name@_tensor* outputs, int32_t output_count) {
  return use(queue, [&](Queue& q) { return q.run(inputs, input_count, outputs, output_count); });
}

@name@_status @name@_queue_submit(@name@_queue* queue, const @name@_tensor* inputs, int32_t input_count, @name@_tensor* outputs, int32_t output_count, int64_t* ticket) {
  return use(queue, [&](Queue& q) { return q.submit(inputs, input_count, outputs, output_count, ticket); });
}

@name@_status @name@_queue_wait(@name@_queue* queue, int64_t ticket) {
  return use(queue, [&](Queue& q) { return q.wait(ticket); });
}
@name@_status @name@_queue_poll(@name@_queue* queue, int64_t ticket) {
  return use(queue, [&](Queue& q) { return q.poll(ticket); });
}
@name@_status @name@_queue_cancel(@name@_queue* queue, int64_t ticket) {
  return use(queue, [&](Queue& q) { return q.cancel(ticket); });
}
@name@_status @name@_queue_release(@name@_queue* queue, int64_t ticket) {
  return use(queue, [&](Queue& q) { return q.release(ticket); });
}

@name@_status @name@_queue_count(@name@_queue* queue, @name@_queue_counters* counters) {
  return use(queue, [&](Queue& q) { return q.count(counters); });
}

const char* @name@_queue_last_error(const @name@_queue* queue) { return queue == nullptr ? "no memory for a queue" : of(queue)->message(); }

}  // extern "C"
