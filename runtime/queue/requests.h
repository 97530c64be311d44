// The requests of a batching queue: who has a ticket, and which of those that wait may run together. Nothing here locks.
#pragma once
#include <pthread.h>

#include <new>

#include "../memory.h"
#include "../metac_model.h"
#include "../status.h"

namespace METAC_RUNTIME_NAMESPACE {

struct QueueRequest;

// Requests that wait and whose dims agree but for the first, the oldest first.
struct QueueGroup {
  QueueRequest *first, *last;
  int64_t rows;  // of all of them
  QueueGroup *before, *next;
};

// Memory that all-zero bytes begin. It is used again for request after request, and with it what outputs took.
struct QueueRequest {
  enum State : int32_t { free, waiting, running, done };
  State state;
  int32_t waiters;  // threads that wait for its end
  int64_t ticket;
  int64_t rows, submitted, deadline;  // nanoseconds
  metac_model_tensor* inputs;         // a copy of the caller's array
  metac_model_tensor* outputs;        // the caller's array
  Block* memory;                      // of outputs that the caller gave none for
  QueueGroup* group;
  QueueRequest *before, *next;  // of its group; of a batch; of those that are free
  pthread_cond_t ended;
  Failure failure;
  QueueGroup own_group;  // there are as many groups as requests at most
};

class QueueRequests {
 public:
  QueueRequests() = default;
  QueueRequests(const QueueRequests&) = delete;
  QueueRequests& operator=(const QueueRequests&) = delete;
  ~QueueRequests() {
    for (int64_t k = 0; k < count_; ++k) {
      QueueRequest* const r = at(k);
      for (int32_t o = 0; o < outputs_; ++o) r->memory[o].~Block();
      pthread_cond_destroy(&r->ended);
      std::free(r);
    }
    for (QueueRequest** chunk : chunks_) std::free(chunk);
  }

  void begin(const metac_model& model) {
    inputs_ = model.inputs;
    outputs_ = model.outputs;
  }

  // One that is free, with a ticket of its own; nullptr: no memory.
  QueueRequest* take() {
    if (free_ == nullptr && !grow()) return nullptr;
    QueueRequest* const r = free_;
    free_ = r->next;
    r->next = nullptr;
    r->ticket += most;  // those that had the memory before it have other tickets
    r->failure.clear();
    return r;
  }
  __attribute__((noinline)) void give_back(QueueRequest& r) {
    r.state = QueueRequest::free;
    r.next = free_;
    free_ = &r;
  }
  // The request of a ticket; nullptr: there is none.
  __attribute__((noinline)) QueueRequest* find(int64_t ticket) const {
    const int64_t k = ticket % most;
    if (ticket <= 0 || k >= count_) return nullptr;
    QueueRequest* const r = at(k);
    return r->ticket == ticket && r->state != QueueRequest::free ? r : nullptr;
  }

  int64_t waiting() const { return waiting_; }

  // Has it wait. Is this something for a thread that sleeps to see: a first one to wake up in time for, or a full batch?
  bool add(QueueRequest& r, int64_t most_rows) {
    QueueGroup* group = first_group_;
    while (group != nullptr && !agree(*group->first, r)) group = group->next;
    const bool fresh = group == nullptr;
    if (fresh) {
      group = spare_groups_;
      spare_groups_ = group->next;
      *group = QueueGroup();
      group->before = last_group_;
      (last_group_ != nullptr ? last_group_->next : first_group_) = group;
      last_group_ = group;
    }
    r.state = QueueRequest::waiting;
    r.group = group;
    r.before = group->last;
    r.next = nullptr;
    (group->last != nullptr ? group->last->next : group->first) = &r;
    group->last = &r;
    group->rows += r.rows;
    ++waiting_;
    return fresh || group->rows >= most_rows;
  }

  // Has it wait no longer.
  __attribute__((noinline)) void remove(QueueRequest& r) {
    QueueGroup& group = *r.group;
    (r.before != nullptr ? r.before->next : group.first) = r.next;
    (r.next != nullptr ? r.next->before : group.last) = r.before;
    group.rows -= r.rows;
    r.group = nullptr;
    r.before = r.next = nullptr;
    --waiting_;
    if (group.first != nullptr) return;
    (group.before != nullptr ? group.before->next : first_group_) = group.next;
    (group.next != nullptr ? group.next->before : last_group_) = group.before;
    group.next = spare_groups_;
    spare_groups_ = &group;
  }

  QueueRequest* oldest() const { return first_group_ == nullptr ? nullptr : first_group_->first; }

  // The group that is to run now: of those that fill a batch or whose first has waited long enough, the one that has waited
  // longest. nullptr: none; *next is when there will be one if nobody else comes, 0: never.
  QueueGroup* ready(int64_t now, int64_t most_rows, int64_t* next) const {
    QueueGroup* found = nullptr;
    *next = 0;
    for (QueueGroup* group = first_group_; group != nullptr; group = group->next) {
      const int64_t deadline = group->first->deadline;
      if (*next == 0 || deadline < *next) *next = deadline;
      const bool runs = group->rows >= most_rows || deadline <= now;
      if (runs && (found == nullptr || deadline < found->first->deadline)) found = group;
    }
    return found;
  }

  // Its oldest requests, as many as a batch holds: a list, which waits no longer.
  QueueRequest* take_batch(QueueGroup& group, int64_t most_rows) {
    QueueRequest* batch = nullptr;
    QueueRequest** end = &batch;
    QueueRequest* r = group.first;
    for (int64_t rows = 0; r != nullptr && rows + r->rows <= most_rows;) {
      QueueRequest* const next = r->next;
      rows += r->rows;
      remove(*r);
      r->state = QueueRequest::running;
      *end = r;
      end = &r->next;
      r = next;
    }
    return batch;
  }

  // Everything anew from the states of the requests alone, whatever another thread was changing when the process forked.
  // Those that are not done end with `why`; returns how many.
  int64_t end_all(Status status, const char* why) {
    int64_t ended = 0;
    free_ = nullptr;
    first_group_ = last_group_ = spare_groups_ = nullptr;
    waiting_ = 0;
    for (int64_t k = 0; k < count_; ++k) {
      QueueRequest& r = *at(k);
      pthread_cond_init(&r.ended, nullptr);
      r.waiters = 0;
      r.own_group.next = spare_groups_;
      spare_groups_ = &r.own_group;
      if (r.state == QueueRequest::running)  // what was being changed is left alone
        for (int32_t o = 0; o < outputs_; ++o) new (&r.memory[o]) Block;
      if (r.state == QueueRequest::free) {
        give_back(r);
      } else if (r.state != QueueRequest::done) {
        r.failure.set(status, "%s", why);
        r.state = QueueRequest::done;
        ++ended;
      }
    }
    return ended;
  }

 private:
  static constexpr int64_t most = int64_t{1} << 24;  // requests at once: the lower digits of a ticket say which

  // Pointers lie in chunks of 16, 32, 64, ..., which stay where they are.
  static int32_t chunk_of(int64_t k) { return 59 - __builtin_clzll(static_cast<uint64_t>(k + 16)); }
  QueueRequest*& at(int64_t k) const {
    const int32_t chunk = chunk_of(k);
    return chunks_[chunk][k + 16 - (int64_t{16} << chunk)];
  }

  bool agree(const QueueRequest& a, const QueueRequest& b) const {
    for (int32_t i = 0; i < inputs_; ++i)
      for (int32_t axis = 1; axis < a.inputs[i].rank; ++axis)
        if (a.inputs[i].dims[axis] != b.inputs[i].dims[axis]) return false;
    return true;
  }

  bool grow() {
    if (count_ == most) return false;
    QueueRequest**& chunk = chunks_[chunk_of(count_)];
    if (chunk == nullptr)
      chunk = static_cast<QueueRequest**>(std::calloc(size_t{16} << chunk_of(count_), sizeof(QueueRequest*)));
    if (chunk == nullptr) return false;
    const size_t tensors = static_cast<size_t>(inputs_) * sizeof(metac_model_tensor);
    void* const memory = std::calloc(1, sizeof(QueueRequest) + tensors + static_cast<size_t>(outputs_) * sizeof(Block));
    if (memory == nullptr) return false;
    QueueRequest* const r = static_cast<QueueRequest*>(memory);
    r->inputs = reinterpret_cast<metac_model_tensor*>(r + 1);
    r->memory = reinterpret_cast<Block*>(reinterpret_cast<char*>(r->inputs) + tensors);
    r->ticket = count_;
    pthread_cond_init(&r->ended, nullptr);
    r->own_group.next = spare_groups_;
    spare_groups_ = &r->own_group;
    at(count_) = r;
    ++count_;
    give_back(*r);
    return true;
  }

  int32_t inputs_ = 0, outputs_ = 0;
  QueueRequest** chunks_[21] = {};
  int64_t count_ = 0, waiting_ = 0;
  QueueRequest* free_ = nullptr;
  QueueGroup *first_group_ = nullptr, *last_group_ = nullptr, *spare_groups_ = nullptr;
};

}  // namespace METAC_RUNTIME_NAMESPACE
