// Images of their own sizes, one behind the other: two operands' sequences say how high and how
// wide.
#pragma once

#include <string_view>
#include <vector>

#include "ir/schema.h"

namespace trireme {

// Where each image of `channels` channels begins, and the end; refuses unequal numbers of
// sequences.
std::vector<int64_t> image_offsets(const OpView& op, const std::vector<int64_t>& heights,
                                   std::string_view heights_slot,
                                   const std::vector<int64_t>& widths, std::string_view widths_slot,
                                   int64_t channels);

// Refuses an X that is not [elements, 1], or whose sequences have other sizes than ROW and COLUMN
// say. Returns whether these are known.
bool check_images(const OpView& op, int64_t channels);

// The images of X where a kernel is made.
struct ImagesInRows {
  std::vector<int64_t> rows, columns, begins;
  int64_t channels;

  struct Image {
    int64_t begin, height, width, first_row;
  };
  ImagesInRows(const OpView& op, int64_t channels);
  int64_t count() const { return static_cast<int64_t>(rows.size()) - 1; }
  int parts() const;
  Image at(int64_t image) const;
};

// X, ROW and COLUMN for a sample; `distinct` elements have no ties.
OpSample draw_images(Draw& draw, int64_t channels, bool distinct);

}  // namespace trireme
