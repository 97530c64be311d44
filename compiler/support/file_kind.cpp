#include "compiler/support/file_kind.h"

#include <algorithm>
#include <cctype>

namespace metac {
namespace {

struct Kind {
  std::string_view begin, told;
  size_t at = 0;
};

constexpr std::string_view from_pytorch =
    "a PyTorch file; export the network with torch.onnx.export (docs/exporting_from_pytorch.md)";

// Files that begin in one way.
constexpr Kind kinds[] = {
    {"\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", from_pytorch},  // torch.save before version 1.6
    {"version https://git-lfs", "a pointer of Git LFS, not the file that it stands for; `git lfs pull` fetches that"},
    {"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes; export the network to ONNX with tf2onnx"},
    {"TFL3", "a TensorFlow Lite model; tf2onnx makes ONNX of it", 4},
    {"\x93NUMPY", "a NumPy array; tensors are given with --input"},
    {"GGUF", "a GGUF file, which holds weights and no network"},
    {"{\"", "a safetensors file, which holds weights and no network", 8},
    {"\x1f\x8b", "compressed by gzip; unpack it first"},
    {"\xfd\x37zXZ", "compressed by xz; unpack it first"},
    {"\x28\xb5\x2f\xfd", "compressed by zstd; unpack it first"},
    {"%PDF", "a PDF document"},
    {"\x7f"
     "ELF",
     "an executable or a library"},
    {"\x89PNG", "a picture"},
    {"\xff\xd8\xff", "a picture"},
};

// A zip archive by the names that stand in its first part.
std::string archive_kind(std::string_view bytes) {
  const std::string_view head = bytes.substr(0, 4096);
  const auto holds = [&](std::string_view name) { return head.find(name) != std::string_view::npos; };
  if (holds("/data.pkl") || holds("/byteorder") || holds("/constants.pkl") || holds("/code/"))
    return std::string(from_pytorch);
  if (holds(".npy")) return "an archive of NumPy arrays; tensors are given with --input";
  if (holds("config.json") && holds("metadata.json")) return "a Keras file; export the network to ONNX with tf2onnx";
  return "a zip archive; unpack it first";
}

// From its first letter on.
std::string_view text_of(std::string_view bytes) {
  std::string_view text = bytes.starts_with("\xef\xbb\xbf") ? bytes.substr(3) : bytes;
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  return text;
}

}  // namespace

bool is_json_text(std::string_view bytes) {
  const std::string_view text = text_of(bytes);
  return text.starts_with("{") || text.starts_with("[");
}

std::string known_file_kind(std::string_view bytes) {
  for (const Kind& kind : kinds)
    if (bytes.substr(std::min(kind.at, bytes.size())).starts_with(kind.begin)) return std::string(kind.told);
  if (bytes.starts_with("PK\x03\x04")) return archive_kind(bytes);
  std::string head(text_of(bytes).substr(0, 14));
  std::transform(head.begin(), head.end(), head.begin(), [](unsigned char c) { return std::tolower(c); });
  if (head.starts_with("<!doctype html") || head.starts_with("<html") || head.starts_with("<head"))
    return "an HTML page, not the file that a link led to; download the file itself";
  if (head.starts_with("<?xml"))
    return "an XML document; of OpenVINO's models the ONNX file that they were made of is needed";
  return "";
}

}  // namespace metac
