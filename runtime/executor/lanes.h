// Which steps of a recorded run wait for which. A step that touches no memory that an earlier one writes, and writes none
// that an earlier one touches, need not wait for it: the two are put on different lanes (streams of a GPU), and what is
// recorded is a graph whose branches run side by side. Told from addresses alone, so what shares memory in the arena stays
// in order.
#pragma once
#include "../memory.h"

namespace METAC_RUNTIME_NAMESPACE {

struct Span {
  uintptr_t begin, end;
  bool written;
};

class LanePlan {
 public:
  static constexpr int32_t most_lanes = 3;  // of steps;
  static constexpr int32_t exchange_lane = most_lanes,
                           all_lanes = most_lanes + 1;  // what processes exchange has one of its own

  // False: no memory.
  bool start() {
    work_count_ = span_count_ = 0;
    for (int32_t a = 0; a < all_lanes; ++a) {
      last_[a] = -1;
      for (int32_t b = 0; b < all_lanes; ++b) seen_[a][b] = -1;
    }
    return (works_.size() > 0 || works_.allocate(most_works)) && (spans_.size() > 0 || spans_.allocate(most_spans));
  }

  // The lane of the next step; `waits` (of all_lanes): the lanes whose work so far must be done before it. forced: it is
  // this one.
  int32_t place(const Span* spans, int32_t count, bool* waits, int32_t forced = -1) {
    for (int32_t b = 0; b < all_lanes; ++b) waits[b] = false;
    if (work_count_ == most_works || span_count_ + count > most_spans) return join(waits, forced < 0 ? 0 : forced);
    int64_t latest[all_lanes];
    for (int32_t b = 0; b < all_lanes; ++b) latest[b] = -1;
    for (int32_t w = 0; w < work_count_; ++w)
      if (meets(works_[w], spans, count)) latest[works_[w].lane] = w;
    // Behind the step that it waits for, if that lane has gone no further; else where least has been done of late.
    int32_t lane = forced;
    for (int32_t b = 0; b < most_lanes && forced < 0; ++b)
      if (latest[b] >= 0 && latest[b] == last_[b] && (lane < 0 || last_[b] > last_[lane])) lane = b;
    for (int32_t b = 0; b < most_lanes && lane < 0; ++b)
      if (last_[b] < 0) lane = b;
    if (lane < 0) {
      lane = 0;
      for (int32_t b = 1; b < most_lanes; ++b)
        if (last_[b] < last_[lane]) lane = b;
    }
    for (int32_t b = 0; b < all_lanes; ++b)
      if (b != lane && latest[b] > seen_[lane][b]) waits[b] = true;
    note(lane, waits);
    works_[work_count_] = {lane, span_count_, count};
    for (int32_t k = 0; k < count; ++k) spans_[span_count_++] = spans[k];
    last_[lane] = work_count_++;
    return lane;
  }

 private:
  static constexpr int32_t most_works = 1024, most_spans = 8192;
  struct Work {
    int32_t lane, first, count;
  };

  bool meets(const Work& work, const Span* spans, int32_t count) const {
    for (int32_t i = 0; i < work.count; ++i) {
      const Span& a = spans_[work.first + i];
      for (int32_t k = 0; k < count; ++k)
        if ((a.written || spans[k].written) && a.begin < spans[k].end && spans[k].begin < a.end) return true;
    }
    return false;
  }

  // A lane that waits for another has seen what that one had.
  void note(int32_t lane, const bool* waits) {
    for (int32_t b = 0; b < all_lanes; ++b) {
      if (!waits[b]) continue;
      seen_[lane][b] = last_[b];
      for (int32_t c = 0; c < all_lanes; ++c)
        if (c != lane && seen_[b][c] > seen_[lane][c]) seen_[lane][c] = seen_[b][c];
    }
  }

  // All that has been is forgotten: everything waits for it. The step itself is remembered by no addresses, so the one
  // behind it waits too.
  int32_t join(bool* waits, int32_t lane) {
    for (int32_t b = 0; b < all_lanes; ++b) waits[b] = b != lane && last_[b] >= 0;
    start();
    works_[0] = {lane, 0, 1};
    spans_[0] = {0, UINTPTR_MAX, true};
    span_count_ = work_count_ = 1;
    last_[lane] = 0;
    return lane;
  }

  Array<Work> works_;
  Array<Span> spans_;
  int32_t work_count_ = 0, span_count_ = 0;
  int64_t last_[all_lanes], seen_[all_lanes][all_lanes];  // numbers of works: of each lane; of each lane in each other
};

}  // namespace METAC_RUNTIME_NAMESPACE
