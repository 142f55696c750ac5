// Images of their own sizes, one behind the other.
#include "ops/sequence/images_in_rows.h"

#include <algorithm>

#include "ops/rules.h"
#include "ops/sequence/sequence_rules.h"

namespace trireme {

std::vector<int64_t> image_offsets(const OpView& op, const std::vector<int64_t>& heights,
                                   std::string_view heights_slot,
                                   const std::vector<int64_t>& widths, std::string_view widths_slot,
                                   int64_t channels) {
  if (heights.size() != widths.size()) {
    throw op
        .error(cat(heights_slot, " has ", heights.size() - 1, " sequences but ", widths_slot,
                   " has ", widths.size() - 1))
        .fix("give both as many sequences");
  }
  std::vector<int64_t> offsets{0};
  for (size_t i = 0; i + 1 < heights.size(); ++i) {
    offsets.push_back(offsets.back() +
                      channels * (heights[i + 1] - heights[i]) * (widths[i + 1] - widths[i]));
  }
  return offsets;
}

bool check_images(const OpView& op, int64_t channels) {
  const Shape& x = op.in("X").shape;
  require_floating(op, "X");
  if (x.rank() != 2 || !x[1].may_equal(1)) {
    throw op.error(cat("X has shape ", x)).fix("give X [elements, 1]");
  }
  const std::vector<int64_t>* images = sequence_offsets(op, "X");
  const std::vector<int64_t>* rows = sequence_offsets(op, "ROW");
  const std::vector<int64_t>* columns = sequence_offsets(op, "COLUMN");
  if (!images || !rows || !columns) return false;
  const auto wanted = image_offsets(op, *rows, "ROW", *columns, "COLUMN", channels);
  if (*images == wanted) return true;
  throw op
      .error(cat("X has sequences that begin at [", join(*images), "] but images of ", channels,
                 " channels as high as ROW and as wide as COLUMN begin at [", join(wanted), "]"))
      .fix("give each sequence of X channels * rows * columns elements");
}

ImagesInRows::ImagesInRows(const OpView& op, int64_t channels)
    : rows(bound_offsets(op, "ROW")),
      columns(bound_offsets(op, "COLUMN")),
      begins(image_offsets(op, rows, "ROW", columns, "COLUMN", channels)),
      channels(channels) {}

int ImagesInRows::parts() const { return static_cast<int>(std::clamp<int64_t>(count(), 1, 16)); }

ImagesInRows::Image ImagesInRows::at(int64_t image) const {
  const auto i = static_cast<size_t>(image);
  return {begins[i], rows[i + 1] - rows[i], columns[i + 1] - columns[i], rows[i]};
}

OpSample draw_images(Draw& draw, int64_t channels, bool distinct) {
  OpSample sample{
      .inputs = {{"ROW", {draw_sequences(draw, {1})}}, {"COLUMN", {draw_sequences(draw, {1})}}}};
  const auto &rows = sample.inputs["ROW"][0].lod().back(),
             &columns = sample.inputs["COLUMN"][0].lod().back();
  std::vector<int64_t> begins{0};
  for (size_t i = 0; i + 1 < rows.size(); ++i) {
    begins.push_back(begins.back() +
                     channels * (rows[i + 1] - rows[i]) * (columns[i + 1] - columns[i]));
  }
  const Shape shape = {begins.back(), 1};
  Tensor x = distinct ? draw.distinct(shape) : draw.uniform(shape);
  x.set_lod({begins});
  sample.inputs["X"] = {x};
  return sample;
}

}  // namespace trireme
