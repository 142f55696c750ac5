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
constexpr int64_t kMostNormBlocks = 1 << 16;
constexpr size_t kCoefficients = 4;  // doubles that a channel leaves for its elements

int64_t bits_of(double value) {
  int64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// Numbers of all its kernels: elements, channels, elements of a channel, pixels in a row of a
// channel, pieces, elements of a piece, then epsilon and momentum as bits. Element e of channel c
// is at (e / row * channels + c) * row + e % row.
struct NormSizes {
  int64_t channels, count, row, pieces, piece;
  NormSizes(const KernelSite& site, const Shape& shape) {
    const ChannelPlanes planes = norm_planes(site, shape);
    channels = planes.channels;
    count = planes.batch * planes.pixels;
    row = channel_last(site) ? 1 : planes.pixels;
    pieces = std::clamp<int64_t>(count / kElementsPerPiece, 1, kMostPieces);
    piece = (count + pieces - 1) / pieces;
  }
  std::vector<int64_t> numbers(const NormUse& use) const {
    return {channels * count,     channels, count, row, pieces, piece, bits_of(use.epsilon),
            bits_of(use.momentum)};
  }
  // Scratch: two sums for each piece, then what elements need to know of their channel.
  size_t scratch() const {
    return static_cast<size_t>(channels) * (2 * static_cast<size_t>(pieces) + kCoefficients) *
           sizeof(double);
  }
};

std::string norm_begin(DType dtype) {
  return cat("typedef ", type_text(dtype),
             " T;\nconst int64 channels = d.v[1], count = d.v[2], row = d.v[3], pieces = d.v[4];\n"
             "double* const sums = (double*)p.at[0];\n"
             "double* const known = sums + 2 * channels * pieces;\n");
}

// A block a piece of a channel. `each`: from element i of channel c what is added to s and t.
std::string piece_text(const std::string& before, const std::string& each) {
  return cat(
      "for (int64 b = blockIdx.x; b < channels * pieces; b += gridDim.x) {\n"
      "const int64 c = b / pieces, from = b % pieces * d.v[5];\n"
      "const int64 until = e_min(from + d.v[5], count);\ndouble s = 0, t = 0;\n",
      before,
      "for (int64 e = from + threadIdx.x; e < until; e += blockDim.x) {\n"
      "const int64 i = (e / row * channels + c) * row + e % row;\n",
      each,
      "}\ns = b_sum(s); t = b_sum(t);\n"
      "if (threadIdx.x == 0) { sums[2 * b] = s; sums[2 * b + 1] = t; } }\n");
}

// A thread a channel, with the sums of its pieces in s and t.
std::string channel_text(const std::string& body) {
  return cat(
      "for (int64 c = blockIdx.x * (int64)blockDim.x + threadIdx.x; c < channels;"
      " c += gridDim.x * (int64)blockDim.x) {\ndouble s = 0, t = 0;\n"
      "for (int64 q = 0; q < pieces; ++q) { s += sums[2 * (c * pieces + q)];"
      " t += sums[2 * (c * pieces + q) + 1]; }\n",
      body, "}\n");
}

std::string element_text(const std::string& body) {
  return cat(
      "for (int64 i = blockIdx.x * (int64)blockDim.x + threadIdx.x; i < d.v[0];"
      " i += gridDim.x * (int64)blockDim.x) {\n"
      "const int64 c = i / row % channels; const double* k = known + ",
      kCoefficients, " * c;\n", body, "}\n");
}

Launch norm_launch(const NormSizes& sizes, const NormUse& use, const std::string& body,
                   int addresses, int64_t threads_wanted, bool by_block) {
  Launch launch;
  launch.numbers = sizes.numbers(use);
  launch.kernel = generated(
      {.body = body, .addresses = addresses, .numbers = static_cast<int>(launch.numbers.size())});
  launch.threads = kNormThreads;
  const int64_t blocks =
      by_block ? threads_wanted : (threads_wanted + kNormThreads - 1) / kNormThreads;
  launch.blocks = std::min(blocks, kMostNormBlocks);
  return launch;
}

std::string value_text(double value, DType dtype) {
  return cat("(", type_text(dtype), ")__longlong_as_double(", bits_of(value), "ll)");
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

bool norm_takes(DType dtype, std::string* why_not) {
  if (dtype == DType::float32 || dtype == DType::float64) return true;
  if (why_not) *why_not = cat("no kernel for ", name_of(dtype));
  return false;
}

// Sums are of distances to the channel's first element, so that a large mean costs no digits.
// known: shift, factor, add.
std::optional<BoundKernel> norm_kernel(const KernelSite& site, const NormActivation& act,
                                       std::string* why_not) {
  const ValueInfo& x = site.in("X");
  if (!norm_takes(x.dtype, why_not)) return std::nullopt;
  const NormSizes sizes(site, x.shape);
  const NormUse use(site, norm_planes(site, x.shape));
  const NormPositions at(site);
  const bool measures = use.measures(sizes.count);
  const std::string begin = norm_begin(x.dtype);
  const Launch pieces =
      norm_launch(sizes, use,
                  begin + "const T* x = (const T*)p.at[1];\n" +
                      piece_text("const double zero = (double)x[c * row];\n",
                                 "const double v = (double)x[i] - zero; s += v; t += v * v;\n"),
                  2, measures ? sizes.channels * sizes.pieces : 0, true);
  const std::string momentum =
      at.momentum < 0 ? "__longlong_as_double(d.v[7])"
                      : cat("(double)*(const ", type_text(momentum_type(site)), "*)p.at[10]");
  std::string channel = cat(
      "const double momentum = ", momentum,
      ", epsilon = __longlong_as_double(d.v[6]);\n"
      "double mean = (double)((const T*)p.at[2])[c], variance = (double)((const T*)p.at[3])[c];\n"
      "double next_mean = mean, next_variance = variance;\n"
      "T scale = ((const T*)p.at[4])[c], bias = ((const T*)p.at[5])[c];\n");
  if (measures) {
    channel +=
        "const double shifted = s / (double)count;\nvariance = t / (double)count - shifted * "
        "shifted;\nif (variance < 0) variance = 0;\n"
        "const double own = (double)((const T*)p.at[1])[c * row] + shifted;\n"
        "next_mean = mean * momentum + own * (1 - momentum);\n"
        "next_variance = next_variance * momentum + variance * (1 - momentum);\nmean = own;\n";
  }
  channel += "double inverse = 1 / sqrt(variance + epsilon);\n";
  if (use.passes) channel += "mean = 0; inverse = 1; bias = 0; scale = 1;\n";
  channel +=
      cat("if (p.at[6]) ((T*)p.at[6])[c] = (T)next_mean;\n"
          "if (p.at[7]) ((T*)p.at[7])[c] = (T)next_variance;\n"
          "if (p.at[8]) ((T*)p.at[8])[c] = (T)mean;\nif (p.at[9]) ((T*)p.at[9])[c] = (T)inverse;\n"
          "double* k = known + ",
          kCoefficients,
          " * c;\nk[0] = (double)(T)mean; k[1] = (double)(scale * (T)inverse); k[2] = "
          "(double)bias;\n");
  const Launch settle =
      norm_launch(sizes, use, begin + channel_text(channel), 11, sizes.channels, false);
  const bool adds = at.z >= 0 && site.has("Z");
  const Launch elements = norm_launch(
      sizes, use,
      begin + element_text(cat("T v = (((const T*)p.at[1])[i] - (T)k[0]) * (T)k[1] + (T)k[2];\n",
                               adds ? "v = v + ((const T*)p.at[2])[i];\n" : "",
                               active_text(act, x.dtype), "((T*)p.at[3])[i] = v;\n")),
      4, sizes.channels * sizes.count, false);
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
  std::string text = "T g = ((const T*)p.at[1])[i];\n";
  if (has_more) text += "g = g + ((const T*)p.at[2])[i];\n";
  if (has_y) text += "const T y = ((const T*)p.at[4])[i];\n";
  if (has_x) {
    text += cat("const T away = ((const T*)p.at[3])[i] - mean; const T n = away * inverse;\n",
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
  if (!norm_takes(grad.dtype, why_not)) return std::nullopt;
  const NormSizes sizes(site, grad.shape);
  const NormUse use(site, norm_planes(site, grad.shape));
  const NormGradPositions at(site);
  const bool has_x = at.x >= 0 && site.has("X"), has_y = at.y >= 0 && site.has("Y");
  const std::string begin = norm_begin(grad.dtype);
  const std::string channel_facts =
      "const T mean = ((const T*)p.at[5])[c], inverse = ((const T*)p.at[6])[c];\n"
      "const T scale = ((const T*)p.at[7])[c], bias = ((const T*)p.at[8])[c];\n";
  const std::string arriving = arriving_text(act, use, grad.dtype, has_x, has_y, at.more >= 0);
  const Launch pieces = norm_launch(
      sizes, use,
      begin + piece_text(channel_facts, arriving + "s += (double)g; t += (double)g * (double)n;\n"),
      9, sizes.count > 0 ? sizes.channels * sizes.pieces : 0, true);
  std::string channel = sizes.count > 0 ? "" : "s = 0; t = 0;\n";
  channel += cat(
      use.passes ? "const double of_bias = 0, of_scale = 0;\n"
                 : "const double of_bias = s, of_scale = t;\n",
      "if (p.at[1]) ((T*)p.at[1])[c] = (T)of_bias;\nif (p.at[2]) ((T*)p.at[2])[c] = (T)of_scale;\n"
      "double* k = known + ",
      kCoefficients, " * c;\nk[0] = s / (double)count; k[1] = t / (double)count;\n");
  const Launch settle =
      norm_launch(sizes, use, begin + channel_text(channel), 3, sizes.channels, false);
  const std::string factor = use.passes ? "(T)1" : "scale * inverse";
  const std::string own = use.kept || use.passes
                              ? cat("g * (", factor, ")")
                              : cat("(", factor, ") * (g - (T)k[0] - n * (T)k[1])");
  const Launch elements = norm_launch(
      sizes, use,
      begin + element_text(cat(channel_facts, arriving, "if (p.at[9]) ((T*)p.at[9])[i] = ", own,
                               ";\nif (p.at[10]) ((T*)p.at[10])[i] = g;\n")),
      11, sizes.channels * sizes.count, false);
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
  add_to(kernels, type, "generated", [act](const KernelSite& site, std::string* why_not) {
    return norm_kernel(site, act(site), why_not);
  });
  add_to(kernels, cat(type, "_grad"), "generated",
         [act](const KernelSite& site, std::string* why_not) {
           return norm_grad_kernel(site, act(site), why_not);
         });
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
