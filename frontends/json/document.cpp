#include "frontends/json/document.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "compiler/support/diagnostic.h"
#include "compiler/support/nearest_name.h"

namespace metac {

using JsonKind = JsonValue::Kind;

constexpr size_t nesting_limit = 100;
constexpr size_t value_limit = 4'000'000;

// Receives nlohmann's events. They carry no positions, so a cursor walks the same text in step: before each event it skips
// what separates tokens, after it the token itself.
class JsonBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit JsonBuilder(JsonDocument& document) : document_(document), text_(document.text_) {
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;  // nlohmann skips a byte order mark too
  }

  bool null() override { return word(JsonKind::null, false); }
  bool boolean(bool value) override { return word(JsonKind::boolean, value); }
  bool number_integer(number_integer_t) override { return number(); }
  bool number_unsigned(number_unsigned_t) override { return number(); }
  bool number_float(number_float_t, const string_t&) override { return number(); }
  bool binary(binary_t&) override { return false; }  // not in JSON text

  bool string(string_t& value) override {
    JsonValue& out = add(JsonKind::string);
    out.text = std::move(value);
    skip_string();
    return true;
  }

  bool start_object(size_t) override { return open(JsonKind::object); }
  bool start_array(size_t) override { return open(JsonKind::array); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    skip_separators();
    if (!keys_.back().insert(name).second) document_.refuse(at_, concat("the key ", quoted(name), " is given twice"));
    open_.back()->members.push_back({std::move(name), JsonValue()});
    skip_string();
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    // "[json.exception...] parse error at line 1, column 5: syntax error while parsing value - invalid literal; last read:
    // ..."
    std::string reason = error.what();
    size_t start = reason.find(": "), end = reason.find("; last read");
    if (dynamic_cast<const nlohmann::json::out_of_range*>(&error)) {
      skip_separators();
      document_.refuse(at_, "the number does not fit in a float64");
    }
    if (start != std::string::npos) reason = reason.substr(start + 2, end == std::string::npos ? end : end - start - 2);
    if (end != std::string::npos && start == std::string::npos) reason.resize(end);
    document_.refuse(position == 0 ? 0 : position - 1,
                     position > text_.size() ? "the document ends too early: " + reason : reason);
  }

 private:
  void skip_separators() {
    size_t next = text_.find_first_not_of(" \t\r\n,:", at_);
    at_ = next == std::string_view::npos ? text_.size() : next;
  }

  void skip_string() {
    for (++at_; text_[at_] != '"'; ++at_)
      if (text_[at_] == '\\') ++at_;
    ++at_;
  }

  // The place of the next value: the root, the next item, or the value of the last key.
  JsonValue& add(JsonKind kind) {
    skip_separators();
    if (++count_ > value_limit)
      document_.refuse(at_, concat("more than ", value_limit, " values; keep large tensors as base64 or in a .npy file"));
    JsonValue* out = &document_.root_;
    if (!open_.empty()) {
      JsonValue& parent = *open_.back();
      out = parent.is(JsonKind::array) ? &parent.items.emplace_back() : &parent.members.back().value;
    }
    out->kind = kind;
    out->offset = at_;
    return *out;
  }

  bool word(JsonKind kind, bool flag) {
    add(kind).flag = flag;
    at_ += kind == JsonKind::null || flag ? 4 : 5;
    return true;
  }

  bool number() {
    JsonValue& out = add(JsonKind::number);
    size_t end = text_.find_first_not_of("+-.0123456789eE", at_);
    if (end == std::string_view::npos) end = text_.size();
    out.text = std::string(text_.substr(at_, end - at_));
    at_ = end;
    return true;
  }

  bool open(JsonKind kind) {
    JsonValue& out = add(kind);
    if (open_.size() >= nesting_limit) document_.refuse(at_, concat("nesting deeper than ", nesting_limit));
    open_.push_back(&out);
    keys_.emplace_back();
    ++at_;
    return true;
  }

  bool close() {
    skip_separators();
    ++at_;
    open_.pop_back();
    keys_.pop_back();
    return true;
  }

  JsonDocument& document_;
  std::string_view text_;
  size_t at_ = 0, count_ = 0;
  std::vector<JsonValue*> open_;  // an open value does not move: its parent grows only after it is closed
  std::vector<std::unordered_set<std::string>> keys_;
};

JsonDocument::JsonDocument(std::string_view text, std::string path) : text_(text), path_(std::move(path)) {
  // A byte order mark is no column of the first line.
  line_starts_.push_back(text.starts_with("\xef\xbb\xbf") ? 3 : 0);
  for (size_t i = text.find('\n'); i != std::string_view::npos; i = text.find('\n', i + 1)) line_starts_.push_back(i + 1);
  JsonBuilder builder(*this);
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
}

int JsonDocument::line(size_t offset) const {
  return std::max(
      1, static_cast<int>(std::upper_bound(line_starts_.begin(), line_starts_.end(), offset) - line_starts_.begin()));
}

std::string JsonDocument::place(size_t offset) const {
  offset = std::min(offset, text_.size());
  size_t start = line_starts_[line(offset) - 1];
  size_t column = 1;  // in characters, not bytes
  for (size_t i = start; i < offset; ++i) column += (static_cast<unsigned char>(text_[i]) & 0xc0) != 0x80;
  return concat(path_, ":", line(offset), ":", column);
}

void JsonDocument::refuse(size_t offset, const std::string& message) const {
  throw CompileError(Diagnostic{place(offset), "", message});
}

bool JsonDocument::is_verbatim(const JsonValue& string) const {
  return text_.substr(string.offset + 1, string.text.size()) == string.text;
}

std::string_view name_of(JsonKind kind) {
  switch (kind) {
    case JsonKind::null:
      return "null";
    case JsonKind::boolean:
      return "a boolean";
    case JsonKind::number:
      return "a number";
    case JsonKind::string:
      return "a string";
    case JsonKind::array:
      return "an array";
    case JsonKind::object:
      return "an object";
  }
  return "";
}

void expect(const JsonDocument& document, const JsonValue& value, JsonKind kind, const std::string& what) {
  if (!value.is(kind))
    document.refuse(value.offset, concat(what, " must be ", name_of(kind), ", this is ", name_of(value.kind)));
}

const std::string& expect_string(const JsonDocument& document, const JsonValue& value, const std::string& what) {
  expect(document, value, JsonKind::string, what);
  return value.text;
}

int64_t expect_integer(const JsonDocument& document, const JsonValue& value, const std::string& what) {
  expect(document, value, JsonKind::number, what);
  int64_t number = 0;
  const char* end = value.text.data() + value.text.size();
  auto [stop, error] = std::from_chars(value.text.data(), end, number);
  if (stop != end) document.refuse(value.offset, concat(what, " must be an integer, this is ", quoted(value.text)));
  if (error != std::errc()) document.refuse(value.offset, concat(what, " does not fit in an int64: ", quoted(value.text)));
  return number;
}

double expect_real(const JsonDocument& document, const JsonValue& value, const std::string& what) {
  expect(document, value, JsonKind::number, what);
  double number = 0;
  std::from_chars(value.text.data(), value.text.data() + value.text.size(), number);  // the document's syntax is checked
  return number;
}

JsonFields::JsonFields(const JsonDocument& document, const JsonValue& object, std::string what)
    : document_(document), object_(object), what_(std::move(what)), taken_(object.members.size()) {
  expect(document, object, JsonKind::object, what_);
}

const JsonValue* JsonFields::find(std::string_view key) {
  asked_.emplace_back(key);
  for (size_t i = 0; i < object_.members.size(); ++i)
    if (object_.members[i].key == key) {
      taken_[i] = true;
      return &object_.members[i].value;
    }
  return nullptr;
}

const JsonValue& JsonFields::required(std::string_view key) {
  const JsonValue* value = find(key);
  if (!value) document_.refuse(object_.offset, concat(what_, " needs a ", metac::quoted(key)));
  return *value;
}

std::string JsonFields::string(std::string_view key, const std::string& otherwise) {
  const JsonValue* value = find(key);
  return value ? expect_string(document_, *value, metac::quoted(key)) : otherwise;
}

int64_t JsonFields::integer(std::string_view key, int64_t otherwise) {
  const JsonValue* value = find(key);
  return value ? expect_integer(document_, *value, metac::quoted(key)) : otherwise;
}

double JsonFields::real(std::string_view key, double otherwise) {
  const JsonValue* value = find(key);
  return value ? expect_real(document_, *value, metac::quoted(key)) : otherwise;
}

bool JsonFields::flag(std::string_view key, bool otherwise) {
  const JsonValue* value = find(key);
  if (value) expect(document_, *value, JsonKind::boolean, metac::quoted(key));
  return value ? value->flag : otherwise;
}

std::vector<std::string> JsonFields::strings(std::string_view key) {
  std::vector<std::string> out;
  for (const JsonValue& item : array(key))
    out.push_back(expect_string(document_, item, concat("an item of ", metac::quoted(key))));
  return out;
}

const std::vector<JsonValue>& JsonFields::array(std::string_view key) {
  static const std::vector<JsonValue> none;
  const JsonValue* value = find(key);
  if (!value) return none;
  expect(document_, *value, JsonKind::array, metac::quoted(key));
  return value->items;
}

std::vector<const JsonMember*> JsonFields::rest() {
  std::vector<const JsonMember*> out;
  for (size_t i = 0; i < taken_.size(); ++i)
    if (!taken_[i]) {
      taken_[i] = true;
      out.push_back(&object_.members[i]);
    }
  return out;
}

void JsonFields::finish() {
  for (size_t i = 0; i < taken_.size(); ++i)
    if (!taken_[i])
      document_.refuse(object_.members[i].value.offset, concat(what_, " has no field ", quoted(object_.members[i].key),
                                                               suggestion(object_.members[i].key, asked_)));
}

}  // namespace metac
