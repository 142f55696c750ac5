// What ops that look at regions of images share.
#include "ops/vision/regions.h"

#include <algorithm>

#include "ops/tensor/indices.h"

namespace trireme {

void require_regions(const OpView& op, const char* x_slot, const char* slot, int64_t width) {
  require_floating(op, x_slot);
  const Shape &x = op.in(x_slot).shape, &regions = op.in(slot).shape;
  if (x.rank() != 4) {
    throw op.error(cat(x_slot, " has shape ", x)).fix("give [images, channels, height, width]");
  }
  if (regions.rank() != 2 || !regions[1].may_equal(width)) {
    throw op.error(cat(slot, " has shape ", regions)).fix(cat("give [regions, ", width, "]"));
  }
}

RegionImages::RegionImages(const KernelSite& site, const char* x_slot, const char* slot,
                           const std::string& tensor_slot, bool counts)
    : regions_(site.in(slot).shape.at(0)), images_(site.in(x_slot).shape.at(0)), counts_(counts) {
  if (!tensor_slot.empty() && site.has(tensor_slot)) {
    tensor_ = site.position(tensor_slot);
    require_index(site, tensor_slot.c_str());
    return;
  }
  const Lod& lod = site.in(slot).lod;
  if (lod.empty() && images_ != 1) {
    throw site.error(cat(slot, " has no sequences but ", x_slot, " has ", images_, " images"))
        .fix(cat("feed ", slot, " with a sequence for every image",
                 tensor_slot.empty() ? "" : ", or give " + tensor_slot));
  }
  ends_ = lod.empty() ? std::vector<int64_t>{0, regions_} : lod.back();
  if (static_cast<int64_t>(ends_.size()) != images_ + 1) {
    throw site
        .error(cat(slot, " has ", ends_.size() - 1, " sequences but ", x_slot, " ", images_,
                   " images"))
        .fix(cat("feed ", slot, " with a sequence for every image"));
  }
}

void RegionImages::find(const KernelArgs& k, int64_t* images) const {
  int64_t region = 0;
  const auto give = [&](int64_t image, int64_t end) {
    for (end = std::min(end, regions_); region < end; ++region) images[region] = image;
  };
  if (tensor_ < 0) {
    for (size_t n = 0; n + 1 < ends_.size(); ++n) give(static_cast<int64_t>(n), ends_[n + 1]);
  } else {
    const Tensor& given = k.in(tensor_);
    const Indices numbers(given, "the numbers of regions");
    const int64_t count = std::min(counts_ ? given.numel() : given.numel() - 1, images_);
    for (int64_t n = 0; n < count; ++n) {
      give(n, counts_ ? region + numbers[n] : numbers[n + 1]);
    }
  }
  if (region == regions_) return;
  throw Error(ErrorKind::out_of_range,
              cat("there are ", regions_, " regions but images are named for ", region))
      .fix("give as many regions as are named");
}

}  // namespace trireme
