// Columns out of files that hold whole arrays: .npy, .npz, IDX (MNIST's) and the binary CIFAR files.
#pragma once
#include <algorithm>

#include "data_files.h"
#include "dataset.h"

namespace metac::train {

// A column of fewer bytes may stay in memory.
constexpr int64_t least_fetched_bytes = 1 << 20;

// Samples that lie in a mapped file as they are: a run of many epochs would have all of the file in its memory.
inline void fetch_from(const std::shared_ptr<const FileBytes>& file, Column* column) {
  if (!file->inflated.empty() || column->count * column->stride < least_fetched_bytes) return;
  column->fetch = [file, first = column->data - file->data](int64_t begin, int64_t bytes, char* to) {
    file->copy(static_cast<size_t>(first + begin), static_cast<size_t>(bytes), to);
  };
}

// The first axis counts the samples.
inline Column column_of_npy(const char* bytes, size_t size, std::shared_ptr<const void> owner, const std::string& origin) {
  METAC_RUNTIME_NAMESPACE::FileTensor tensor;
  size_t begin = 0;
  const std::string error = METAC_RUNTIME_NAMESPACE::parse_npy_header(bytes, size, &tensor, &begin);
  if (!error.empty()) fail(origin, ": ", error);
  if (tensor.dims.empty()) fail(origin, " holds a single number; the first axis counts the samples");
  Column column;
  column.dtype = tensor.dtype;
  column.count = tensor.dims[0];
  column.dims.assign(tensor.dims.begin() + 1, tensor.dims.end());
  column.data = bytes + begin;
  column.stride = element_count(column.dims.data(), static_cast<int32_t>(column.dims.size())) * size_of(column.dtype);
  column.owner = std::move(owner);
  column.origin = origin;
  return column;
}

inline Column read_npy(const std::string& path) {
  auto file = map_file(path);
  Column column = column_of_npy(file->data, file->size, file, path);
  fetch_from(file, &column);
  return column;
}

inline Column read_npz(const std::string& path, const std::string& entry) {
  auto file = map_file(path);
  std::vector<METAC_RUNTIME_NAMESPACE::NpzEntry> entries;
  const std::string error = METAC_RUNTIME_NAMESPACE::list_npz(file->data, file->size, &entries);
  if (!error.empty()) fail(path, ": ", error);
  std::string names;
  for (const auto& e : entries) {
    names += (names.empty() ? "" : ", ") + quoted(e.name);
    if (e.name != entry) continue;
    const std::string origin = path + ", entry " + quoted(entry);
    if (!e.deflated) {
      Column column = column_of_npy(e.data, e.size, file, origin);
      fetch_from(file, &column);
      return column;
    }
    auto whole = std::make_shared<std::vector<char>>(inflate(e.data, e.size, e.whole_size, origin));
    const char* const data = whole->data();
    const size_t size = whole->size();
    if (crc32(data, size) != e.crc) fail(origin, ": the compressed data are damaged (checksum)");
    return column_of_npy(data, size, std::move(whole), origin);
  }
  fail(path, " has no entry ", quoted(entry), "; it has ", names.empty() ? "none" : names);
}

// IDX: two zero bytes, element type, rank, dims as big-endian 32-bit numbers, big-endian elements.
inline Column read_idx(const std::string& path) {
  auto file = map_file(path);
  const unsigned char* u = reinterpret_cast<const unsigned char*>(file->data);
  if (file->size < 4 || u[0] != 0 || u[1] != 0) fail(path, ": no IDX file");
  ScalarType type = ScalarType::u8;
  switch (u[2]) {
    case 0x08:
      type = ScalarType::u8;
      break;
    case 0x09:
      type = ScalarType::i8;
      break;
    case 0x0b:
      type = ScalarType::i16;
      break;
    case 0x0c:
      type = ScalarType::i32;
      break;
    case 0x0d:
      type = ScalarType::f32;
      break;
    case 0x0e:
      type = ScalarType::f64;
      break;
    default:
      fail(path, ": element type ", static_cast<int>(u[2]), " of an IDX file is not known");
  }
  const size_t rank = u[3], begin = 4 + 4 * rank;
  if (rank == 0 || rank > most_dims || file->size < begin)
    fail(path, ": the IDX file's header is damaged (rank ", rank, ", ", file->size, " bytes)");
  std::vector<int64_t> dims;
  for (size_t d = 0; d < rank; ++d)
    dims.push_back(static_cast<int64_t>(u[4 + 4 * d]) << 24 | u[5 + 4 * d] << 16 | u[6 + 4 * d] << 8 | u[7 + 4 * d]);
  const int64_t bytes = METAC_RUNTIME_NAMESPACE::bytes_of_dims(type, dims);
  if (bytes < 0 || static_cast<uint64_t>(bytes) != file->size - begin)
    fail(path, ": ", file->size - begin, " bytes of data, its dims ", shape_text(dims.data(), rank), " need ", bytes);
  const size_t width = static_cast<size_t>(size_of(type));
  if (width == 1) {
    Column column;
    column.dtype = type;
    column.count = dims[0];
    column.dims.assign(dims.begin() + 1, dims.end());
    column.data = file->data + begin;
    column.stride = element_count(column.dims.data(), static_cast<int32_t>(column.dims.size()));
    column.owner = file;
    column.origin = path;
    fetch_from(file, &column);
    return column;
  }
  std::vector<char> elements(file->data + begin, file->data + file->size);
  for (size_t at = 0; at < elements.size(); at += width)
    std::reverse(elements.begin() + static_cast<std::ptrdiff_t>(at),
                 elements.begin() + static_cast<std::ptrdiff_t>(at + width));
  return owned_column(type, {dims.begin() + 1, dims.end()}, dims[0], std::move(elements), path);
}

// The binary files of CIFAR-10 (a label, then 3x32x32 bytes) and CIFAR-100 (two labels: coarse and fine). `path` is one of
// them or the folder of all.
inline std::vector<std::string> cifar_files(const std::string& path, bool hundred, bool training) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return {found_file({path}, training ? "training" : "validation")};
  if (hundred)
    return {found_file({(std::filesystem::path(path) / (training ? "train.bin" : "test.bin")).string()},
                       training ? "training" : "validation")};
  if (!training) return {found_file({(std::filesystem::path(path) / "test_batch.bin").string()}, "validation")};
  std::vector<std::string> files;
  for (int k = 1; k <= 5; ++k)
    files.push_back(
        found_file({(std::filesystem::path(path) / ("data_batch_" + std::to_string(k) + ".bin")).string()}, "training"));
  return files;
}

inline Column read_cifar(const std::vector<std::string>& files, bool hundred, const std::string& from) {
  const size_t labels = hundred ? 2 : 1, record = labels + 3072;
  size_t offset = 0, width = 1;
  if (from == "image")
    offset = labels, width = 3072;
  else if (hundred && from == "fine")
    offset = 1;
  else if (!(hundred ? from == "coarse" : from == "label"))
    fail("CIFAR files have no ", quoted(from), "; they have \"image\", ",
         hundred ? "\"coarse\" and \"fine\"" : "and \"label\"");
  std::vector<char> all;
  for (const std::string& path : files) {
    const auto file = map_file(path);
    if (file->size % record != 0) fail(path, ": ", file->size, " bytes, which are no whole records of ", record);
    for (size_t at = offset; at < file->size; at += record) all.insert(all.end(), file->data + at, file->data + at + width);
  }
  const int64_t count = static_cast<int64_t>(all.size() / width);
  return owned_column(ScalarType::u8, from == "image" ? std::vector<int64_t>{3, 32, 32} : std::vector<int64_t>{}, count,
                      std::move(all), files.front());
}

}  // namespace metac::train
