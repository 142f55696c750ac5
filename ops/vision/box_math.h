// Boxes of detectors: corners x1, y1, x2, y2, their areas and overlaps.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace trireme {

// Boxes in pixels count both edges: they are one wider and higher than their corners say.
template <class T>
T box_area(const T* box, bool normalized) {
  if (box[2] < box[0] || box[3] < box[1]) return T{0};
  const T edge = normalized ? T{0} : T{1};
  return (box[2] - box[0] + edge) * (box[3] - box[1] + edge);
}

// The area that two boxes share, divided by that of both together.
template <class T>
T box_overlap(const T* a, const T* b, bool normalized) {
  if (b[0] > a[2] || b[2] < a[0] || b[1] > a[3] || b[3] < a[1]) return T{0};
  const T edge = normalized ? T{0} : T{1};
  const T width = std::min(a[2], b[2]) - std::max(a[0], b[0]) + edge;
  const T height = std::min(a[3], b[3]) - std::max(a[1], b[1]) + edge;
  const T shared = width * height;
  return shared / (box_area(a, normalized) + box_area(b, normalized) - shared);
}

// The `most` best of the scores above `least`, best first, equals in their order; most < 0: all.
template <class T>
std::vector<int32_t> best_scores(const T* scores, int64_t count, int64_t step, double least,
                                 int64_t most) {
  std::vector<int32_t> order;
  for (int64_t i = 0; i < count; ++i) {
    if (scores[i * step] > least) order.push_back(static_cast<int32_t>(i));
  }
  const auto better = [&](int32_t a, int32_t b) {
    const T left = scores[a * step], right = scores[b * step];
    return left != right ? left > right : a < b;
  };
  if (most >= 0 && most < static_cast<int64_t>(order.size())) {
    std::partial_sort(order.begin(), order.begin() + most, order.end(), better);
    order.resize(static_cast<size_t>(most));
  } else {
    std::sort(order.begin(), order.end(), better);
  }
  return order;
}

// Of boxes in the order of their scores those that no better one covers by more than `threshold`,
// which `eta` lowers after each while it is above a half. box_of(i) gives corners; areas are made
// once.
template <class T, class BoxOf>
std::vector<int32_t> not_covered(const std::vector<int32_t>& order, const BoxOf& box_of,
                                 double threshold, double eta, bool normalized, int64_t most = -1) {
  std::vector<int32_t> kept;
  std::vector<T> corners, areas;
  const T edge = normalized ? T{0} : T{1};
  for (const int32_t i : order) {
    if (most >= 0 && static_cast<int64_t>(kept.size()) >= most) break;
    const T* box = box_of(i);
    const T area = box_area(box, normalized);
    bool covered = false;
    for (size_t j = 0; !covered && j < kept.size(); ++j) {
      const T* other = &corners[4 * j];
      const T left = std::max(box[0], other[0]), right = std::min(box[2], other[2]);
      const T top = std::max(box[1], other[1]), bottom = std::min(box[3], other[3]);
      if (left > right || top > bottom) continue;
      const T shared = (right - left + edge) * (bottom - top + edge);
      covered = shared / (area + areas[j] - shared) > static_cast<T>(threshold);
    }
    if (covered) continue;
    kept.push_back(i);
    corners.insert(corners.end(), box, box + 4);
    areas.push_back(area);
    if (eta < 1 && threshold > 0.5) threshold *= eta;
  }
  return kept;
}

}  // namespace trireme
