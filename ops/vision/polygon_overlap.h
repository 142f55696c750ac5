// How much two convex polygons overlap.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace trireme {

template <class T>
struct PlanePoint {
  T x, y;
};

// Twice the area; positive where the corners go round one way, negative the other.
template <class T>
T turned_area(const std::vector<PlanePoint<T>>& corners) {
  T sum = 0;
  for (size_t i = 0; i < corners.size(); ++i) {
    const PlanePoint<T>&a = corners[i], &b = corners[(i + 1) % corners.size()];
    sum += a.x * b.y - b.x * a.y;
  }
  return sum;
}

// What of `corners` lies on the side of the line from a to b where `turn` is positive.
template <class T>
std::vector<PlanePoint<T>> cut_by_line(const std::vector<PlanePoint<T>>& corners, PlanePoint<T> a,
                                       PlanePoint<T> b, T turn) {
  const auto side = [&](PlanePoint<T> p) {
    return ((b.x - a.x) * (p.y - a.y) - (b.y - a.y) * (p.x - a.x)) * turn;
  };
  std::vector<PlanePoint<T>> left;
  for (size_t i = 0; i < corners.size(); ++i) {
    const PlanePoint<T>&here = corners[i], &next = corners[(i + 1) % corners.size()];
    const T at_here = side(here), at_next = side(next);
    if (at_here >= 0) left.push_back(here);
    if ((at_here > 0 && at_next < 0) || (at_here < 0 && at_next > 0)) {
      const T share = at_here / (at_here - at_next);
      left.push_back({here.x + (next.x - here.x) * share, here.y + (next.y - here.y) * share});
    }
  }
  return left;
}

// The area that two polygons of `count` corners share, divided by that of both together. The second
// must be convex.
template <class T>
T polygon_overlap(const T* a, const T* b, int64_t count) {
  std::vector<PlanePoint<T>> first, second;
  for (int64_t i = 0; i < count; ++i) {
    first.push_back({a[2 * i], a[2 * i + 1]});
    second.push_back({b[2 * i], b[2 * i + 1]});
  }
  const T area = std::abs(turned_area(first)), other = turned_area(second);
  const T turn = other < 0 ? T{-1} : T{1};
  std::vector<PlanePoint<T>> shared = first;
  for (size_t i = 0; i < second.size() && !shared.empty(); ++i) {
    shared = cut_by_line(shared, second[i], second[(i + 1) % second.size()], turn);
  }
  const T both = std::abs(turned_area(shared)), all = area + std::abs(other) - both;
  return all > 0 ? both / all : T{0};
}

}  // namespace trireme
