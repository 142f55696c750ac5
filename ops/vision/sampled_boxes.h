// What ops that choose boxes for training share: a choice at random, codes, and results in
// sequences.
#pragma once

#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "ops/loops.h"
#include "ops/tensor/random_source.h"

namespace trireme {

// The sequences of `slot`, one for every image.
std::vector<int64_t> sequence_of_every_image(const KernelSite& site, const char* slot,
                                             int64_t images);

// None where boxes are not chosen at random.
using BoxSource = std::optional<RandomSource>;
BoxSource box_source(const KernelSite& site, bool random);

// Keeps `most` of what there is: at random, or the first where there is no source.
class BoxSampler {
 public:
  BoxSampler(const BoxSource& source, const KernelArgs& k);
  void keep(std::vector<int32_t>& all, int64_t most);

 private:
  std::optional<Philox> philox_;
  uint64_t drawn_ = 0;
};

// Boxes for samples: their right lower corners lie right of and below the left upper ones.
Tensor draw_boxes(Draw& draw, int64_t count);

// Where box lies, seen from another one, both in pixels: in sizes of that one, and logarithms.
template <class T>
void box_difference(const T* from, const T* box, T* code) {
  const T width = from[2] - from[0] + 1, height = from[3] - from[1] + 1;
  const T own_width = box[2] - box[0] + 1, own_height = box[3] - box[1] + 1;
  code[0] = (box[0] + own_width / 2 - from[0] - width / 2) / width;
  code[1] = (box[1] + own_height / 2 - from[1] - height / 2) / height;
  code[2] = std::log(own_width / width);
  code[3] = std::log(own_height / height);
}

template <class T>
void give_rows(const KernelArgs& k, int at, const Shape& shape, const std::vector<T>& values,
               const Lod& lod) {
  if (!k.has_out(at)) return;
  k.out(at) = make_tensor<T>(shape, std::span<const T>(values));
  k.out(at).set_lod(lod);
}

}  // namespace trireme
