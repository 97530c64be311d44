#include "frontends/tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <functional>

#include "runtime/generate/tokenizer/text_steps.h"

namespace metac {
namespace {

constexpr uint32_t last_code = 0x10ffff;

CodeSet set_of(const std::function<bool(uint32_t)>& contains) {
  CodeSet set;
  for (uint32_t code = 0; code <= last_code; ++code) {
    if (!contains(code)) continue;
    if (!set.empty() && set.back().last + 1 == code)
      set.back().last = code;
    else
      set.push_back({code, code});
  }
  return set;
}

// Of Scripts.txt, which utf8proc does not have.
CodeSet han() {
  return {{0x2e80, 0x2e99},   {0x2e9b, 0x2ef3},   {0x2f00, 0x2fd5},   {0x3005, 0x3005},   {0x3007, 0x3007},
          {0x3021, 0x3029},   {0x3038, 0x303b},   {0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xf900, 0xfa6d},
          {0xfa70, 0xfad9},   {0x16fe2, 0x16fe3}, {0x16ff0, 0x16ff1}, {0x20000, 0x2a6df}, {0x2a700, 0x2b739},
          {0x2b740, 0x2b81d}, {0x2b820, 0x2cea1}, {0x2ceb0, 0x2ebe0}, {0x2f800, 0x2fa1d}, {0x30000, 0x3134a},
          {0x31350, 0x323af}};
}

}  // namespace

CodeSet union_of(CodeSet a, const CodeSet& b) {
  a.insert(a.end(), b.begin(), b.end());
  std::sort(a.begin(), a.end(), [](const tok::TableRange& x, const tok::TableRange& y) { return x.first < y.first; });
  CodeSet joined;
  for (const tok::TableRange& r : a)
    if (!joined.empty() && r.first <= joined.back().last + 1)
      joined.back().last = std::max(joined.back().last, r.last);
    else
      joined.push_back(r);
  return joined;
}

CodeSet complement_of(const CodeSet& set) {
  CodeSet rest;
  uint32_t next = 0;
  for (const tok::TableRange& r : set) {
    if (r.first > next) rest.push_back({next, r.first - 1});
    next = r.last + 1;
  }
  if (next <= last_code) rest.push_back({next, last_code});
  return rest;
}

CodeSet intersection_of(const CodeSet& a, const CodeSet& b) {
  return complement_of(union_of(complement_of(a), complement_of(b)));
}

CodeSet white_space() {
  return set_of([](uint32_t code) { return code <= 0x3000 && tok::TextSteps::is_space(code); });
}

CodeSet property_set(const std::string& name) {
  if (name == "Han") return han();
  const bool known = !name.empty() && name.size() <= 2 && std::string("LMNPSZC").find(name[0]) != std::string::npos;
  if (!known) return {};
  return set_of([&](uint32_t code) {
    const char* const category = utf8proc_category_string(static_cast<utf8proc_int32_t>(code));
    return category[0] == name[0] && (name.size() == 1 || category[1] == name[1]);
  });
}

void normal_form(bool compatible, std::vector<tok::TableDecomposition>* decompositions,
                 std::vector<tok::TableComposition>* compositions, std::vector<tok::TableCombining>* combining) {
  for (uint32_t code = 0; code <= last_code; ++code) {
    if ((code >= 0xac00 && code < 0xac00 + 11172) || (code >= 0xd800 && code < 0xe000)) continue;
    const utf8proc_int32_t signed_code = static_cast<utf8proc_int32_t>(code);
    if (const int order = utf8proc_get_property(signed_code)->combining_class; order != 0)
      combining->push_back({code, static_cast<uint32_t>(order)});
    utf8proc_int32_t parts[64];
    const auto decomposed = [&](int form) {
      return utf8proc_decompose_char(signed_code, parts, 64, static_cast<utf8proc_option_t>(form), nullptr);
    };
    const utf8proc_ssize_t count = decomposed(UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0));
    if (count > 1 || (count == 1 && parts[0] != signed_code))
      for (utf8proc_ssize_t k = 0; k < count; k += 2)
        decompositions->push_back(
            {code, static_cast<uint32_t>(parts[k]), k + 1 < count ? static_cast<uint32_t>(parts[k + 1]) : 0});
    // Its first step is what composes to it, where composing the whole decomposition gives the code point back.
    const utf8proc_ssize_t canonical = decomposed(UTF8PROC_DECOMPOSE);
    if (canonical < 2) continue;
    const auto composed = [](std::vector<utf8proc_int32_t> list) {
      const utf8proc_ssize_t left =
          utf8proc_normalize_utf32(list.data(), static_cast<utf8proc_ssize_t>(list.size()),
                                   static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
      return left == 1 ? list[0] : -1;
    };
    const std::vector<utf8proc_int32_t> whole(parts, parts + canonical);
    if (composed(whole) != signed_code) continue;
    const utf8proc_int32_t first = canonical == 2 ? whole[0] : composed({whole.begin(), whole.end() - 1});
    if (first >= 0) compositions->push_back({static_cast<uint32_t>(first), static_cast<uint32_t>(whole.back()), code});
  }
  std::sort(compositions->begin(), compositions->end(), [](const tok::TableComposition& x, const tok::TableComposition& y) {
    return x.a != y.a ? x.a < y.a : x.b < y.b;
  });
}

}  // namespace metac
