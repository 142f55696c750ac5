// What every program of generated kernels begins with: element functions, as cpu/element_math.h
// defines them.
#pragma once

namespace trireme::cuda {

inline constexpr const char* kPrelude = R"(
typedef signed char int8; typedef unsigned char uint8; typedef short int16;
typedef long long int64; typedef unsigned long long uint64; typedef unsigned int uint32;
#define TR_F static __device__ __forceinline__
// Halves are stored so, and computed with as float.
struct f16 {
  unsigned short bits;
  f16() = default;
  __device__ __forceinline__ f16(float a) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(a)); }
  __device__ __forceinline__ operator float() const {
    float a;
    asm("cvt.f32.f16 %0, %1;" : "=f"(a) : "h"(bits));
    return a;
  }
};
struct bf16 {
  unsigned short bits;
  bf16() = default;
  __device__ __forceinline__ bf16(float a) { asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(a)); }
  __device__ __forceinline__ operator float() const { return __uint_as_float((uint32)bits << 16); }
};
// n / d for n below 2^31; `magic` is what divisor() in emit.h makes of d.
TR_F uint32 e_quotient(uint32 n, int64 magic) {
  return (uint32)((uint64)n * ((uint64)magic & 0xffffffffffull) >> (int)(magic >> 40));
}
template <class T> struct Wide { typedef T type; };
template <> struct Wide<int8> { typedef uint32 type; };
template <> struct Wide<uint8> { typedef uint32 type; };
template <> struct Wide<int16> { typedef uint32 type; };
template <> struct Wide<int> { typedef uint32 type; };
template <> struct Wide<int64> { typedef uint64 type; };
template <class T> struct Real { static constexpr bool value = false; };
template <> struct Real<float> { static constexpr bool value = true; };
template <> struct Real<double> { static constexpr bool value = true; };
#define TR_EACH for (int64 j = threadIdx.x; j < extent; j += blockDim.x)
template <class T> TR_F T e_neg(T a) { return (T)((typename Wide<T>::type)0 - a); }
template <> __device__ __forceinline__ float e_neg<float>(float a) { return -a; }
template <> __device__ __forceinline__ double e_neg<double>(double a) { return -a; }
template <class T> TR_F T e_abs(T a) { return a < 0 ? (T)-a : a; }
template <class T> TR_F T e_sign(T a) { return (T)((a > 0) - (a < 0)); }
template <class T> TR_F T e_square(T a) { typename Wide<T>::type w = a; return (T)(w * w); }
TR_F float e_exp(float a) { return expf(a); }
TR_F double e_exp(double a) { return exp(a); }
TR_F float e_log(float a) { return logf(a); }
TR_F double e_log(double a) { return log(a); }
TR_F float e_log1p(float a) { return log1pf(a); }
TR_F double e_log1p(double a) { return log1p(a); }
TR_F float e_sqrt(float a) { return sqrtf(a); }
TR_F double e_sqrt(double a) { return sqrt(a); }
template <class T> TR_F T e_rsqrt(T a) { return (T)1 / e_sqrt(a); }
template <class T> TR_F T e_reciprocal(T a) { return (T)1 / a; }
TR_F float e_tanh(float a) { return tanhf(a); }
TR_F double e_tanh(double a) { return tanh(a); }
template <class T> TR_F T e_sigmoid(T a) { return (T)1 / ((T)1 + e_exp(-a)); }
TR_F float e_sin(float a) { return sinf(a); }
TR_F double e_sin(double a) { return sin(a); }
TR_F float e_cos(float a) { return cosf(a); }
TR_F double e_cos(double a) { return cos(a); }
TR_F float e_erf(float a) { return erff(a); }
TR_F double e_erf(double a) { return erf(a); }
TR_F float e_floor(float a) { return floorf(a); }
TR_F double e_floor(double a) { return floor(a); }
TR_F float e_ceil(float a) { return ceilf(a); }
TR_F double e_ceil(double a) { return ceil(a); }
TR_F float e_round(float a) { return roundf(a); }
TR_F double e_round(double a) { return round(a); }
template <class T> TR_F bool e_is_finite(T a) { return a - a == 0; }
template <class T> TR_F T e_copy(T a) { return a; }
template <class T> TR_F T e_add(T a, T b) { typename Wide<T>::type x = a, y = b; return (T)(x + y); }
template <class T> TR_F T e_sub(T a, T b) { typename Wide<T>::type x = a, y = b; return (T)(x - y); }
template <class T> TR_F T e_mul(T a, T b) { typename Wide<T>::type x = a, y = b; return (T)(x * y); }
template <class T> TR_F T e_div(T a, T b) {
  if constexpr (Real<T>::value) { return a / b; } else {
    if (b == 0) return 0;
    if (b == (T)-1) return e_neg(a);
    return (T)(a / b);
  }
}
TR_F float e_pow(float a, float b) { return powf(a, b); }
TR_F double e_pow(double a, double b) { return pow(a, b); }
TR_F int e_pow(int a, int b) { return (int)llrint(pow((double)a, (double)b)); }
TR_F int64 e_pow(int64 a, int64 b) { return llrint(pow((double)a, (double)b)); }
template <class T> TR_F T e_max(T a, T b) { return a > b ? a : b; }
template <class T> TR_F T e_min(T a, T b) { return a < b ? a : b; }
TR_F float e_rest(float a, float b) { return fmodf(a, b); }
TR_F double e_rest(double a, double b) { return fmod(a, b); }
template <class T> TR_F T e_rest(T a, T b) { return b == 0 || b == (T)-1 ? (T)0 : (T)(a % b); }
template <class T> TR_F T e_mod(T a, T b) {
  const T rest = e_rest(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? (T)(rest + b) : rest;
}
template <class T> TR_F T e_floordiv(T a, T b) {
  if constexpr (Real<T>::value) { return e_floor(a / b); } else {
    const T quotient = e_div(a, b);
    return e_rest(a, b) != 0 && (a < 0) != (b < 0) ? (T)(quotient - 1) : quotient;
  }
}
template <class T> TR_F bool e_eq(T a, T b) { return a == b; }
template <class T> TR_F bool e_ne(T a, T b) { return a != b; }
template <class T> TR_F bool e_lt(T a, T b) { return a < b; }
template <class T> TR_F bool e_le(T a, T b) { return a <= b; }
template <class T> TR_F bool e_gt(T a, T b) { return a > b; }
template <class T> TR_F bool e_ge(T a, T b) { return a >= b; }
TR_F bool e_not(bool a) { return !a; }
TR_F bool e_and(bool a, bool b) { return a && b; }
TR_F bool e_or(bool a, bool b) { return a || b; }
TR_F bool e_xor(bool a, bool b) { return a != b; }
template <class T> TR_F T e_select(bool c, T a, T b) { return c ? a : b; }
// Of all threads of the block, warps of a power of two: the same in each, in an order that is always
// the same.
#define TR_OF_BLOCK(joined) \
  for (int w = 16; w > 0; w /= 2) { const T other = __shfl_down_sync(0xffffffffu, own, w); own = joined; } \
  if (blockDim.x == 32) return __shfl_sync(0xffffffffu, own, 0); \
  __shared__ T all[32]; \
  if (threadIdx.x % 32 == 0) all[threadIdx.x / 32] = own; \
  __syncthreads(); \
  own = all[0]; \
  for (unsigned k = 1; k < blockDim.x / 32; ++k) { const T other = all[k]; own = joined; } \
  __syncthreads(); \
  return own;
template <class T> TR_F T b_sum(T own) { TR_OF_BLOCK(own + other) }
template <class T> TR_F T b_max(T own) { TR_OF_BLOCK(e_max(own, other)) }
// Runs `body` with the place J of every element of ids[from...n) that is `id`, in order, by all threads
// of the block together; `left` is how many there are, and counts down.
#define TR_EACH_SAME(ids, id, from, n, left, J, body) { \
  __shared__ int tr_found[256]; __shared__ int tr_counts[8]; \
  for (int64 tr_base = (from); tr_base < (n) && (left) > 0; tr_base += blockDim.x) { \
    const int64 tr_j = tr_base + threadIdx.x; \
    const bool tr_same = tr_j < (n) && (ids)[tr_j] == (id); \
    if (__syncthreads_count(tr_same) == 0) continue; \
    const unsigned tr_mask = __ballot_sync(0xffffffffu, tr_same); \
    if (threadIdx.x % 32 == 0) tr_counts[threadIdx.x / 32] = __popc(tr_mask); \
    __syncthreads(); \
    int tr_before = 0, tr_all = 0; \
    for (int k = 0; k < (int)(blockDim.x / 32); ++k) { \
      if (k < (int)(threadIdx.x / 32)) tr_before += tr_counts[k]; \
      tr_all += tr_counts[k]; } \
    if (tr_same) tr_found[tr_before + __popc(tr_mask & ((1u << threadIdx.x % 32) - 1))] = \
        (int)threadIdx.x; \
    __syncthreads(); \
    for (int k = 0; k < tr_all; ++k) { const int64 J = tr_base + tr_found[k]; body } \
    (left) -= tr_all; __syncthreads(); } }
// The word is the host's memory, where cards have no atomics: position and value go there in one
// store, so that they belong together, and the code behind them.
struct Fault { longlong2 where; int code, unused; };
TR_F void raise(void* word, int code, int64 position, int64 value) {
  volatile Fault* fault = (volatile Fault*)word;
  if (fault->code != 0) return;
  ((Fault*)word)->where = make_longlong2(position, value);
  __threadfence_system();
  fault->code = code;
}
)";

}  // namespace trireme::cuda
