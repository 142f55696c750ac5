// oneDNN: matrix products and convolutions of float32, each call on the calling thread alone.
//
// Nothing here starts a thread. What a result depends on is the sizes given, never the thread.
// Objects are made when a plan is bound; the library keeps the last thousand primitives of the
// process by their sizes, so binding the same sizes again generates no code.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "cpu/gemm.h"

namespace trireme {

// False when the engine was built without oneDNN; nothing else here may be called then.
bool has_onednn();
std::string onednn_version();  // "2.6.3", or "not built in"
double onednn_making_ms();     // spent so far on making and dropping convolutions

// A product whose sizes are arguments: nothing is made for them.
void onednn_gemm(const Gemm<float>& gemm);

// A convolution relates an image, over which the window slides, to a map with one pixel per window.
struct ConvSizes {
  struct Axis {
    int64_t image = 1, map = 1, size = 1, stride = 1, dilation = 1, pad_begin = 0, pad_end = 0;
  };
  int64_t batch = 0, groups = 1;
  int64_t image_channels = 0, map_channels = 0;  // per group
  std::array<Axis, 2> axes;                      // height, width
  bool channel_last = false;
  // Not 0: channels stand in blocks of so many, [batch, blocks, h, w, block]: 8, 16, or all.
  int64_t image_block = 0, map_block = 0;
  bool winograd = true;  // may be chosen, by the rule below
};

enum class ConvResult {
  map,     // from image and filter: conv2d
  image,   // from map and filter: the gradient of its input, or the transposed convolution
  filter,  // from image and map: the gradient of its filter
};

// What every number of a map gets behind its sum: its channel's bias, and the relu of that.
enum class ConvBehind { nothing, bias, bias_and_relu };

// Whether the sizes go to Winograd's algorithm, and into how many slices of the batch it is
// cut. By sizes alone: what is fastest was measured beforehand.
bool takes_winograd(const ConvSizes& sizes);
// The same where the filter has been transformed before.
bool takes_winograd_for_inference(const ConvSizes& sizes);
int conv_slices(const ConvSizes& sizes, ConvResult wanted);

// One result of a convolution in three phases; each phase needs all of the one before it. Tensors
// are plain: images in the layout of the sizes, the filter [groups * map_channels, image_channels,
// h, w].
class OnednnConv {
 public:
  // What a map of a program for inference gets behind its sums, in this order.
  struct Finish {
    bool bias = false, residual = false, relu = false;
  };
  // Null, with the reason, when the library has only its reference loop for these sizes. Only
  // ConvResult::map has something behind it.
  static std::unique_ptr<OnednnConv> make(const ConvSizes& sizes, ConvResult wanted,
                                          std::string* why_not,
                                          ConvBehind behind = ConvBehind::nothing);
  // ConvResult::map, of images in blocks, for a program whose parameters stay: the filter is packed
  // for each slice, a single image is cut by channels, and all of `finish` is done while the sums
  // are in registers. Sums begin with the bias, so they round otherwise than bias behind them.
  static std::unique_ptr<OnednnConv> make_for_inference(const ConvSizes& sizes,
                                                        const Finish& finish, std::string* why_not);
  virtual ~OnednnConv() = default;

  struct Tensors {
    float *image = nullptr, *map = nullptr, *filter = nullptr;  // the wanted one is written
    const float* bias = nullptr;                                // read where adds_bias()
    const float* residual = nullptr;  // like the map, perhaps the map itself; for inference
  };
  virtual const char* algorithm() const = 0;  // "direct", "winograd" or "taps"
  virtual size_t scratch() const = 0;         // bytes that the phases share
  virtual int filter_pieces()
      const = 0;                       // of the first phase, which packs the filter; 0: not needed
  virtual int slices() const = 0;      // of the second phase, over the batch
  virtual int sum_pieces() const = 0;  // of the third, which adds up filter gradients; or 0
  virtual void pack_filter(int piece, const Tensors& tensors, std::byte* scratch) = 0;
  virtual void run_slice(int slice, const Tensors& tensors, std::byte* scratch) = 0;
  virtual void sum_filter(int piece, const Tensors& tensors, std::byte* scratch) = 0;
  // Whether running a slice does all that was asked for behind the map, with the bits of a loop
  // over its result. Where it does not, the caller has to.
  virtual bool adds_bias(int /*slice*/) const { return false; }
};

}  // namespace trireme
