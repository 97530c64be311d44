// The functions of metac/train.h for data, batches and learning rates: the loaders of training programs, whose batches
// become Vars.
#include "compiler/library/train_data.h"

#include <algorithm>
#include <cstring>

#include "compiler/library/options.h"
#include "compiler/library/tensors.h"
#include "compiler/library/train_processes.h"
#include "compiler/library/vars.h"
#include "compiler/train/recipe/recipe_fields.h"
#include "runtime/train/record/introduce.h"
#include "runtime/train/schedule.h"

using namespace metac;
using namespace metac::library;

namespace {

std::vector<TrainingField> fields_of(const metac_tensor* fields, int32_t count) {
  if (count < 1 || count > 1 << 12) refuse("field_count is ", count, "; it must be 1 to ", 1 << 12);
  need(fields, "fields");
  std::vector<TrainingField> own;
  for (int32_t k = 0; k < count; ++k) {
    metac_tensor type = fields[k];
    need(type.name, "a field's name");
    if (type.dtype < METAC_FLOAT32 || type.dtype > METAC_BOOL) refuse("fields[", k, "]: dtype is ", type.dtype);
    if (type.rank < 0 || (type.rank > 0 && !type.dims)) refuse("fields[", k, "]: rank is ", type.rank, ", or dims is NULL");
    if (type.rank > train::most_dims)
      refuse("the field ", quoted(std::string(type.name)), " has rank ", type.rank, "; at most ", train::most_dims,
             " is taken");
    own.push_back({type.name, static_cast<DType>(type.dtype), {type.dims, type.dims + type.rank}});
    for (const int64_t dim : own.back().shape)
      if (dim < 1) refuse("the field ", quoted(own.back().name), " has a dim of ", dim);
    lazy::tensor_type(own.back().dtype, own.back().shape);  // that there are such elements
  }
  return own;
}

std::unique_ptr<metac_data> described_data(const char* text, int64_t seed, const metac_tensor* fields, int32_t count,
                                           bool in_memory) {
  need(text, "data");
  const JsonDocument document(text, "the data");
  auto data = std::make_unique<metac_data>(read_data(document, document.root(), in_memory), fields_of(fields, count));
  data->seed = seed;
  return data;
}

lazy::Value* value_of(const train::Field& field, int64_t batch, const void* elements) {
  std::vector<int64_t> shape = {batch};
  shape.insert(shape.end(), field.dims, field.dims + field.rank);
  const lazy::TensorType* type = lazy::tensor_type(static_cast<DType>(field.dtype), shape);
  const std::shared_ptr<std::byte> memory = lazy::memory_for(type->bytes);
  if (type->bytes > 0) std::memcpy(memory.get(), elements, static_cast<size_t>(type->bytes));
  return lazy::LazyGraph::of_process().data(type, memory);
}

}  // namespace

metac_status metac_data_open(const char* text, const char* folder, int64_t seed, const metac_tensor* fields,
                             int32_t field_count, metac_data** opened) {
  return answered([&] {
    need(opened, "opened");
    auto data = described_data(text, seed, fields, field_count, false);
    data->parts = train::open_data(data->own.tables, folder ? folder : ".", seed);
    *opened = data.release();
  });
}

metac_status metac_data_of_arrays(const char* text, const metac_tensor* arrays, int32_t array_count, int64_t seed,
                                  const metac_tensor* fields, int32_t field_count, metac_data** opened) {
  return answered([&] {
    need(opened, "opened");
    auto data = described_data(text, seed, fields, field_count, true);
    const std::map<std::string, Tensor> given = views_of(arrays, array_count, "array");
    auto samples = std::make_shared<train::Dataset>();
    const train::TrainTables& tables = data->own.tables;
    for (int32_t f = 0; f < tables.field_count; ++f) {
      const std::string from = tables.data.fields[f].from;
      const auto found = given.find(from);
      if (found == given.end()) {
        std::string all;
        for (const auto& [name, tensor] : given) all += (all.empty() ? "" : ", ") + quoted(name);
        refuse("there is no array ", quoted(from), " for the field ", quoted(std::string(tables.fields[f].name)),
               "; there are ", all.empty() ? "none" : all);
      }
      const Tensor& tensor = found->second;
      if (tensor.shape.empty()) refuse("the array ", quoted(from), " is a single number; the first axis counts the samples");
      const char* const first = reinterpret_cast<const char*>(tensor.bytes.get());
      samples->columns.push_back(train::owned_column(
          static_cast<train::ScalarType>(tensor.dtype), {tensor.shape.begin() + 1, tensor.shape.end()}, tensor.shape[0],
          std::vector<char>(first, first + tensor.byte_count()), "the array " + quoted(from)));
      train::check_shape(samples->columns.back(), tables.fields[f], tables.data.fields[f].channels_last);
    }
    train::finish(samples.get());
    data->parts = train::parts_of(tables, samples, nullptr, seed);
    *opened = data.release();
  });
}

void metac_data_free(metac_data* data) { delete data; }

int64_t metac_data_samples(const metac_data* data, int32_t validation) {
  if (!data) return 0;
  return static_cast<int64_t>((validation ? data->parts.validation : data->parts.train).samples.size());
}

const char* metac_data_class(const metac_data* data, int32_t index) {
  if (!data || index < 0) return nullptr;
  const std::vector<std::string>& classes = data->parts.train.data->classes;
  return static_cast<size_t>(index) < classes.size() ? classes[static_cast<size_t>(index)].c_str() : nullptr;
}

metac_status metac_loader_make(metac_data* data, const metac_loader_options* given, metac_loader** made) {
  return answered([&] {
    need(data, "data"), need(given, "options"), need(made, "made");
    check_size("metac_loader_options", given->size, sizeof(metac_loader_options));
    if (given->batch < 1 || given->batch > 1 << 24) refuse("batch is ", given->batch, "; it must be 1 or more");
    if (given->threads < 0 || given->threads > 256) refuse("threads is ", given->threads, "; it must be 0 to 256");
    const bool validation = given->validation != 0;
    const train::DataOf& part = validation ? data->parts.validation : data->parts.train;
    if (part.samples.empty()) refuse("no samples are set aside for validation");
    train::Processes* const all = given->processes ? given->processes->all.get() : nullptr;
    auto loader = std::make_unique<metac_loader>();
    loader->tables = data->own.tables;
    loader->tables.settings.batch = given->batch;
    train::BatchLoader::Options options;
    options.shuffle = !validation && loader->tables.data.shuffle;
    options.drop_last = !validation && loader->tables.data.drop_last;
    options.augment = !validation;
    options.seed = data->seed;
    options.threads = given->threads > 0 ? given->threads : train::usual_loaders(loader->tables.data.format);
    if (all) options.process = all->rank(), options.processes = all->size();
    loader->batches = std::make_unique<train::BatchLoader>(loader->tables, part, options);
    if (loader->batches->batches_per_epoch() == 0)
      refuse(part.data->columns.front().origin, ": ", part.samples.size(), " samples do not fill a batch of ", given->batch,
             all ? concat(" for each of ", all->size(), " processes") : "");
    if (all && !data->compared) train::expect_same_data(*all, loader->tables, data->parts);
    data->compared = true;
    loader->batches->start(0, 0);
    *made = loader.release();
  });
}

void metac_loader_free(metac_loader* loader) { delete loader; }
int64_t metac_loader_batches(const metac_loader* loader) { return loader ? loader->batches->batches_per_epoch() : 0; }

metac_status metac_loader_start(metac_loader* loader, int64_t epoch, int64_t batch) {
  return answered([&] {
    need(loader, "loader");
    const int64_t batches = loader->batches->batches_per_epoch();
    if (epoch < 0 || batch < 0 || batch > batches)
      refuse("epoch is ", epoch, " and batch ", batch, "; an epoch has ", batches, " batches");
    loader->batches->start(epoch, batch);
  });
}

metac_status metac_loader_next(metac_loader* loader, metac_var** fields, int32_t count, int64_t* valid) {
  return answered([&] {
    need(loader, "loader"), need(fields, "fields"), need(valid, "valid");
    const train::TrainTables& tables = loader->tables;
    if (count != tables.field_count) refuse("count is ", count, "; a batch has ", tables.field_count, " fields");
    const train::Batch& batch = loader->batches->next();
    const InGraph in_graph;
    std::vector<std::unique_ptr<metac_var, void (*)(metac_var*)>> made;
    for (int32_t f = 0; f < count; ++f)
      made.emplace_back(
          new metac_var{value_of(tables.fields[f], tables.settings.batch, batch.fields[static_cast<size_t>(f)]->data())},
          release_var);
    for (int32_t f = 0; f < count; ++f) fields[f] = made[static_cast<size_t>(f)].release();
    *valid = batch.valid;
  });
}

struct metac_schedule {
  ScheduleRecipe recipe;
  train::Schedule schedule;
  int64_t updates;
  double per_epoch;
};

metac_status metac_schedule_make(const char* text, double rate, int64_t updates, double per_epoch, metac_schedule** made) {
  return answered([&] {
    need(text, "schedule"), need(made, "made");
    if (!(rate >= 0) || updates < 1 || !(per_epoch > 0))
      refuse("rate is ", rate, ", updates ", updates, ", per_epoch ", per_epoch);
    const JsonDocument document(text, "the schedule");
    auto own = std::make_unique<metac_schedule>();
    own->recipe = read_schedule(document, document.root());
    complete_schedule(own->recipe, rate);
    const ScheduleRecipe& s = own->recipe;
    own->schedule = {s.kind,      rate,     s.final_rate, s.initial_rate,      s.warmup,
                     s.in_epochs, s.period, s.gamma,      s.milestones.data(), static_cast<int32_t>(s.milestones.size())};
    own->updates = updates, own->per_epoch = per_epoch;
    *made = own.release();
  });
}

metac_status metac_schedule_rate(const metac_schedule* schedule, int64_t update, double* rate) {
  return answered([&] {
    need(schedule, "schedule"), need(rate, "rate");
    if (update < 0) refuse("update is ", update);
    *rate = train::rate_at(schedule->schedule, update, schedule->updates, schedule->per_epoch);
  });
}

void metac_schedule_free(metac_schedule* schedule) { delete schedule; }
