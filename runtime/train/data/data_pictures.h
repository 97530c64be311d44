// A folder with one folder a class, as torchvision's ImageFolder: the classes are numbered in alphabetical order of their
// folders. Pictures stay on disk and are decoded by the loader's threads, batch by batch.
#pragma once
#include <algorithm>
#include <cctype>

#include "data_files.h"
#include "dataset.h"
#include "resize_picture.h"

namespace metac::train {

struct PictureFolder {
  std::vector<std::string> files, classes;
  std::vector<int64_t> labels;
};

inline bool is_picture(const std::filesystem::path& path) {
  std::string ending = path.extension().string();
  for (char& c : ending) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const char* known : {".jpg", ".jpeg", ".png", ".bmp"})
    if (ending == known) return true;
  return false;
}

inline PictureFolder list_pictures(const std::string& folder, const std::string& what) {
  namespace fs = std::filesystem;
  found_file({folder}, what);
  PictureFolder found;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    if (entry.is_directory()) found.classes.push_back(entry.path().filename().string());
  if (error) fail("cannot read the folder ", folder, ": ", error.message());
  std::sort(found.classes.begin(), found.classes.end());
  for (size_t k = 0; k < found.classes.size(); ++k) {
    const size_t before = found.files.size();
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(fs::path(folder) / found.classes[k]))
      if (entry.is_regular_file() && is_picture(entry.path())) found.files.push_back(entry.path().string());
    std::sort(found.files.begin() + static_cast<std::ptrdiff_t>(before), found.files.end());
    found.labels.resize(found.files.size(), static_cast<int64_t>(k));
  }
  if (found.files.empty())
    fail("no pictures for ", what, ": ", folder, " should have one folder a class with .jpg, .png or .bmp files in it");
  return found;
}

inline Column read_pictures(const std::shared_ptr<const PictureFolder>& folder, const Field& field,
                            const std::string& origin) {
  if (field.rank != 3 || (field.dims[0] != 1 && field.dims[0] != 3 && field.dims[0] != 4))
    fail(origin, ": pictures become [channels, height, width] with 1, 3 or 4 channels; the model's ", quoted(field.name),
         " takes ", shape_text(field.dims, static_cast<size_t>(field.rank)));
  Column column;
  column.count = static_cast<int64_t>(folder->files.size());
  column.dims.assign(field.dims, field.dims + 3);
  column.dtype = ScalarType::u8;
  column.owner = folder;
  column.origin = origin;
  column.decode = [folder, dims = column.dims](int64_t sample, double* to) {
    const std::string& path = folder->files[static_cast<size_t>(sample)];
    std::vector<char> file;
    const std::string error = METAC_RUNTIME_NAMESPACE::read_whole(path, &file);
    if (!error.empty()) fail(error);
    resize_picture(decode_picture(file, static_cast<int>(dims[0]), path), dims[1], dims[2], to);
  };
  return column;
}

inline Column read_classes(const std::shared_ptr<const PictureFolder>& folder, const std::string& origin) {
  std::vector<char> bytes(folder->labels.size() * sizeof(int64_t));
  std::memcpy(bytes.data(), folder->labels.data(), bytes.size());
  return owned_column(ScalarType::i64, {}, static_cast<int64_t>(folder->labels.size()), std::move(bytes), origin);
}

}  // namespace metac::train
