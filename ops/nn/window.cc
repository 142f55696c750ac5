// Sizes and paddings of sliding windows, and the errors when they do not fit.
#include "ops/nn/window.h"

#include <algorithm>

#include "ir/schema.h"

namespace trireme {
namespace {

std::vector<int64_t> numbers(const OpView& op, std::string_view attr, size_t spatial) {
  const auto given = op.attr<std::vector<int>>(attr);
  if (given.size() != spatial) {
    throw op
        .error(cat(attr, " has ", given.size(), " numbers [", join(given), "] but there are ",
                   spatial, " spatial dimensions"))
        .fix(cat("give ", attr, " ", spatial, " numbers"));
  }
  for (const int number : given) {
    if (number < 1) {
      throw op.error(cat(attr, " is [", join(given), "]")).fix("give numbers from 1 up");
    }
  }
  return {given.begin(), given.end()};
}

// Begin and end of each axis.
std::vector<int64_t> explicit_paddings(const OpView& op, size_t spatial) {
  const auto given = op.attr<std::vector<int>>("paddings");
  std::vector<int64_t> both;
  if (given.size() == spatial) {
    for (const int pad : given) both.insert(both.end(), {pad, pad});
  } else if (given.size() == 2 * spatial) {
    both.assign(given.begin(), given.end());
  } else {
    throw op
        .error(cat("paddings has ", given.size(), " numbers [", join(given), "] but there are ",
                   spatial, " spatial dimensions"))
        .fix(cat("give one number per dimension (", spatial, ") or begin and end of each (",
                 2 * spatial, ")"));
  }
  if (std::any_of(both.begin(), both.end(), [](int64_t pad) { return pad < 0; })) {
    throw op.error(cat("paddings is [", join(given), "]")).fix("give numbers from 0 up");
  }
  return both;
}

constexpr std::array kAxisNames = {"depth", "height", "width"};

}  // namespace

int64_t in_pixels(const Window& window) { return window[0].in * window[1].in * window[2].in; }
int64_t out_pixels(const Window& window) { return window[0].out * window[1].out * window[2].out; }
int64_t taps(const Window& window) { return window[0].size * window[1].size * window[2].size; }

Shape ImageLayout::shape(Dim batch, Dim channels, const Window& window) const {
  Shape made{batch};
  if (!channel_last) made.push_back(block ? channels / Dim(block) : channels);
  for (int i = 0; i < spatial; ++i)
    made.push_back(Dim(window[static_cast<size_t>(3 - spatial + i)].out));
  if (channel_last) made.push_back(channels);
  if (block) made.push_back(Dim(block));
  return made;
}

ImageLayout image_layout(const OpView& op, std::string_view slot, int spatial,
                         std::string_view format_attr, int64_t block) {
  const auto format = op.attr<std::string>(format_attr);
  const ImageLayout layout{
      .spatial = spatial, .channel_last = format == "NHWC" || format == "NDHWC", .block = block};
  const Shape& shape = op.in(slot).shape;
  if (block) {
    promise(shape.rank() == spatial + 3 && shape.back() == Dim(block), "an image in its blocks");
    return layout;
  }
  if (shape.rank() != spatial + 2) {
    throw op
        .error(cat(slot, " has ", shape.rank(), " dimensions ", shape, " but ", spatial + 2,
                   " are needed: batch, channels and ", spatial, " spatial ones"))
        .fix(cat("reshape ", slot, " to ", spatial + 2, " dimensions"));
  }
  return layout;
}

Window window_over(const OpView& op, const std::vector<int64_t>& extents,
                   const std::vector<int64_t>& sizes) {
  const size_t spatial = extents.size();
  const auto strides = numbers(op, "strides", spatial);
  const bool dilates = op.schema().find_attribute("dilations") != nullptr;
  const auto dilations =
      dilates ? numbers(op, "dilations", spatial) : std::vector<int64_t>(spatial, 1);
  const auto paddings = explicit_paddings(op, spatial);
  const auto algorithm = op.attr<std::string>("padding_algorithm");
  Window window;
  for (size_t i = 0; i < spatial; ++i) {
    WindowAxis& axis = window[3 - spatial + i];
    axis = {.in = extents[i],
            .out = -1,
            .size = sizes[i],
            .stride = strides[i],
            .dilation = dilations[i],
            .pad_begin = paddings[2 * i],
            .pad_end = paddings[2 * i + 1]};
    if (algorithm == "EXPLICIT") continue;
    axis.pad_begin = axis.pad_end = 0;
    if (algorithm == "SAME") {
      axis.dilation = 1;  // as in the original: SAME counts an undilated window, and uses one
      if (axis.in < 0) continue;
      const int64_t placed = (axis.in + axis.stride - 1) / axis.stride;
      const int64_t pad = std::max<int64_t>((placed - 1) * axis.stride + axis.size - axis.in, 0);
      axis.pad_begin = pad / 2;
      axis.pad_end = pad - axis.pad_begin;
    }
  }
  return window;
}

void place_windows(const OpView& op, Window& window, bool ceil) {
  for (size_t i = 0; i < window.size(); ++i) {
    WindowAxis& axis = window[i];
    if (axis.in < 0 || axis.size < 0) {
      axis.out = -1;
      continue;
    }
    const int64_t room = axis.in + axis.pad_begin + axis.pad_end - axis.reach();
    if (room < 0) {
      throw op
          .error(cat("the window covers ", axis.reach(), " in ", kAxisNames[i],
                     " but the image has ", axis.in, " and paddings of ", axis.pad_begin, " and ",
                     axis.pad_end))
          .fix(cat("use a window of at most ", axis.in + axis.pad_begin + axis.pad_end,
                   ", pad more, or feed larger images"));
    }
    axis.out = (room + (ceil ? axis.stride - 1 : 0)) / axis.stride + 1;
  }
}

}  // namespace trireme
