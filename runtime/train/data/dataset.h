// Samples in memory (or in a file, or pictures decoded when they are needed): one column a field, all of the same length.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../fault.h"
#include "element_types.h"

namespace metac::train {

struct Column {
  ScalarType dtype = ScalarType::f32;
  std::vector<int64_t> dims;          // of a sample, as the file has it
  int64_t count = 0;                  // samples
  const char* data = nullptr;         // sample i begins at data + i * stride
  int64_t stride = 0;                 // bytes
  std::shared_ptr<const void> owner;  // what keeps `data` alive
  // Where `data` lies in a mapped file: copies bytes from `data + begin` on without making them part of the process's
  // memory. Several threads call it.
  std::function<void(int64_t begin, int64_t bytes, char* to)> fetch;
  // Pictures instead: writes sample i as the field's [channels, height, width], values of 0 to 255; called by several
  // threads.
  std::function<void(int64_t sample, double* to)> decode;
  std::string origin;  // for messages: the file
};

struct Dataset {
  std::vector<Column> columns;  // one for each field
  int64_t count = 0;
  std::vector<std::string> classes;  // names, where the data have any: folders, words in a column
};

// A column whose bytes it owns itself.
inline Column owned_column(ScalarType dtype, std::vector<int64_t> dims, int64_t count, std::vector<char> bytes,
                           const std::string& origin) {
  auto owner = std::make_shared<std::vector<char>>(std::move(bytes));
  Column column;
  column.dtype = dtype;
  column.dims = std::move(dims);
  column.count = count;
  column.data = owner->data();
  column.stride = element_count(column.dims.data(), static_cast<int32_t>(column.dims.size())) * size_of(dtype);
  column.owner = owner;
  column.origin = origin;
  return column;
}

inline std::string shape_text(const int64_t* dims, size_t rank) {
  std::string text = "[";
  for (size_t d = 0; d < rank; ++d) text += (d > 0 ? ", " : "") + std::to_string(dims[d]);
  return text + "]";
}

// Does a sample of the file fit the field? Extents of 1 do not count: [28, 28] fits [1, 28, 28].
inline void check_shape(const Column& column, const Field& field, bool channels_last) {
  if (column.decode) return;
  std::vector<int64_t> wanted(field.dims, field.dims + field.rank), in_file = column.dims;
  if (channels_last && field.rank == 3) wanted = {field.dims[1], field.dims[2], field.dims[0]};
  auto squeeze = [](std::vector<int64_t> dims) {
    std::vector<int64_t> kept;
    for (const int64_t dim : dims)
      if (dim != 1) kept.push_back(dim);
    return kept;
  };
  if (squeeze(wanted) != squeeze(in_file))
    fail(column.origin, ": a sample has the shape ", shape_text(in_file.data(), in_file.size()), ", the model's ",
         quoted(field.name), " takes ", shape_text(wanted.data(), wanted.size()));
}

// All columns must be equally long.
inline void finish(Dataset* data) {
  for (const Column& column : data->columns) {
    if (&column == &data->columns.front()) data->count = column.count;
    if (column.count != data->count)
      fail("the fields differ in length: ", data->columns.front().origin, " has ", data->count, " samples, ", column.origin,
           " has ", column.count);
  }
  if (data->count == 0) fail(data->columns.empty() ? "the data" : data->columns.front().origin, ": no samples");
}

}  // namespace metac::train
