// Kernels of ops whose result holds elements of one operand in other places.
#include "ops/tensor/place_map.h"

#include <algorithm>
#include <memory>

#include "ops/loops.h"
#include "ops/rules.h"

namespace trireme {
namespace {

using Places = std::shared_ptr<const std::vector<int64_t>>;

template <class T>
BoundKernel take_places(const KernelSite& site, const std::string& slot, const PlaceRule& rule,
                        const std::string& fill_attr) {
  const Shape &from = site.in(slot).shape, &out = site.out("Out").shape;
  const Places places = std::make_shared<const std::vector<int64_t>>(rule(site, from, out));
  const T fill = fill_attr.empty() ? T{} : static_cast<T>(site.attr<float>(fill_attr));
  const int from_at = site.position(slot), out_at = site.out_position("Out");
  const int64_t count = out.count();
  return BoundKernel(
      [=](const KernelArgs& k) {
        const auto [begin, end] = k.range(count);
        const T* x = k.in<T>(from_at);
        T* result = k.out<T>(out_at);
        for (int64_t i = begin; i < end; ++i) {
          const int64_t at = (*places)[static_cast<size_t>(i)];
          result[i] = at < 0 ? fill : x[at];
        }
      },
      parts_for(count));
}

template <class T>
BoundKernel give_places(const KernelSite& site, const std::string& slot, const PlaceRule& rule) {
  const Shape &from = site.out(slot + "@GRAD").shape, &out = site.in("Out@GRAD").shape;
  const Places places = std::make_shared<const std::vector<int64_t>>(rule(site, from, out));
  const int grad_at = site.position("Out@GRAD"), out_at = site.out_position(slot + "@GRAD");
  const int64_t elements = from.count();
  return [=](const KernelArgs& k) {
    const T* grad = k.in<T>(grad_at);
    T* result = k.out<T>(out_at);
    std::fill_n(result, elements, T{0});
    for (size_t i = 0; i < places->size(); ++i) {
      if ((*places)[i] >= 0) result[(*places)[i]] += grad[i];
    }
  };
}

}  // namespace

void add_places(OpSchema& row, const std::string& slot, PlaceRule rule,
                const std::string& fill_attr) {
  row.kernel(typed_by<float, double, int32_t, int64_t, uint8_t, bool>(
                 slot,
                 [=]<class T>(const KernelSite& site) {
                   return take_places<T>(site, slot, rule, fill_attr);
                 }))
      .grad_kernel(typed_by<float, double>(
          "Out@GRAD",
          [=]<class T>(const KernelSite& site) { return give_places<T>(site, slot, rule); }))
      .grad_vjp(linear_gradient({slot}, fill_attr.empty() ? Attrs{} : Attrs{{fill_attr, 0.0f}}));
}

}  // namespace trireme
