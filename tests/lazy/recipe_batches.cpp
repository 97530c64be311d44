// The batches that a training program of models/digits makes, by its own headers: the bytes of some of each epoch, to
// stdout. Arguments: the folder of the data, the seed.
#include <cstdio>
#include <cstdlib>

#include "runtime/train/data/batch_loader.h"

int main(int, char** arguments) {
  using namespace metac::train;
  const double mean[] = {0.3}, deviation[] = {0.4};
  const Field fields[] = {{"image", ScalarType::f32, 3, {1, 8, 8}}, {"label", ScalarType::i64, 0, {}}};
  const FieldSource sources[] = {{"image", 0.0625, mean, deviation, 1, false, true, 1},
                                 {"label", 1, mean, deviation, 0, false, false, 0}};
  TrainTables tables{};
  tables.fields = fields, tables.field_count = 2;
  tables.settings.batch = 48;
  tables.data = {DataFormat::npz, "train.npz", nullptr, 0.2, true, true, sources};
  const int64_t seed = std::atoll(arguments[2]);
  const OpenedData data = open_data(tables, arguments[1], seed);
  const auto print = [&](BatchLoader& loader, int64_t epoch, int64_t count) {
    loader.start(epoch, 0);
    for (int64_t k = 0; k < count; ++k) {
      const Batch& batch = loader.next();
      std::fwrite(&batch.valid, sizeof batch.valid, 1, stdout);
      for (size_t f = 0; f < 2; ++f)
        std::fwrite(batch.fields[f]->data(), 1, static_cast<size_t>(byte_count(fields[f]) * tables.settings.batch), stdout);
    }
  };
  BatchLoader training(tables, data.train, {true, true, true, seed, 2}),
      validation(tables, data.validation, {false, false, false, seed, 1});
  print(training, 0, training.batches_per_epoch());
  print(training, 3, training.batches_per_epoch());
  print(validation, 0, validation.batches_per_epoch());
}
