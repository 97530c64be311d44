// Parsing with a reason. Protobuf's parser only says that it failed; on failure the bytes are walked once more, guided by
// the message descriptors, to find where they stop being such a message.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/stubs/logging.h>

#include <optional>

#include "compiler/support/diagnostic.h"
#include "compiler/support/file_kind.h"
#include "frontends/onnx/wire.h"

namespace metac {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr int nesting_limit = 100;  // protobuf's own

// The position of the first byte that is no valid UTF-8; npos if all are.
size_t first_invalid_utf8(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    unsigned char lead = text[i];
    size_t length = lead < 0x80                   ? 1
                    : lead >= 0xc2 && lead < 0xe0 ? 2
                    : (lead & 0xf0) == 0xe0       ? 3
                    : lead >= 0xf0 && lead < 0xf5 ? 4
                                                  : 0;
    if (length == 0 || i + length > text.size()) return i;
    for (size_t k = 1; k < length; ++k)
      if ((static_cast<unsigned char>(text[i + k]) & 0xc0) != 0x80) return i;
    unsigned char second = length > 1 ? text[i + 1] : 0;
    bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
    bool surrogate = lead == 0xed && second >= 0xa0, beyond = lead == 0xf4 && second >= 0x90;
    if (overlong || surrogate || beyond) return i;
    i += length;
  }
  return std::string_view::npos;
}

class Walk {
 public:
  explicit Walk(std::string_view bytes) : bytes_(bytes) {}

  // Why bytes [position, end) are no message of that type, or nothing.
  std::optional<std::string> message(const Descriptor* type, size_t end, int depth) {
    if (depth > nesting_limit) return concat("nesting deeper than ", nesting_limit, " at byte ", position_);
    while (position_ < end) {
      size_t start = position_;
      std::optional<uint64_t> tag = varint(end);
      if (!tag) return concat("a broken field tag at byte ", start);
      int number = static_cast<int>(*tag >> 3), kind = static_cast<int>(*tag & 7);
      if (number == 0 || *tag > UINT32_MAX) return concat("field number ", *tag >> 3, " at byte ", start);
      const FieldDescriptor* field = type ? type->FindFieldByNumber(number) : nullptr;
      std::string name =
          field ? std::string(field->full_name().substr(field->full_name().find('.') + 1)) : concat("field ", number);
      if (kind == 0) {
        if (!varint(end)) return concat("a broken number in ", name, " at byte ", start);
      } else if (kind == 1 || kind == 5) {
        size_t width = kind == 1 ? 8 : 4;
        if (end - position_ < width) return concat(name, " is cut off at byte ", end);
        position_ += width;
      } else if (kind == 2) {
        std::optional<uint64_t> length = varint(end);
        if (!length) return concat("a broken length of ", name, " at byte ", start);
        if (*length > end - position_)
          return concat(name, " says ", *length, " bytes but only ", end - position_, " follow, at byte ", start);
        size_t stop = position_ + *length;
        if (field && field->type() == FieldDescriptor::TYPE_MESSAGE) {
          if (auto reason = message(field->message_type(), stop, depth + 1)) return reason;
        } else if (field && field->type() == FieldDescriptor::TYPE_STRING) {
          size_t bad = first_invalid_utf8(bytes_.substr(position_, *length));
          if (bad != std::string_view::npos) return concat("invalid UTF-8 in ", name, " at byte ", position_ + bad);
        }
        position_ = stop;
      } else {
        return concat("wire type ", kind, " in ", name, " at byte ", start);
      }
    }
    return std::nullopt;
  }

 private:
  std::optional<uint64_t> varint(size_t end) {
    uint64_t value = 0;
    for (int shift = 0; shift < 70 && position_ < end; shift += 7) {
      auto byte = static_cast<unsigned char>(bytes_[position_++]);
      if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }

  std::string_view bytes_;
  size_t position_ = 0;
};

}  // namespace

bool parses(std::string_view bytes, google::protobuf::Message& message) {
  google::protobuf::LogSilencer silence;
  return message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

void parse_message(std::string_view bytes, const std::string& path, std::string_view what,
                   google::protobuf::Message& message) {
  auto refuse = [&](const std::string& reason) {
    throw CompileError(Diagnostic{path, "", concat("not ", what, ": ", reason)});
  };
  if (bytes.empty()) refuse("the file is empty");
  if (bytes.size() > INT32_MAX) refuse(concat(bytes.size(), " bytes; a protobuf message ends at 2 GiB (use external data)"));
  if (parses(bytes, message)) return;
  if (const std::string kind = known_file_kind(bytes); !kind.empty()) refuse("it is " + kind);
  if (is_json_text(bytes)) refuse("it is JSON; the name of a JSON IR document ends in .json (docs/json_ir.md)");
  auto reason = Walk(bytes).message(message.GetDescriptor(), bytes.size(), 0);
  refuse(reason ? *reason : std::string("a malformed protobuf message"));
}

}  // namespace metac
