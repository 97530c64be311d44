// The data that the recipe names, and their parts for training and for validation.
#pragma once
#include <algorithm>
#include <iterator>

#include "../random.h"
#include "data_arrays.h"
#include "data_csv.h"
#include "data_pictures.h"

namespace metac::train {

struct DataOf {  // which samples of a dataset
  std::shared_ptr<const Dataset> data;
  std::vector<int64_t> samples;
};
struct OpenedData {
  DataOf train, validation;
};  // validation.samples is empty where there is none

inline Dataset read_dataset(const TrainTables& tables, const std::string& path, bool training) {
  const DataSpec& spec = tables.data;
  const std::string role = training ? "training" : "validation";
  Dataset data;
  std::shared_ptr<CsvTable> csv;
  std::shared_ptr<PictureFolder> pictures;
  std::vector<std::string> cifar;
  std::vector<std::vector<size_t>> picked(static_cast<size_t>(tables.field_count));
  const bool hundred = spec.format == DataFormat::cifar100;
  if (spec.format == DataFormat::csv) {
    csv = std::make_shared<CsvTable>(found_file({path, path + ".csv", path + ".csv.gz", path + ".gz"}, role));
    std::set<size_t> named;
    for (const bool rest : {false, true}) {
      for (int32_t f = 0; f < tables.field_count; ++f) {
        if ((std::string(spec.fields[f].from) == "*") != rest) continue;
        picked[static_cast<size_t>(f)] = csv->columns(spec.fields[f].from, named);
        if (!rest) named.insert(picked[static_cast<size_t>(f)].begin(), picked[static_cast<size_t>(f)].end());
      }
    }
  }
  if (spec.format == DataFormat::images) {
    pictures = std::make_shared<PictureFolder>(list_pictures(path, role));
    data.classes = pictures->classes;
  }
  if (spec.format == DataFormat::cifar10 || hundred) cifar = cifar_files(path, hundred, training);
  for (int32_t f = 0; f < tables.field_count; ++f) {
    const Field& field = tables.fields[f];
    const std::string from = spec.fields[f].from, what = "the field " + quoted(field.name) + " (" + role + ")";
    Column column;
    switch (spec.format) {
      case DataFormat::npy:
        column = read_npy(file_of_field(path, from, {"", ".npy"}, what));
        break;
      case DataFormat::npz:
        column = read_npz(found_file({path, path + ".npz"}, role), from);
        break;
      case DataFormat::idx:
        column = read_idx(file_of_field(path, from, {"", ".gz"}, what));
        break;
      case DataFormat::cifar10:
      case DataFormat::cifar100:
        column = read_cifar(cifar, hundred, from);
        break;
      case DataFormat::csv: {
        const std::vector<size_t>& columns = picked[static_cast<size_t>(f)];
        if (columns.empty()) fail(path, ": no columns are left for the field ", quoted(field.name));
        column = csv->column(columns, &data.classes);
        break;
      }
      case DataFormat::images:
        if (from != "image" && from != "class") fail("image folders have \"image\" and \"class\", not ", quoted(from));
        column = from == "image" ? read_pictures(pictures, field, path) : read_classes(pictures, path);
        break;
    }
    check_shape(column, field, spec.fields[f].channels_last);
    data.columns.push_back(std::move(column));
  }
  finish(&data);
  return data;
}

// The first of the classes that only one of two sets of data has, for messages. Both are sorted.
inline std::string classes_of_one(const Dataset& one, const Dataset& other) {
  std::vector<std::string> alone;
  std::set_difference(one.classes.begin(), one.classes.end(), other.classes.begin(), other.classes.end(),
                      std::back_inserter(alone));
  if (alone.empty()) return "";
  std::string text = "; only in " + one.columns.front().origin + ":";
  for (size_t k = 0; k < alone.size() && k < 5; ++k) text += (k > 0 ? ", " : " ") + train::quoted(alone[k]);
  return text + (alone.size() > 5 ? text_of(" and ", alone.size() - 5, " more") : std::string());
}

// The parts of data that are there: `validation` null: there is none but what the recipe sets aside. The split depends on
// the seed alone: a share of random samples is set aside.
inline OpenedData parts_of(const TrainTables& tables, std::shared_ptr<const Dataset> train,
                           std::shared_ptr<const Dataset> validation, int64_t seed) {
  const DataSpec& spec = tables.data;
  OpenedData opened;
  opened.train.data = std::move(train);
  const int64_t count = opened.train.data->count;
  auto all_of = [](int64_t n) {
    std::vector<int64_t> order(static_cast<size_t>(n));
    std::iota(order.begin(), order.end(), int64_t{0});
    return order;
  };
  opened.train.samples = all_of(count);
  if (validation != nullptr) {
    opened.validation.data = std::move(validation);
    opened.validation.samples = all_of(opened.validation.data->count);
    if (opened.train.data->classes != opened.validation.data->classes)
      fail("training and validation have different classes", classes_of_one(*opened.train.data, *opened.validation.data),
           classes_of_one(*opened.validation.data, *opened.train.data));
  } else if (spec.validation_split > 0) {
    const int64_t aside = static_cast<int64_t>(spec.validation_split * static_cast<double>(count) + 0.5);
    if (aside >= count || aside < 1)
      fail("a validation split of ", spec.validation_split, " leaves ", count - aside, " of ", count,
           " samples for training and ", aside, " for validation");
    std::vector<int64_t> order = permutation(count, seed, Stream::split, 0);
    opened.validation.data = opened.train.data;
    opened.validation.samples.assign(order.end() - static_cast<std::ptrdiff_t>(aside), order.end());
    opened.train.samples.assign(order.begin(), order.end() - static_cast<std::ptrdiff_t>(aside));
    std::sort(opened.validation.samples.begin(), opened.validation.samples.end());
    std::sort(opened.train.samples.begin(), opened.train.samples.end());
  }
  if (static_cast<int64_t>(opened.train.samples.size()) < tables.settings.batch)
    fail(opened.train.data->columns.front().origin, ": ", opened.train.samples.size(),
         " samples for training, which do not fill a batch of ", tables.settings.batch);
  return opened;
}

// `folder`: --data.
inline OpenedData open_data(const TrainTables& tables, const std::string& folder, int64_t seed) {
  const DataSpec& spec = tables.data;
  auto train = std::make_shared<Dataset>(read_dataset(tables, below(folder, spec.train), true));
  std::shared_ptr<Dataset> validation;
  if (spec.validation != nullptr)
    validation = std::make_shared<Dataset>(read_dataset(tables, below(folder, spec.validation), false));
  return parts_of(tables, std::move(train), std::move(validation), seed);
}

}  // namespace metac::train
