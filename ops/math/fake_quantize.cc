// Quantised training: numbers rounded to the whole numbers that a few bits hold, and back. The
// gradient of none of them is asked for: a program is rewritten once it has its gradients, which
// then pass by the rounding.
#include <algorithm>
#include <cmath>
#include <utility>

#include "ops/rules.h"

namespace trireme {
namespace {

double range_of(int32_t bits) { return static_cast<double>((int64_t{1} << (bits - 1)) - 1); }

void check_bits(const OpView& op, int32_t bits, std::string_view name) {
  if (bits >= 1 && bits <= 16) return;
  throw op.error(cat(name, " is ", bits)).fix("choose from 1 to 16 bits");
}

template <class T>
T largest(const T* x, int64_t n) {
  T most = 0;
  for (int64_t i = 0; i < n; ++i) most = std::max(most, std::abs(x[i]));
  return most;
}

// Whole numbers from -range to range; with `back` the numbers that they stand for.
template <class T>
void round_to(const T* x, int64_t n, T scale, T range, bool back, T* out) {
  const T up = scale > 0 ? range / scale : T{0}, down = back ? scale / range : T{1};
  for (int64_t i = 0; i < n; ++i) out[i] = std::round(std::clamp(x[i], -scale, scale) * up) * down;
}

int in_position(const OpView& op, std::string_view slot) {
  return op.schema().find_input(slot) ? op.position(slot) : -1;
}
int result_position(const OpView& op, std::string_view slot) {
  return op.schema().find_output(slot) ? op.out_position(slot) : -1;
}

// What all of them have: operands, bits, whether the scales stand still.
struct QuantSite {
  int x, out, scale;
  double range = 127;
  bool is_test = false;
  explicit QuantSite(const KernelSite& site)
      : x(site.position("X")), out(site.out_position("Out")), scale(site.out_position("OutScale")) {
    if (site.has_attr("bit_length")) range = range_of(site.attr<int32_t>("bit_length"));
    if (site.has_attr("is_test")) is_test = site.attr<bool>("is_test");
  }
};

// ---- the scale is the largest number now

template <class T>
BoundKernel abs_max_kernel(const KernelSite& site) {
  const QuantSite at(site);
  const int64_t channels = site.out("OutScale").shape.at(0);
  return BoundKernel([=](const KernelArgs& k) {
    const int64_t each = channels ? k.in(at.x).numel() / channels : 0;
    for (int64_t c = 0; c < channels; ++c) {
      const T* x = k.in<T>(at.x) + c * each;
      const T most = k.out<T>(at.scale)[c] = largest(x, each);
      round_to(x, each, most, static_cast<T>(at.range), false, k.out<T>(at.out) + c * each);
    }
  });
}

// ---- the scale is the largest number of a window of steps

template <class T>
BoundKernel range_kernel(const KernelSite& site) {
  const QuantSite at(site);
  const int scale_in = site.position("InScale"), iter_at = site.position("Iter");
  const int scales_in = site.position("InScales"), scales_at = site.out_position("OutScales");
  const int64_t window = site.attr<int32_t>("window_size");
  return BoundKernel([=](const KernelArgs& k) {
    const T* x = k.in<T>(at.x);
    const int64_t n = k.in(at.x).numel();
    T scale = k.in<T>(scale_in)[0];
    if (!at.is_test) {
      const T now = largest(x, n);
      const int64_t step = k.has_in(iter_at) ? k.in<int64_t>(iter_at)[0] : 0;
      if (k.has_in(scales_in) && k.has_out(scales_at)) {
        T* scales = k.out<T>(scales_at);
        if (scales != k.in<T>(scales_in)) std::copy_n(k.in<T>(scales_in), window, scales);
        const T leaves = std::exchange(scales[step % window], now);
        if (scale < now) {
          scale = now;
        } else if (std::abs(leaves - scale) < T{1e-6}) {
          scale = *std::max_element(scales, scales + std::clamp<int64_t>(step, 1, window));
        }
      } else {
        scale = std::max(scale, now);
      }
    }
    k.out<T>(at.scale)[0] = scale;
    round_to(x, n, scale, static_cast<T>(at.range), false, k.out<T>(at.out));
  });
}

// ---- the scale is a moving average of the largest numbers

struct AverageSite {
  int scale_in, accum_in, state_in, accum_out, state_out;
  double rate;
  explicit AverageSite(const KernelSite& site)
      : scale_in(in_position(site, "InScale")),
        accum_in(site.position("InAccum")),
        state_in(site.position("InState")),
        accum_out(site.out_position("OutAccum")),
        state_out(site.out_position("OutState")),
        rate(site.attr<float>("moving_rate")) {}
  template <class T>
  T next(const KernelArgs& k, T now) const {
    const T state = k.has_in(state_in) ? k.in<T>(state_in)[0] : T{1};
    const T accum = k.has_in(accum_in) ? k.in<T>(accum_in)[0] : T{1};
    const T new_state = static_cast<T>(rate) * state + 1,
            new_accum = static_cast<T>(rate) * accum + now;
    if (k.has_out(state_out)) k.out<T>(state_out)[0] = new_state;
    if (k.has_out(accum_out)) k.out<T>(accum_out)[0] = new_accum;
    return new_accum / new_state;
  }
};

template <class T>
BoundKernel moving_kernel(const KernelSite& site, bool back) {
  const QuantSite at(site);
  const AverageSite average(site);
  return BoundKernel([=](const KernelArgs& k) {
    const T* x = k.in<T>(at.x);
    const int64_t n = k.in(at.x).numel();
    const T scale = at.is_test ? k.in<T>(average.scale_in)[0] : average.next(k, largest(x, n));
    k.out<T>(at.scale)[0] = scale;
    round_to(x, n, scale, static_cast<T>(at.range), back, k.out<T>(at.out));
  });
}

template <class T>
BoundKernel observe_kernel(const KernelSite& site) {
  const QuantSite at(site);
  const AverageSite average(site);
  return BoundKernel([=](const KernelArgs& k) {
    const T* x = k.in<T>(at.x);
    const int64_t n = k.in(at.x).numel();
    if (!at.is_test) k.out<T>(at.scale)[0] = average.next(k, largest(x, n));
    if (at.out >= 0 && k.out<T>(at.out) != x) std::copy_n(x, n, k.out<T>(at.out));
  });
}

// ---- rows

ShapeRule quantize_shape(bool by_channel) {
  return [=](OpView& op) {
    const ValueInfo& x = op.in("X");
    require_floating(op, "X");
    if (op.has_attr("bit_length")) check_bits(op, op.attr<int32_t>("bit_length"), "bit_length");
    for (const char* slot : {"InScale", "InAccum", "InState", "Iter"}) {
      if (in_position(op, slot) >= 0) require_one_number(op, slot);
    }
    if (by_channel && x.shape.rank() < 1)
      throw op.error("X has no dimensions").fix("give [channels, ...]");
    if (op.out_position("Out") >= 0) {
      op.set_out("Out", x.dtype, x.shape);
      carry_lod(op, "Out", {"X"});
    }
    op.set_out("OutScale", x.dtype, {by_channel ? x.shape[0] : Dim(1)});
    for (const char* slot : {"OutAccum", "OutState"}) {
      if (result_position(op, slot) >= 0) op.set_out(slot, x.dtype, {1});
    }
    if (result_position(op, "OutScales") >= 0)
      op.set_out("OutScales", x.dtype, {op.attr<int32_t>("window_size")});
  };
}

template <class Make>
KernelMake floats(Make make) {
  return typed<float, double>(std::move(make));
}

OpSample average_sample(Draw& d, bool back) {
  OpSample sample{.inputs = {{"X", {d.uniform(d.shape(1, 3))}},
                             {"InAccum", {d.uniform({1}, 1, 2)}},
                             {"InState", {d.uniform({1}, 1, 2)}}}};
  if (back) sample.inputs["InScale"] = {d.uniform({1}, 1, 2)};
  return sample;
}

void add_moving(Registry& ops, const char* type, const char* doc, bool back) {
  ops.op(type)
      .doc(doc)
      .in("X", "any shape, floating point")
      .in("InScale", "[1]: the scale so far")
      .in_optional("InAccum", "[1]: the sum of largest numbers, each weighed by its age")
      .in_optional("InState", "[1]: the sum of these weights")
      .out("Out", back ? "X, rounded to what bit_length bits hold" : "whole numbers")
      .out("OutScale", "[1]: the moving average of the largest absolute numbers")
      .out_optional("OutAccum", "InAccum with this step")
      .out_optional("OutState", "InState with this step")
      .attr("moving_rate", 0.9f, "by how much older steps count less")
      .attr("bit_length", 8, "bits of the whole numbers, the sign included")
      .attr("is_test", false, "the scale stays InScale")
      .shape(quantize_shape(false))
      .kernel(floats([back]<class T>(const KernelSite& s) { return moving_kernel<T>(s, back); }))
      .sample([](Draw& d) { return average_sample(d, true); });
}

}  // namespace

void register_fake_quantize(Registry& ops) {
  for (const bool by_channel : {false, true}) {
    ops.op(by_channel ? "fake_channel_wise_quantize_abs_max" : "fake_quantize_abs_max")
        .doc("Whole numbers that stand for X, the largest for the largest absolute number")
        .in("X", by_channel ? "[channels, ...], floating point" : "any shape, floating point")
        .out("Out", "round(X / OutScale * (2^(bit_length - 1) - 1))")
        .out("OutScale", by_channel ? "[channels]: the largest absolute numbers"
                                    : "[1]: the largest absolute number")
        .attr("bit_length", 8, "bits of the whole numbers, the sign included")
        .shape(quantize_shape(by_channel))
        .kernel(floats([]<class T>(const KernelSite& s) { return abs_max_kernel<T>(s); }))
        .sample([](Draw& d) {
          return OpSample{.inputs = {{"X", {d.uniform(d.shape(1, 3))}}}};
        });
  }
  ops.op("fake_quantize_range_abs_max")
      .doc(
          "Whole numbers that stand for X; the scale is the largest number of the last window_size "
          "steps")
      .in("X", "any shape, floating point")
      .in("InScale", "[1]: the scale so far")
      .in_optional("Iter", "int64 [1]: the number of the step")
      .in_optional("InScales",
                   "[window_size]: the largest numbers of the steps before; without it all count")
      .out("Out", "round(X / OutScale * (2^(bit_length - 1) - 1)), X cut to OutScale")
      .out("OutScale", "[1]: the scale with this step")
      .out_optional("OutScales", "InScales with this step")
      .attr("window_size", 10000, "how many steps count")
      .attr("bit_length", 8, "bits of the whole numbers, the sign included")
      .attr("is_test", false, "the scale stays InScale")
      .shape(quantize_shape(false))
      .kernel(floats([]<class T>(const KernelSite& s) { return range_kernel<T>(s); }))
      .sample([](Draw& d) {
        return OpSample{
            .inputs = {{"X", {d.uniform(d.shape(1, 3))}}, {"InScale", {d.uniform({1}, 1, 2)}}}};
      });
  add_moving(ops, "fake_quantize_moving_average_abs_max",
             "Whole numbers that stand for X; the scale is a moving average", false);
  add_moving(ops, "fake_quantize_dequantize_moving_average_abs_max",
             "X as it comes back from whole numbers; the scale is a moving average", true);
  ops.op("moving_average_abs_max_scale")
      .doc("Watches the largest absolute number of X")
      .in("X", "any shape, floating point")
      .in_optional("InAccum", "[1]: the sum of largest numbers, each weighed by its age")
      .in_optional("InState", "[1]: the sum of these weights")
      .out_optional("Out", "X")
      .out("OutScale", "[1]: the moving average")
      .out_optional("OutAccum", "InAccum with this step")
      .out_optional("OutState", "InState with this step")
      .attr("moving_rate", 0.9f, "by how much older steps count less")
      .attr("is_test", false, "nothing is watched")
      .shape(quantize_shape(false))
      .kernel(floats([]<class T>(const KernelSite& s) { return observe_kernel<T>(s); }))
      .sample([](Draw& d) { return average_sample(d, false); });
}

}  // namespace trireme
