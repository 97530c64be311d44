#include "frontends/cpp/scalar_types.h"

#include <algorithm>

namespace metac {
namespace {

struct ScalarType {
  clang::BuiltinType::Kind kind;
  DType dtype;
  bool is_element = true;
};

constexpr ScalarType scalar_types[] = {
    {clang::BuiltinType::Bool, DType::boolean},
    {clang::BuiltinType::SChar, DType::i8},
    {clang::BuiltinType::UChar, DType::u8},
    {clang::BuiltinType::Short, DType::i16},
    {clang::BuiltinType::UShort, DType::u16},
    {clang::BuiltinType::Int, DType::i32},
    {clang::BuiltinType::UInt, DType::u32},
    {clang::BuiltinType::Long, DType::i64},
    {clang::BuiltinType::ULong, DType::u64},
    {clang::BuiltinType::Float, DType::f32},
    {clang::BuiltinType::Double, DType::f64},
    {clang::BuiltinType::Char_S, DType::i8, false},
    {clang::BuiltinType::Char_U, DType::u8, false},
    {clang::BuiltinType::LongLong, DType::i64, false},
    {clang::BuiltinType::ULongLong, DType::u64, false},
};

const ScalarType* scalar_type(clang::QualType type) {
  const auto* builtin = type.getCanonicalType().getUnqualifiedType()->getAs<clang::BuiltinType>();
  if (!builtin) return nullptr;
  const auto found =
      std::ranges::find_if(scalar_types, [&](const ScalarType& one) { return one.kind == builtin->getKind(); });
  return found == std::end(scalar_types) ? nullptr : found;
}

}  // namespace

std::optional<DType> dtype_of_scalar(clang::QualType type) {
  const ScalarType* found = scalar_type(type.getNonReferenceType());
  return found ? std::optional(found->dtype) : std::nullopt;
}

std::optional<DType> dtype_of_element(clang::QualType type) {
  const ScalarType* found = scalar_type(type);
  return found && found->is_element ? std::optional(found->dtype) : std::nullopt;
}

}  // namespace metac
