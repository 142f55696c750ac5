// How values of members become one: elementwise, for every type that can be added up.
#pragma once

#include <cstdint>

#include "comm/group.h"
#include "core/error.h"
#include "core/text.h"
#include "cpu/vectorised.h"

namespace trireme {

template <class T>
void combine(Collective::Op op, T* sum, const T* term, int64_t count) {
  switch (op) {
    case Collective::Op::sum:
      return vectorised([=] {
        for (int64_t i = 0; i < count; ++i) sum[i] = static_cast<T>(sum[i] + term[i]);
      });
    case Collective::Op::product:
      return vectorised([=] {
        for (int64_t i = 0; i < count; ++i) sum[i] = static_cast<T>(sum[i] * term[i]);
      });
    case Collective::Op::max:
      for (int64_t i = 0; i < count; ++i) sum[i] = sum[i] < term[i] ? term[i] : sum[i];
      return;
    case Collective::Op::min:
      for (int64_t i = 0; i < count; ++i) sum[i] = term[i] < sum[i] ? term[i] : sum[i];
      return;
  }
}

// Calls `use` with a value of that type.
template <class Use>
void with_combined_type(DType dtype, Use use) {
  switch (dtype) {
    case DType::float32:
      return use(float{});
    case DType::float64:
      return use(double{});
    case DType::int32:
      return use(int32_t{});
    case DType::int64:
      return use(int64_t{});
    case DType::float16:
      return use(float16{});
    case DType::bfloat16:
      return use(bfloat16{});
    default:
      throw Error(ErrorKind::unimplemented,
                  cat("values of type ", name_of(dtype), " cannot be added up over replicas"))
          .fix("cast them to float32 or int64 first");
  }
}

}  // namespace trireme
