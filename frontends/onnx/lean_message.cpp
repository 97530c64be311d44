#include "frontends/onnx/lean_message.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "frontends/onnx/wire_fields.h"

namespace metac {
namespace {

constexpr uint64_t least_left_out = 4096;

// Where the elements stand, by walking the wire format: Model.graph (7), Graph.initializer (5), Tensor.raw_data (9).
enum class Level { model, graph, tensor };
constexpr uint64_t graph_field = 7, initializer_field = 5, raw_data_field = 9;

void append_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

class LeanReader {
 public:
  explicit LeanReader(const RegularFile& file) : file_(file), window_(size_t{1} << 16) {}

  // The message in bytes [position, end) without what is left out, behind `out`. False: it is not understood.
  bool message(Level level, uint64_t position, uint64_t end, std::string& out) {
    bool has_raw_data = false;
    auto byte_at = [&](uint64_t at) {
      unsigned char byte = 0;
      copy(at, 1, &byte);
      return byte;
    };
    for (WireField field; position < end; position = field.end) {
      if (read_field(byte_at, position, end, field) != WireFault::none) return false;
      auto is = [&](Level of, uint64_t number) { return field.kind == 2 && level == of && field.number == number; };
      if (is(Level::tensor, raw_data_field)) {
        if (has_raw_data) return false;  // the last one counts
        has_raw_data = true;
        if (field.length >= least_left_out) {
          left_out_.push_back({initializers_ - 1, field.value, field.length});
          append_varint(out, field.tag);
          append_varint(out, 0);
          continue;
        }
      }
      if (is(Level::model, graph_field) || is(Level::graph, initializer_field)) {
        if (level == Level::graph) ++initializers_;
        std::string inner;
        if (!message(level == Level::model ? Level::graph : Level::tensor, field.value, field.end, inner)) return false;
        append_varint(out, field.tag);
        append_varint(out, inner.size());
        out += inner;
        continue;
      }
      const size_t before = out.size();
      out.resize(before + (field.end - position));
      copy(position, field.end - position, out.data() + before);
    }
    return true;
  }

  std::map<int, FileBytes> elements() const {
    std::map<int, FileBytes> result;
    for (const Part& part : left_out_) result[part.initializer] = file_.read(part.offset, part.bytes);
    return result;
  }

 private:
  struct Part {
    int initializer;
    uint64_t offset, bytes;
  };

  void copy(uint64_t offset, uint64_t bytes, void* to) {
    if (bytes > window_.size()) return file_.read_into(offset, bytes, to);
    if (offset < window_begin_ || offset + bytes > window_end_) {
      window_begin_ = offset;
      window_end_ = std::min<uint64_t>(file_.size(), offset + window_.size());
      file_.read_into(window_begin_, window_end_ - window_begin_, window_.data());
    }
    std::memcpy(to, window_.data() + (offset - window_begin_), bytes);
  }

  const RegularFile& file_;
  std::vector<char> window_;
  uint64_t window_begin_ = 0, window_end_ = 0;
  int initializers_ = 0;
  std::vector<Part> left_out_;
};

}  // namespace

std::optional<LeanMessage> read_lean_message(const RegularFile& file) {
  LeanReader reader(file);
  LeanMessage message;
  if (!reader.message(Level::model, 0, file.size(), message.bytes)) return std::nullopt;
  message.left_out = reader.elements();
  return message;
}

}  // namespace metac
