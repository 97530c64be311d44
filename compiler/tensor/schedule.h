// A schedule as data: what is decided about the loops of one sum of products, transform by transform.
//
//   "filter 4, tile 7x2"            minimal filtering F(4x4, 3x3), products in register tiles of 7 points by 2 vectors
//   "direct, tile 14x2, block 0.5"  sums as they stand, blocks of points for half of the second-level cache
//
// It is printed (`--emit schedules`), compared, stored by `--tune`, written by hand, and compiled again (`--tune-from`):
// what it does not name is the analytic model's to decide, and what it names is done or refused with a reason.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace metac {

struct Transform {
  std::string name;      // "direct", "filter", "tile", "block", "slices"
  std::string argument;  // empty: it has none

  bool operator==(const Transform&) const = default;
};

using Schedule = std::vector<Transform>;  // in the order of application

std::string to_string(const Transform& transform);
std::string to_string(const Schedule& schedule);
// Throws CompileError where it is no list of words, or names a transform twice. Which transforms there are, and which of
// their arguments a subject allows, is known to those that apply them.
Schedule read_schedule(std::string_view text);

// A register tile of points by vectors: "tile 14x2".
Transform tile_transform(int points, int vectors);
// Points and vectors of such an argument. Throws CompileError.
std::pair<int, int> read_tile(std::string_view argument);

}  // namespace metac
