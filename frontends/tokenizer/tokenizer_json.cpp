#include "frontends/tokenizer/tokenizer_json.h"

#include <nlohmann/json.hpp>

#include "compiler/support/diagnostic.h"
#include "frontends/tokenizer/table_writer.h"

namespace metac {
namespace {

using Json = nlohmann::json;
using Table = tok::TokenizerTable;

constexpr const char* gpt2_words = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* space_mark = "\u2581";

std::string kind_of(const Json& part) { return part.is_object() ? part.value("type", "") : ""; }
bool flag(const Json& part, const char* name, bool otherwise) {
  const auto found = part.find(name);
  return found == part.end() || !found->is_boolean() ? otherwise : found->get<bool>();
}
std::string text_in(const Json& part, const char* name) {
  const auto found = part.find(name);
  return found != part.end() && found->is_string() ? found->get<std::string>() : "";
}
[[noreturn]] void refuse(const char* what, const Json& part) {
  fail(
      "the tokenizer has ", what, " ",
      quoted(kind_of(part).empty() ? part.dump(-1, ' ', true, Json::error_handler_t::replace).substr(0, 60) : kind_of(part)),
      ", which metac does not know");
}

class JsonReader {
 public:
  explicit JsonReader(const Json& file) : file_(file) {}

  std::string run() {
    for (const char* name : {"truncation", "padding"})
      if (const auto found = file_.find(name); found != file_.end() && !found->is_null())
        fail("the tokenizer has ", name, ", which metac does not do; take it out");
    read_vocabulary();
    steps_of(file_.value("normalizer", Json()), &JsonReader::normaliser, "normalizers");
    if (by_bytes_) w_.head.flags |= Table::merges_by_bytes;
    steps_of(file_.value("pre_tokenizer", Json()), &JsonReader::pre_tokenizer, "pretokenizers");
    speak();
    read_added();
    steps_of(file_.value("post_processor", Json()), &JsonReader::post_processor, "processors");
    return w_.table();
  }

 private:
  using Reader = void (JsonReader::*)(const Json&);
  // A part alone, or several of them in a Sequence.
  void steps_of(const Json& part, Reader reader, const char* list) {
    if (part.is_null()) return;
    if (kind_of(part) != "Sequence") return (this->*reader)(part);
    for (const Json& each : part.at(list)) (this->*reader)(each);
  }

  // ---- the model ----
  void read_vocabulary() {
    const Json& model = file_.at("model");
    const std::string kind = kind_of(model);
    find_bytes(file_.value("pre_tokenizer", Json()));
    if (kind == "BPE" || (kind.empty() && model.contains("merges")))
      read_merges(model);
    else if (kind == "Unigram")
      read_scores(model);
    else
      refuse("a model", model);
  }
  // Whether pieces are written as letters for bytes, which its ByteLevel says.
  void find_bytes(const Json& part) {
    if (kind_of(part) == "ByteLevel") by_bytes_ = true;
    if (kind_of(part) == "Sequence")
      for (const Json& each : part.at("pretokenizers")) find_bytes(each);
  }

  void add_piece(size_t token, const std::string& text) {
    constexpr size_t most = size_t{1} << 24;
    if (token >= most) fail("the tokenizer has token ", token);
    if (token >= w_.pieces.size()) w_.pieces.resize(token + 1);
    tokens_[text] = token;
    std::string bytes;
    const bool letters = by_bytes_ && bytes_of_letters(text, &bytes);
    w_.pieces[token] = letters ? bytes : text;
    if (letters && bytes.size() == 1)
      w_.head.byte_tokens[static_cast<unsigned char>(bytes[0])] = static_cast<int32_t>(token);
  }
  void find_byte_pieces() {
    for (size_t token = 0; token < w_.pieces.size(); ++token)
      if (const int byte = byte_of_piece(w_.pieces[token]); byte >= 0)
        w_.head.byte_tokens[byte] = static_cast<int32_t>(token);
    for (int32_t token : w_.head.byte_tokens)
      if (token < 0) fail("the tokenizer falls back to bytes, and has not all of <0x00> to <0xFF>");
    w_.head.flags |= Table::byte_fallback;
  }

  void read_merges(const Json& model) {
    for (const char* name : {"continuing_subword_prefix", "end_of_word_suffix"})
      if (!text_in(model, name).empty()) fail("the tokenizer has ", name, ", which metac does not know");
    if (const auto dropout = model.find("dropout"); dropout != model.end() && dropout->is_number() && *dropout != 0)
      fail("the tokenizer drops merges at random");
    for (const auto& [piece, token] : model.at("vocab").items()) add_piece(token.get<size_t>(), piece);
    uint32_t rank = 0;
    for (const Json& merge : model.at("merges")) {
      std::string left, right;
      if (merge.is_string()) {
        const std::string both = merge.get<std::string>();
        const size_t space = both.find(' ');
        if (space == std::string::npos) fail("the tokenizer has the merge ", quoted(both));
        left = both.substr(0, space), right = both.substr(space + 1);
      } else {
        left = merge.at(0).get<std::string>(), right = merge.at(1).get<std::string>();
      }
      const auto a = tokens_.find(left), b = tokens_.find(right), both = tokens_.find(left + right);
      if (a == tokens_.end() || b == tokens_.end() || both == tokens_.end())
        fail("the tokenizer merges ", quoted(left), " and ", quoted(right),
             ", and one of them or both together are no token");
      w_.merges.push_back(
          {static_cast<uint32_t>(a->second), static_cast<uint32_t>(b->second), rank++, static_cast<uint32_t>(both->second)});
    }
    if (const std::string unknown = text_in(model, "unk_token"); !unknown.empty() && tokens_.count(unknown))
      w_.head.unknown = static_cast<int32_t>(tokens_[unknown]);
    if (flag(model, "ignore_merges", false)) w_.head.flags |= Table::ignore_merges;
    if (flag(model, "fuse_unk", false)) w_.head.flags |= Table::fuse_unknown;
    if (flag(model, "byte_fallback", false)) find_byte_pieces();
  }

  void read_scores(const Json& model) {
    float least = 0;
    for (const Json& row : model.at("vocab")) {
      add_piece(w_.pieces.size(), row.at(0).get<std::string>());
      w_.scores.push_back(row.at(1).get<float>());
      least = std::min(least, w_.scores.back());
    }
    if (const auto unknown = model.find("unk_id"); unknown != model.end() && unknown->is_number())
      w_.head.unknown = unknown->get<int32_t>();
    if (w_.head.unknown < 0) fail("the tokenizer's Unigram model has no unk_id");
    w_.head.unknown_score = least - 10;
    w_.head.flags |= Table::unigram | Table::fuse_unknown;
    if (flag(model, "byte_fallback", false)) find_byte_pieces();
  }

  // ---- what is done before it ----
  void normaliser(const Json& part) {
    const std::string kind = kind_of(part);
    if (kind == "NFC" || kind == "NFKC") {
      w_.use_normal_form(kind == "NFKC");
      w_.steps.push_back({tok::TokenStep::compose, kind == "NFKC", 0, 0});
    } else if (kind == "Prepend") {
      w_.steps.push_back({tok::TokenStep::prepend, w_.text(text_in(part, "prepend")), 0, 0});
      changes_begin_ = true;
    } else if (kind == "Replace" && part.at("pattern").contains("String")) {
      const std::string from = part.at("pattern").at("String");
      if (from.empty()) refuse("a normalizer that replaces nothing", part);
      w_.steps.push_back({tok::TokenStep::replace, w_.text(from), w_.text(text_in(part, "content")), 0});
    } else if (kind == "Strip") {
      w_.steps.push_back({tok::TokenStep::strip, flag(part, "strip_left", true), flag(part, "strip_right", true), 0});
    } else {
      refuse("the normalizer", part);
    }
  }

  void pre_tokenizer(const Json& part) {
    const std::string kind = kind_of(part);
    if (kind == "ByteLevel") {
      if (flag(part, "add_prefix_space", true)) w_.steps.push_back({tok::TokenStep::prefix_space, 0, 0, 0});
      if (flag(part, "use_regex", true)) split(gpt2_words, tok::SplitAs::isolated, false);
    } else if (kind == "Split") {
      const Json& pattern = part.at("pattern");
      split(pattern.contains("Regex") ? pattern.at("Regex").get<std::string>()
                                      : escaped(pattern.at("String").get<std::string>()),
            behaviour(part), flag(part, "invert", false));
    } else if (kind == "Digits") {
      split(flag(part, "individual_digits", false) ? "\\p{N}" : "\\p{N}+", tok::SplitAs::isolated, false);
    } else if (kind == "Metaspace") {
      const std::string scheme = text_in(part, "prepend_scheme"), mark = text_in(part, "replacement");
      const uint32_t when = scheme == "never" || (scheme.empty() && !flag(part, "add_prefix_space", true)) ? 2
                            : scheme == "first"                                                            ? 1
                                                                                                           : 0;
      w_.steps.push_back(
          {tok::TokenStep::mark_spaces, w_.text(mark.empty() ? space_mark : mark), when, flag(part, "split", true)});
    } else {
      refuse("the pre_tokenizer", part);
    }
  }
  static std::string escaped(const std::string& text) {
    std::string made;
    for (char c : text)
      made += std::string(std::isalnum(static_cast<unsigned char>(c)) || static_cast<unsigned char>(c) >= 128 || c == ' '
                              ? ""
                              : "\\") +
              c;
    return made;
  }
  static tok::SplitAs behaviour(const Json& part) {
    static const std::map<std::string, tok::SplitAs> known = {{"Removed", tok::SplitAs::removed},
                                                              {"Isolated", tok::SplitAs::isolated},
                                                              {"MergedWithPrevious", tok::SplitAs::with_previous},
                                                              {"MergedWithNext", tok::SplitAs::with_next},
                                                              {"Contiguous", tok::SplitAs::contiguous}};
    const auto found = known.find(text_in(part, "behavior"));
    if (found == known.end()) fail("the tokenizer splits with the behavior ", quoted(text_in(part, "behavior")));
    return found->second;
  }
  void split(const std::string& regex, tok::SplitAs as, bool inverted) {
    w_.steps.push_back({tok::TokenStep::split, w_.regex(regex), static_cast<uint32_t>(as), inverted});
  }

  // ---- what tokens are in a text ----
  void speak() {
    w_.spoken = w_.pieces;
    steps_of(file_.value("decoder", Json()), &JsonReader::decoder, "decoders");
  }
  void decoder(const Json& part) {
    const std::string kind = kind_of(part);
    if (kind == "ByteLevel" || kind == "Fuse") return;  // pieces are bytes already; texts follow each other
    if (kind == "ByteFallback") {
      for (std::string& text : w_.spoken)
        if (const int byte = byte_of_piece(text); byte >= 0) text = std::string(1, static_cast<char>(byte));
      return;
    }
    if (kind == "Replace" && part.at("pattern").contains("String"))
      return respeak(part.at("pattern").at("String"), text_in(part, "content"));
    if (kind == "Metaspace") {
      const std::string mark = text_in(part, "replacement");
      respeak(mark.empty() ? space_mark : mark, " ");
      if (text_in(part, "prepend_scheme") != "never" && flag(part, "add_prefix_space", true))
        w_.head.flags |= Table::drop_first_space;
    } else if (kind == "Strip" && text_in(part, "content") == " " && part.value("start", 0) <= 1 &&
               part.value("stop", 0) == 0) {
      if (part.value("start", 0) == 1) w_.head.flags |= Table::drop_first_space;
    } else {
      refuse("the decoder", part);
    }
  }
  void respeak(const std::string& from, const std::string& to) {
    for (std::string& text : w_.spoken)
      for (size_t at = 0; !from.empty() && (at = text.find(from, at)) != std::string::npos; at += to.size())
        text.replace(at, from.size(), to);
  }

  void read_added() {
    for (const Json& row : file_.value("added_tokens", Json::array())) {
      const std::string text = text_in(row, "content");
      const size_t token = row.at("id").get<size_t>();
      if (flag(row, "single_word", false))
        fail("the added token ", quoted(text), " is for single words, which metac does not know");
      if (flag(row, "normalized", false) && changes_begin_)
        fail("the added token ", quoted(text), " is looked for behind a normalizer that changes it");
      if (token >= w_.pieces.size() || w_.pieces[token].empty()) add_piece(token, text);
      w_.spoken.resize(w_.pieces.size());
      const bool special = flag(row, "special", false);
      w_.spoken[token] = special ? "" : text;
      for (size_t other = 0; special && other < w_.pieces.size(); ++other)  // whatever number it has
        if (w_.pieces[other] == text) w_.spoken[other] = "";
      if (!text.empty())
        w_.added.push_back(
            {w_.text(text), static_cast<uint32_t>(token),
             (flag(row, "lstrip", false) ? Table::takes_left : 0) | (flag(row, "rstrip", false) ? Table::takes_right : 0)});
    }
    w_.scores.resize(w_.scores.empty() ? 0 : w_.pieces.size());
  }

  void post_processor(const Json& part) {
    const std::string kind = kind_of(part);
    if (kind == "ByteLevel") return;  // what it trims are offsets
    if (kind != "TemplateProcessing") refuse("the post_processor", part);
    bool behind = false;
    for (const Json& each : part.at("single")) {
      if (each.contains("Sequence")) {
        behind = true;
        continue;
      }
      for (const Json& id : part.at("special_tokens").at(each.at("SpecialToken").at("id").get<std::string>()).at("ids"))
        (behind ? w_.end : w_.begin).push_back(id.get<int32_t>());
    }
  }

  const Json& file_;
  TokenizerWriter w_;
  std::map<std::string, size_t> tokens_;
  bool by_bytes_ = false, changes_begin_ = false;
};

}  // namespace

std::string read_tokenizer_json(std::string_view text) {
  try {
    const Json file = Json::parse(text);
    if (!file.is_object() || !file.contains("model")) fail("this JSON is no tokenizer: it has no \"model\"");
    return JsonReader(file).run();
  } catch (const Json::exception& error) {
    fail("this is no tokenizer.json: ", error.what());
  }
}

}  // namespace metac
