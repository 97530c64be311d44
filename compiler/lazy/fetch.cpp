// Values that are handed over when they are there, without anybody looking at them for that.
#include <algorithm>

#include "compiler/lazy/lazy_graph.h"
#include "compiler/support/diagnostic.h"

namespace metac::lazy {

void LazyGraph::fetch(const std::vector<Value*>& values, Fetched done) {
  for (const Value* value : values)
    if (value->state == ValueState::placeholder) fail("a function that is traced fetches the values of an argument");
  for (Value* value : values) hold(value);
  waiting_.push_back({values, std::move(done)});
  note_fetched();
}

// Those that wait for nothing any more become calls, in the order in which they were asked for.
void LazyGraph::note_fetched() {
  const auto is_complete = [](const Waiting& each) {
    return std::all_of(each.values.begin(), each.values.end(),
                       [](const Value* v) { return v->state == ValueState::exists; });
  };
  for (Waiting& each : waiting_) {
    if (!is_complete(each)) continue;
    std::vector<Tensor> elements;
    for (Value* value : each.values) {
      elements.push_back(tensor_of(*value));
      release(value);
    }
    each.values.clear();
    fetched_.push_back(
        [done = std::move(each.done), elements = std::move(elements)]() mutable { done(std::move(elements)); });
  }
  waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(), [](const Waiting& each) { return each.values.empty(); }),
                 waiting_.end());
}

void LazyGraph::evaluate_fetched(Site site) {
  std::vector<Value*> values;
  for (const Waiting& each : waiting_) values.insert(values.end(), each.values.begin(), each.values.end());
  if (!values.empty()) evaluate(values.data(), values.size(), site);
}

}  // namespace metac::lazy
