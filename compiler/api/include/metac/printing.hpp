// std::cout << var: values, shape and dtype, as Python's repr has them. It is a look: what is not there is computed.
//
// The text of the values is NumPy's array2string with four digits behind the point, of more than 100 elements the first and
// last three along each axis.
#pragma once
#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <ostream>

#include "dtypes.hpp"
#include "var.hpp"

namespace metac {
namespace detail {

struct Printed {
  static constexpr int64_t edge = 3, most = 100;
  static constexpr size_t width = 75, digits = 4;
};

template <class... How>
std::string number_text(double value, How... how) {
  char text[512];
  return std::string(text, std::to_chars(text, text + sizeof text, value, how...).ptr);
}
// The shortest text that tells the number from its neighbours of its type, rounded to some digits behind the point.
template <class T>
std::string shortest_text(T value, std::chars_format format) {
  char text[512];
  const auto point = [](const std::string& whole) { return std::min(whole.find('.'), whole.find('e')); };
  std::string whole(text, std::to_chars(text, text + sizeof text, value, format).ptr);
  const size_t fraction = std::min(whole.find('e'), whole.size()) - std::min(point(whole) + 1, whole.size());
  if (point(whole) != std::string::npos && whole[point(whole)] == '.' && fraction > Printed::digits)
    whole = number_text(static_cast<double>(value), format, static_cast<int>(Printed::digits));
  return whole;
}

// A number in its parts: before the point with the sign, behind it, and the exponent.
struct NumberParts {
  std::string whole, fraction, exponent;
};
inline NumberParts parts_of(const std::string& text) {
  const size_t e = std::min(text.find('e'), text.size()), point = std::min(text.find('.'), e);
  NumberParts parts{text.substr(0, point), point < e ? text.substr(point + 1, e - point - 1) : "", text.substr(e)};
  while (!parts.fraction.empty() && parts.fraction.back() == '0') parts.fraction.pop_back();
  return parts;
}

inline std::string padded(const std::string& text, size_t width) {
  return std::string(width > text.size() ? width - text.size() : 0, ' ') + text;
}
inline void align(std::vector<std::string>& texts) {
  size_t width = 0;
  for (const std::string& text : texts) width = std::max(width, text.size());
  for (std::string& text : texts) text = padded(text, width);
}

// All with their points in one column; with exponents where the numbers are far apart.
template <class T>
std::vector<std::string> real_texts(const std::vector<T>& values) {
  T least = std::numeric_limits<T>::infinity(), greatest = 0;
  for (const T value : values)
    if (std::isfinite(value) && value != 0) {
      least = std::min(least, std::abs(value));
      greatest = std::max(greatest, std::abs(value));
    }
  const T largest = std::is_same_v<T, float> ? T(1e6) : T(1e8);  // that has all of its digits
  const bool exponents = greatest > 0 && (greatest >= largest || least < T(1e-4) || greatest / least > 1000);
  std::vector<NumberParts> parts;
  size_t before = 0, behind = 0, power = 0;
  for (const T value : values) {
    if (!std::isfinite(value)) continue;
    parts.push_back(parts_of(shortest_text(value, exponents ? std::chars_format::scientific : std::chars_format::fixed)));
    before = std::max(before, parts.back().whole.size()), behind = std::max(behind, parts.back().fraction.size());
    power = std::max(power, parts.back().exponent.size());
  }
  std::vector<std::string> texts;
  size_t k = 0;
  for (const T value : values) {
    if (!std::isfinite(value)) {
      texts.push_back(std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
      continue;
    }
    NumberParts& own = parts[k++];
    if (exponents) own.exponent.insert(2, power - own.exponent.size(), '0');  // behind "e+"
    const std::string fill(behind - own.fraction.size(), exponents ? '0' : ' ');
    texts.push_back(padded(own.whole, before) + "." + own.fraction + fill + own.exponent);
  }
  align(texts);
  return texts;
}

// The places of an axis that are shown; -1 stands for "...".
inline std::vector<int64_t> shown_places(int64_t dim, bool all) {
  std::vector<int64_t> places;
  for (int64_t k = 0; k < dim; ++k) {
    if (all || dim <= 2 * Printed::edge || k < Printed::edge || k >= dim - Printed::edge)
      places.push_back(k);
    else if (places.back() >= 0)
      places.push_back(-1);
  }
  return places;
}

struct ValuePrinter {
  std::vector<int64_t> shape;
  bool all;
  std::vector<std::string> texts = {};  // of what is shown, in order
  size_t next = 0;

  // Calls with the place of every element that is shown.
  template <class Visit>
  void visit(Visit&& visited, size_t axis = 0, int64_t at = 0) const {
    if (axis == shape.size()) return visited(static_cast<size_t>(at));
    for (const int64_t place : shown_places(shape[axis], all))
      if (place >= 0) visit(visited, axis + 1, at * shape[axis] + place);
  }

  // Rows are broken where they do not fit in a line, of which `brackets` columns are kept for those that close.
  std::string text(size_t axis, const std::string& indent, size_t brackets = 0) {
    if (axis == shape.size()) return texts[next++];
    const std::vector<int64_t> places = shown_places(shape[axis], all);
    const bool row = axis + 1 == shape.size();
    std::string done, line = indent;
    for (size_t k = 0; k < places.size(); ++k) {
      const bool last = k + 1 == places.size();
      const std::string word = places[k] < 0 ? "..." : text(axis + 1, indent + " ", brackets + 1);
      if (row) {
        if (line.size() + word.size() > Printed::width - brackets - 1 && line.size() > indent.size())
          done += line.substr(0, line.find_last_not_of(' ') + 1) + "\n", line = indent;
        line += word + (last ? "" : ", ");
      } else {
        line += (k ? indent : "") + word + (last ? "" : "," + std::string(shape.size() - axis - 1, '\n'));
      }
    }
    return "[" + (done + line).substr(indent.size()) + "]";
  }
};

template <class T>
void collect(ValuePrinter& printer, const Tensor& tensor) {
  const T* const elements = tensor.data<T>();
  if constexpr (std::is_floating_point_v<T>) {
    std::vector<T> values;
    printer.visit([&](size_t at) { values.push_back(elements[at]); });
    printer.texts = real_texts(values);
  } else {
    printer.visit([&](size_t at) {
      if constexpr (std::is_same_v<T, bool>)
        printer.texts.push_back(elements[at] ? "True" : "False");
      else
        printer.texts.push_back(std::to_string(elements[at]));
    });
    align(printer.texts);
  }
}

inline std::string value_text(const Tensor& tensor, size_t indent) {
  if (tensor.count() == 0) return "[]";
  ValuePrinter printer{tensor.dims(), tensor.count() <= Printed::most};
  switch (tensor.dtype()) {
    case METAC_FLOAT32:
      collect<float>(printer, tensor);
      break;
    case METAC_FLOAT64:
      collect<double>(printer, tensor);
      break;
    case METAC_INT8:
      collect<int8_t>(printer, tensor);
      break;
    case METAC_INT16:
      collect<int16_t>(printer, tensor);
      break;
    case METAC_INT32:
      collect<int32_t>(printer, tensor);
      break;
    case METAC_INT64:
      collect<int64_t>(printer, tensor);
      break;
    case METAC_UINT8:
      collect<uint8_t>(printer, tensor);
      break;
    case METAC_UINT16:
      collect<uint16_t>(printer, tensor);
      break;
    case METAC_UINT32:
      collect<uint32_t>(printer, tensor);
      break;
    case METAC_UINT64:
      collect<uint64_t>(printer, tensor);
      break;
    case METAC_BOOL:
      collect<bool>(printer, tensor);
      break;
    default:
      throw Error(METAC_INVALID_ARGUMENT, "no text for dtype " + std::to_string(tensor.dtype()));
  }
  return printer.text(0, std::string(indent + 1, ' '));
}

}  // namespace detail

inline std::ostream& operator<<(std::ostream& out, const Var& var) {
  if (!var) return out << "metac::Var()";
  const std::string head = "metac::Var(";
  const metac_dtype dtype = var.dtype();
  const bool half = dtype == METAC_BFLOAT16 || dtype == METAC_FLOAT16;
  const Result result = (half ? var.cast(METAC_FLOAT32) : var).read();
  return out << head << detail::value_text(result[0], head.size()) << ", shape=" << shape_text(var.shape())
             << ", dtype=" << facts_of(dtype).name << ")";
}

}  // namespace metac
