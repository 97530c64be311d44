// The functions of metac/train.h for the processes of one launcher.
#include "compiler/library/train_processes.h"

#include <atomic>
#include <cstring>

#include "runtime/train/record/introduce.h"

using namespace metac;
using namespace metac::library;

namespace metac::library {

std::vector<lazy::Value*> averaged(train::Processes& all, const std::vector<lazy::Value*>& values, lazy::Site site) {
  lazy::LazyGraph& graph = lazy::LazyGraph::of_process();
  for (const lazy::Value* value : values)
    if (value->type->dtype != DType::f32 && value->type->dtype != DType::f64)
      refuse("means over processes are of float32 and float64, not of ", lazy::text_of(*value->type));
  graph.evaluate(values.data(), values.size(), site);
  std::vector<std::shared_ptr<std::byte>> means;
  for (size_t k = 0; k < values.size(); ++k) {
    const int64_t bytes = values[k]->type->bytes;
    means.push_back(lazy::memory_for(bytes));
    if (bytes > 0) std::memcpy(means[k].get(), values[k]->bytes.get(), static_cast<size_t>(bytes));
    if (bytes > 0)
      all.begin(static_cast<int32_t>(k), means[k].get(), static_cast<train::ScalarType>(values[k]->type->dtype), bytes);
  }
  for (size_t k = 0; k < values.size(); ++k) all.wait(static_cast<int32_t>(k));
  std::vector<lazy::Value*> made;
  for (size_t k = 0; k < values.size(); ++k) made.push_back(graph.data(values[k]->type, means[k]));
  return made;
}

}  // namespace metac::library

metac_status metac_processes_open(metac_processes** opened) {
  return answered([&] {
    need(opened, "opened");
    auto processes = std::make_unique<metac_processes>();
    processes->launch = train::launch_of_environment();
    if (processes->launch.size > 1) {
      static std::atomic<bool> begun{false};  // MPI begins once in a process
      if (begun.exchange(true)) refuse("the processes of this launcher were opened before");
      processes->all = std::make_unique<train::Processes>(processes->launch, false, train::Processes::usual_silence, true);
      train::introduce(*processes->all, "metac", {{"version of metac", METAC_VERSION}});
    }
    *opened = processes.release();
  });
}

int32_t metac_processes_rank(const metac_processes* processes) { return processes ? processes->launch.rank : 0; }
int32_t metac_processes_size(const metac_processes* processes) { return processes ? processes->launch.size : 1; }

metac_status metac_processes_average(metac_processes* processes, metac_var* const* vars, int32_t count, metac_var** outputs,
                                     const metac_site* site) {
  return answered([&] {
    need(processes, "processes"), need(vars, "vars"), need(outputs, "outputs");
    if (count < 0 || count > 1 << 20) refuse("count is ", count);
    const InGraph in_graph;
    std::vector<lazy::Value*> values;
    for (int32_t k = 0; k < count; ++k) need(vars[k], "a Var"), values.push_back(vars[k]->value);
    if (processes->all)
      values = averaged(*processes->all, values, site_of(site));
    else
      for (lazy::Value* value : values) lazy::LazyGraph::of_process().hold(value);
    for (int32_t k = 0; k < count; ++k) outputs[k] = new metac_var{values[static_cast<size_t>(k)]};
  });
}

metac_status metac_processes_sum(metac_processes* processes, double* values, int32_t count) {
  return answered([&] {
    need(processes, "processes");
    if (count < 0) refuse("count is ", count);
    if (count > 0) need(values, "values");
    if (!processes->all) return;
    const auto everyone = processes->all->gather(std::vector<double>(values, values + count));
    std::fill(values, values + count, 0.0);
    for (const std::vector<double>& one : everyone)
      for (int32_t k = 0; k < count; ++k) values[k] += one[static_cast<size_t>(k)];
  });
}

metac_status metac_processes_finish(metac_processes* processes) {
  return answered([&] {
    need(processes, "processes");
    if (processes->all && !processes->finished) processes->all->finish();
    processes->finished = true;
  });
}

void metac_processes_free(metac_processes* processes) { delete processes; }
