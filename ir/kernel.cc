// What kernels ask of their site: the type that picks them and their random stream.
#include "ir/kernel.h"

#include "core/random.h"
#include "core/text.h"
#include "ir/schema.h"

namespace trireme {

DType kernel_dtype(const KernelSite& site) {
  const ValueInfo* first = nullptr;
  for (size_t i = 0; i < site.in_size(); ++i) {
    const ValueInfo* value = site.in_at(i);
    if (!value) continue;
    if (value->type == VarType::lod_tensor && is_floating(value->dtype)) return value->dtype;
    if (!first) first = value;
  }
  for (size_t i = 0; i < site.out_size() && !first; ++i) first = site.out_at(i);
  if (!first) throw InternalError("a kernel without operands has no type");
  return first->dtype;
}

// The type takes part: ops of one number in two programs, as the initial values of weights and what
// is dropped, are not to be the same numbers under one seed.
uint64_t random_stream(const KernelSite& site) {
  const auto found = site.attrs().find(kRandomPosition);
  const int64_t position =
      found == site.attrs().end() ? 0 : attr_as<int64_t>(found->second, kRandomPosition);
  const OpSchema* forward = site.schema().forward();
  const std::string& type = forward ? forward->type() : site.schema().type();
  return stream_of(cat(type, ' ', position));
}

int64_t stream_begin(const KernelSite& site) {
  const auto begin = site.attrs().find(kSliceBegin);
  return begin == site.attrs().end() ? 0 : attr_as<int64_t>(begin->second, kSliceBegin);
}

}  // namespace trireme
