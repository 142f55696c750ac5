// Convolutions on oneDNN: slices of the batch on the caller's thread, filters packed and summed.
#include "core/error.h"
#include "cpu/onednn.h"

#ifdef TRIREME_HAVE_ONEDNN

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <type_traits>

#include "cpu/conv_taps.h"
#include "cpu/onednn_conv_request.h"
#include "cpu/vectorised.h"

namespace trireme {
namespace {

using namespace onednn;

// How one tensor of a convolution gets from the user's plain memory to the library's layout or
// back.
class Blocked {
 public:
  Blocked() = default;
  Blocked(const Desc& plain, const Desc& own, bool result)
      : reorder_(plain == own ? Call()
                 : result     ? reorder_call(own, plain)
                              : reorder_call(plain, own)),
        result_(result),
        bytes_(plain == own ? 0 : aligned(own.get_size())) {}
  // Of the calling thread's memory, while the slice runs; 0 where the layouts agree.
  size_t bytes() const { return bytes_; }
  // What the primitive is given: `plain`, or `space` with the contents of `plain`.
  void* before(float* plain, std::byte* space) {
    if (!reorder_) return plain;
    if (!result_) move(plain, space);
    return space;
  }
  void after(float* plain, std::byte* space) {
    if (reorder_ && result_) move(space, plain);
  }

 private:
  void move(const void* from, void* to) {
    reorder_.set(kFrom, from);
    reorder_.set(kTo, to);
    reorder_.run();
  }
  Call reorder_;
  bool result_ = false;
  size_t bytes_ = 0;
};

std::atomic<int64_t> making_ns{0};

// Adds its own life to making_ns.
class MakingTime {
 public:
  MakingTime() = default;
  MakingTime(const MakingTime&) = delete;
  MakingTime& operator=(const MakingTime&) = delete;
  ~MakingTime() {
    making_ns += std::chrono::nanoseconds(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

class Conv : public OnednnConv {
 public:
  // Every slice has its own objects: slices run on several threads at once.
  struct Slice {
    int64_t first = 0;  // image
    Call call;          // image, map, filter, scratchpad; bias where it is added
    Blocked image, map;
    size_t scratchpad = 0;
    bool adds_bias = false;
  };

  ~Conv() override {
    const MakingTime time;
    slices_.clear();
  }
  Conv(const ConvSizes& sizes, ConvResult wanted, std::vector<Slice> slices, const Desc& filter)
      : sizes_(sizes),
        wanted_(wanted),
        slices_(std::move(slices)),
        partial_(aligned(filter.get_size())) {
    const memory::dims dims = filter.dims();
    const Desc plain(dims, memory::data_type::f32, sizes.groups == 1 ? Tag::oihw : Tag::goihw);
    in_squares_ = sizes.groups == 1 && dims[0] % kSide == 0 && dims[1] % kSide == 0 &&
                  dims[2] * dims[3] <= kMostTaps &&
                  filter == Desc(dims, memory::data_type::f32, Tag::OIhw16i16o);
    if (plain == filter && (wanted != ConvResult::filter || slices_.size() == 1)) return;
    const int64_t block = outer_block(filter);
    const int64_t blocks = block == 0 ? 1 : (dims[0] + block - 1) / block;
    const int64_t pieces = std::clamp<int64_t>(
        std::min<int64_t>(blocks, static_cast<int64_t>(filter.get_size() >> 16)), 1, 16);
    // Pieces of equal size share one primitive: they differ in where they begin. The last may end
    // inside a block; only there does the library take it, so its place is part of the primitive.
    const auto whole = static_cast<int64_t>(plain.get_size() / sizeof(float)),
               floats = static_cast<int64_t>(filter.get_size() / sizeof(float));
    std::map<int64_t, Recipe> reorders;  // by output channels
    for (int64_t p = 0; p < pieces; ++p) {
      FilterPiece piece;
      piece.first_block = blocks * p / pieces;
      piece.last_block = blocks * (p + 1) / pieces;
      piece.begin = floats * piece.first_block / blocks;
      piece.end = floats * piece.last_block / blocks;
      memory::dims extent = dims, offset(dims.size(), 0);
      const int64_t first = piece.first_block * block;
      if (pieces > 1) extent[0] = std::min(piece.last_block * block, dims[0]) - first;
      if (pieces > 1 && extent[0] % block != 0) {
        offset[0] = first;
      } else {
        piece.plain = first * (whole / dims[0]);
        piece.packed = piece.begin;
      }
      auto made = reorders.find(extent[0]);
      if (made == reorders.end()) {
        const Desc part_of_plain = pieces == 1 ? plain : plain.submemory_desc(extent, offset),
                   part = pieces == 1 ? filter : filter.submemory_desc(extent, offset);
        made = reorders
                   .emplace(extent[0], wanted == ConvResult::filter
                                           ? reorder_recipe(part, part_of_plain)
                                           : reorder_recipe(part_of_plain, part))
                   .first;
      }
      piece.reorder = made->second.call();
      pieces_.push_back(std::move(piece));
    }
  }

  const char* algorithm() const override { return takes_winograd(sizes_) ? "winograd" : "direct"; }
  size_t scratch() const override {
    if (pieces_.empty()) return 0;
    return wanted_ == ConvResult::filter ? partial_ * slices_.size() : partial_;
  }
  int filter_pieces() const override {
    return wanted_ == ConvResult::filter ? 0 : static_cast<int>(pieces_.size());
  }
  int slices() const override { return static_cast<int>(slices_.size()); }
  int sum_pieces() const override {
    return wanted_ == ConvResult::filter ? static_cast<int>(pieces_.size()) : 0;
  }

  void pack_filter(int index, const Tensors& tensors, std::byte* scratch) override {
    const OneThread one;
    FilterPiece& piece = pieces_[static_cast<size_t>(index)];
    piece.reorder.set(kFrom, tensors.filter + piece.plain);
    piece.reorder.set(kTo, reinterpret_cast<float*>(scratch) + piece.packed);
    piece.reorder.run();
  }

  void run_slice(int index, const Tensors& tensors, std::byte* scratch) override {
    const OneThread one;
    Slice& slice = slices_[static_cast<size_t>(index)];
    const auto& [h, w] = sizes_.axes;
    float* image =
        tensors.image + slice.first * sizes_.groups * sizes_.image_channels * h.image * w.image;
    float* map = tensors.map + slice.first * sizes_.groups * sizes_.map_channels * h.map * w.map;
    std::byte* image_space =
        thread_scratch(slice.image.bytes() + slice.map.bytes() + slice.scratchpad);
    std::byte* map_space = image_space + slice.image.bytes();
    slice.call.set(0, slice.image.before(image, image_space));
    slice.call.set(1, slice.map.before(map, map_space));
    slice.call.set(2, filter_of(index, tensors, scratch));
    slice.call.set(3, map_space + slice.map.bytes());
    if (slice.adds_bias) slice.call.set(4, tensors.bias);
    slice.call.run();
    slice.image.after(image, image_space);
    slice.map.after(map, map_space);
  }

  void sum_filter(int index, const Tensors& tensors, std::byte* scratch) override {
    const OneThread one;
    FilterPiece& piece = pieces_[static_cast<size_t>(index)];
    auto* sum = reinterpret_cast<float*>(scratch);
    if (in_squares_) {
      sum_squares(piece, sum, tensors.filter);
      return;
    }
    for (size_t s = 1; s < slices_.size(); ++s) {
      const auto* term = reinterpret_cast<const float*>(scratch + s * partial_);
      vectorised([sum, term, begin = piece.begin, end = piece.end] {
        for (int64_t i = begin; i < end; ++i) sum[i] += term[i];
      });
    }
    piece.reorder.set(kFrom, sum + piece.packed);
    piece.reorder.set(kTo, tensors.filter + piece.plain);
    piece.reorder.run();
  }

  bool adds_bias(int slice) const override { return slices_[static_cast<size_t>(slice)].adds_bias; }

 private:
  struct FilterPiece {
    Call reorder;  // between the plain filter and the library's, for these output channels
    int64_t plain = 0, packed = 0;  // where it begins in the plain filter and in the library's
    int64_t first_block = 0, last_block = 0;
    int64_t begin = 0, end = 0;  // of the library's
  };

  // How many output channels make one contiguous stretch of the library's filter; 0 when the filter
  // is laid out otherwise.
  static int64_t outer_block(const Desc& filter) {
    if (filter.dims().size() != 4) return 0;  // groups come first
    const auto& blocking = filter.data.format_desc.blocking;
    int64_t block = 1;
    for (int i = 0; i < blocking.inner_nblks; ++i) {
      if (blocking.inner_idxs[i] == 0) block *= blocking.inner_blks[i];
    }
    for (int d = 1; d < 4; ++d) {
      if (blocking.strides[d] > blocking.strides[0]) return 0;
    }
    return block;
  }

  void* filter_of(int slice, const Tensors& tensors, std::byte* scratch) const {
    if (pieces_.empty()) return tensors.filter;
    return wanted_ == ConvResult::filter ? scratch + static_cast<size_t>(slice) * partial_
                                         : scratch;
  }

  // The layout that most filter gradients come in: squares of 16 input and 16 output channels, one
  // per tap. The slices' squares are added up and turned over while they are in the nearest cache;
  // the library's own reorder would take two more sweeps over memory.
  static constexpr int64_t kSide = 16, kSquare = kSide * kSide, kMostTaps = 25;
  void sum_squares(const FilterPiece& piece, const float* sums, float* plain) const {
    const int64_t taps = sizes_.axes[0].size * sizes_.axes[1].size;
    if (taps == 1) {
      vectorised([&] { turn_squares(piece, sums, plain, std::integral_constant<int64_t, 1>()); });
    } else if (taps == 9) {
      vectorised([&] { turn_squares(piece, sums, plain, std::integral_constant<int64_t, 9>()); });
    } else {
      vectorised([&] { turn_squares(piece, sums, plain, taps); });
    }
  }
  template <class Taps>
  void turn_squares(const FilterPiece& piece, const float* sums, float* plain, Taps taps) const {
    const int64_t inputs = sizes_.image_channels, across = inputs / kSide;
    float tile[kMostTaps * kSquare];
    for (int64_t block = piece.first_block; block < piece.last_block; ++block) {
      for (int64_t i = 0; i < across; ++i) {
        const float* from = sums + (block * across + i) * taps * kSquare;
        std::copy_n(from, taps * kSquare, tile);
        for (size_t s = 1; s < slices_.size(); ++s) {
          const float* term = from + s * (partial_ / sizeof(float));
          for (int64_t e = 0; e < taps * kSquare; ++e) tile[e] += term[e];
        }
        for (int64_t o = 0; o < kSide; ++o) {
          float* to = plain + ((block * kSide + o) * inputs + i * kSide) * taps;
          for (int64_t c = 0; c < kSide; ++c) {
            for (int64_t t = 0; t < taps; ++t) to[c * taps + t] = tile[t * kSquare + c * kSide + o];
          }
        }
      }
    }
  }

  ConvSizes sizes_;
  ConvResult wanted_;
  bool in_squares_ = false;
  std::vector<Slice> slices_;
  size_t partial_;  // bytes of one filter in the library's layout
  std::vector<FilterPiece> pieces_;
};

std::unique_ptr<OnednnConv> make_conv(const ConvSizes& s, ConvResult kind, ConvBehind behind,
                                      bool as_given, std::string* why_not) {
  const OneThread one;
  const auto f32 = memory::data_type::f32;
  const Tag image = given_layout(s, s.image_block), map = given_layout(s, s.map_block);
  const int count = conv_slices(s, kind);
  std::vector<Conv::Slice> slices;
  std::map<int64_t, LibraryConv> asked;  // by length
  Desc filter;
  for (int i = 0; i < count; ++i) {
    const int64_t first = s.batch * i / count, last = s.batch * (i + 1) / count;
    auto made = asked.find(last - first);  // asking the library takes time, also the second time
    if (made == asked.end()) {
      const ConvRequest request{.kind = kind,
                                .images = last - first,
                                .winograd = takes_winograd(s),
                                .as_given = as_given,
                                .behind = behind};
      made = asked.emplace(last - first, ask_library(s, request)).first;
    }
    const LibraryConv& found = made->second;
    if (is_reference(found.implementation.c_str())) {
      if (why_not) *why_not = "oneDNN has only its reference loop for these sizes";
      return nullptr;
    }
    // Slices share the packed filter, and their gradients are added element by element.
    if (i > 0 && found.filter != filter) {
      if (why_not) *why_not = "oneDNN lays the filter out differently for slices of other lengths";
      return nullptr;
    }
    filter = found.filter;
    const bool filter_last = kind == ConvResult::filter;
    const int image_argument = kind == ConvResult::image ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC;
    const int map_argument = kind == ConvResult::map ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST;
    Conv::Slice slice;
    slice.first = first;
    std::vector<std::pair<int, Desc>> operands{
        {image_argument, found.image},
        {map_argument, found.map},
        {filter_last ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS, found.filter},
        {DNNL_ARG_SCRATCHPAD, found.scratchpad}};
    slice.adds_bias = found.adds_bias;
    if (found.adds_bias) {
      operands.emplace_back(DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, bias_layout(s));
    }
    slice.call = Call(found.primitive, operands);
    slice.image =
        Blocked(Desc(found.image.dims(), f32, image), found.image, kind == ConvResult::image);
    slice.map = Blocked(Desc(found.map.dims(), f32, map), found.map, kind == ConvResult::map);
    slice.scratchpad = found.scratchpad.get_size();
    slices.push_back(std::move(slice));
  }
  return std::make_unique<Conv>(s, kind, std::move(slices), filter);
}

}  // namespace

double onednn_making_ms() { return static_cast<double>(making_ns.load()) * 1e-6; }

std::unique_ptr<OnednnConv> OnednnConv::make(const ConvSizes& s, ConvResult wanted,
                                             std::string* why_not, ConvBehind behind) {
  const MakingTime time;
  if (s.batch == 0) {
    if (why_not) *why_not = "the batch is empty";
    return nullptr;
  }
  if (wanted == ConvResult::filter && takes_taps(s)) return make_conv_taps(s);
  const auto attempt = [&](bool as_given) -> std::unique_ptr<OnednnConv> {
    try {
      return make_conv(s, wanted, behind, as_given, why_not);
    } catch (const dnnl::error& e) {
      if (e.status != dnnl_unimplemented) throw InternalError(std::string("oneDNN: ") + e.what());
      if (why_not) *why_not = "oneDNN has no kernel for these sizes";
      return nullptr;
    }
  };
  if (s.image_block != 0 || s.map_block != 0) {
    if (std::unique_ptr<OnednnConv> made = attempt(true)) return made;
  }
  return attempt(false);
}

}  // namespace trireme

#else

namespace trireme {

double onednn_making_ms() { return 0; }
std::unique_ptr<OnednnConv> OnednnConv::make(const ConvSizes&, ConvResult, std::string*,
                                             ConvBehind) {
  throw InternalError("a convolution on oneDNN was chosen, and oneDNN is not built in");
}

}  // namespace trireme

#endif
