// Runs a loop as compiled for the widest vectors this machine has: one source, several machine
// codes.
//
// Every version computes the same bits: nothing is contracted into fused operations and sums keep
// their order, so width alone differs.
#pragma once

namespace trireme {

enum class VectorWidth { base, avx2, avx512 };

// Found once per process.
VectorWidth vector_width();

#if defined(__x86_64__)
#define TRIREME_VECTOR_TARGETS 1

template <class Loop>
[[gnu::flatten, gnu::target("avx2,fma")]] void run_avx2(const Loop& loop) {
  loop();
}
template <class Loop>
[[gnu::flatten, gnu::target("avx512f,avx512vl,avx512bw,avx512dq,fma")]] void run_avx512(
    const Loop& loop) {
  loop();
}
#endif

// loop: a lambda whose loops the compiler can vectorise. Worth its few nanoseconds from some dozens
// of elements on.
template <class Loop>
void vectorised(const Loop& loop) {
#ifdef TRIREME_VECTOR_TARGETS
  switch (vector_width()) {
    case VectorWidth::avx512:
      run_avx512(loop);
      return;
    case VectorWidth::avx2:
      run_avx2(loop);
      return;
    case VectorWidth::base:
      break;
  }
#endif
  loop();
}

}  // namespace trireme
