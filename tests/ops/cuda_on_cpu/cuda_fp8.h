// CUDA's float8 on CPUs, with c10's types.
#pragma once

#include <c10/util/Float8_e4m3fn.h>
#include <c10/util/Float8_e5m2.h>

#include <algorithm>

enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

/// Rounds to nearest, ties to even; larger values saturate.
inline unsigned char __nv_cvt_float_to_fp8(float value, __nv_saturation_t, __nv_fp8_interpretation_t type) {
  const float most = type == __NV_E4M3 ? 448.0f : 57344.0f;
  const float near = value != value ? value : std::clamp(value, -most, most);
  return type == __NV_E4M3 ? c10::Float8_e4m3fn(near).x : c10::Float8_e5m2(near).x;
}
