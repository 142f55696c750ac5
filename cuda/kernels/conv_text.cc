// A thread a result, which gathers what it is made of: slow, exact and always the same.
#include "cuda/kernels/conv_text.h"

#include "core/text.h"
#include "cuda/emit.h"
#include "cuda/kernels/windows.h"

namespace trireme::cuda {
namespace {

// Numbers: count, batch, groups, image channels, map channels (of a group), then how far batches,
// channels and pixels are apart in the image and in the map, then the window's.
constexpr size_t kConvWindow = 11;
constexpr int kConvThreads = 256;
constexpr int64_t kConvBlocks = 1 << 20;

std::string conv_begin(DType dtype) {
  return cat("typedef ", type_text(dtype),
             " T;\nconst int64 batch = d.v[1], groups = d.v[2], ics = d.v[3], mcs = d.v[4];\n",
             window_text(kConvWindow),
             "const int64 outs = out_d * out_h * out_w, ins = in_d * in_h * in_w;\n"
             "const int64 taps = size_d * size_h * size_w;\n"
             "const T* first = (const T*)p.at[1]; const T* second = (const T*)p.at[2];\n"
             "#define IMAGE(b, c, pixel) ((b) * d.v[5] + (c) * d.v[6] + (pixel) * d.v[7])\n"
             "#define MAP(b, c, pixel) ((b) * d.v[8] + (c) * d.v[9] + (pixel) * d.v[10])\n"
             "#define TAPS for (int64 kd = 0; kd < size_d; ++kd) for (int64 kh = 0; kh < size_h; "
             "++kh) for (int64 kw = 0; kw < size_w; ++kw)\n"
             "#define TAP ((kd * size_h + kh) * size_w + kw)\n");
}

constexpr const char* kEachResult =
    "for (int64 one = blockIdx.x * (int64)blockDim.x + threadIdx.x; one < d.v[0];"
    " one += gridDim.x * (int64)blockDim.x) {\nT sum = 0;\n";
constexpr const char* kConvEnd =
    "((T*)p.at[0])[to] = sum; }\n#undef IMAGE\n#undef MAP\n#undef TAPS\n#undef TAP\n";

Launch conv_launch(const ConvShape& s, int64_t count, const std::string& body) {
  const int64_t image_channels = s.groups * s.image_channels, ins = in_pixels(s.window);
  const int64_t map_channels = s.groups * s.map_channels, outs = out_pixels(s.window);
  Launch launch;
  launch.numbers = {count,
                    s.batch,
                    s.groups,
                    s.image_channels,
                    s.map_channels,
                    image_channels * ins,
                    s.channel_last ? 1 : ins,
                    s.channel_last ? image_channels : 1,
                    map_channels * outs,
                    s.channel_last ? 1 : outs,
                    s.channel_last ? map_channels : 1};
  const std::vector<int64_t> window = window_numbers(s.window);
  launch.numbers.insert(launch.numbers.end(), window.begin(), window.end());
  launch.kernel =
      generated({.body = body, .addresses = 3, .numbers = static_cast<int>(launch.numbers.size())});
  launch.threads = kConvThreads;
  launch.blocks = std::min((count + kConvThreads - 1) / kConvThreads, kConvBlocks);
  return launch;
}

}  // namespace

Launch conv_map_text(const ConvShape& shape, DType dtype) {
  const std::string body = cat(
      conv_begin(dtype), kEachResult,
      "const int64 at = one % outs, c = one / outs % (groups * mcs), b = one / outs / (groups * "
      "mcs);\nconst int64 g = c / mcs, to = MAP(b, c, at);\n"
      "const int64 zd = at / (out_h * out_w) * stride_d - pad_d;\n"
      "const int64 zh = at / out_w % out_h * stride_h - pad_h;\n"
      "const int64 zw = at % out_w * stride_w - pad_w;\n"
      "for (int64 ic = 0; ic < ics; ++ic) TAPS {\n"
      "const int64 xd = zd + kd * dilation_d, xh = zh + kh * dilation_h, xw = zw + kw * "
      "dilation_w;\n"
      "if (xd < 0 || xd >= in_d || xh < 0 || xh >= in_h || xw < 0 || xw >= in_w) continue;\n"
      "sum += first[IMAGE(b, g * ics + ic, (xd * in_h + xh) * in_w + xw)] * "
      "second[(c * ics + ic) * taps + TAP]; }\n",
      kConvEnd);
  return conv_launch(shape, shape.batch * shape.map_size(), body);
}

Launch conv_image_text(const ConvShape& shape, DType dtype) {
  const std::string body =
      cat(conv_begin(dtype), kEachResult,
          "const int64 at = one % ins, c = one / ins % (groups * ics), b = one / ins / (groups * "
          "ics);\nconst int64 g = c / ics, ic = c % ics, to = IMAGE(b, c, at);\n"
          "const int64 xd = at / (in_h * in_w) + pad_d, xh = at / in_w % in_h + pad_h, xw = at % "
          "in_w + pad_w;\nTAPS {\n"
          "const int64 zd = xd - kd * dilation_d, zh = xh - kh * dilation_h, zw = xw - kw * "
          "dilation_w;\nif (zd < 0 || zh < 0 || zw < 0 || zd % stride_d || zh % stride_h || zw % "
          "stride_w) continue;\n"
          "const int64 od = zd / stride_d, oh = zh / stride_h, ow = zw / stride_w;\n"
          "if (od >= out_d || oh >= out_h || ow >= out_w) continue;\n"
          "for (int64 m = 0; m < mcs; ++m) sum += first[MAP(b, g * mcs + m, (od * out_h + oh) * "
          "out_w + ow)] * second[((g * mcs + m) * ics + ic) * taps + TAP]; }\n",
          kConvEnd);
  return conv_launch(shape, shape.batch * shape.image_size(), body);
}

// A block a weight: its threads share the pixels of the whole batch.
Launch conv_filter_text(const ConvShape& shape, DType dtype) {
  const std::string body = cat(
      conv_begin(dtype),
      "for (int64 one = blockIdx.x; one < d.v[0]; one += gridDim.x) {\nT part = 0;\n"
      "const int64 tap = one % taps, ic = one / taps % ics, c = one / taps / ics, g = c / mcs;\n"
      "const int64 kd = tap / (size_h * size_w), kh = tap / size_w % size_h, kw = tap % size_w;\n"
      "for (int64 e = threadIdx.x; e < batch * outs; e += blockDim.x) {\n"
      "const int64 b = e / outs, at = e % outs;\n"
      "const int64 xd = at / (out_h * out_w) * stride_d - pad_d + kd * dilation_d;\n"
      "const int64 xh = at / out_w % out_h * stride_h - pad_h + kh * dilation_h;\n"
      "const int64 xw = at % out_w * stride_w - pad_w + kw * dilation_w;\n"
      "if (xd < 0 || xd >= in_d || xh < 0 || xh >= in_h || xw < 0 || xw >= in_w) continue;\n"
      "part += first[IMAGE(b, g * ics + ic, (xd * in_h + xh) * in_w + xw)] * second[MAP(b, c, "
      "at)]; }\nconst T sum = b_sum(part); const int64 to = one;\n"
      "if (threadIdx.x == 0) ",
      kConvEnd);
  const int64_t weights = shape.groups * shape.map_channels * shape.depth();
  Launch launch = conv_launch(shape, weights, body);
  launch.blocks = std::min(weights, kConvBlocks);
  return launch;
}

}  // namespace trireme::cuda
