// Batch normalisation and its gradient: sums of pieces of channels, what follows from them for each
// channel, then every element. Sums are double, in an order that sizes alone decide.
#include "ops/nn/batch_norm.h"

#include <cstring>

#include "core/text.h"
#include "cuda/emit.h"
#include "cuda/kernels/register.h"
#include "ops/nn/batch_norm_steps.h"

namespace trireme::cuda {
namespace {

constexpr int kNormThreads = 256;
constexpr int64_t kElementsPerPiece = 8192;
constexpr int64_t kMostPieces = 64;
// Where channels stand side by side a block takes so many of them, and more pieces are there to
// take.
constexpr int64_t kChannelsPerBlock = 32;
constexpr int64_t kRowsPerPiece = 512;
constexpr int64_t kMostRowPieces = 512;
constexpr int64_t kMostNormBlocks = 1 << 20;
constexpr int64_t kElementsPerThread = 4;
constexpr size_t kCoefficients = 4;  // numbers that a channel leaves for its elements

int64_t bits_of(double value) {
  int64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Numbers of all its kernels: elements, channels, elements of a channel, pixels in a row of a
// channel, pieces, elements of a piece, epsilon and momentum as bits, then divisors by the row and
// by the channels. Element e of channel c is at (e / row * channels + c) * row + e % row.
struct NormSizes {
  int64_t channels, count, row, pieces, piece;
  bool side_by_side;  // channels, at each pixel
  NormSizes(const KernelSite& site, const Shape& shape) {
    const ChannelPlanes planes = norm_planes(site, shape);
    channels = planes.channels;
    count = planes.batch * planes.pixels;
    side_by_side = site.decided().blocks.image != 0 || channel_last(site);
    row = side_by_side ? 1 : planes.pixels;
    pieces = side_by_side ? std::clamp<int64_t>(count / kRowsPerPiece, 1, kMostRowPieces)
                          : std::clamp<int64_t>(count / kElementsPerPiece, 1, kMostPieces);
    piece = (count + pieces - 1) / pieces;
  }
  bool small() const { return channels * count < (int64_t{1} << 31) - kMostNormBlocks; }
  int64_t channel_blocks() const {
    return (channels + kNormThreads / 32 - 1) / (kNormThreads / 32);
  }
  int64_t element_blocks() const {
    const int64_t each = kNormThreads * kElementsPerThread;
    return (channels * count + each - 1) / each;
  }
  int64_t piece_blocks() const {
    return side_by_side ? (channels + kChannelsPerBlock - 1) / kChannelsPerBlock * pieces
                        : channels * pieces;
  }
  std::vector<int64_t> numbers(const NormUse& use) const {
    return {channels * count,
            channels,
            count,
            row,
            pieces,
            piece,
            bits_of(use.epsilon),
            bits_of(use.momentum),
            divisor(row),
            divisor(channels)};
  }
  // Scratch: two sums for each piece, then what elements need to know of their channel.
  size_t scratch() const {
    return static_cast<size_t>(channels) * (2 * static_cast<size_t>(pieces) + kCoefficients) *
           sizeof(double);
  }
};

// S is what images are stored in, T what is computed with, P what a channel's numbers are in.
std::string norm_begin(const NormSizes& sizes, DType images, DType parameters) {
  const std::string row = sizes.side_by_side ? "(e)"
                          : sizes.small()    ? "e_quotient(e, d.v[8])"
                                             : "((e) / row)";
  return cat("typedef ", type_text(images), " S; typedef ", number_type(images), " T; typedef ",
             type_text(parameters), " P; typedef ", sizes.small() ? "uint32" : "uint64",
             " I;\nconst I channels = d.v[1], count = d.v[2], row = d.v[3], pieces = d.v[4];\n"
             "double* const sums = (double*)p.at[0];\n"
             "T* const known = (T*)(sums + 2 * (uint64)channels * pieces);\n"
             "#define TR_ROW(e) ",
             row, "\n");
}

constexpr const char* kNormEnd = "#undef TR_ROW\n";

// The sums of a piece of a channel. `each`: from element i of channel c what is added to s and t.
// A block a piece of a channel; or, where channels stand side by side, of a warp's worth of them.
std::string piece_text(const NormSizes& sizes, const std::string& before, const std::string& each) {
  const std::string walk =
      cat("for (; e + 3 * step < until;) {\n#pragma unroll\n"
          "for (int u = 0; u < 4; ++u, e += step) { TR_AT ",
          each, "} }\n", "for (; e < until; e += step) { TR_AT ", each, "}\n");
  if (!sizes.side_by_side) {
    return cat(
        "#define TR_AT const I q = TR_ROW(e), i = (q * channels + c) * row + (e - q * row);\n"
        "for (I b = blockIdx.x; b < channels * pieces; b += gridDim.x) {\n"
        "const I c = b / pieces, from = b % pieces * (I)d.v[5];\n"
        "const I until = e_min(from + (I)d.v[5], count), step = blockDim.x;\n"
        "double s = 0, t = 0;\n",
        before, "I e = from + threadIdx.x;\n", walk,
        "s = b_sum(s); t = b_sum(t);\n"
        "if (threadIdx.x == 0) { sums[2 * (uint64)b] = s; sums[2 * (uint64)b + 1] = t; } }\n"
        "#undef TR_AT\n");
  }
  return cat(
      "#define TR_AT const I i = e * channels + c;\n__shared__ double held[2][", kNormThreads,
      "];\nconst I strips = (channels + ", kChannelsPerBlock - 1, ") / ", kChannelsPerBlock,
      ";\nfor (I b = blockIdx.x; b < strips * pieces; b += gridDim.x) {\n"
      "const I part = b / strips, c = b % strips * ",
      kChannelsPerBlock, " + threadIdx.x % ", kChannelsPerBlock,
      ", from = part * (I)d.v[5];\n"
      "const I until = e_min(from + (I)d.v[5], count), step = blockDim.x / ",
      kChannelsPerBlock, ";\ndouble s = 0, t = 0;\nif (c < channels) {\n", before,
      "I e = from + threadIdx.x / ", kChannelsPerBlock, ";\n", walk,
      "}\nheld[0][threadIdx.x] = s; held[1][threadIdx.x] = t;\n__syncthreads();\n"
      "if (threadIdx.x < ",
      kChannelsPerBlock,
      " && c < channels) {\n"
      "for (int o = threadIdx.x + ",
      kChannelsPerBlock, "; o < blockDim.x; o += ", kChannelsPerBlock,
      ") { s += held[0][o]; t += held[1][o]; }\n"
      "const uint64 to = 2 * ((uint64)c * pieces + part);\nsums[to] = s; sums[to + 1] = t; }\n"
      "__syncthreads(); }\n#undef TR_AT\n");
}

// A warp a channel, with the sums of its pieces in s and t; its first thread runs the body.
std::string channel_text(const std::string& body) {
  return cat(
      "for (I c = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; c < channels;"
      " c += gridDim.x * (blockDim.x / 32)) {\ndouble s = 0, t = 0;\n"
      "for (I q = threadIdx.x % 32; q < pieces; q += 32) {\n"
      "const uint64 at = 2 * ((uint64)c * pieces + q); s += sums[at]; t += sums[at + 1]; }\n"
      "for (int w = 16; w > 0; w /= 2) { s += __shfl_down_sync(0xffffffffu, s, w);"
      " t += __shfl_down_sync(0xffffffffu, t, w); }\nif (threadIdx.x % 32 != 0) continue;\n",
      body, "}\n");
}

// Four elements a thread: all are read and computed before the first is written. `declared`: what
// holds the four; `each` fills place u of it from element i of channel c, `stored` writes it.
std::string element_text(const NormSizes& sizes, const std::string& declared,
                         const std::string& each, const std::string& stored) {
  const std::string channel =
      sizes.small() ? "const uint32 q = TR_ROW(i), c = q - e_quotient(q, d.v[9]) * channels;\n"
                    : "const uint64 c = TR_ROW(i) % channels;\n";
  return cat(
      "const I all = d.v[0];\n"
      "for (I first = blockIdx.x * (I)(blockDim.x * ",
      kElementsPerThread, ") + threadIdx.x; first < all; first += gridDim.x * (I)(blockDim.x * ",
      kElementsPerThread, ")) {\n", declared, "#pragma unroll\nfor (int u = 0; u < ",
      kElementsPerThread,
      "; ++u) { const I i = first + u * blockDim.x;\n"
      "if (i < all) { ",
      channel, "const T* k = known + ", kCoefficients, " * c;\n", each,
      "} }\n#pragma unroll\nfor (int u = 0; u < ", kElementsPerThread,
      "; ++u) { const I i = first + u * blockDim.x;\nif (i < all) { ", stored, "} } }\n");
}

Launch norm_launch(const NormSizes& sizes, const NormUse& use, const std::string& body,
                   int addresses, int64_t blocks) {
  Launch launch;
  launch.numbers = sizes.numbers(use);
  launch.kernel = generated({.body = body + kNormEnd,
                             .addresses = addresses,
                             .numbers = static_cast<int>(launch.numbers.size())});
  launch.threads = kNormThreads;
  launch.blocks = std::min(blocks, kMostNormBlocks);
  return launch;
}

std::string value_text(double value, DType dtype) {
  return cat("(", number_type(dtype), ")__longlong_as_double(", bits_of(value), "ll)");
}

// What the activation makes of `v`.
std::string active_text(const NormActivation& act, DType dtype) {
  const std::string alpha = value_text(act.alpha, dtype);
  switch (act.kind) {
    case NormActivation::Kind::identity:
      return {};
    case NormActivation::Kind::relu:
      return "v = v > 0 ? v : (T)0;\n";
    case NormActivation::Kind::leaky_relu:
      return cat("v = v > 0 ? v : ", alpha, " * v;\n");
    case NormActivation::Kind::elu:
      return cat("v = v > 0 ? v : ", alpha, " * (T)expm1(v);\n");
  }
  return {};
}

DType momentum_type(const KernelSite& site) {
  const bool plain = site.schema().find_input("MomentumTensor") && site.has("MomentumTensor");
  return site.in(plain ? "MomentumTensor" : "MomemtumTensor").dtype;
}

const void* operand(const KernelArgs& k, int at) {
  return k.has_in(at) ? k.in(at).address() : nullptr;
}
const void* result(const KernelArgs& k, int at) {
  return k.has_out(at) ? k.out(at).address() : nullptr;
}

// Images of halves have parameters of float32.
bool norm_takes(DType images, DType parameters, std::string* why_not) {
  const bool half = images == DType::float16 || images == DType::bfloat16;
  if (parameters == (half ? DType::float32 : images) && is_floating(parameters)) return true;
  if (why_not) *why_not = cat("no kernel for ", name_of(images), " and ", name_of(parameters));
  return false;
}

// Sums are of distances to the channel's first element, so that a large mean costs no digits.
// known: shift, factor, add.
std::optional<BoundKernel> norm_kernel(const KernelSite& site, const NormActivation& act,
                                       std::string* why_not) {
  const ValueInfo& x = site.in("X");
  const DType parameters = site.in("Scale").dtype;
  if (!norm_takes(x.dtype, parameters, why_not)) return std::nullopt;
  const NormSizes sizes(site, x.shape);
  const NormUse use(site, norm_planes(site, x.shape));
  const NormPositions at(site);
  const bool measures = use.measures(sizes.count);
  const std::string begin = norm_begin(sizes, x.dtype, parameters);
  const Launch pieces =
      norm_launch(sizes, use,
                  begin + "const S* x = (const S*)p.at[1];\n" +
                      piece_text(sizes, "const double zero = (double)(T)x[c * row];\n",
                                 "const double v = (double)(T)x[i] - zero; s += v; t += v * v;\n"),
                  2, measures ? sizes.piece_blocks() : 0);
  const std::string momentum =
      at.momentum < 0 ? "__longlong_as_double(d.v[7])"
                      : cat("(double)*(const ", type_text(momentum_type(site)), "*)p.at[10]");
  std::string channel = cat(
      "const double momentum = ", momentum,
      ", epsilon = __longlong_as_double(d.v[6]);\n"
      "double mean = (double)((const P*)p.at[2])[c], variance = (double)((const P*)p.at[3])[c];\n"
      "double next_mean = mean, next_variance = variance;\n"
      "T scale = ((const P*)p.at[4])[c], bias = ((const P*)p.at[5])[c];\n");
  if (measures) {
    channel +=
        "const double shifted = s / (double)count;\nvariance = t / (double)count - shifted * "
        "shifted;\nif (variance < 0) variance = 0;\n"
        "const double own = (double)(T)((const S*)p.at[1])[c * row] + shifted;\n"
        "next_mean = mean * momentum + own * (1 - momentum);\n"
        "next_variance = next_variance * momentum + variance * (1 - momentum);\nmean = own;\n";
  }
  channel += "double inverse = 1 / sqrt(variance + epsilon);\n";
  if (use.passes) channel += "mean = 0; inverse = 1; bias = 0; scale = 1;\n";
  channel +=
      cat("if (p.at[6]) ((P*)p.at[6])[c] = (P)next_mean;\n"
          "if (p.at[7]) ((P*)p.at[7])[c] = (P)next_variance;\n"
          "if (p.at[8]) ((P*)p.at[8])[c] = (P)mean;\nif (p.at[9]) ((P*)p.at[9])[c] = (P)inverse;\n"
          "T* k = known + ",
          kCoefficients, " * c;\nk[0] = (T)mean; k[1] = scale * (T)inverse; k[2] = bias;\n");
  const Launch settle =
      norm_launch(sizes, use, begin + channel_text(channel), 11, sizes.channel_blocks());
  const bool adds = at.z >= 0 && site.has("Z");
  const Launch elements = norm_launch(
      sizes, use,
      begin + element_text(sizes, "S y[4];\n",
                           cat("T v = ((T)((const S*)p.at[1])[i] - k[0]) * k[1] + k[2];\n",
                               adds ? "v = (T)(S)v + (T)((const S*)p.at[2])[i];\n" : "",
                               active_text(act, x.dtype), "y[u] = (S)v;\n"),
                           "((S*)p.at[3])[i] = y[u];\n"),
      4, sizes.element_blocks());
  BoundKernel made = on_queue([=](const KernelArgs& k) {
    const void* in = k.in(at.x).address();
    if (measures) launch(pieces, AddressList{k.scratch, in}, *k.queue);
    launch(settle,
           AddressList{k.scratch, in, operand(k, at.mean), operand(k, at.variance),
                       operand(k, at.scale), operand(k, at.bias), result(k, at.mean_out),
                       result(k, at.variance_out), result(k, at.saved_mean),
                       result(k, at.saved_inverse), operand(k, at.momentum)},
           *k.queue);
    launch(elements, AddressList{k.scratch, in, operand(k, at.z), result(k, at.y)}, *k.queue);
  });
  made.scratch = sizes.scratch();
  return made;
}

// What arrives behind the activation as `g`, and what was normalised as `n`; of element i of
// channel c. p: scratch, grad, more, x, y, mean, inverse, scale, bias.
std::string arriving_text(const NormActivation& act, const NormUse& use, DType dtype, bool has_x,
                          bool has_y, bool has_more) {
  const std::string alpha = value_text(act.alpha, dtype);
  std::string text = "T g = ((const S*)p.at[1])[i];\n";
  if (has_more) text += "g = (T)(S)(g + (T)((const S*)p.at[2])[i]);\n";
  if (has_y) text += "const T y = ((const S*)p.at[4])[i];\n";
  if (has_x) {
    text += cat("const T away = (T)((const S*)p.at[3])[i] - mean; const T n = away * inverse;\n",
                use.passes ? "const T line = away;\n"
                           : "const T line = away * (scale * inverse) + bias;\n");
  } else {
    text += "T argument = y;\n";
    if (act.kind == NormActivation::Kind::leaky_relu) {
      text += cat("if (!(y > 0)) argument = y / ", alpha, ";\n");
    }
    if (act.kind == NormActivation::Kind::elu) {
      text += cat("if (!(y > 0)) argument = (T)log1p(y / ", alpha, ");\n");
    }
    text += "const T n = (argument - bias) / scale;\n";
  }
  switch (act.kind) {
    case NormActivation::Kind::identity:
      return text;
    case NormActivation::Kind::relu:
      return text + cat("if (!(", has_y ? "y" : "line", " > 0)) g = 0;\n");
    case NormActivation::Kind::leaky_relu:
      return text + cat("if (!(y > 0)) g = g * ", alpha, ";\n");
    case NormActivation::Kind::elu:
      return text + cat("if (!(y > 0)) g = g * (", alpha, " + y);\n");
  }
  return text;
}

// known: mean of the gradient, mean of it times what was normalised.
std::optional<BoundKernel> norm_grad_kernel(const KernelSite& site, const NormActivation& act,
                                            std::string* why_not) {
  const ValueInfo& grad = site.in("Y@GRAD");
  const DType parameters = site.in("Scale").dtype;
  if (!norm_takes(grad.dtype, parameters, why_not)) return std::nullopt;
  const NormSizes sizes(site, grad.shape);
  const NormUse use(site, norm_planes(site, grad.shape));
  const NormGradPositions at(site);
  const bool has_x = at.x >= 0 && site.has("X"), has_y = at.y >= 0 && site.has("Y");
  const std::string begin = norm_begin(sizes, grad.dtype, parameters);
  const std::string channel_facts =
      "const T mean = ((const P*)p.at[5])[c], inverse = ((const P*)p.at[6])[c];\n"
      "const T scale = ((const P*)p.at[7])[c], bias = ((const P*)p.at[8])[c];\n";
  const std::string arriving = arriving_text(act, use, grad.dtype, has_x, has_y, at.more >= 0);
  const Launch pieces =
      norm_launch(sizes, use,
                  begin + piece_text(sizes, channel_facts,
                                     arriving + "s += (double)g; t += (double)g * (double)n;\n"),
                  9, sizes.count > 0 ? sizes.piece_blocks() : 0);
  std::string channel = sizes.count > 0 ? "" : "s = 0; t = 0;\n";
  channel += cat(
      use.passes ? "const double of_bias = 0, of_scale = 0;\n"
                 : "const double of_bias = s, of_scale = t;\n",
      "if (p.at[1]) ((P*)p.at[1])[c] = (P)of_bias;\nif (p.at[2]) ((P*)p.at[2])[c] = (P)of_scale;\n"
      "T* k = known + ",
      kCoefficients, " * c;\nk[0] = (T)(s / (double)count); k[1] = (T)(t / (double)count);\n");
  const Launch settle =
      norm_launch(sizes, use, begin + channel_text(channel), 3, sizes.channel_blocks());
  const std::string factor = use.passes ? "(T)1" : "scale * inverse";
  const std::string own = use.kept || use.passes ? cat("g * (", factor, ")")
                                                 : cat("(", factor, ") * (g - k[0] - n * k[1])");
  const Launch elements = norm_launch(
      sizes, use,
      begin +
          element_text(sizes, "S of_x[4], of_z[4];\n",
                       cat(channel_facts, arriving, "of_x[u] = (S)(", own, "); of_z[u] = (S)g;\n"),
                       "if (p.at[9]) ((S*)p.at[9])[i] = of_x[u];\n"
                       "if (p.at[10]) ((S*)p.at[10])[i] = of_z[u];\n"),
      11, sizes.element_blocks());
  const bool wants_elements = site.wants("X@GRAD") || (at.z_grad >= 0 && site.wants("Z@GRAD"));
  BoundKernel made = on_queue([=](const KernelArgs& k) {
    AddressList operands{
        k.scratch,          operand(k, at.grad), operand(k, at.more),    operand(k, at.x),
        operand(k, at.y),   operand(k, at.mean), operand(k, at.inverse), operand(k, at.scale),
        operand(k, at.bias)};
    launch(pieces, operands, *k.queue);
    launch(settle, AddressList{k.scratch, result(k, at.bias_grad), result(k, at.scale_grad)},
           *k.queue);
    if (!wants_elements) return;
    operands.push_back(result(k, at.x_grad));
    operands.push_back(result(k, at.z_grad));
    launch(elements, operands, *k.queue);
  });
  made.scratch = sizes.scratch();
  return made;
}

using ActivationOf = NormActivation (*)(const OpView&);

void add_norm(DeviceKernels& kernels, const char* type, ActivationOf act) {
  add_to(
      kernels, type, "generated",
      [act](const KernelSite& site, std::string* why_not) {
        return norm_kernel(site, act(site), why_not);
      },
      Halves::taken);
  add_to(
      kernels, cat(type, "_grad"), "generated",
      [act](const KernelSite& site, std::string* why_not) {
        return norm_grad_kernel(site, act(site), why_not);
      },
      Halves::taken);
}

}  // namespace

void add_batch_norm(DeviceKernels& kernels) {
  const ActivationOf plain = [](const OpView&) { return NormActivation{}; };
  const ActivationOf relu = [](const OpView&) {
    return NormActivation{.kind = NormActivation::Kind::relu};
  };
  add_norm(kernels, "batch_norm", plain);
  add_norm(kernels, "inplace_abn", abn_activation);
  for (const char* type :
       {"fused_batch_norm_act", "fused_bn_add_activation", "p.batch_norm_relu"}) {
    add_norm(kernels, type, relu);
  }
}

}  // namespace trireme::cuda
