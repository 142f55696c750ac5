// Quantised training: from whole numbers back to what they stand for.
#include <algorithm>

#include "ops/rules.h"

namespace trireme {
namespace {

double whole_numbers_in(int32_t bits) {
  return static_cast<double>((int64_t{1} << (bits - 1)) - 1);
}

template <class T>
BoundKernel dequantize_kernel(const KernelSite& site) {
  const int x_at = site.position("X"), scale_at = site.position("Scale"),
            out_at = site.out_position("Out");
  const auto range = static_cast<T>(site.attr<float>("max_range"));
  return BoundKernel([=](const KernelArgs& k) {
    const T scale = k.in<T>(scale_at)[0];
    const T* x = k.in<T>(x_at);
    std::transform(x, x + k.in(x_at).numel(), k.out<T>(out_at),
                   [=](T each) { return each * scale / range; });
  });
}

// One list of scales belongs to dimension 0, weights; of two, results of weights and numbers of one
// scale, the first belongs to dimension 1.
template <class T>
BoundKernel channel_dequantize_kernel(const KernelSite& site) {
  const int x_at = site.position("X"), out_at = site.out_position("Out");
  const int first = site.position("Scales", 0);
  const int second = site.count("Scales") > 1 ? site.position("Scales", 1) : -1;
  const auto bits = site.attr<std::vector<int32_t>>("quant_bits");
  const Shape shape = site.in("X").shape;
  const int dim = second < 0 ? 0 : 1;
  return BoundKernel([=](const KernelArgs& k) {
    int64_t inner = 1;
    for (int d = dim + 1; d < shape.rank(); ++d) inner *= shape.at(d);
    const T* x = k.in<T>(x_at);
    T* out = k.out<T>(out_at);
    T whole = T{1} / static_cast<T>(whole_numbers_in(bits[0]));
    if (second >= 0) whole *= k.in<T>(second)[0] / static_cast<T>(whole_numbers_in(bits[1]));
    for (int64_t i = 0; i < shape.count(); ++i)
      out[i] = x[i] * whole * k.in<T>(first)[i / inner % shape.at(dim)];
  });
}

void dequantize_shape(OpView& op) {
  require_floating(op, "X");
  require_one_number(op, "Scale");
  if (!(op.attr<float>("max_range") > 0)) {
    throw op.error(cat("max_range is ", op.attr<float>("max_range")))
        .fix("give the largest whole number");
  }
  op.set_out("Out", op.in("X").dtype, op.in("X").shape);
}

void channel_dequantize_shape(OpView& op) {
  require_floating(op, "X");
  const Shape& x = op.in("X").shape;
  const auto bits = op.attr<std::vector<int32_t>>("quant_bits");
  const size_t lists = op.count("Scales");
  if (lists < 1 || lists > 2 || bits.size() < lists) {
    throw op.error(cat("there are ", lists, " lists of Scales and ", bits.size(), " quant_bits"))
        .fix("give one list or two, and bits for each");
  }
  for (const int32_t each : bits) {
    if (each < 1 || each > 16)
      throw op.error(cat("quant_bits holds ", each)).fix("choose from 1 to 16 bits");
  }
  const int dim = lists == 1 ? 0 : 1;
  if (x.rank() <= dim || !op.in("Scales", 0).shape.numel().may_equal(x[dim])) {
    throw op.error(cat("X has shape ", x, " but Scales ", op.in("Scales", 0).shape))
        .fix(cat("give a scale for each channel, dimension ", dim, " of X"));
  }
  op.set_out("Out", op.in("X").dtype, x);
}

}  // namespace

void register_fake_dequantize(Registry& ops) {
  ops.op("fake_dequantize_max_abs")
      .doc("The numbers that whole numbers stand for")
      .in("X", "any shape, floating point")
      .in("Scale", "[1]: what max_range stands for")
      .out("Out", "X * Scale / max_range")
      .required_attr<float>("max_range", "the largest whole number")
      .shape(dequantize_shape)
      .kernel(typed<float, double>(
          []<class T>(const KernelSite& s) { return dequantize_kernel<T>(s); }))
      .sample([](Draw& d) {
        return OpSample{
            .inputs = {{"X", {d.uniform(d.shape(1, 3))}}, {"Scale", {d.uniform({1}, 1, 2)}}},
            .attrs = {{"max_range", 127.0f}}};
      });
  ops.op("fake_channel_wise_dequantize_max_abs")
      .doc("The numbers that whole numbers stand for, with a scale for each channel")
      .in("X", "[channels, ...], or with two Scales [batch, channels, ...]")
      .in_list("Scales", "[channels]; and [1], the scale of what weights were multiplied by")
      .out("Out", "X * Scales / what the bits hold")
      .attr("quant_bits", std::vector<int32_t>{8}, "bits for each of Scales")
      .shape(channel_dequantize_shape)
      .kernel(typed<float, double>(
          []<class T>(const KernelSite& s) { return channel_dequantize_kernel<T>(s); }))
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.uniform({2, 3})}}, {"Scales", {d.uniform({2}, 1, 2)}}}};
      });
}

}  // namespace trireme
