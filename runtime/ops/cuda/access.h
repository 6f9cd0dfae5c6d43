// Element access and reductions over threads for the CUDA kernels. For nvcc.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <cstring>

namespace modular::cuda {
namespace {

constexpr int kThreads = 256;  // per block

__device__ inline float load(const float* p) { return *p; }
__device__ inline float load(const __nv_bfloat16* p) { return __bfloat162float(*p); }
__device__ inline void store(float* p, float value) { *p = value; }
__device__ inline void store(__nv_bfloat16* p, float value) { *p = __float2bfloat16(value); }
__device__ inline float round_to(const float*, float value) { return value; }
__device__ inline float round_to(const __nv_bfloat16*, float value) {
  return __bfloat162float(__float2bfloat16(value));
}

// Memory is accessed 16 bytes at a time if addresses allow it: fewer instructions, each of which moves full sectors. A
// group of `width` elements of a row is then one access, or several for a wider type.
template <class T>
constexpr int kWidth = 16 / sizeof(T);

// Converts the elements of 16 bytes; T is the pointer's element type.
template <class T>
__device__ inline void unpack(const T*, uint4 bytes, float* values) {
  T elements[kWidth<T>];
  memcpy(elements, &bytes, sizeof(bytes));
  for (int i = 0; i < kWidth<T>; ++i) values[i] = load(elements + i);
}

template <class T, int width>
__device__ inline void load(const T* p, float (&values)[width]) {
  if constexpr (width == 1) {
    values[0] = load(p);
  } else {
    for (int first = 0; first < width; first += kWidth<T>) {
      unpack(p, *reinterpret_cast<const uint4*>(p + first), values + first);
    }
  }
}

template <class T, int width>
__device__ inline void store(T* p, const float (&values)[width]) {
  if constexpr (width == 1) {
    store(p, values[0]);
  } else {
    for (int first = 0; first < width; first += kWidth<T>) {
      T elements[kWidth<T>];
      for (int i = 0; i < kWidth<T>; ++i) store(elements + i, values[first + i]);
      uint32_t words[4];
      memcpy(words, elements, sizeof(words));
      // The compiler may split a plain assignment.
      __stwb(reinterpret_cast<uint4*>(p + first), make_uint4(words[0], words[1], words[2], words[3]));
    }
  }
}

__host__ __device__ inline unsigned misalignment(const void* p) {
  return static_cast<unsigned>(reinterpret_cast<uintptr_t>(p) % 16);
}

template <class... Pointers>
bool are_aligned(const Pointers*... pointers) {
  return ((misalignment(pointers) == 0) && ...);
}

// Calls body(first, values) for all elements of a row, which the block's threads share: element by element up to an
// aligned address, then by vectors, then for the remaining elements.
template <class T, class Body>
__device__ void for_each_in_row(const T* row, int64_t count, const Body& body) {
  constexpr int width = kWidth<T>;
  int64_t before = (16 - misalignment(row)) % 16 / sizeof(T);
  if (before > count) before = count;
  const int64_t end = before + (count - before) / width * width;
  const auto single = [&](int64_t i) {
    float value[1];
    load(row + i, value);
    body(i, value);
  };
  for (int64_t i = threadIdx.x; i < before; i += blockDim.x) single(i);
  for (int64_t i = before + static_cast<int64_t>(threadIdx.x) * width; i < end;
       i += static_cast<int64_t>(blockDim.x) * width) {
    float values[width];
    load(row + i, values);
    body(i, values);
  }
  for (int64_t i = end + threadIdx.x; i < count; i += blockDim.x) single(i);
}

struct Sum {
  static constexpr float start = 0.0f;
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Largest {
  static constexpr float start = -INFINITY;
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

constexpr int kWarp = 32;

// Reduces every thread's `value` over its warp; all threads of the warp get the result.
template <class Operation>
__device__ float reduce_warp(float value) {
  const Operation operation;
  for (int offset = 16; offset > 0; offset /= 2) value = operation(value, __shfl_xor_sync(0xffffffffu, value, offset));
  return value;
}

// Reduces over the block; all threads of the block get the result.
template <class Operation>
__device__ float reduce_block(float value) {
  __shared__ float warp_values[kWarp];
  value = reduce_warp<Operation>(value);
  __syncthreads();  // until the values of a previous reduction have been read
  if (threadIdx.x % kWarp == 0) warp_values[threadIdx.x / kWarp] = value;
  __syncthreads();
  return reduce_warp<Operation>(threadIdx.x % kWarp < blockDim.x / kWarp ? warp_values[threadIdx.x % kWarp]
                                                                         : Operation::start);
}

}  // namespace
}  // namespace modular::cuda
