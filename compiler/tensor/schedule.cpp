#include "compiler/tensor/schedule.h"

#include <algorithm>
#include <charconv>

#include "compiler/support/diagnostic.h"

namespace metac {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

bool is_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return ('a' <= c && c <= 'z') || ('0' <= c && c <= '9') || c == '.' || c == '_';
  });
}

}  // namespace

std::string to_string(const Transform& transform) {
  return transform.argument.empty() ? transform.name : concat(transform.name, " ", transform.argument);
}

std::string to_string(const Schedule& schedule) {
  std::string text;
  for (const Transform& t : schedule) text += concat(text.empty() ? "" : ", ", to_string(t));
  return text;
}

Schedule read_schedule(std::string_view text) {
  Schedule schedule;
  for (bool more = true; more;) {
    const size_t comma = text.find(',');
    const std::string_view part = trimmed(text.substr(0, comma));
    more = comma != std::string_view::npos;
    text.remove_prefix(more ? comma + 1 : text.size());
    const size_t space = part.find(' ');
    const std::string_view name = part.substr(0, space);
    const std::string_view argument = space == std::string_view::npos ? "" : trimmed(part.substr(space));
    if (!is_word(name) || (space != std::string_view::npos && !is_word(argument)))
      fail("not a transform of a schedule: ", quoted(part), "; expected a word, or two, as in \"direct, tile 14x2\"");
    for (const Transform& before : schedule)
      if (before.name == name) fail("a schedule with two transforms ", quoted(name));
    schedule.push_back({std::string(name), std::string(argument)});
  }
  return schedule;
}

Transform tile_transform(int points, int vectors) { return {"tile", concat(points, "x", vectors)}; }

std::pair<int, int> read_tile(std::string_view argument) {
  int points = 0, vectors = 0;
  const char* const end = argument.data() + argument.size();
  const auto first = std::from_chars(argument.data(), end, points);
  if (first.ec == std::errc() && first.ptr < end && *first.ptr == 'x') {
    const auto second = std::from_chars(first.ptr + 1, end, vectors);
    if (second.ec == std::errc() && second.ptr == end && points > 0 && vectors > 0) return {points, vectors};
  }
  fail("a register tile is POINTSxVECTORS, as 14x2, not ", quoted(argument));
}

}  // namespace metac
