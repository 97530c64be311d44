#include "compiler/ir/dtype.h"

#include <limits>

#include "compiler/ir/element.h"

namespace metac {
namespace {

using metac_runtime::Bfloat;
using metac_runtime::Half;
using metac_runtime::Text;
using metac_runtime::Truth;

template <class T>
constexpr DTypeInfo row(DType dtype, std::string_view name, std::string_view cpp_name, DTypeKind kind, int onnx_number,
                        std::string_view npy_code) {
  const bool is_signed = kind == DTypeKind::real || (kind == DTypeKind::whole && std::is_signed_v<T>);
  return {dtype, name, cpp_name, kind == DTypeKind::text ? 0 : sizeof(T), kind, is_signed, onnx_number, npy_code};
}

constexpr DTypeInfo table[] = {
#define ROW(id, name, element, spelled, kind, onnx, numpy) \
  row<element>(DType::id, name, spelled, DTypeKind::kind, onnx, numpy),
    METAC_DTYPES(ROW)
#undef ROW
};

}  // namespace

const DTypeInfo& info(DType dtype) { return table[static_cast<size_t>(dtype)]; }

std::span<const DTypeInfo> dtypes() { return table; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const DTypeInfo& row : table)
    if (row.name == name) return row.dtype;
  return std::nullopt;
}

int64_t min_value(DType dtype) {
  if (!is_signed(dtype)) return 0;
  return size_of(dtype) == 8 ? std::numeric_limits<int64_t>::min() : -(int64_t{1} << (8 * size_of(dtype) - 1));
}

int64_t max_value(DType dtype) {
  if (is_bool(dtype)) return 1;
  if (size_of(dtype) == 8) return std::numeric_limits<int64_t>::max();
  return (int64_t{1} << (8 * size_of(dtype) - (is_signed(dtype) ? 1 : 0))) - 1;
}

}  // namespace metac
