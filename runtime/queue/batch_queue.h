// A batching queue: requests of many threads, collected within a deadline into batches that threads of the queue's run, each
// with a context of its own. It is made of the functions that all libraries have (metac_model.h), and is the same for all.
#pragma once
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <ctime>

#include "../caller/log.h"
#include "../caller/thread_messages.h"
#include "batch.h"
#include "options.h"

namespace METAC_RUNTIME_NAMESPACE {

class BatchQueue {
 public:
  explicit BatchQueue(const metac_model& model) : model_(model) { make_locks(); }
  BatchQueue(const BatchQueue&) = delete;
  BatchQueue& operator=(const BatchQueue&) = delete;
  // No call may begin any more. Requests that wait are cancelled; calls that wait for one return first.
  ~BatchQueue() {
    stop(false);
    pthread_mutex_lock(&mutex_);
    while (inside_ > 0) pthread_cond_wait(&left_, &mutex_);
    pthread_mutex_unlock(&mutex_);
    pthread_cond_destroy(&work_);
    pthread_cond_destroy(&left_);
    pthread_mutex_destroy(&mutex_);
  }

  Status create(const metac_model_queue_options* options) {
    Failure failure;
    const bool taken = options_.take(options, failure);
    log_.begin(options_.context().log, options_.context().log_user);
    usable_ = taken && has_open_batch(model_, failure) && open_contexts(failure);
    requests_.begin(model_);
    if (!usable_) unusable_ = failure;
    return answer(failure);
  }

  Status submit(const metac_model_tensor* inputs, int32_t input_count, metac_model_tensor* outputs, int32_t output_count,
                int64_t* ticket) {
    const Call call(*this);
    Failure failure;
    if (ticket == nullptr) return refuse(Status::invalid_argument, "nowhere to write the ticket to");
    const QueueRequest* const r = add(inputs, input_count, outputs, output_count, failure);
    *ticket = r == nullptr ? 0 : r->ticket;
    return answer(failure);
  }

  Status run(const metac_model_tensor* inputs, int32_t input_count, metac_model_tensor* outputs, int32_t output_count) {
    const Call call(*this);
    Failure failure;
    for (int32_t o = 0; outputs != nullptr && o < output_count; ++o)
      if (outputs[o].data == nullptr)
        return refuse(Status::invalid_argument,
                      "an output has no memory: give some, or submit the request and keep a ticket");
    QueueRequest* const r = add(inputs, input_count, outputs, output_count, failure);
    if (r == nullptr) return answer(failure);
    await(*r);
    const Status status = answer(r->failure);
    requests_.give_back(*r);
    return status;
  }

  Status wait(int64_t ticket) {
    const Call call(*this);
    QueueRequest* const r = requests_.find(ticket);
    if (r == nullptr) return no_ticket();
    await(*r);
    return answer(r->failure);
  }

  Status poll(int64_t ticket) {
    const Call call(*this);
    const QueueRequest* const r = requests_.find(ticket);
    if (r == nullptr) return no_ticket();
    if (r->state == QueueRequest::done) return answer(r->failure);
    messages_.keep("the request is not done");  // which is no failure for the log
    return Status::busy;
  }

  Status cancel(int64_t ticket) {
    const Call call(*this);
    QueueRequest* const r = requests_.find(ticket);
    if (r == nullptr) return no_ticket();
    if (r->state == QueueRequest::waiting) cancel_waiting(*r, "the request was cancelled");
    return good();
  }

  Status release(int64_t ticket) {
    const Call call(*this);
    if (ticket == 0) return good();  // of a submission that was refused
    QueueRequest* const r = requests_.find(ticket);
    if (r == nullptr) return no_ticket();
    if (r->state == QueueRequest::waiting) cancel_waiting(*r, "the request was released");
    while (r->state != QueueRequest::done || r->waiters > 0) pthread_cond_wait(&r->ended, &mutex_);
    if (requests_.find(ticket) != r) return no_ticket();  // another thread released it meanwhile
    requests_.give_back(*r);
    return good();
  }

  // Takes no more requests, and returns when the last one has ended: those that wait are run, or cancelled.
  Status stop(bool drain) {
    const Call call(*this);
    stopping_ = true;
    while (!drain && requests_.oldest() != nullptr) cancel_waiting(*requests_.oldest(), "the queue was stopped");
    pthread_cond_broadcast(&work_);
    if (threads_ > 0 && !joining_) {
      joining_ = true;
      const int32_t threads = threads_;
      pthread_mutex_unlock(&mutex_);
      for (int32_t k = 0; k < threads; ++k) pthread_join(workers_[k].thread, nullptr);
      pthread_mutex_lock(&mutex_);
      threads_ = 0;
      joining_ = false;
      pthread_cond_broadcast(&left_);
    }
    while (threads_ > 0) pthread_cond_wait(&left_, &mutex_);
    return good();
  }

  Status count(metac_model_queue_counters* counters) {
    const Call call(*this);
    Failure failure;
    constexpr size_t first = offsetof(metac_model_queue_counters, waited_us) + sizeof(int64_t);
    if (counters == nullptr) return refuse(Status::invalid_argument, "nowhere to write the counters to");
    if (!check_size("counters", counters->size, first, failure)) return answer(failure);
    metac_model_queue_counters told = counters_;
    told.size = sizeof told;
    told.pending = requests_.waiting();
    told.waited_us = waited_ / 1000;
    give_struct(told, counters);
    return good();
  }

  const char* message() const { return messages_.text(); }

 private:
  struct Worker {
    BatchQueue* queue;
    pthread_t thread;
    bool busy;  // with a batch
    QueueContext context;
  };

  // A call: it has the lock but where it waits. In the child of a fork() the first one finds the parent's threads gone.
  class Call {
   public:
    explicit Call(BatchQueue& queue) : queue_(queue) { queue_.enter(); }
    ~Call() { queue_.leave(); }
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

   private:
    BatchQueue& queue_;
  };

  // Not inlined, as what follows: the queue is in every library, and this is called at every turn.
  __attribute__((noinline)) void enter() {
    forget_parents();
    pthread_mutex_lock(&mutex_);
    ++inside_;
  }
  __attribute__((noinline)) void leave() {
    if (--inside_ == 0 && stopping_) pthread_cond_broadcast(&left_);
    pthread_mutex_unlock(&mutex_);
  }

  static __attribute__((noinline)) int64_t now() {
    timespec time{};
    clock_gettime(CLOCK_MONOTONIC, &time);
    return int64_t{time.tv_sec} * 1000000000 + time.tv_nsec;
  }

  // What a call answers; the calling thread finds the message, and the log is told.
  __attribute__((noinline)) Status answer(const Failure& failure) {
    return failure.ok() ? good() : refuse(failure.status, failure.message);
  }
  __attribute__((noinline)) Status refuse(Status status, const char* why) {
    messages_.keep(why);
    log_.say(METAC_MODEL_LOG_ERROR, why);
    return status;
  }
  Status good() {
    messages_.clear();
    return Status::ok;
  }
  Status no_ticket() { return refuse(Status::invalid_argument, "there is no such ticket"); }

  void make_locks() {
    pthread_mutex_init(&mutex_, nullptr);
    pthread_cond_init(&left_, nullptr);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&work_, &monotonic);
    pthread_condattr_destroy(&monotonic);
  }

  bool open_contexts(Failure& failure) {
    if (!workers_.allocate(options_.contexts())) return failure.set(Status::out_of_memory, "no memory for a queue");
    for (int32_t k = 0; k < options_.contexts(); ++k) {
      workers_[k].queue = this;
      if (!workers_[k].context.open(model_, options_.context(), failure)) return false;
    }
    return workers_[0].context.takes(options_.max_batch(), failure);
  }

  // A request that waits from now on; nullptr: it was refused.
  QueueRequest* add(const metac_model_tensor* inputs, int32_t input_count, metac_model_tensor* outputs, int32_t output_count,
                    Failure& failure) {
    int64_t rows = 0;
    if (!usable_) return failure = unusable_, nullptr;  // why it could not be made
    if (!check_request(model_, inputs, input_count, outputs, output_count, options_.max_batch(), &rows, failure))
      return nullptr;
    if (stopping_) return failure.set(Status::cancelled, "the queue was stopped"), nullptr;
    if (requests_.waiting() >= options_.max_pending()) {
      ++counters_.rejected;
      return failure.set(Status::full, "%lld requests wait, as many as may (max_pending)",
                         static_cast<long long>(requests_.waiting())),
             nullptr;
    }
    if (!start_threads(failure)) return nullptr;
    QueueRequest* const r = requests_.take();
    if (r == nullptr) return failure.set(Status::out_of_memory, "no memory for a request"), nullptr;
    std::memcpy(r->inputs, inputs, static_cast<size_t>(input_count) * sizeof *inputs);
    r->outputs = outputs;
    r->rows = rows;
    r->submitted = now();
    r->deadline = r->submitted + options_.delay();
    ++counters_.requests;
    if (requests_.add(*r, options_.max_batch())) pthread_cond_signal(&work_);
    return r;
  }

  __attribute__((noinline)) void await(QueueRequest& r) {
    ++r.waiters;
    while (r.state != QueueRequest::done) pthread_cond_wait(&r.ended, &mutex_);
    if (--r.waiters == 0) pthread_cond_broadcast(&r.ended);  // for who releases it
  }

  void end(QueueRequest& r) {
    r.state = QueueRequest::done;
    pthread_cond_broadcast(&r.ended);
  }
  __attribute__((noinline)) void cancel_waiting(QueueRequest& r, const char* why) {
    requests_.remove(r);
    r.failure.set(Status::cancelled, "%s", why);
    ++counters_.cancelled;
    end(r);
  }

  // The threads, at the first request of a process.
  bool start_threads(Failure& failure) {
    while (threads_ < options_.contexts()) {
      Worker& worker = workers_[threads_];
      const bool context = worker.context.is_open() || worker.context.open(model_, options_.context(), failure);
      if (!context || pthread_create(&worker.thread, nullptr, &BatchQueue::go_on, &worker) != 0) break;
      ++threads_;
    }
    if (threads_ == 0 && failure.ok()) failure.set(Status::out_of_memory, "the system gives no thread");
    if (threads_ > 0) failure.clear();  // with fewer threads than asked for
    return threads_ > 0;
  }

  static void* go_on(void* state) {
    Worker& worker = *static_cast<Worker*>(state);
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, nullptr);  // signals belong to the program's own threads
    worker.queue->work(worker);
    return nullptr;
  }

  void work(Worker& worker) {
    pthread_mutex_lock(&mutex_);
    for (;;) {
      int64_t next = 0;
      const int64_t time = now();
      QueueGroup* const group = requests_.ready(stopping_ ? INT64_MAX : time, options_.max_batch(), &next);
      if (group == nullptr) {
        if (stopping_) break;
        const timespec until = {static_cast<time_t>(next / 1000000000), static_cast<long>(next % 1000000000)};
        if (next == 0)
          pthread_cond_wait(&work_, &mutex_);
        else
          pthread_cond_timedwait(&work_, &mutex_, &until);
        continue;
      }
      QueueRequest* const batch = requests_.take_batch(*group, options_.max_batch());
      ++counters_.batches;
      for (const QueueRequest* r = batch; r != nullptr; r = r->next) {
        ++counters_.run;
        counters_.rows += r->rows;
        waited_ += time - r->submitted;
      }
      worker.busy = true;
      pthread_mutex_unlock(&mutex_);
      worker.context.run(batch);
      pthread_mutex_lock(&mutex_);
      worker.busy = false;
      for (QueueRequest *r = batch, *after; r != nullptr; r = after) {
        after = r->next;
        end(*r);
      }
    }
    pthread_mutex_unlock(&mutex_);
  }

  // In the child of a fork() the threads are not there, nor who waits, and what they were changing is half done. Requests of
  // the parent end; contexts that were at work are left alone.
  void forget_parents() {
    const pid_t self = getpid();
    for (pid_t owner = process_.load(std::memory_order_acquire); owner != self;
         owner = process_.load(std::memory_order_acquire)) {
      if (owner == -self) {  // another thread of this process is at it
        sched_yield();
        continue;
      }
      if (!process_.compare_exchange_strong(owner, -self)) continue;
      make_locks();
      threads_ = inside_ = 0;
      joining_ = false;
      counters_.cancelled += requests_.end_all(Status::cancelled, "the request stayed in the process that forked this one");
      for (int64_t k = 0; k < workers_.size(); ++k) {
        if (workers_[k].busy) new (&workers_[k].context) QueueContext;
        workers_[k].busy = false;
      }
      process_.store(self, std::memory_order_release);
    }
  }

  const metac_model& model_;
  QueueOptions options_;
  QueueRequests requests_;
  Array<Worker> workers_;
  ThreadMessages messages_;
  CallerLog log_;  // that of the contexts
  pthread_mutex_t mutex_;
  pthread_cond_t work_, left_;  // for threads of the queue; calls have left, or threads ended
  metac_model_queue_counters counters_{};
  Failure unusable_;
  int64_t waited_ = 0;  // nanoseconds
  int32_t threads_ = 0, inside_ = 0;
  bool usable_ = false, stopping_ = false, joining_ = false;
  std::atomic<pid_t> process_{getpid()};
};

}  // namespace METAC_RUNTIME_NAMESPACE
