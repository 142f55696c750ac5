// Asks the processor how wide its vectors are.
#include "cpu/vectorised.h"

namespace trireme {

VectorWidth vector_width() {
#ifdef TRIREME_VECTOR_TARGETS
  static const VectorWidth found = [] {
    const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
    if (wide) return VectorWidth::avx512;
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? VectorWidth::avx2
                                                                           : VectorWidth::base;
  }();
  return found;
#else
  return VectorWidth::base;
#endif
}

}  // namespace trireme
