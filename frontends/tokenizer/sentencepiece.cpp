#include <algorithm>
#include <cstring>
#include <limits>

#include "compiler/support/diagnostic.h"
#include "frontends/tokenizer/table_writer.h"
#include "frontends/tokenizer/tokenizer_json.h"
#include "sentencepiece.pb.h"

namespace metac {
namespace {

using Table = tok::TokenizerTable;
namespace proto = metac_sentencepiece;

constexpr const char* mark = "\u2581";
constexpr int unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6;

class SentencePieceReader {
 public:
  explicit SentencePieceReader(const proto::Model& model) : model_(model) {}

  std::string run() {
    const proto::Trainer& trainer = model_.trainer_spec();
    if (!unigram() && trainer.model_type() != 2)
      fail("the SentencePiece model is of type ", trainer.model_type(), "; metac knows 1 (unigram) and 2 (BPE)");
    if (trainer.treat_whitespace_as_suffix()) fail("the SentencePiece model puts the mark of spaces behind words");
    for (int token = 0; token < model_.pieces_size(); ++token) read_piece(static_cast<uint32_t>(token));
    if (w_.head.unknown < 0) fail("the SentencePiece model has no unknown piece");
    if (trainer.byte_fallback()) w_.head.flags |= Table::byte_fallback;
    for (int32_t token : w_.head.byte_tokens)
      if (trainer.byte_fallback() && token < 0) fail("the SentencePiece model falls back to bytes, and has not all of them");
    w_.head.flags |= Table::fuse_unknown | Table::drop_first_space;
    if (unigram())
      rate_pieces();
    else
      make_merges();
    make_steps();
    const int first = trainer.bos_id();
    if (first >= 0 && first < model_.pieces_size() && model_.pieces(first).type() == control) w_.begin.push_back(first);
    return w_.table();
  }

 private:
  void read_piece(uint32_t token) {
    const proto::Piece& piece = model_.pieces(static_cast<int>(token));
    w_.pieces.push_back(piece.piece());
    w_.scores.push_back(piece.score());
    std::string text = piece.piece();
    for (size_t at = 0; (at = text.find(mark, at)) != std::string::npos; ++at) text.replace(at, std::strlen(mark), " ");
    switch (piece.type()) {
      case unknown:
        w_.head.unknown = static_cast<int32_t>(token);
        w_.unmade.insert(token);
        text = " \u2047 ";
        break;
      case control:
        w_.unmade.insert(token), text = "";
        break;
      case user_defined:
        if (!unigram()) w_.unmade.insert(token);
        w_.atoms.push_back({w_.text(piece.piece()), token, 0});
        break;
      case unused:
        fail("the SentencePiece model has the unused piece ", quoted(piece.piece()), ", which metac does not know");
      case byte: {
        const int value = byte_of_piece(piece.piece());
        if (value < 0) fail("the SentencePiece model has the byte ", quoted(piece.piece()));
        w_.head.byte_tokens[value] = static_cast<int32_t>(token);
        w_.unmade.insert(token);
        text = std::string(1, static_cast<char>(value));
        break;
      }
      default:
        break;
    }
    w_.spoken.push_back(text);
  }

  bool unigram() const { return !model_.trainer_spec().has_model_type() || model_.trainer_spec().model_type() == 1; }

  // What is unknown is worse than any piece, what the user has defined better than all pieces that it may be cut into.
  void rate_pieces() {
    w_.head.flags |= Table::unigram;
    float least = std::numeric_limits<float>::max(), most = std::numeric_limits<float>::lowest();
    for (const proto::Piece& piece : model_.pieces())
      if (piece.type() <= 1) least = std::min(least, piece.score()), most = std::max(most, piece.score());
    w_.head.unknown_score = least - 10;
    for (int token = 0; token < model_.pieces_size(); ++token)
      if (model_.pieces(token).type() == user_defined)
        w_.scores[static_cast<size_t>(token)] =
            static_cast<float>(static_cast<double>(static_cast<float>(model_.pieces(token).piece().size()) * most) - 0.1);
  }

  // Any two pieces that are a third one together merge, the piece of the highest score first.
  void make_merges() {
    std::map<std::string, uint32_t> known;
    std::vector<uint32_t> order;
    for (uint32_t token = 0; token < w_.pieces.size(); ++token)
      if (!w_.unmade.count(token)) known.emplace(w_.pieces[token], token), order.push_back(token);
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return w_.scores[a] > w_.scores[b]; });
    uint32_t rank = 0;
    float before = 0;
    for (uint32_t token : order) {
      if (w_.scores[token] != before) ++rank;  // equal scores: the leftmost
      before = w_.scores[token];
      const std::string& piece = w_.pieces[token];
      for (size_t cut = 1; cut < piece.size(); ++cut) {
        if ((static_cast<unsigned char>(piece[cut]) & 0xc0) == 0x80) continue;
        const auto left = known.find(piece.substr(0, cut)), right = known.find(piece.substr(cut));
        if (left != known.end() && right != known.end()) w_.merges.push_back({left->second, right->second, rank, token});
      }
    }
  }

  void make_steps() {
    const proto::Normalizer& n = model_.normalizer_spec();
    if (!n.precompiled_charsmap().empty()) {
      const std::string& map = n.precompiled_charsmap();
      uint32_t units = 0;
      if (map.size() >= 4) std::memcpy(&units, map.data(), 4);
      if (map.size() < 4 || units % 4 != 0 || units == 0 || units > map.size() - 4 || map.back() != 0)
        fail("the SentencePiece model's map of characters is damaged");
      w_.map_units = map.substr(4, units);
      w_.map_texts = map.substr(4 + units);
      w_.steps.push_back({tok::TokenStep::map, 0, 0, 0});
    }
    if (n.remove_extra_whitespaces()) w_.steps.push_back({tok::TokenStep::squeeze, 0, 0, 0});
    if (n.add_dummy_prefix()) w_.steps.push_back({tok::TokenStep::prepend, w_.text(" "), 0, 0});
    if (n.escape_whitespaces()) w_.steps.push_back({tok::TokenStep::replace, w_.text(" "), w_.text(mark), 0});
  }

  const proto::Model& model_;
  TokenizerWriter w_;
};

}  // namespace

std::string read_sentencepiece(std::string_view bytes) {
  proto::Model model;
  if (!model.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())) || model.pieces_size() == 0)
    fail("this is neither a tokenizer.json nor a SentencePiece model");
  return SentencePieceReader(model).run();
}

}  // namespace metac
