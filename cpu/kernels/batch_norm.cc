// Batch normalisation of float32 images whose channels stand side by side, forwards and back.
#include "cpu/kernels/batch_norm_lanes.h"
#include "cpu/kernels/register.h"
#include "ops/nn/batch_norm_steps.h"

namespace trireme {
namespace {

using ActivationOf = NormActivation (*)(const OpView&);

// Whether channels stand side by side in float32 images; if not, says why not.
bool has_lanes(const KernelSite& site, const ChannelPlanes& planes, std::string* why_not) {
  const char* reason = kernel_dtype(site) != DType::float32 ? "only for float32"
                       : planes.step() <= 1                 ? "channels do not stand side by side"
                                                            : nullptr;
  if (reason && why_not) *why_not = reason;
  return !reason;
}

BoundKernel batch_norm_lanes(const KernelSite& site, const ChannelPlanes& planes,
                             const NormActivation& act) {
  return BoundKernel(
      [=, at = NormPositions(site), use = NormUse(site, planes)](const KernelArgs& k) {
        const float* x = k.in<float>(at.x);
        const float* z = k.has_in(at.z) ? k.in<float>(at.z) : nullptr;
        const auto [begin, end] = k.range(lane_groups(planes));
        for (int64_t group = begin; group < end; ++group) {
          const LaneStrip strip = lane_strip(planes, group);
          const bool measures = use.measures(strip.count());
          Moments found[kLanes];
          if (measures) lane_moments(strip, x, found);
          float shift[kLanes], factor[kLanes], add[kLanes];
          for (int64_t l = 0; l < strip.lanes; ++l) {
            const auto line = settle_channel<float>(k, at, use, strip.channel + l,
                                                    measures ? &found[l] : nullptr);
            shift[l] = line.shift;
            factor[l] = line.factor;
            add[l] = line.add;
          }
          with_finish<float>(act, z, [&](const auto& finish) {
            lane_normalise(strip, x, shift, factor, add, finish, k.out<float>(at.y));
          });
        }
      },
      norm_parts(lane_groups(planes), planes.size()));
}

BoundKernel batch_norm_lanes_grad(const KernelSite& site, const ChannelPlanes& planes,
                                  const NormActivation& act) {
  return BoundKernel(
      [=, at = NormGradPositions(site), use = NormUse(site, planes)](const KernelArgs& k) {
        const float* x = k.in<float>(at.x);
        float* masked = result_or_null<float>(k, at.z_grad);
        float* x_grad = result_or_null<float>(k, at.x_grad);
        const NormArriving<float> from{k.in<float>(at.grad), operand_or_null<float>(k, at.more),
                                       operand_or_null<float>(k, at.y)};
        const auto [begin, end] = k.range(lane_groups(planes));
        for (int64_t group = begin; group < end; ++group) {
          const LaneStrip strip = lane_strip(planes, group);
          const float* mean = k.in<float>(at.mean) + strip.channel;
          const float* inverse = k.in<float>(at.inverse) + strip.channel;
          float factor[kLanes], add[kLanes];
          for (int64_t l = 0; l < strip.lanes; ++l) {
            const int64_t c = strip.channel + l;
            factor[l] = use.passes ? 1.0f : k.in<float>(at.scale)[c] * inverse[l];
            add[l] = use.passes ? 0.0f : k.in<float>(at.bias)[c];
          }
          const LaneLines line{mean, inverse, factor, add};
          double sums[kLanes] = {}, weighted[kLanes] = {};
          with_arriving(act, from, [&](const auto& arriving) {
            lane_grad_sums(strip, x, line, arriving, masked, sums, weighted);
          });
          float mean_grad[kLanes] = {}, tilt[kLanes] = {};
          const auto count = static_cast<double>(strip.count());
          for (int64_t l = 0; l < strip.lanes; ++l) {
            const int64_t c = strip.channel + l;
            write_channel<float>(k, at.bias_grad, c, use.passes ? 0 : sums[l]);
            write_channel<float>(k, at.scale_grad, c, use.passes ? 0 : weighted[l]);
            if (use.kept || use.passes) continue;  // the batch did not make the statistics
            mean_grad[l] = static_cast<float>(sums[l] / count);
            tilt[l] = static_cast<float>(weighted[l] / count) * inverse[l];
          }
          if (!x_grad) continue;
          const auto write = [&](const auto& arriving) {
            lane_x_grad(strip, x, line, mean_grad, tilt, arriving, x_grad);
          };
          if (masked) {
            with_arriving<float>({}, {.grad = masked}, write);
          } else {
            with_arriving(act, from, write);
          }
        }
      },
      norm_parts(lane_groups(planes), planes.size()));
}

Kernel lanes(ActivationOf activation) {
  return {"lanes", [=](const KernelSite& site, std::string* why_not) -> std::optional<BoundKernel> {
            const ChannelPlanes planes = norm_planes(site, site.in("X").shape);
            if (!has_lanes(site, planes, why_not)) return std::nullopt;
            return batch_norm_lanes(site, planes, activation(site));
          }};
}

Kernel lanes_grad(ActivationOf activation) {
  return {"lanes", [=](const KernelSite& site, std::string* why_not) -> std::optional<BoundKernel> {
            const ChannelPlanes planes = norm_planes(site, site.in("Y@GRAD").shape);
            if (!has_lanes(site, planes, why_not)) return std::nullopt;
            return batch_norm_lanes_grad(site, planes, activation(site));
          }};
}

}  // namespace

// The gradient of inplace_abn has no X: the reference kernel reads it off Y.
void add_batch_norm_kernels(Registry& ops) {
  const ActivationOf none = [](const OpView&) { return NormActivation{}; };
  const ActivationOf relu = [](const OpView&) {
    return NormActivation{.kind = NormActivation::Kind::relu};
  };
  ops.add_kernels("batch_norm", {lanes(none)});
  ops.add_kernels("batch_norm_grad", {lanes_grad(none)});
  ops.add_kernels("inplace_abn", {lanes(abn_activation)});
  for (const char* row : {"fused_batch_norm_act", "fused_bn_add_activation", "p.batch_norm_relu"}) {
    ops.add_kernels(row, {lanes(relu)});
    ops.add_kernels(std::string(row) + "_grad", {lanes_grad(relu)});
  }
}

}  // namespace trireme
