// Protobuf's wire format, a field at a time: for what protobuf's own parser does not tell, where fields stand and why bytes
// are no message.
#pragma once
#include <cstdint>
#include <optional>

namespace metac {

// The bytes [start, end) of a field; a length-delimited one (kind 2) holds [value, end).
struct WireField {
  uint64_t tag = 0, number = 0, value = 0, length = 0, end = 0;
  int kind = 0;
};

enum class WireFault { none, tag, number, varint, cut, length, beyond, kind };

// The number at `position`, which moves behind it, or nothing where it does not end before `end`.
template <class ByteAt>
std::optional<uint64_t> read_varint(const ByteAt& byte_at, uint64_t& position, uint64_t end) {
  uint64_t value = 0;
  for (int shift = 0; shift < 70 && position < end; shift += 7) {
    const unsigned char byte = byte_at(position++);
    if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

// The field at `start` of a message that ends at `end`, or what is wrong with it; `field` then has what was read before.
// byte_at(position) is an unsigned char.
template <class ByteAt>
WireFault read_field(const ByteAt& byte_at, uint64_t start, uint64_t end, WireField& field) {
  uint64_t position = start;
  const std::optional<uint64_t> tag = read_varint(byte_at, position, end);
  if (!tag) return WireFault::tag;
  field = {*tag, *tag >> 3, position, 0, position, static_cast<int>(*tag & 7)};
  if (field.number == 0 || *tag > UINT32_MAX) return WireFault::number;
  if (field.kind == 0) {
    if (!read_varint(byte_at, position, end)) return WireFault::varint;
  } else if (field.kind == 1 || field.kind == 5) {
    const uint64_t width = field.kind == 1 ? 8 : 4;
    if (end - position < width) return WireFault::cut;
    position += width;
  } else if (field.kind == 2) {
    const std::optional<uint64_t> length = read_varint(byte_at, position, end);
    if (!length) return WireFault::length;
    field.value = position, field.length = *length;
    if (*length > end - position) return WireFault::beyond;
    position += *length;
  } else {
    return WireFault::kind;
  }
  field.end = position;
  return WireFault::none;
}

}  // namespace metac
