// A JSON document in memory in which every value knows where it stands.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace metac {

struct JsonMember;

struct JsonValue {
  enum class Kind : uint8_t { null, boolean, number, string, array, object };
  Kind kind = Kind::null;
  bool flag = false;  // boolean
  size_t offset = 0;  // of the first byte of the value in the text
  std::string text;   // string: its content; number: as it is written
  std::vector<JsonValue> items;
  std::vector<JsonMember> members;  // in order; keys are unique

  bool is(Kind k) const { return kind == k; }
};

struct JsonMember {
  std::string key;
  JsonValue value;
};

std::string_view name_of(JsonValue::Kind kind);  // "a number"

class JsonDocument {
 public:
  // Throws CompileError with file, line and column on anything that is not one JSON value, on duplicate keys, nesting
  // beyond 100 and more than 4 million values. `text` must outlive the document.
  JsonDocument(std::string_view text, std::string path);

  const JsonValue& root() const { return root_; }
  const std::string& path() const { return path_; }
  std::string place(size_t offset) const;  // "conv.json:12:7"
  int line(size_t offset) const;
  [[noreturn]] void refuse(size_t offset, const std::string& message) const;
  // The source of a string value if it has no escapes: then a position inside it is a position in the text.
  bool is_verbatim(const JsonValue& string) const;

 private:
  friend class JsonBuilder;
  std::string_view text_;
  std::string path_;
  std::vector<size_t> line_starts_;
  JsonValue root_;
};

// The members of an object, each to be asked for by name; finish() refuses what nobody asked for.
class JsonFields {
 public:
  JsonFields(const JsonDocument& document, const JsonValue& object, std::string what);

  const JsonValue* find(std::string_view key);  // null if absent
  const JsonValue& required(std::string_view key);
  std::string string(std::string_view key, const std::string& otherwise = "");
  int64_t integer(std::string_view key, int64_t otherwise);
  double real(std::string_view key, double otherwise);
  bool flag(std::string_view key, bool otherwise);
  std::vector<std::string> strings(std::string_view key);
  const std::vector<JsonValue>& array(std::string_view key);  // empty if absent
  std::vector<const JsonMember*> rest();                      // the members not asked for yet, now taken
  void finish();

  const JsonValue& object() const { return object_; }
  const JsonDocument& document() const { return document_; }

 private:
  const JsonDocument& document_;
  const JsonValue& object_;
  std::string what_;
  std::vector<bool> taken_;
  std::vector<std::string> asked_;
};

const std::string& expect_string(const JsonDocument& document, const JsonValue& value, const std::string& what);
int64_t expect_integer(const JsonDocument& document, const JsonValue& value, const std::string& what);
double expect_real(const JsonDocument& document, const JsonValue& value, const std::string& what);
void expect(const JsonDocument& document, const JsonValue& value, JsonValue::Kind kind, const std::string& what);

}  // namespace metac
