// The element types, a row each: all that is known of them by name. Compiler, runtime, headers and Python modules of generated
// libraries are made from this table; what an element is as a number stands in element.h (docs/adding_a_dtype.md).
#pragma once

// METAC_DTYPES(ROW) is a ROW for each, in the order of their numbers, which files and interfaces have: a new one comes last.
//   id       ScalarType::id, DType::id
//   name     users'; in upper case behind a library's name it is the constant of its C header
//   element  the class in memory (element.h)
//   spelled  in kernels (runtime/device/types.h)
//   kind     real, whole, truth or text
//   onnx     TensorProto.DataType
//   numpy    of .npy files; NumPy has no bfloat16, whose bits are uint16, and no strings of ours
#define METAC_DTYPES(ROW)                                       \
  ROW(f32, "float32", float, "float", real, 1, "<f4")           \
  ROW(f64, "float64", double, "double", real, 11, "<f8")        \
  ROW(f16, "float16", Half, "float16", real, 10, "<f2")         \
  ROW(bf16, "bfloat16", Bfloat, "bfloat16", real, 16, "<u2")    \
  ROW(i8, "int8", int8_t, "int8_t", whole, 3, "|i1")            \
  ROW(i16, "int16", int16_t, "int16_t", whole, 5, "<i2")        \
  ROW(i32, "int32", int32_t, "int32_t", whole, 6, "<i4")        \
  ROW(i64, "int64", int64_t, "int64_t", whole, 7, "<i8")        \
  ROW(u8, "uint8", uint8_t, "uint8_t", whole, 2, "|u1")         \
  ROW(u16, "uint16", uint16_t, "uint16_t", whole, 4, "<u2")     \
  ROW(u32, "uint32", uint32_t, "uint32_t", whole, 12, "<u4")    \
  ROW(u64, "uint64", uint64_t, "uint64_t", whole, 13, "<u8")    \
  ROW(boolean, "bool", Truth, "bool", truth, 9, "|b1")          \
  ROW(string, "string", Text, "", text, 8, "|O")
