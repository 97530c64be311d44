// Safetensors files of Vars, as metac.nn and the package safetensors write and read them.
#pragma once
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>

#include "../detail/json.hpp"
#include "../dtypes.hpp"
#include "../var.hpp"

namespace metac::nn {
namespace detail {

using namespace metac::detail;

// A file beside `path` that becomes it as a whole, or goes.
class UnfinishedFile {
 public:
  explicit UnfinishedFile(std::filesystem::path path)
      : path_(std::move(path)), own_(path_.string() + "." + std::to_string(std::random_device{}()) + ".unfinished") {
    file_ = std::fopen(own_.c_str(), "wbx");
    if (!file_) fail();
  }
  ~UnfinishedFile() {
    if (file_) std::fclose(file_);
    std::error_code ignored;
    if (!own_.empty()) std::filesystem::remove(own_, ignored);
  }
  UnfinishedFile(const UnfinishedFile&) = delete;
  UnfinishedFile& operator=(const UnfinishedFile&) = delete;

  void write(const void* bytes, size_t count) {
    if (count && std::fwrite(bytes, 1, count, file_) != count) fail();
  }
  void finish() {
    const bool written = std::fclose(std::exchange(file_, nullptr)) == 0;
    if (!written) fail();
    std::error_code error;
    std::filesystem::rename(own_, path_, error);
    if (error) throw Error(METAC_INVALID_ARGUMENT, path_.string() + " cannot be written: " + error.message());
    own_.clear();
  }

 private:
  [[noreturn]] void fail() const {
    throw Error(METAC_INVALID_ARGUMENT, path_.string() + " cannot be written: " + std::strerror(errno));
  }
  std::filesystem::path path_;
  std::string own_;  // "" once it is finished
  std::FILE* file_ = nullptr;
};

// What the header says of one tensor, checked against the bytes behind it.
struct StoredTensor {
  const DtypeFacts* facts = nullptr;
  std::vector<int64_t> dims;
  int64_t begin = 0, bytes = 0;
};

inline StoredTensor stored_tensor(const std::string& name, const JsonValue& told, int64_t bytes_behind) {
  const auto wrong = [&](const std::string& what) {
    return Error(METAC_MODEL, "tensor " + json_quoted(name) + ": " + what);
  };
  const JsonValue *dtype = told.find("dtype"), *shape = told.find("shape"), *offsets = told.find("data_offsets");
  if (!dtype || dtype->kind != JsonValue::text || !shape || shape->kind != JsonValue::list || !offsets ||
      offsets->kind != JsonValue::list || offsets->items.size() != 2)
    throw wrong("dtype, shape or data_offsets is missing");
  StoredTensor stored;
  for (const DtypeFacts& each : dtypes)
    if (each.in_safetensors == dtype->words) stored.facts = &each;
  if (!stored.facts) throw wrong("there is no dtype " + json_quoted(dtype->words) + " here");
  stored.bytes = stored.facts->bytes;
  for (const JsonValue& item : shape->items) {
    int64_t dim = 0;
    if (!item.integer(dim) || dim < 0 || __builtin_mul_overflow(stored.bytes, dim, &stored.bytes))
      throw wrong("no shape of a tensor");
    stored.dims.push_back(dim);
  }
  int64_t end = 0;
  if (!offsets->items[0].integer(stored.begin) || !offsets->items[1].integer(end) || stored.begin < 0 ||
      end < stored.begin || end > bytes_behind)
    throw wrong("its data_offsets are outside of the file");
  if (end - stored.begin != stored.bytes)
    throw wrong(std::to_string(end - stored.begin) + " bytes, its shape " + shape_text(stored.dims) + " needs " +
                std::to_string(stored.bytes));
  return stored;
}

inline NamedVars read_safetensors(std::ifstream& file, int64_t size) {
  unsigned char length_bytes[8] = {};
  file.read(reinterpret_cast<char*>(length_bytes), 8);
  uint64_t length = 0;
  for (int k = 7; k >= 0; --k) length = length << 8 | length_bytes[k];
  if (!file || size < 8 || length > static_cast<uint64_t>(size - 8)) throw Error(METAC_MODEL, "its header does not end");
  std::string text(static_cast<size_t>(length), '\0');
  file.read(text.data(), static_cast<std::streamsize>(length));
  const JsonValue header = JsonReader(text).document();
  if (header.kind != JsonValue::object) throw Error(METAC_MODEL, "its header is no object");
  const int64_t first = 8 + static_cast<int64_t>(length);
  std::map<std::string, bool> seen;
  NamedVars named;
  std::vector<char> bytes;
  for (const auto& [name, told] : header.members) {
    if (name == "__metadata__") continue;
    if (!seen.emplace(name, true).second) throw Error(METAC_MODEL, "tensor " + json_quoted(name) + " is there twice");
    const StoredTensor stored = stored_tensor(name, told, size - first);
    bytes.resize(static_cast<size_t>(stored.bytes));
    file.seekg(first + stored.begin);
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!file) throw Error(METAC_MODEL, "it cannot be read to its end");
    const Tensor tensor(name, static_cast<const void*>(bytes.data()), stored.dims, stored.facts->dtype);
    const metac_tensor given = tensor.c_tensor();
    metac_var* made = nullptr;
    check(metac_var_from(&given, &made));
    named.emplace_back(name, Var(made));
  }
  return named;
}

}  // namespace detail

// Writes a safetensors file, which appears whole or not at all. Throws where it cannot be written; what was there stays
// then.
inline void save_weights(const std::string& path, const NamedVars& named, Place where = Place::current()) {
  std::vector<Var> vars;
  for (const auto& [name, var] : named) vars.push_back(var);
  if (!vars.empty()) evaluate(vars, where);
  std::string header;
  std::map<std::string, bool> seen;
  int64_t at = 0;
  for (const auto& [name, var] : named) {
    if (!seen.emplace(name, true).second)
      throw Error(METAC_INVALID_ARGUMENT, "two weights have the name " + detail::json_quoted(name));
    const DtypeFacts& facts = facts_of(var.dtype());
    std::string dims;
    for (const int64_t dim : var.shape()) dims += (dims.empty() ? "" : ", ") + std::to_string(dim);
    const int64_t end = at + var.size() * facts.bytes;
    header += (header.empty() ? "{" : ", ") + detail::json_quoted(name) + ": {\"dtype\": \"" + facts.in_safetensors +
              "\", \"shape\": [" + dims + "], \"data_offsets\": [" + std::to_string(at) + ", " + std::to_string(end) + "]}";
    at = end;
  }
  header += header.empty() ? "{}" : "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  unsigned char length[8];
  for (int k = 0; k < 8; ++k) length[k] = static_cast<unsigned char>(static_cast<uint64_t>(header.size()) >> (8 * k));
  detail::UnfinishedFile file(path);
  file.write(length, 8);
  file.write(header.data(), header.size());
  for (const auto& [name, var] : named) {
    const Result result = var.read(where);
    file.write(result[0].data(), static_cast<size_t>(var.size() * facts_of(var.dtype()).bytes));
  }
  file.finish();
}

// The tensors of a safetensors file, or the initialisers of an ONNX file, in its order. Throws Error with METAC_MODEL where
// it is damaged, METAC_INVALID_ARGUMENT where there is none.
inline NamedVars load_weights(const std::string& path) {
  if (path.ends_with(".onnx")) {
    metac_result* weights = nullptr;
    detail::check(metac_var_weights(path.c_str(), &weights));
    const Result result(weights);
    NamedVars named;
    for (size_t k = 0; k < result.size(); ++k) {
      const metac_tensor given = result[k].c_tensor();
      metac_var* made = nullptr;
      detail::check(metac_var_from(&given, &made));
      named.emplace_back(result[k].name(), Var(made));
    }
    return named;
  }
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file || std::filesystem::is_directory(path))
    throw Error(METAC_INVALID_ARGUMENT, path + " cannot be read: " + std::strerror(file ? EISDIR : errno));
  const std::streamoff size = file.tellg();
  file.seekg(0);
  try {
    return detail::read_safetensors(file, size);
  } catch (const Error& error) {
    if (error.status != METAC_MODEL) throw;
    throw Error(METAC_MODEL, path + " is no safetensors file: " + error.what());
  }
}

}  // namespace metac::nn
