// What is done with a text before it is cut into pieces: Unicode's forms, replacements, white space.
#pragma once
#include "compose.h"

namespace METAC_RUNTIME_NAMESPACE {

class TextSteps {
 public:
  explicit TextSteps(const TokenizerTable& table) : table_(table), compose_(table) {}

  // The text as the steps leave it, valid until the next call; false: no memory.
  bool run(const char* text, int64_t bytes, TextBuffer& to) {
    to.clear();
    if (!to.append(text, bytes)) return false;
    const TableStep* const steps = table_.of<TableStep>(table_.steps);
    for (uint64_t k = 0; k < table_.steps.count && steps[k].kind < TokenStep::split; ++k) {
      other_.clear();
      if (!apply(steps[k], to)) return false;
      to.swap(other_);
    }
    return true;
  }

 private:
  const TableText& text_of(uint32_t number) const { return table_.of<TableText>(table_.texts)[number]; }
  bool put(uint32_t number) { return other_.append(table_.text_at(text_of(number)), text_of(number).bytes); }

  bool apply(const TableStep& step, const TextBuffer& from) {
    const char *at = from.data(), *end = at + from.size();
    switch (step.kind) {
      case TokenStep::prepend:
        return (from.size() == 0 || put(step.a)) && other_.append(at, from.size());
      case TokenStep::replace:
        return replace(step, at, end);
      case TokenStep::compose:
        return compose_.run(at, from.size(), other_);
      case TokenStep::map:
        return map(at, end);
      case TokenStep::squeeze:
        return squeeze(at, end);
      case TokenStep::strip:
        for (int64_t length; step.a != 0 && (length = space_at(at, end)) > 0;) at += length;
        while (step.b != 0 && at < end) {
          const char* last = end - 1;
          while (last > at && (static_cast<unsigned char>(*last) & 0xc0) == 0x80) --last;
          if (space_at(last, end) == 0) break;
          end = last;
        }
        return other_.append(at, end - at);
      default:
        return other_.append(at, from.size());
    }
  }

  bool replace(const TableStep& step, const char* at, const char* end) {
    const TableText& wanted = text_of(step.a);
    while (at < end) {
      if (end - at >= wanted.bytes && std::memcmp(at, table_.text_at(wanted), wanted.bytes) == 0) {
        if (!put(step.b)) return false;
        at += wanted.bytes;
      } else if (!other_.append(at++, 1)) {
        return false;
      }
    }
    return true;
  }

  // The longest key of the double array (Darts) that the text begins with is replaced, where none is a character stays.
  bool map(const char* at, const char* end) {
    const uint32_t* const units = table_.of<uint32_t>(table_.map_units);
    const char* const texts = table_.of<char>(table_.map_texts);
    while (at < end) {
      const TableAdded* const atoms = table_.of<TableAdded>(table_.atoms);
      int64_t longest = 0, length = 0;
      for (uint64_t k = 0; k < table_.atoms.count; ++k) {
        const TableText& atom = text_of(atoms[k].text);
        if (atom.bytes > longest && atom.bytes <= end - at && std::memcmp(table_.text_at(atom), at, atom.bytes) == 0)
          longest = atom.bytes;
      }
      if (longest > 0) {
        if (!other_.append(at, longest)) return false;
        at += longest;
        continue;
      }
      uint64_t node = offset_of(units[0]);
      uint32_t value = 0;
      for (const char* next = at; next < end && *next != 0; ++next) {
        node ^= static_cast<unsigned char>(*next);
        if (node >= table_.map_units.count || (units[node] & 0x800000ffu) != static_cast<unsigned char>(*next)) break;
        const bool leaf = (units[node] >> 8 & 1) != 0;
        node ^= offset_of(units[node]);
        if (leaf) value = units[node] & 0x7fffffffu, length = next + 1 - at;
      }
      if (length > 0) {
        if (!other_.append(texts + value, static_cast<int64_t>(std::strlen(texts + value)))) return false;
      } else {
        uint32_t code;
        length = code_point_at(at, end, &code);
        if (length == 0) length = 1;
        if (!other_.append(at, length)) return false;
      }
      at += length;
    }
    return true;
  }
  static uint64_t offset_of(uint32_t unit) { return uint64_t{unit >> 10} << ((unit & (1u << 9)) >> 6); }

  bool squeeze(const char* at, const char* end) {
    bool space = true;  // before: none at the begin
    for (; at < end; ++at) {
      if (*at == ' ' && space) continue;
      space = *at == ' ';
      if (!other_.append(at, 1)) return false;
    }
    if (space && other_.size() > 0) other_.cut(other_.size() - 1);
    return true;
  }

  static int64_t space_at(const char* at, const char* end) {
    uint32_t code = 0;
    const int bytes = code_point_at(at, end, &code);
    return bytes > 0 && is_space(code) ? bytes : 0;
  }

 public:
  // Unicode's property White_Space.
  static bool is_space(uint32_t c) {
    return (c >= 9 && c <= 13) || c == 32 || c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) ||
           c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
  }

 private:
  const TokenizerTable& table_;
  Compose compose_;
  TextBuffer other_;
};

}  // namespace METAC_RUNTIME_NAMESPACE
