#include "compiler/codegen/text/dtype_text.h"

#include <cctype>

#include "compiler/ir/dtype.h"
#include "compiler/support/diagnostic.h"

namespace metac {

std::string dtype_constants(const std::string& prefix) {
  std::string text;
  for (const DTypeInfo& row : dtypes()) {
    if (!is_numeric(row.dtype)) continue;
    std::string name;
    for (char c : row.name) name += static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    text += concat(text.empty() ? "" : "\n", "#define ", prefix, "_", name, " METAC_MODEL_", name);
  }
  return text;
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
