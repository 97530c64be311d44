#include "frontends/tokenizer/table_writer.h"

#include <algorithm>
#include <cctype>
#include <numeric>

#include "compiler/support/diagnostic.h"
#include "frontends/tokenizer/unicode.h"
#include "runtime/generate/tokenizer/text_buffer.h"

namespace metac {

TokenizerWriter::TokenizerWriter() : head() {
  std::copy_n(tok::TokenizerTable::magic_text, sizeof head.magic, head.magic);
  head.version = tok::TokenizerTable::version_now;
  head.unknown = -1;
  std::fill(std::begin(head.byte_tokens), std::end(head.byte_tokens), -1);
}

uint32_t TokenizerWriter::text(std::string_view text) {
  if (const auto found = known_texts_.find(text); found != known_texts_.end()) return found->second;
  const uint32_t number = static_cast<uint32_t>(texts_.size());
  texts_.push_back({static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(text.size())});
  bytes_ += text;
  return known_texts_.emplace(std::string(text), number).first->second;
}

uint32_t TokenizerWriter::character_class(const std::vector<tok::TableRange>& sorted_ranges) {
  std::vector<uint32_t> key;
  for (const tok::TableRange& r : sorted_ranges) key.insert(key.end(), {r.first, r.last});
  const auto [known, fresh] = known_classes_.emplace(key, static_cast<uint32_t>(classes_.size()));
  if (!fresh) return known->second;
  tok::TableClass c = {static_cast<uint32_t>(ranges_.size()), static_cast<uint32_t>(sorted_ranges.size()), {}};
  for (const tok::TableRange& r : sorted_ranges)
    for (uint32_t code = r.first; code <= r.last && code < 128; ++code) c.ascii[code / 32] |= 1u << code % 32;
  ranges_.insert(ranges_.end(), sorted_ranges.begin(), sorted_ranges.end());
  classes_.push_back(c);
  return known->second;
}

void TokenizerWriter::use_normal_form(bool compatible) {
  if (!combining_.empty()) fail("two steps of a normal form in one tokenizer");
  normal_form(compatible, &decompositions_, &compositions_, &combining_);
}

std::string TokenizerWriter::table() const {
  tok::TokenizerTable head_now = head;
  head_now.tokens = static_cast<uint32_t>(pieces.size());
  std::string bytes = bytes_, out(sizeof head_now, 0);
  const auto texts_of = [&](const std::vector<std::string>& list) {
    std::vector<tok::TableText> made;
    for (const std::string& text : list) {
      made.push_back({static_cast<uint32_t>(bytes.size()), static_cast<uint32_t>(text.size())});
      bytes += text;
    }
    return made;
  };
  const auto put = [&](tok::TableSection* section, const auto& list, size_t element) {
    out.resize((out.size() + 7) / 8 * 8);
    *section = {out.size(), list.size() * sizeof(list[0]) / element};
    out.append(reinterpret_cast<const char*>(list.data()), list.size() * sizeof(list[0]));
  };
  const std::vector<tok::TableText> piece_texts = texts_of(pieces), spoken_texts = texts_of(spoken);
  std::vector<uint32_t> sorted;
  for (uint32_t token = 0; token < pieces.size(); ++token)
    if (!unmade.count(token) && !pieces[token].empty()) sorted.push_back(token);
  // Of equal pieces the last, as in Hugging Face's map of tokens.
  std::reverse(sorted.begin(), sorted.end());
  std::stable_sort(sorted.begin(), sorted.end(), [&](uint32_t a, uint32_t b) { return pieces[a] < pieces[b]; });
  sorted.erase(std::unique(sorted.begin(), sorted.end(), [&](uint32_t a, uint32_t b) { return pieces[a] == pieces[b]; }),
               sorted.end());
  for (uint32_t token : sorted)
    head_now.longest_piece = std::max(head_now.longest_piece, static_cast<uint32_t>(pieces[token].size()));
  std::vector<tok::TableMerge> by_pair = merges;
  std::stable_sort(by_pair.begin(), by_pair.end(), [](const tok::TableMerge& a, const tok::TableMerge& b) {
    return std::tie(a.left, a.right, a.rank) < std::tie(b.left, b.right, b.rank);
  });
  const auto same_pair = [](const tok::TableMerge& a, const tok::TableMerge& b) {
    return a.left == b.left && a.right == b.right;
  };
  by_pair.erase(std::unique(by_pair.begin(), by_pair.end(), same_pair), by_pair.end());
  if (bytes.size() > UINT32_MAX) fail("a vocabulary of ", bytes.size(), " bytes");
  put(&head_now.bytes, bytes, 1);
  put(&head_now.texts, texts_, sizeof(tok::TableText));
  put(&head_now.pieces, piece_texts, sizeof(tok::TableText));
  put(&head_now.spoken, spoken_texts, sizeof(tok::TableText));
  put(&head_now.sorted, sorted, 4);
  put(&head_now.merges, by_pair, sizeof(tok::TableMerge));
  put(&head_now.scores, scores, 4);
  put(&head_now.steps, steps, sizeof(tok::TableStep));
  put(&head_now.codes, codes, sizeof(tok::TableRegexCode));
  put(&head_now.classes, classes_, sizeof(tok::TableClass));
  put(&head_now.ranges, ranges_, sizeof(tok::TableRange));
  put(&head_now.added, added, sizeof(tok::TableAdded));
  put(&head_now.atoms, atoms, sizeof(tok::TableAdded));
  put(&head_now.begin, begin, 4);
  put(&head_now.end, end, 4);
  put(&head_now.decompositions, decompositions_, sizeof(tok::TableDecomposition));
  put(&head_now.compositions, compositions_, sizeof(tok::TableComposition));
  put(&head_now.combining, combining_, sizeof(tok::TableCombining));
  put(&head_now.map_units, map_units, 4);
  put(&head_now.map_texts, map_texts, 1);
  std::copy_n(reinterpret_cast<const char*>(&head_now), sizeof head_now, out.begin());
  return out;
}

bool bytes_of_letters(std::string_view piece, std::string* bytes) {
  // '!' to '~', U+00A1 to U+00AC and U+00AE to U+00FF are themselves; the other bytes, in order, are U+0100 and what
  // follows.
  static const std::map<uint32_t, char> letters = [] {
    std::map<uint32_t, char> made;
    uint32_t next = 256;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const bool itself = (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte != 0xad);
      made[itself ? byte : next++] = static_cast<char>(byte);
    }
    return made;
  }();
  bytes->clear();
  uint32_t code = 0;
  for (const char *at = piece.data(), *end = at + piece.size(); at < end;) {
    const int length = tok::code_point_at(at, end, &code);
    const auto letter = letters.find(code);
    if (length == 0 || letter == letters.end()) return false;
    *bytes += letter->second;
    at += length;
  }
  return true;
}

int byte_of_piece(std::string_view piece) {
  if (piece.size() != 6 || piece.substr(0, 3) != "<0x" || piece[5] != '>' ||
      !std::isxdigit(static_cast<unsigned char>(piece[3])) || !std::isxdigit(static_cast<unsigned char>(piece[4])))
    return -1;
  return std::stoi(std::string(piece.substr(3, 2)), nullptr, 16);
}

}  // namespace metac
