// What kernels ask of their site: the type that picks them and the name of their random stream.
#include "ir/kernel.h"

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

std::string stream_name(const KernelSite& site, std::string_view slot) {
  const auto whole = site.attrs().find(kSliceOf);
  if (whole != site.attrs().end()) return std::get<std::string>(whole->second);
  std::string name = site.out(slot).name;
  const auto suffix = site.attrs().find(kRecomputeSuffix);
  if (suffix != site.attrs().end()) {
    const auto& text = std::get<std::string>(suffix->second);
    if (name.ends_with(text)) name.resize(name.size() - text.size());
  }
  return name;
}

int64_t stream_begin(const KernelSite& site) {
  const auto begin = site.attrs().find(kSliceBegin);
  return begin == site.attrs().end() ? 0 : attr_as<int64_t>(begin->second, kSliceBegin);
}

}  // namespace trireme
