// Unicode's normal forms NFC and NFKC (UAX 15): decomposed, marks in canonical order, composed. The table says which of the
// two it is: it has the full decompositions of code points, compatible ones too for NFKC. Hangul is arithmetic.
#pragma once
#include <algorithm>

#include "table.h"
#include "text_buffer.h"

namespace METAC_RUNTIME_NAMESPACE {

class Compose {
 public:
  explicit Compose(const TokenizerTable& table) : table_(table) {}

  // False: no memory.
  bool run(const char* text, int64_t bytes, TextBuffer& to) {
    count_ = 0;
    uint32_t code;
    for (int64_t at = 0, length; at<bytes; at += length> 0 ? length : 1) {
      length = code_point_at(text + at, text + bytes, &code);
      if (length > 0 && !decompose(code)) return false;
    }
    Mark* const marks = static_cast<Mark*>(memory_.data());
    for (int64_t at = 0; at < count_;) {  // each run of marks by its classes
      int64_t end = at + 1;
      while (end < count_ && marks[end].order != 0) ++end;
      std::stable_sort(marks + at + (marks[at].order == 0 ? 1 : 0), marks + end,
                       [](const Mark& a, const Mark& b) { return a.order < b.order; });
      at = end;
    }
    compose(marks);
    for (int64_t k = 0; k < count_; ++k)
      if (marks[k].code != gone && !append_code_point(to, marks[k].code)) return false;
    return true;
  }

 private:
  struct Mark {
    uint32_t code, order;
  };
  static constexpr uint32_t gone = 0xffffffff;
  static constexpr uint32_t syllables = 0xac00, leading = 0x1100, vowels = 0x1161, trailing = 0x11a7;

  bool push(uint32_t code) {
    if ((count_ + 1) * int64_t{sizeof(Mark)} > memory_.capacity() &&
        !memory_.reserve(2 * (count_ + 32) * int64_t{sizeof(Mark)}, count_ * int64_t{sizeof(Mark)}))
      return false;
    const TableCombining* const first = table_.of<TableCombining>(table_.combining);
    const TableCombining* const end = first + table_.combining.count;
    const TableCombining* const found =
        std::lower_bound(first, end, code, [](const TableCombining& c, uint32_t key) { return c.code < key; });
    static_cast<Mark*>(memory_.data())[count_++] = {code, found != end && found->code == code ? found->order : 0};
    return true;
  }
  bool decompose(uint32_t code) {
    if (code >= syllables && code < syllables + 11172) {
      const uint32_t index = code - syllables;
      return push(leading + index / 588) && push(vowels + index % 588 / 28) &&
             (index % 28 == 0 || push(trailing + index % 28));
    }
    const TableDecomposition* const first = table_.of<TableDecomposition>(table_.decompositions);
    const TableDecomposition* const end = first + table_.decompositions.count;
    const TableDecomposition* found =
        std::lower_bound(first, end, code, [](const TableDecomposition& d, uint32_t key) { return d.code < key; });
    if (found == end || found->code != code) return push(code);
    for (; found != end && found->code == code;
         ++found)  // a row for every two of what it is made of, which are made of nothing
      if (!push(found->a) || (found->b != 0 && !push(found->b))) return false;
    return true;
  }
  uint32_t composed(uint32_t a, uint32_t b) const {
    if (a >= leading && a < leading + 19 && b >= vowels && b < vowels + 21)
      return syllables + ((a - leading) * 21 + (b - vowels)) * 28;
    if (a >= syllables && a < syllables + 11172 && (a - syllables) % 28 == 0 && b > trailing && b < trailing + 28)
      return a + (b - trailing);
    const TableComposition* const first = table_.of<TableComposition>(table_.compositions);
    const TableComposition* const end = first + table_.compositions.count;
    const TableComposition* const found = std::lower_bound(
        first, end, a, [b](const TableComposition& c, uint32_t key) { return c.a != key ? c.a < key : c.b < b; });
    return found != end && found->a == a && found->b == b ? found->code : 0;
  }
  // A code point goes into the last starter unless something of its class, or a starter, stands between them.
  void compose(Mark* marks) const {
    int64_t starter = -1;
    uint32_t before = 0;  // the class of what stands before, behind the starter
    bool adjacent = true;
    for (int64_t k = 0; k < count_; ++k) {
      const bool reachable = starter >= 0 && (adjacent || before < marks[k].order);
      const uint32_t made = reachable ? composed(marks[starter].code, marks[k].code) : 0;
      if (made != 0) {
        marks[starter].code = made;
        marks[k].code = gone;
        continue;
      }
      if (marks[k].order == 0)
        starter = k, adjacent = true, before = 0;
      else
        adjacent = false, before = marks[k].order;
    }
  }

  const TokenizerTable& table_;
  Block memory_;
  int64_t count_ = 0;
};

}  // namespace METAC_RUNTIME_NAMESPACE
