#include "runtime/ops/cpu/attention_kernel.h"
#include "runtime/ops/cpu/kernels.h"

#ifdef MODULAR_X86_LEVELS
#include <cpuid.h>
#endif
#ifdef MODULAR_HAS_AMX
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <atomic>
#include <cstdlib>
#include <cstring>

namespace modular::cpu {

#define MODULAR_DECLARE(level)                                     \
  extern const Kernels<float> float_kernels_##level;               \
  extern const Kernels<Bf16> bf16_kernels_##level;                 \
  extern const AttentionKernels<float> float_attention_##level;    \
  extern const AttentionKernels<Bf16> bf16_attention_##level;      \
  extern const CachedAttention<float> float_cached_##level;        \
  extern const CachedAttention<Bf16> bf16_cached_##level;          \
  extern const SkinnyGemmKernels<float> float_skinny_gemm_##level; \
  extern const SkinnyGemmKernels<Bf16> bf16_skinny_gemm_##level;

MODULAR_DECLARE(baseline)
#ifdef MODULAR_X86_LEVELS
MODULAR_DECLARE(v3)
MODULAR_DECLARE(v4)
extern const Kernels<Bf16> bf16_kernels_v4_bf16;
#endif
#undef MODULAR_DECLARE
#ifdef MODULAR_HAS_AMX
extern const AttentionKernels<Bf16> bf16_attention_amx;
extern const SkinnyGemmKernels<Bf16> bf16_skinny_gemm_amx;
#endif

namespace {

enum class Level { baseline, v3, v4, v4_bf16, amx };

#ifdef MODULAR_X86_LEVELS
struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};
// The cpuid leaf of extended features.
Registers features(unsigned page) {
  Registers found;
  return __get_cpuid_count(7, page, &found.eax, &found.ebx, &found.ecx, &found.edx) ? found : Registers();
}

// Whether this CPU has instructions that round to bfloat16.
bool has_bf16() { return (features(1).eax & (1U << 5)) != 0; }

// Whether this CPU has AMX and the kernel grants this process its use, which is requested here.
bool request_amx() {
#if defined(MODULAR_HAS_AMX) && defined(SYS_arch_prctl)
  const unsigned edx = features(0).edx;
  const bool has_tiles = (edx & (1U << 22)) != 0 && (edx & (1U << 24)) != 0;  // AMX-BF16, AMX-TILE
  constexpr long kRequestPermission = 0x1023, kTileData = 18;                 // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return has_tiles && has_bf16() && syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}
#endif

Level detect() {
#ifdef MODULAR_X86_LEVELS
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return request_amx() ? Level::amx : has_bf16() ? Level::v4_bf16 : Level::v4;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
    return Level::v3;
#endif
  return Level::baseline;
}

// MODULAR_CPU_LEVEL (baseline, v3, v4, v4_bf16, amx) selects a lower level than the CPU has, like ATEN_CPU_CAPABILITY
// for libtorch.
Level choose() {
  const Level best = detect();
  const char* requested = std::getenv("MODULAR_CPU_LEVEL");
  if (!requested) return best;
  const Level level = std::strcmp(requested, "baseline") == 0  ? Level::baseline
                      : std::strcmp(requested, "v3") == 0      ? Level::v3
                      : std::strcmp(requested, "v4") == 0      ? Level::v4
                      : std::strcmp(requested, "v4_bf16") == 0 ? Level::v4_bf16
                                                               : best;
  return level < best ? level : best;
}

Level level() {
  static const Level chosen = choose();
  return chosen;
}

std::atomic<bool> skipping = false;

constexpr auto nothing = [](auto...) {};
template <class T>
constexpr Kernels<T> skipped_kernels = {.rms_norm = nothing,
                                        .rms_norm_backward = nothing,
                                        .layer_norm = nothing,
                                        .layer_norm_backward = nothing,
                                        .activate = nothing,
                                        .activate_backward = nothing,
                                        .gated = nothing,
                                        .gated_backward = nothing,
                                        .rotate = nothing,
                                        .log_sum_exp = [](auto...) { return 0.0; },
                                        .negative_log_likelihood = [](auto...) { return 0.0f; },
                                        .negative_log_likelihood_backward = nothing,
                                        .decay = nothing,
                                        .decay_backward = nothing,
                                        .dropout = nothing,
                                        .adamw = nothing,
                                        .sum_of_squares = [](auto...) { return 0.0; },
                                        .add = nothing,
                                        .add_to = nothing};
template <class T>
constexpr AttentionKernels<T> skipped_attention = {.forward = nothing, .backward = nothing};
template <class T>
constexpr CachedAttention<T> skipped_cached = nothing;
template <class T>
constexpr SkinnyGemmKernels<T> skipped_skinny_gemm = {.pack = nothing, .multiply = nothing};

}  // namespace

void skip_loops(bool skipped) { skipping = skipped; }

// Selects the table for this CPU's level.
#ifdef MODULAR_X86_LEVELS
#define MODULAR_SELECT(table) (level() >= Level::v4 ? table##_v4 : level() == Level::v3 ? table##_v3 : table##_baseline)
#else
#define MODULAR_SELECT(table) table##_baseline
#endif

template <>
const Kernels<float>& kernels<float>() {
  return skipping ? skipped_kernels<float> : MODULAR_SELECT(float_kernels);
}
template <>
const Kernels<Bf16>& kernels<Bf16>() {
  if (skipping) return skipped_kernels<Bf16>;
#ifdef MODULAR_X86_LEVELS
  if (level() >= Level::v4_bf16) return bf16_kernels_v4_bf16;
#endif
  return MODULAR_SELECT(bf16_kernels);
}
template <>
const AttentionKernels<float>& attention_kernels<float>() {
  return skipping ? skipped_attention<float> : MODULAR_SELECT(float_attention);
}
template <>
const AttentionKernels<Bf16>& attention_kernels<Bf16>() {
  if (skipping) return skipped_attention<Bf16>;
#ifdef MODULAR_HAS_AMX
  if (level() == Level::amx) return bf16_attention_amx;
#endif
  return MODULAR_SELECT(bf16_attention);
}

template <>
CachedAttention<float> cached_attention_kernel<float>() {
  return skipping ? skipped_cached<float> : MODULAR_SELECT(float_cached);
}
template <>
CachedAttention<Bf16> cached_attention_kernel<Bf16>() {
  return skipping ? skipped_cached<Bf16> : MODULAR_SELECT(bf16_cached);
}
template <>
const SkinnyGemmKernels<float>& skinny_gemm_kernels<float>() {
  return skipping ? skipped_skinny_gemm<float> : MODULAR_SELECT(float_skinny_gemm);
}
template <>
const SkinnyGemmKernels<Bf16>& skinny_gemm_kernels<Bf16>() {
  if (skipping) return skipped_skinny_gemm<Bf16>;
#ifdef MODULAR_HAS_AMX
  if (level() == Level::amx) return bf16_skinny_gemm_amx;
#endif
  return MODULAR_SELECT(bf16_skinny_gemm);
}

bool amx_present() { return level() == Level::amx; }

}  // namespace modular::cpu
