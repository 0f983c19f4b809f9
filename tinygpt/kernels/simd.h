// Vectors of LANES floats, written once: 4 lanes (SSE, NEON, WebAssembly), 8 (AVX2) or 16 (AVX-512).
#pragma once
#include "tg.h"

#ifndef LANES
#define LANES 4
#endif

constexpr int CACHE_LINE = 16;  // floats

typedef float vec __attribute__((vector_size(LANES * 4), aligned(4), may_alias));  // loads need no alignment
typedef i32 ivec __attribute__((vector_size(LANES * 4), aligned(4), may_alias));

typedef float aligned_vec __attribute__((vector_size(LANES * 4)));  // what intrinsics are declared with

INLINE vec load(const float* p) { return *(const vec*)p; }
INLINE void store(float* p, vec v) { *(vec*)p = v; }
INLINE vec splat(float x) { return x - vec{}; }

// For the inner loops of products. Compiled to WebAssembly and from there to the CPU, nobody schedules for the CPU's
// registers: unless each sum is said to be done where it stands, all loads of an unrolled loop come first and spill.
// And an offset is folded into a load only where nothing is known of its base. Plain SIMD, with a product more to hold
// for every sum, is better off without.
#if defined(__wasm_relaxed_simd__)
INLINE void done(vec& v) { __asm__ volatile("" : "+r"(v)::"memory"); }
INLINE const float* opaque(const float* p) {
  __asm__ volatile("" : "+r"(p));
  return p;
}
INLINE const float* in_order(const float* p) { return opaque(p); }
#else
INLINE void done(vec&) {}
INLINE const float* opaque(const float* p) { return p; }
INLINE const float* in_order(const float* p) {
  __asm__ volatile("" : "+r"(p)::"memory");
  return p;
}
#endif

// The lanes' own numbers: 0, 1, 2, ...
#if LANES == 4
constexpr ivec LANE_NUMBERS = {0, 1, 2, 3};
#elif LANES == 8
constexpr ivec LANE_NUMBERS = {0, 1, 2, 3, 4, 5, 6, 7};
#else
constexpr ivec LANE_NUMBERS = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#endif

// The first `count` lanes (1..LANES) of memory, the others 0; and back. Never touches what lies beyond.
// (The address sanitizer sees into AVX-512's instructions for it, not into AVX's.)
INLINE vec load_some(const float* p, i64 count) {
#if LANES == 16 && defined(__AVX512F__)
  return __builtin_ia32_loadups512_mask(p, aligned_vec{}, (unsigned short)((1u << count) - 1));
#elif LANES == 8 && defined(__AVX__) && !__has_feature(address_sanitizer)
  return __builtin_ia32_maskloadps256((const aligned_vec*)p, LANE_NUMBERS < (i32)count);
#else
  if (count >= LANES) return load(p);
  vec v{};
  for (int i = 0; i < LANES; i++)
    if (i < count) v[i] = p[i];
  return v;
#endif
}
INLINE void store_some(float* p, vec v, i64 count) {
#if LANES == 16 && defined(__AVX512F__)
  __builtin_ia32_storeups512_mask(p, v, (unsigned short)((1u << count) - 1));
#elif LANES == 8 && defined(__AVX__) && !__has_feature(address_sanitizer)
  __builtin_ia32_maskstoreps256((aligned_vec*)p, LANE_NUMBERS < (i32)count, v);
#else
  if (count >= LANES) return store(p, v);
  for (int i = 0; i < LANES; i++)
    if (i < count) p[i] = v[i];
#endif
}

// Loops over `size` floats, vector by vector: f(i, Whole{}) for all but the last, f(i, Part{count}) for what is
// left. A kernel writes f once, for `auto lanes`, and passes `lanes` to load, store and keep.
struct Whole {};
struct Part {
  i64 count;
};
INLINE vec load(const float* p, Whole) { return load(p); }
INLINE vec load(const float* p, Part part) { return load_some(p, part.count); }
INLINE void store(float* p, vec v, Whole) { store(p, v); }
INLINE void store(float* p, vec v, Part part) { store_some(p, v, part.count); }
INLINE vec keep(vec v, Whole) { return v; }
INLINE vec keep(vec v, Part part) { return LANE_NUMBERS < (i32)part.count ? v : vec{}; }

template <class F>
INLINE void each_vec(i64 begin, i64 end, F f) {
  i64 i = begin;
  for (; i + LANES <= end; i += LANES) f(i, Whole{});
  if (i < end) f(i, Part{end - i});
}

// a * b + c. One rounding where the target has a fused instruction; contraction is off everywhere else,
// so a kernel rounds where its source says so.
INLINE vec fma(vec a, vec b, vec c) {
#if defined(__wasm_relaxed_simd__)
  return __builtin_wasm_relaxed_madd_f32x4(a, b, c);
#elif defined(__FMA__) || defined(__aarch64__)
  return __builtin_elementwise_fma(a, b, c);
#else
  return a * b + c;
#endif
}
INLINE float fma(float a, float b, float c) {
#if defined(__FMA__) || defined(__aarch64__)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

// Where one of the two is NaN, b: the one instruction that SSE and WebAssembly have for it.
INLINE vec max_of(vec a, vec b) { return a > b ? a : b; }
INLINE vec min_of(vec a, vec b) { return a < b ? a : b; }
INLINE float max_of(float a, float b) { return a > b ? a : b; }
INLINE vec sqrt(vec v) { return __builtin_elementwise_sqrt(v); }

// The lower half of the lanes with the upper half, again and again.
INLINE float sum_lanes(vec v) {
  for (int half = LANES / 2; half > 0; half /= 2)
    for (int i = 0; i < half; i++) v[i] += v[i + half];
  return v[0];
}
INLINE float max_lanes(vec v) {
  for (int half = LANES / 2; half > 0; half /= 2)
    for (int i = 0; i < half; i++) v[i] = max_of(v[i], v[i + half]);
  return v[0];
}

// a0 b0 a1 b1 ... from the lower halves of a and b, and from the upper halves.
#if LANES == 4
INLINE vec interleave_low(vec a, vec b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
INLINE vec interleave_high(vec a, vec b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }
#elif LANES == 8
INLINE vec interleave_low(vec a, vec b) { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
INLINE vec interleave_high(vec a, vec b) { return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15); }
#else
INLINE vec interleave_low(vec a, vec b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
INLINE vec interleave_high(vec a, vec b) {
  return __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}
#endif

// Turns LANES vectors round: rows into columns. log2(LANES) rounds, each interleaves one half with the other.
INLINE void transpose(vec (&v)[LANES]) {
  for (int round = 1; round < LANES; round *= 2) {
    vec w[LANES];
    for (int i = 0; i < LANES / 2; i++) {
      w[2 * i] = interleave_low(v[i], v[i + LANES / 2]);
      w[2 * i + 1] = interleave_high(v[i], v[i + LANES / 2]);
    }
    for (int i = 0; i < LANES; i++) v[i] = w[i];
  }
}
