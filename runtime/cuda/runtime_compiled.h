// Kernels that are compiled at run time (NVRTC): the names of builtin types and functions that the device headers use and
// that its front end does not have.
#pragma once
#ifdef __CUDACC_RTC__

#define __INT8_TYPE__ signed char
#define __INT16_TYPE__ short
#define __INT32_TYPE__ int
#define __INT64_TYPE__ long
#define __UINT8_TYPE__ unsigned char
#define __UINT16_TYPE__ unsigned short
#define __UINT32_TYPE__ unsigned int
#define __UINT64_TYPE__ unsigned long
#define __SIZE_TYPE__ unsigned long

#define __builtin_memcpy memcpy
#define __builtin_convertvector(value, type) static_cast<type>(value)
#define __builtin_expect(value, expected) (value)
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_inf() __longlong_as_double(0x7ff0000000000000)
#define __builtin_nanf(text) __int_as_float(0x7fc00000)
#define __builtin_nan(text) __longlong_as_double(0x7ff8000000000000)
#define __builtin_fmaf fmaf
#define __builtin_fma ::fma
#define __builtin_fabsf fabsf
#define __builtin_fabs fabs
#define __builtin_fmodf fmodf
#define __builtin_fmod fmod
#define __builtin_sqrtf sqrtf
#define __builtin_sqrt ::sqrt
#define __builtin_floorf floorf
#define __builtin_floor ::floor
#define __builtin_ceilf ceilf
#define __builtin_ceil ::ceil
#define __builtin_truncf truncf
#define __builtin_trunc ::trunc
#define __builtin_rintf rintf
#define __builtin_rint ::rint
#define __builtin_exp ::exp
#define __builtin_pow ::pow
#define __builtin_sin ::sin
#define __builtin_cos ::cos
#define __builtin_tan ::tan
#define __builtin_atan2 ::atan2
#define __builtin_log ::log
#define __builtin_asin ::asin
#define __builtin_acos ::acos
#define __builtin_atan ::atan
#define __builtin_sinh ::sinh
#define __builtin_cosh ::cosh
#define __builtin_tanh ::tanh
#define __builtin_asinh ::asinh
#define __builtin_acosh ::acosh
#define __builtin_atanh ::atanh
#define __builtin_erf ::erf
#define __builtin_expm1 ::expm1
#define __builtin_log1p ::log1p

#endif
