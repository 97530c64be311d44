#include "compiler/codegen/dtype_text.h"

#include <cctype>

#include "compiler/ir/dtype.h"
#include "compiler/support/diagnostic.h"

namespace metac {

std::string dtype_constants(const std::string& prefix) {
  constexpr size_t columns = 125;
  std::string text, line = "  ";
  for (const DTypeInfo& row : dtypes()) {
    if (!is_numeric(row.dtype)) continue;
    std::string name;
    for (char c : row.name) name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    const std::string constant = concat(prefix, "_", name, " = ", static_cast<int>(row.dtype));
    if (line.size() > 2 && line.size() + constant.size() + 2 > columns) {
      text += line.substr(0, line.size() - 1) + "\n";
      line = "  ";
    }
    line += constant + ", ";
  }
  line.resize(line.size() - 2);
  return text + line;
}

std::string numpy_dtypes() {
  std::string text;
  for (const DTypeInfo& row : dtypes()) {
    if (!is_numeric(row.dtype)) continue;
    std::string_view name = row.name;  // what NumPy does not know has the code of its bits
    for (const DTypeInfo& other : dtypes())
      if (other.npy_code == row.npy_code) name = other.name;
    text += concat(text.empty() ? "" : ", ", "\"", name, "\"");
  }
  return text;
}

}  // namespace metac
