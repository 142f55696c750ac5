// What ops that look at regions of images share: which image a region is of, and checks.
#pragma once

#include <string>
#include <vector>

#include "ir/schema.h"

namespace trireme {

// Refuses what is not X [images, channels, height, width] with `slot` [regions, width].
void require_regions(const OpView& op, const char* x_slot, const char* slot, int64_t width);

// The image that each region is of: by the LoD of the regions; else by a tensor, of ends (0 first)
// or of counts; else all are of the one image that there is.
class RegionImages {
 public:
  RegionImages(const KernelSite& site, const char* x_slot, const char* slot,
               const std::string& tensor_slot = "", bool counts = false);
  // Of every region, into `images`, which has room for all.
  void find(const KernelArgs& k, int64_t* images) const;
  int64_t regions() const { return regions_; }

 private:
  int64_t regions_, images_;
  std::vector<int64_t> ends_;  // by LoD; empty: by the tensor
  int tensor_ = -1;
  bool counts_ = false;
};

}  // namespace trireme
