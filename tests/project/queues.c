/* A batching queue from C: eight threads whose requests have other lengths, numbers of rows and mistakes, requests that are
 * cancelled, a queue that is full, one that is destroyed while threads wait. The model (queue_checks.py) has inputs x
 * (batch, length) and index (batch), and outputs y = 3 x + 1 and picked (batch, 4) = rows of a table of 5, whose numbers are
 * 0, 1, 2, ... */
#include <pthread.h>
#include <queued.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { threads = 8, rounds = 60, most_rows = 3, most_length = 17 };

static atomic_int wrong;

static void expect(int good, const char* what, long long value) {
  if (!good && atomic_fetch_add(&wrong, 1) < 10) printf("%s: %lld\n", what, value);
}

typedef struct request {
  float x[most_rows * most_length], y[most_rows * most_length], picked[most_rows * 4];
  int64_t index[most_rows];
  int64_t rows, length;
  queued_tensor inputs[QUEUED_INPUTS], outputs[QUEUED_OUTPUTS];
} request;

/* Of numbers that `seed` decides; with memory for outputs or without. */
static void fill(request* r, unsigned seed, int memory) {
  static const int lengths[] = {3, 5, most_length};
  memset(r, 0, sizeof *r);
  r->rows = 1 + seed % most_rows;
  r->length = lengths[seed / 3 % 3];
  for (int64_t k = 0; k < r->rows * r->length; ++k) r->x[k] = (float)((seed * 31 + (unsigned)k * 7) % 101);
  for (int64_t k = 0; k < r->rows; ++k) r->index[k] = (int64_t)((seed + (unsigned)k) % 5);
  const queued_tensor x = {r->x, r->rows * r->length * 4, 2, {r->rows, r->length}, QUEUED_TYPE(QUEUED_FLOAT32)};
  const queued_tensor index = {r->index, 0, 1, {r->rows}, 0};
  r->inputs[0] = x;
  r->inputs[1] = index;
  if (!memory) return;
  r->outputs[0].data = r->y;
  r->outputs[0].bytes = sizeof r->y;
  r->outputs[1].data = r->picked;
  r->outputs[1].bytes = sizeof r->picked;
}

static void check(const request* r) {
  const float *y = r->outputs[0].data, *picked = r->outputs[1].data;
  expect(r->outputs[0].rank == 2 && r->outputs[0].dims[0] == r->rows && r->outputs[0].dims[1] == r->length, "dims of y",
         r->outputs[0].dims[0]);
  expect(r->outputs[0].bytes == r->rows * r->length * 4 && r->outputs[1].bytes == r->rows * 16, "bytes",
         r->outputs[0].bytes);
  for (int64_t k = 0; k < r->rows * r->length; ++k) expect(y[k] == 3 * r->x[k] + 1, "y", k);
  for (int64_t k = 0; k < r->rows * 4; ++k) expect(picked[k] == (float)(r->index[k / 4] * 4 + k % 4), "picked", k);
}

static queued_queue* make(int max_batch, int64_t max_delay_us, int max_pending, int contexts) {
  queued_options context = {0};
  context.size = sizeof context;
  context.threads = 1;
  queued_queue_options options = {0};
  options.size = sizeof options;
  options.context = &context;
  options.max_batch = max_batch;
  options.max_delay_us = max_delay_us;
  options.max_pending = max_pending;
  options.contexts = contexts;
  queued_queue* queue = NULL;
  if (queued_queue_create(&options, &queue) != QUEUED_OK) expect(0, queued_queue_last_error(queue), 0);
  return queue;
}

static queued_queue_counters counted(queued_queue* queue) {
  queued_queue_counters counters = {0};
  counters.size = sizeof counters;
  expect(queued_queue_count(queue, &counters) == QUEUED_OK, "counters", 0);
  return counters;
}

static queued_queue* shared;

/* Good requests and bad ones; each has its own answer. */
static void* client(void* argument) {
  const unsigned me = (unsigned)(size_t)argument;
  for (unsigned round = 0; round < rounds; ++round) {
    const unsigned seed = me * rounds + round;
    request r;
    fill(&r, seed, round % 2 == 0);
    if (round % 10 == 3) { /* refused before it joins a batch, and the message is one's own */
      char own[40];
      snprintf(own, sizeof own, "has %u rows", 1000 + me);
      r.inputs[1].dims[0] = 1000 + me;
      int64_t ticket = -1;
      const queued_status status = queued_queue_submit(shared, r.inputs, 2, r.outputs, 2, &ticket);
      expect(status == QUEUED_INVALID_ARGUMENT && ticket == 0, "a wrong shape was taken", status);
      expect(strstr(queued_queue_last_error(shared), own) != NULL, queued_queue_last_error(shared), seed);
      continue;
    }
    const int bad = round % 10 == 6; /* fails while it runs */
    if (bad) r.index[0] = 77;
    queued_status status;
    if (round % 2 == 0) {
      status = queued_queue_run(shared, r.inputs, 2, r.outputs, 2);
      expect(bad ? status == QUEUED_REQUIREMENT || status == QUEUED_INVALID_ARGUMENT : status == QUEUED_OK, "run", status);
      expect((queued_queue_last_error(shared)[0] != 0) == bad, queued_queue_last_error(shared), seed);
      if (status == QUEUED_OK) check(&r);
      continue;
    }
    int64_t ticket = 0;
    status = queued_queue_submit(shared, r.inputs, 2, r.outputs, 2, &ticket);
    expect(status == QUEUED_OK && ticket > 0, "submit", status);
    while (round % 4 == 1 && queued_queue_poll(shared, ticket) == QUEUED_BUSY) sched_yield();
    expect(queued_queue_wait(shared, ticket) == QUEUED_OK && queued_queue_wait(shared, ticket) == QUEUED_OK, "wait", seed);
    check(&r);
    expect(queued_queue_release(shared, ticket) == QUEUED_OK, "release", seed);
    expect(queued_queue_release(shared, ticket) == QUEUED_INVALID_ARGUMENT, "a ticket is released twice", seed);
  }
  return NULL;
}

static void many_threads(int max_batch, int64_t delay, int contexts) {
  pthread_t all[threads];
  shared = make(max_batch, delay, 0, contexts);
  for (size_t k = 0; k < threads; ++k) pthread_create(&all[k], NULL, client, (void*)k);
  for (size_t k = 0; k < threads; ++k) pthread_join(all[k], NULL);
  const queued_queue_counters c = counted(shared);
  expect(c.requests == threads * rounds * 9 / 10 && c.run == c.requests, "requests", c.requests);
  expect(c.rejected == 0 && c.cancelled == 0 && c.pending == 0, "rejected", c.rejected);
  expect(c.batches > 0 && c.batches <= c.run && c.rows <= c.batches * max_batch, "batches", c.batches);
  queued_queue_destroy(shared);
}

/* Requests that wait an hour for their batch: what ends them is something else. */
static void full_and_cancelled(void) {
  request r[5];
  int64_t tickets[5];
  queued_queue* const queue = make(64, (int64_t)3600 * 1000000, 3, 1);
  for (unsigned k = 0; k < 5; ++k) fill(&r[k], k, 0);
  for (unsigned k = 0; k < 3; ++k)
    expect(queued_queue_submit(queue, r[k].inputs, 2, r[k].outputs, 2, &tickets[k]) == QUEUED_OK, "submit", k);
  expect(queued_queue_submit(queue, r[3].inputs, 2, r[3].outputs, 2, &tickets[3]) == QUEUED_FULL, "not full", 0);
  expect(strstr(queued_queue_last_error(queue), "max_pending") != NULL, queued_queue_last_error(queue), 0);
  expect(queued_queue_poll(queue, tickets[1]) == QUEUED_BUSY, "poll", 1);
  expect(queued_queue_cancel(queue, tickets[1]) == QUEUED_OK && queued_queue_wait(queue, tickets[1]) == QUEUED_CANCELLED,
         "cancel", 1);
  expect(queued_queue_submit(queue, r[3].inputs, 2, r[3].outputs, 2, &tickets[3]) == QUEUED_OK, "room after a cancel", 3);
  expect(queued_queue_release(queue, tickets[2]) == QUEUED_OK, "release of one that waits", 2);
  queued_queue_counters c = counted(queue);
  expect(c.requests == 4 && c.rejected == 1 && c.cancelled == 2 && c.pending == 2 && c.batches == 0, "counters", c.pending);
  expect(queued_queue_stop(queue, 1) == QUEUED_OK, "drain", 0);
  expect(queued_queue_wait(queue, tickets[0]) == QUEUED_OK && queued_queue_wait(queue, tickets[3]) == QUEUED_OK, "drained",
         0);
  check(&r[0]);
  check(&r[3]);
  expect(queued_queue_submit(queue, r[4].inputs, 2, r[4].outputs, 2, &tickets[4]) == QUEUED_CANCELLED, "after the end", 0);
  expect(queued_queue_release(queue, tickets[4]) == QUEUED_OK, "a ticket that was none", 0);
  queued_queue_destroy(queue);
}

/* Four rows fill a batch, which does not wait for the hour to end; what has no room for its answer fails alone. */
static void a_full_batch(void) {
  request r[3];
  int64_t tickets[3];
  const unsigned seeds[3] = {0, 1, 9}; /* of 1, 2 and 1 rows of length 3 */
  queued_queue* const queue = make(4, (int64_t)3600 * 1000000, 0, 1);
  for (int k = 0; k < 3; ++k) fill(&r[k], seeds[k], 1);
  r[1].outputs[0].bytes = 4;
  for (int k = 0; k < 3; ++k) queued_queue_submit(queue, r[k].inputs, 2, r[k].outputs, 2, &tickets[k]);
  expect(queued_queue_wait(queue, tickets[0]) == QUEUED_OK && queued_queue_wait(queue, tickets[2]) == QUEUED_OK,
         "a full batch", 0);
  check(&r[0]);
  check(&r[2]);
  expect(queued_queue_wait(queue, tickets[1]) == QUEUED_INVALID_ARGUMENT, "too little memory", 1);
  expect(strstr(queued_queue_last_error(queue), "needs 24 bytes, the memory given has 4") != NULL,
         queued_queue_last_error(queue), 1);
  expect(counted(queue).batches == 1, "batches", counted(queue).batches);
  queued_queue_destroy(queue);
}

static void* waits_for_the_end(void* argument) {
  request r;
  fill(&r, (unsigned)(size_t)argument, 1);
  const queued_status status = queued_queue_run(shared, r.inputs, 2, r.outputs, 2);
  expect(status == QUEUED_CANCELLED, "a request outlived its queue", status);
  return NULL;
}

static void destroyed_while_threads_wait(void) {
  pthread_t all[threads];
  shared = make(64, (int64_t)3600 * 1000000, 0, 2);
  for (size_t k = 0; k < threads; ++k) pthread_create(&all[k], NULL, waits_for_the_end, (void*)k);
  const struct timespec pause = {0, 1000000};
  while (counted(shared).pending < threads) nanosleep(&pause, NULL);
  queued_queue_destroy(shared);
  for (size_t k = 0; k < threads; ++k) pthread_join(all[k], NULL);
}

/* By the table, which programs for any model use. */
static void by_the_table(void) {
  const metac_model* const model = queued_model();
  metac_model_queue* queue = NULL;
  metac_model_queue_options options = {0};
  expect(METAC_MODEL_HAS(model, queue_last_error), "the table has no queue", 0);
  expect(model->queue_create(&options, &queue) == METAC_MODEL_INVALID_ARGUMENT, "a size of 0", 0);
  expect(strstr(model->queue_last_error(queue), "queue options.size is 0") != NULL, model->queue_last_error(queue), 0);
  request r;
  fill(&r, 4, 1);
  expect(model->queue_run(queue, r.inputs, 2, r.outputs, 2) == METAC_MODEL_INVALID_ARGUMENT,
         "a queue that could not be made", 0);
  model->queue_destroy(queue);
  options.size = sizeof options;
  expect(model->queue_create(&options, &queue) == METAC_MODEL_OK, "a queue of the table", 0);
  expect(model->queue_run(queue, r.inputs, 2, r.outputs, 2) == METAC_MODEL_OK, "a run of the table", 0);
  check(&r);
  r.outputs[0].data = NULL;
  expect(model->queue_run(queue, r.inputs, 2, r.outputs, 2) == METAC_MODEL_INVALID_ARGUMENT, "an output without memory", 0);
  model->queue_destroy(queue);
  expect(queued_queue_run(NULL, r.inputs, 2, r.outputs, 2) == QUEUED_INVALID_ARGUMENT, "no queue", 0);
  queued_queue_destroy(NULL);
}

int main(void) {
  many_threads(8, 200, 1);
  many_threads(16, 2000, 2);
  many_threads(3, 0, 2);
  full_and_cancelled();
  a_full_batch();
  destroyed_while_threads_wait();
  by_the_table();
  if (wrong == 0) puts("right");
  return wrong != 0;
}
