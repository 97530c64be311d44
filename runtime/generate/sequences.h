// Several texts in one context: a run reads a token of each, so that the weights are read once for all of them. A text joins
// behind its prompt, which is read in states of its own, and is no row of the states any more where it ends (continuous
// batching, Yu et al., "Orca", 2022).
#pragma once
#include "../executor/state_rows.h"
#include "decoder_inputs.h"
#include "generator.h"

namespace METAC_RUNTIME_NAMESPACE {

// One of them. Whoever makes it adds the functions of the text's caller and knows how to destroy it.
struct JoinedSequence {
  int64_t id = 0;
  int64_t row = -1;                  // of the states; -1: none, it has ended
  int64_t begin = 0;                 // where among the steps its own begin
  int64_t made_from = 0;             // the first token that it made
  bool ended = false, told = false;  // told: that it has ended
  Sequence text;
  GenerationSettings settings = GenerationSettings();
  GenerationResult result = GenerationResult();
  void (*destroy)(JoinedSequence*) = nullptr;
  JoinedSequence* next = nullptr;
};

// All of a context, and the states that prompts are read in.
class JoinedSequences {
 public:
  JoinedSequences() = default;
  JoinedSequences(const JoinedSequences&) = delete;
  JoinedSequences& operator=(const JoinedSequences&) = delete;
  ~JoinedSequences() { clear(); }

  StateSet prompt;
  bool ready = false;  // there is memory for it

  bool any() const { return first_ != nullptr; }
  // One that goes on; null: none does.
  const JoinedSequence* first_of_rows() const {
    const JoinedSequence* one = first_;
    while (one != nullptr && one->row < 0) one = one->next;
    return one;
  }
  int64_t rows() const { return rows_; }
  void clear() {
    while (first_ != nullptr) remove(first_);
    rows_ = 0;
  }
  void add(JoinedSequence* one) {
    one->id = ++last_id_;
    one->next = first_;
    first_ = one;
  }
  JoinedSequence* find(int64_t id) const {
    JoinedSequence* one = first_;
    while (one != nullptr && one->id != id) one = one->next;
    return one;
  }
  void remove(JoinedSequence* one) {
    JoinedSequence** link = &first_;
    while (*link != one) link = &(*link)->next;
    *link = one->next;
    one->destroy(one);
  }
  // That has ended and was not asked for yet; null: there is none.
  JoinedSequence* next_ended() const {
    JoinedSequence* found = nullptr;
    for (JoinedSequence* one = first_; one != nullptr; one = one->next)
      if (one->ended && !one->told) found = one;  // the first that joined: new ones are put in front
    return found;
  }

  void give_row(JoinedSequence* one) { one->row = rows_++; }
  void take_row(JoinedSequence* one) {
    for (JoinedSequence* other = first_; other != nullptr; other = other->next)
      if (other->row == rows_ - 1 && other != one) other->row = one->row;
    one->row = -1;
    --rows_;
  }
  // Steps were put before all rows, or taken from there (below 0).
  void move_begins(int64_t steps) {
    for (JoinedSequence* one = first_; one != nullptr; one = one->next) one->begin += steps;
  }
  int64_t first_begin() const {
    int64_t least = INT64_MAX;
    for (const JoinedSequence* one = first_; one != nullptr; one = one->next)
      if (one->row >= 0 && one->begin < least) least = one->begin;
    return least;
  }

  // What a run behind `past` steps reads of each row: its last token, its adapter, and where it begins; by how much it has
  // read where states do not tell (`counted`). False: no memory.
  bool prepare(int64_t past, bool counted) {
    if (!tokens_.reserve(rows_ * int64_t{sizeof(int64_t)}) || !begins_.reserve(rows_ * int64_t{sizeof(int64_t)}) ||
        !adapters_.reserve(rows_ * int64_t{sizeof(int64_t)}) || !of_rows_.reserve(rows_ * int64_t{sizeof(JoinedSequence*)}))
      return false;
    for (JoinedSequence* one = first_; one != nullptr; one = one->next) {
      if (one->row < 0) continue;
      static_cast<int64_t*>(tokens_.data())[one->row] = one->text.tokens()[one->text.tokens().size() - 1];
      static_cast<int64_t*>(begins_.data())[one->row] = counted ? past - one->text.read : one->begin;
      static_cast<int64_t*>(adapters_.data())[one->row] = one->settings.adapter;
      static_cast<JoinedSequence**>(of_rows_.data())[one->row] = one;
    }
    return true;
  }
  const int64_t* tokens() const { return static_cast<const int64_t*>(tokens_.data()); }
  const int64_t* begins() const { return static_cast<const int64_t*>(begins_.data()); }
  const int64_t* adapters() const { return static_cast<const int64_t*>(adapters_.data()); }
  int64_t most_read() const {
    int64_t most = 0;
    for (const JoinedSequence* one = first_; one != nullptr; one = one->next)
      if (one->row >= 0 && one->text.read > most) most = one->text.read;
    return most;
  }
  JoinedSequence* of_row(int64_t row) const { return static_cast<JoinedSequence* const*>(of_rows_.data())[row]; }

 private:
  JoinedSequence* first_ = nullptr;
  int64_t rows_ = 0, last_id_ = 0;
  Block tokens_, begins_, adapters_, of_rows_;
};

// Model: as Generator says, which reads prompts in JoinedSequences::prompt, and
//   const float* step(const DecoderRun& run): logits of each row
// Member: a JoinedSequence with its caller (Chooser) in `caller`, which has finish() as well: what was held back is told.
template <class Model, class Member>
class Together {
 public:
  Together(JoinedSequences& all, StateSet& states, Model& model, Sampler& sampler)
      : all_(all), states_(states), model_(model), sampler_(sampler) {}

  // Reads the prompt of a member of the list and chooses its first token. A member whose join failed is to be removed.
  bool join(Member* one, const int64_t* prompt, int64_t count) {
    all_.prompt.reset();
    using Caller = decltype(one->caller);
    Generator<Model, Caller> generator(model_, one->caller, one->text, sampler_, one->settings);
    const float* const logits = generator.read(prompt, count, &one->result);
    if (logits == nullptr) return false;
    one->made_from = one->text.tokens().size();
    if (!choose(one, logits)) return false;
    if (one->ended) return true;
    const int64_t before = states_.length();
    StateRows rows(states_);
    if (!rows.append(all_.prompt, model_.failure())) return false;
    if (before >= 0 && all_.rows() > 0) all_.move_begins(states_.length() - before);
    one->begin = before >= 0 ? states_.length() - all_.prompt.length() : 0;
    all_.give_row(one);
    return true;
  }

  // A token for each. The first failure of one of them is the call's; that one ends, and the others go on.
  bool step() {
    const double from = seconds();
    if (all_.rows() == 0) return true;
    DecoderRun run;
    const bool counted = states_.length() < 0;
    run.past = counted ? all_.most_read() : states_.length();
    if (!all_.prepare(run.past, counted)) return model_.failure().set(Status::out_of_memory, "no memory for the tokens");
    run.count = 1;
    run.tokens = all_.tokens();
    run.logits = 1;
    run.rows = all_.rows();
    run.begins = all_.begins();
    run.adapters = all_.adapters();
    const float* const logits = model_.step(run);
    if (logits == nullptr || !sampler_.prepare(model_.vocabulary(), model_.failure())) return false;
    Failure first;
    for (int64_t row = 0; row < run.rows; ++row) {
      Member* const one = static_cast<Member*>(all_.of_row(row));
      ++one->result.runs, ++one->text.read;
      if (choose(one, logits + row * sampler_.vocabulary())) continue;
      one->ended = true;
      if (first.ok()) first = model_.failure();
      model_.failure().clear();
    }
    for (int64_t row = run.rows; row-- > 0;) {  // the last takes the place of one that goes
      Member* const one = static_cast<Member*>(all_.of_row(row));
      one->result.token_seconds += seconds() - from;
      if (one->ended && !take_out(one)) return false;
    }
    if (!first.ok()) model_.failure() = first;
    return first.ok();
  }

  // It is no row any more.
  bool take_out(JoinedSequence* one) {
    if (one->row < 0) return true;
    if (!StateRows(states_).remove(one->row, model_.failure())) return false;
    all_.take_row(one);
    one->ended = true;
    return drop_what_none_has();
  }

 private:
  bool choose(Member* one, const float* logits) {
    Chooser<decltype(one->caller)> chooser(one->caller, sampler_, one->settings);
    const int64_t token = chooser.choose(logits, one->text.tokens(), one->made_from, &one->result);
    if (token < 0) return false;
    if (!one->text.append(token)) return model_.failure().set(Status::out_of_memory, "no memory for the tokens");
    one->ended = !chooser.tell(token, &one->result);
    return model_.failure().ok() && (!one->ended || one->caller.finish());
  }

  // The steps before all texts, once they are as many as those of the longest: so each is moved once for each that was made.
  bool drop_what_none_has() {
    const int64_t length = states_.length(), begin = all_.rows() > 0 ? all_.first_begin() : 0;
    if (begin < 64 || 2 * begin < length) return true;
    if (!StateRows(states_).drop_steps(begin, model_.failure())) return false;
    all_.move_begins(-begin);
    return true;
  }

  JoinedSequences& all_;
  StateSet& states_;
  Model& model_;
  Sampler& sampler_;
};

}  // namespace METAC_RUNTIME_NAMESPACE
