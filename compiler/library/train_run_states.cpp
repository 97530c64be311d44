// What a run keeps: in checkpoints, and the same in all processes.
#include <cstring>

#include "compiler/library/train_run.h"
#include "compiler/support/diagnostic.h"
#include "runtime/train/interruption.h"

using namespace metac;
using namespace metac::library;

// ---- what checkpoints have ----
void metac_run::note_steps() {
  for (size_t k = 0; k < optimisers_.size(); ++k)
    if (!optimisers_[k]->taken) numbers_[steps_name(k)] = optimisers_[k]->steps;
}

metac_run::States metac_run::states() {
  std::vector<lazy::Value*> values;
  States now;
  const InGraph in_graph;
  for (const Kept& kept : kept_) values.push_back(kept.var->value);
  lazy::LazyGraph::of_process().evaluate(values.data(), values.size(), {});
  note_steps();
  for (const Kept& kept : kept_) now.elements.push_back(lazy::tensor_of(*kept.var->value));
  for (const auto& [name, value] : numbers_)
    now.elements.push_back(make_tensor(DType::i64, {}, std::vector<int64_t>{value}));
  const auto add = [&](const std::string& name) {
    const Tensor& t = now.elements[now.tensors.size()];
    now.tensors.push_back(
        {name, static_cast<train::ScalarType>(t.dtype), t.shape, t.bytes.get(), static_cast<int64_t>(t.byte_count())});
  };
  for (const Kept& kept : kept_) add(kept.name);
  for (const auto& number : numbers_) add(number.first);
  return now;
}

std::vector<train::ExpectedState> metac_run::expected() const {
  std::vector<train::ExpectedState> all;
  for (const Kept& kept : kept_)
    all.push_back({kept.name, static_cast<train::ScalarType>(kept.var->value->type->dtype), kept.var->value->type->shape});
  for (const auto& number : numbers_) all.push_back({number.first, train::ScalarType::i64, {}});
  return all;
}

void metac_run::take(const train::SafeTensors& file) {
  const InGraph in_graph;
  lazy::LazyGraph& graph = lazy::LazyGraph::of_process();
  for (const Kept& kept : kept_) {
    const train::NamedTensor* const from = file.find(kept.name);
    const std::shared_ptr<std::byte> memory = lazy::memory_for(from->bytes);
    if (from->bytes > 0) std::memcpy(memory.get(), from->data, static_cast<size_t>(from->bytes));
    lazy::Value* const value = graph.data(kept.var->value->type, memory);
    assign_value(kept.var, value, {});
    graph.release(value);
  }
  for (auto& [name, value] : numbers_) std::memcpy(&value, file.find(name)->data, sizeof value);
  for (size_t k = 0; k < optimisers_.size(); ++k) {
    metac_optimiser& optimiser = *optimisers_[k];
    optimiser.steps = optimiser.taken ? steps_taken(optimiser) : numbers_.at(steps_name(k));
  }
}

// What is kept, for a step that may have to be left out: held, it is not written over, so this copies nothing.
void metac_run::before_step() {
  expect_begun(true);
  if (!skips_non_finite_) return;
  const InGraph in_graph;
  std::vector<lazy::Value*> now;
  for (const Kept& kept : kept_) now.push_back(kept.var->value), in_graph->hold(kept.var->value);
  forget();
  kept_before_ = std::move(now);
}

void metac_run::forget() {
  for (lazy::Value* value : kept_before_) lazy::LazyGraph::of_process().release(value);
  kept_before_.clear();
}

void metac_run::save() {
  expect_begun(true);
  const States now = states();
  for (const train::NamedTensor& tensor : now.tensors) {
    int64_t count = 1;
    for (const int64_t dim : tensor.dims) count *= dim;
    const int64_t wrong = train::first_non_finite(tensor.dtype, tensor.data, count);
    if (wrong >= 0)
      train::fail(quoted(tensor.name), " is NaN or infinite (element ", wrong, ") at update ", p_.update,
                  "; no checkpoint is written of it");
  }
  expect_same(now);
  log_.synchronise();
  p_.log_bytes = log_.bytes();
  p_.seconds = report_.seconds();
  if (writes()) files_.checkpoints().save(train::owner_of(tables_), now.tensors, p_, kept_files_);
  saved_ = p_.call;
}

void metac_run::load_best() {
  expect_begun(true);
  train::Position best = p_;
  if (writes()) {
    std::error_code error;
    if (!std::filesystem::exists(files_.best(), error))
      refuse("there is no ", files_.best(), ": that needs patience and scores");
    take(train::read_checkpoint(files_.best(), train::owner_of(tables_), expected(), &best));
  }
  share();
  before_step();
}

// ---- several processes ----
void metac_run::share() {
  if (!all_) return;
  States now = states();
  std::vector<int64_t> bits;
  train::visit(
      p_, metrics_.size(), [&](const std::string&, int64_t& v) { bits.push_back(v); },
      [&](const std::string&, double& v) { bits.emplace_back(), std::memcpy(&bits.back(), &v, 8); });
  all_->broadcast(bits.data(), static_cast<int64_t>(bits.size() * sizeof(int64_t)));
  size_t at = 0;
  train::visit(
      p_, metrics_.size(), [&](const std::string&, int64_t& v) { v = bits[at++]; },
      [&](const std::string&, double& v) { std::memcpy(&v, &bits[at++], 8); });
  std::vector<std::vector<char>> copies;
  train::SafeTensors as_file;
  for (const train::NamedTensor& tensor : now.tensors) {
    const char* const first = static_cast<const char*>(tensor.data);
    copies.emplace_back(first, first + tensor.bytes);
    copies.back().resize(copies.back().size() + 1);
    all_->broadcast(copies.back().data(), tensor.bytes);
    as_file.tensors.push_back({tensor.name, tensor.dtype, tensor.dims, copies.back().data(), tensor.bytes});
  }
  take(as_file);
}

void metac_run::expect_same(const States& now) {
  if (!all_) return;
  std::vector<double> own;
  for (const train::NamedTensor& tensor : now.tensors)
    own.push_back(train::crc32(tensor.data, static_cast<size_t>(tensor.bytes)));
  const auto everyone = all_->gather(own);
  for (int p = 1; p < all_->size(); ++p)
    for (size_t k = 0; k < own.size(); ++k)
      if (everyone[static_cast<size_t>(p)][k] != everyone[0][k])
        train::fail(all_->name_of(p), " has other bits in ", quoted(now.tensors[k].name), " than ", all_->name_of(0),
                    ": an optimiser that the run does not keep, or processors of several kinds");
}

void metac_run::average_statistics(lazy::Site site) {
  if (!all_) return;
  const InGraph in_graph;
  std::vector<const Kept*> averaged_ones;
  std::vector<lazy::Value*> values;
  for (const Kept& kept : kept_)
    if (kept.statistic) averaged_ones.push_back(&kept), values.push_back(kept.var->value);
  values = averaged(*all_, values, site);
  for (size_t k = 0; k < values.size(); ++k) {
    assign_value(averaged_ones[k]->var, values[k], site);
    lazy::LazyGraph::of_process().release(values[k]);
  }
}

// Means over the processes, NaN where one has it; and the signal that any of them was sent.
std::vector<double> metac_run::agreed(std::vector<double> values, int* signal) {
  *signal = catches_ ? static_cast<int>(train::received_signal) : 0;
  if (!all_) return values;
  values.push_back(*signal);
  const auto everyone = all_->gather(values);
  values.pop_back();
  std::fill(values.begin(), values.end(), 0.0);
  for (const std::vector<double>& one : everyone) {
    if (one.back() != 0) *signal = static_cast<int>(one.back());
    for (size_t k = 0; k < values.size(); ++k) values[k] += one[k];
  }
  for (double& value : values) value /= all_->size();
  return values;
}
