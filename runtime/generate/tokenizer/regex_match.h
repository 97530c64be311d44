// Matches the programs of regular expressions (table.h) on UTF-8, leftmost and with the first alternative that goes through,
// as Perl's and Oniguruma's do.
#pragma once
#include "table.h"
#include "text_buffer.h"

namespace METAC_RUNTIME_NAMESPACE {

class RegexMatch {
 public:
  RegexMatch(const TokenizerTable& table, const char* end)
      : codes_(table.of<TableRegexCode>(table.codes)),
        classes_(table.of<TableClass>(table.classes)),
        ranges_(table.of<TableRange>(table.ranges)),
        end_(end) {}

  // The end of a match that begins at `at`; null: there is none.
  const char* match(uint32_t program, const char* at) const { return from(program, at); }

 private:
  bool is_in(uint32_t number, uint32_t code) const {
    const TableClass& c = classes_[number];
    if (code < 128) return (c.ascii[code / 32] >> code % 32 & 1) != 0;
    uint32_t low = 0, high = c.count;  // the first range that ends at the code or behind it
    while (low < high) {
      const uint32_t middle = (low + high) / 2;
      if (ranges_[c.first + middle].last < code)
        low = middle + 1;
      else
        high = middle;
    }
    return low < c.count && ranges_[c.first + low].first <= code;
  }
  const char* step(uint32_t number, const char* at) const {
    uint32_t code = 0;
    const int bytes = code_point_at(at, end_, &code);
    return bytes > 0 && is_in(number, code) ? at + bytes : nullptr;
  }

  const char* from(uint32_t pc, const char* at) const {
    for (;; ++pc) {
      const TableRegexCode& c = codes_[pc];
      switch (c.code) {
        case RegexCode::match:
          return at;
        case RegexCode::one:
          at = step(c.a, at);
          if (at == nullptr) return nullptr;
          break;
        case RegexCode::jump:
          pc = c.a - 1;
          break;
        case RegexCode::either:
          if (const char* const end = from(c.a, at)) return end;
          pc = c.b - 1;
          break;
        case RegexCode::ahead:
          if ((from(pc + 1, at) == nullptr) != (c.b == 1)) return nullptr;
          pc = c.a - 1;
          break;
        case RegexCode::at_end:
          if (at != end_) return nullptr;
          break;
        case RegexCode::hold:
        case RegexCode::repeat: {
          const char* least = c.b == 0 ? at : nullptr;  // where it may stop at the earliest
          uint32_t count = 0;
          while (count < c.c) {
            const char* const next = step(c.a, at);
            if (next == nullptr) break;
            at = next;
            if (++count == c.b) least = at;
          }
          if (least == nullptr) return nullptr;
          for (; at > least && c.code == RegexCode::repeat; at = back(at))
            if (const char* const end = from(pc + 1, at)) return end;
          break;
        }
      }
    }
  }
  static const char* back(const char* at) {
    do --at;
    while ((static_cast<unsigned char>(*at) & 0xc0) == 0x80);
    return at;
  }

  const TableRegexCode* const codes_;
  const TableClass* const classes_;
  const TableRange* const ranges_;
  const char* const end_;
};

}  // namespace METAC_RUNTIME_NAMESPACE
