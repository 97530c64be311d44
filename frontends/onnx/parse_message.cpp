// Parsing with a reason. Protobuf's parser only says that it failed; on failure the bytes are walked once more, guided by
// the message descriptors, to find where they stop being such a message.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/stubs/logging.h>

#include <optional>

#include "compiler/support/diagnostic.h"
#include "compiler/support/file_kind.h"
#include "frontends/onnx/wire.h"
#include "frontends/onnx/wire_fields.h"

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

// Why bytes [position, end) are no message of that type, or nothing.
std::optional<std::string> fault_of(std::string_view bytes, const Descriptor* type, uint64_t position, uint64_t end,
                                    int depth) {
  if (depth > nesting_limit) return concat("nesting deeper than ", nesting_limit, " at byte ", position);
  auto byte_at = [&](uint64_t at) { return static_cast<unsigned char>(bytes[at]); };
  for (WireField at; position < end; position = at.end) {
    const WireFault fault = read_field(byte_at, position, end, at);
    if (fault == WireFault::tag) return concat("a broken field tag at byte ", position);
    if (fault == WireFault::number) return concat("field number ", at.number, " at byte ", position);
    const FieldDescriptor* field = type ? type->FindFieldByNumber(static_cast<int>(at.number)) : nullptr;
    const std::string name =
        field ? std::string(field->full_name().substr(field->full_name().find('.') + 1)) : concat("field ", at.number);
    if (fault == WireFault::varint) return concat("a broken number in ", name, " at byte ", position);
    if (fault == WireFault::cut) return concat(name, " is cut off at byte ", end);
    if (fault == WireFault::length) return concat("a broken length of ", name, " at byte ", position);
    if (fault == WireFault::beyond)
      return concat(name, " says ", at.length, " bytes but only ", end - at.value, " follow, at byte ", position);
    if (fault == WireFault::kind) return concat("wire type ", at.kind, " in ", name, " at byte ", position);
    if (!field || at.kind != 2) continue;
    if (field->type() == FieldDescriptor::TYPE_MESSAGE) {
      if (auto reason = fault_of(bytes, field->message_type(), at.value, at.end, depth + 1)) return reason;
    } else if (field->type() == FieldDescriptor::TYPE_STRING) {
      size_t bad = first_invalid_utf8(bytes.substr(at.value, at.length));
      if (bad != std::string_view::npos) return concat("invalid UTF-8 in ", name, " at byte ", at.value + bad);
    }
  }
  return std::nullopt;
}

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
  auto reason = fault_of(bytes, message.GetDescriptor(), 0, bytes.size(), 0);
  refuse(reason ? *reason : std::string("a malformed protobuf message"));
}

}  // namespace metac
