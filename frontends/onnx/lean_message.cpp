#include "frontends/onnx/lean_message.h"

#include <algorithm>
#include <cstring>
#include <vector>

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

  // The message that ends at `end` without what is left out, behind `out`. False: it is not understood.
  bool message(Level level, uint64_t end, std::string& out) {
    bool has_raw_data = false;
    while (position_ < end) {
      const uint64_t start = position_;
      uint64_t tag = 0, length = 0;
      if (!varint(end, tag)) return false;
      const uint64_t number = tag >> 3;
      switch (tag & 7) {
        case 0:
          if (!varint(end, length)) return false;
          break;
        case 1:
          position_ += 8;
          break;
        case 5:
          position_ += 4;
          break;
        case 2:
          if (!varint(end, length) || length > end - position_) return false;
          if (level == Level::tensor && number == raw_data_field) {
            if (has_raw_data) return false;  // the last one counts
            has_raw_data = true;
            if (length >= least_left_out) {
              left_out_.push_back({initializers_ - 1, position_, length});
              position_ += length;
              append_varint(out, tag);
              append_varint(out, 0);
              continue;
            }
          }
          if ((level == Level::model && number == graph_field) || (level == Level::graph && number == initializer_field)) {
            if (level == Level::graph) ++initializers_;
            std::string inner;
            if (!message(level == Level::model ? Level::graph : Level::tensor, position_ + length, inner)) return false;
            append_varint(out, tag);
            append_varint(out, inner.size());
            out += inner;
            continue;
          }
          position_ += length;
          break;
        default:
          return false;
      }
      if (position_ > end) return false;
      const size_t before = out.size();
      out.resize(before + (position_ - start));
      copy(start, position_ - start, out.data() + before);
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

  bool varint(uint64_t end, uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 70 && position_ < end; shift += 7) {
      char byte = 0;
      copy(position_++, 1, &byte);
      if (shift < 64) value |= uint64_t{static_cast<unsigned char>(byte) & 0x7fu} << shift;
      if ((byte & 0x80) == 0) return true;
    }
    return false;
  }

  void copy(uint64_t offset, uint64_t bytes, char* to) {
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
  uint64_t window_begin_ = 0, window_end_ = 0, position_ = 0;
  int initializers_ = 0;
  std::vector<Part> left_out_;
};

}  // namespace

std::optional<LeanMessage> read_lean_message(const RegularFile& file) {
  LeanReader reader(file);
  LeanMessage message;
  if (!reader.message(Level::model, file.size(), message.bytes)) return std::nullopt;
  message.left_out = reader.elements();
  return message;
}

}  // namespace metac
