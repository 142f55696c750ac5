// group_norm and instance_norm: channels of one sample are normalised by themselves.
#include "ir/schema.h"
#include "ops/nn/moments.h"
#include "ops/nn/norm_definition.h"

namespace trireme {
namespace {

// Groups of channels of one sample; instance_norm has as many groups as channels.
struct Groups {
  ChannelPlanes planes;
  int64_t groups = 0;

  int64_t width() const { return planes.channels / groups; }
  int64_t count() const { return planes.batch * groups; }
  Strip strip(int64_t g) const { return planes.sample(g / groups, g % groups * width(), width()); }
  // visit(run, channel) for neighbours of one group and one channel.
  template <class Visit>
  void runs(int64_t g, const Visit& visit) const {
    const int64_t n = g / groups, from = g % groups * width();
    for (int64_t c = from; c < from + width(); ++c) {
      const Strip channel = planes.sample(n, c, 1);
      channel.runs(
          [&](int64_t at, int64_t count) { visit(Strip{.first = at, .inner = count}, c); });
    }
  }
};

Groups group_site(const OpView& op, const Shape& x) {
  const bool last = op.attr<std::string>("data_layout") == "NHWC";
  return {.planes = ChannelPlanes(x, last), .groups = op.attr<int>("groups")};
}

Groups instance_site(const Shape& x) {
  const ChannelPlanes planes(x, false);
  return {.planes = planes, .groups = planes.channels};
}

void group_norm_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  const int groups = op.attr<int>("groups");
  if (x.shape.rank() < 2) {
    throw op.error(cat("X has ", x.shape.rank(), " dimensions but 2 or more are needed"))
        .fix("give X the shape [batch, channels, spatial...]");
  }
  const bool last = op.attr<std::string>("data_layout") == "NHWC";
  const Dim channels = x.shape[last ? x.shape.rank() - 1 : 1];
  if (channels.known() && (groups > channels.value() || channels.value() % groups != 0)) {
    throw op.error(cat("X has ", channels, " channels, which ", groups, " groups do not divide"))
        .fix("choose groups that divide the channels, or check data_layout");
  }
  check_parameter(op, "Scale", channels, "channels");
  check_parameter(op, "Bias", channels, "channels");
  op.set_out_like("Y", x);
  op.set_out("Mean", x.dtype, Shape{x.shape[0], groups});
  op.set_out("Variance", x.dtype, Shape{x.shape[0], groups});
}

void instance_norm_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  if (x.shape.rank() < 2 || x.shape.rank() > 5) {
    throw op.error(cat("X has ", x.shape.rank(), " dimensions ", x.shape, " but 2 to 5 are needed"))
        .fix("give X the shape [batch, channels, spatial...]");
  }
  check_parameter(op, "Scale", x.shape[1], "channels");
  check_parameter(op, "Bias", x.shape[1], "channels");
  op.set_out_like("Y", x);
  op.set_out("SavedMean", x.dtype, Shape{x.shape[0] * x.shape[1]});
  op.set_out("SavedVariance", x.dtype, Shape{x.shape[0] * x.shape[1]});
}

// `spread_slot` takes the variance, or for instance_norm one over the deviation.
template <class T>
BoundKernel grouped(const KernelSite& site, const Groups& groups, std::string_view mean_slot,
                    std::string_view spread_slot, bool saves_inverse) {
  const double epsilon = site.attr<float>("epsilon");
  const int scale_at = site.position("Scale"), bias_at = site.position("Bias");
  const int y_at = site.out_position("Y"), mean_at = site.out_position(mean_slot),
            spread_at = site.out_position(spread_slot);
  return BoundKernel(
      [=](const KernelArgs& k) {
        const T* x = k.in<T>(0);
        const Parameter<T> scale(k, scale_at, T(1)), bias(k, bias_at, T(0));
        const auto [begin, end] = k.range(groups.count());
        for (int64_t g = begin; g < end; ++g) {
          const Strip strip = groups.strip(g);
          const Moments found = moments(strip, x);
          const double inverse = inverse_of(found.variance, epsilon);
          if (k.has_out(mean_at)) k.out<T>(mean_at)[g] = static_cast<T>(found.mean);
          if (k.has_out(spread_at)) {
            k.out<T>(spread_at)[g] = static_cast<T>(saves_inverse ? inverse : found.variance);
          }
          const auto mean = static_cast<T>(found.mean), factor = static_cast<T>(inverse);
          groups.runs(g, [&](const Strip& run, int64_t c) {
            vectorised([=, y = k.out<T>(y_at), s = scale[c], b = bias[c]] {
              run.each([&](int64_t i) { y[i] = (x[i] - mean) * factor * s + b; });
            });
          });
        }
      },
      norm_parts(groups.count(), groups.planes.size()));
}

// normal(k): the function from a group and a channel to that from an element's offset to the
// normalised element. inverse(k): from a group to one over its deviation.
template <class T, class Normal, class Inverse>
BoundKernel grouped_grad(const KernelSite& site, const Groups& groups, Normal normal_of,
                         Inverse inverse_of_group) {
  const int scale_at = site.position("Scale"), grad_at = site.position("Y@GRAD");
  const int x_grad_at = site.out_position("X@GRAD"),
            scale_grad_at = site.out_position("Scale@GRAD"),
            bias_grad_at = site.out_position("Bias@GRAD");
  return BoundKernel(
      [=](const KernelArgs& k) {
        const ChannelPlanes& planes = groups.planes;
        const T* grad = k.in<T>(grad_at);
        const Parameter<T> scale(k, scale_at, T(1));
        const auto normals = normal_of(k);
        const auto inverse = inverse_of_group(k);
        const auto sum_of = [grad](const Strip& run) {
          return strip_sum<T>(run, [grad](int64_t i) { return static_cast<double>(grad[i]); });
        };
        const auto weighted_sum_of = [grad](const Strip& run, const auto& normal) {
          return strip_sum<T>(run, [grad, normal](int64_t i) {
            return static_cast<double>(grad[i]) * static_cast<double>(normal(i));
          });
        };
        if (k.has_out(x_grad_at)) {
          const auto [begin, end] = k.range(groups.count());
          for (int64_t g = begin; g < end; ++g) {
            double sum = 0, weighted = 0;
            groups.runs(g, [&](const Strip& run, int64_t c) {
              sum += static_cast<double>(scale[c]) * sum_of(run);
              weighted += static_cast<double>(scale[c]) * weighted_sum_of(run, normals(g, c));
            });
            const auto count = static_cast<double>(groups.strip(g).count());
            const auto mean = static_cast<T>(sum / count);
            const auto mean_weighted = static_cast<T>(weighted / count);
            groups.runs(g, [&](const Strip& run, int64_t c) {
              vectorised([=, to = k.out<T>(x_grad_at), s = scale[c], normal = normals(g, c),
                          factor = static_cast<T>(inverse(g))] {
                run.each([&](int64_t i) {
                  to[i] = factor * (grad[i] * s - mean - normal(i) * mean_weighted);
                });
              });
            });
          }
        }
        if (!k.has_out(scale_grad_at) && !k.has_out(bias_grad_at)) return;
        const auto [begin, end] = k.range(planes.channels);
        for (int64_t c = begin; c < end; ++c) {
          double sum = 0, weighted = 0;
          for (int64_t n = 0; n < planes.batch; ++n) {
            const Strip run = planes.sample(n, c, 1);
            sum += sum_of(run);
            weighted += weighted_sum_of(run, normals(n * groups.groups + c / groups.width(), c));
          }
          if (k.has_out(scale_grad_at)) k.out<T>(scale_grad_at)[c] = static_cast<T>(weighted);
          if (k.has_out(bias_grad_at)) k.out<T>(bias_grad_at)[c] = static_cast<T>(sum);
        }
      },
      norm_parts(std::min(groups.count(), groups.planes.channels), groups.planes.size()));
}

// The gradient op has Y but not X: the normalised element is (Y - Bias) / Scale, and counts as 0
// where Scale is 0, as in the original.
template <class T>
BoundKernel group_norm_grad(const KernelSite& site) {
  const Groups groups = group_site(site, site.in("Y").shape);
  const double epsilon = site.attr<float>("epsilon");
  const int y_at = site.position("Y"), scale_at = site.position("Scale"),
            bias_at = site.position("Bias"), variance_at = site.position("Variance");
  return grouped_grad<T>(
      site, groups,
      [=](const KernelArgs& k) {
        const Parameter<T> scale(k, scale_at, T(1)), bias(k, bias_at, T(0));
        return [scale, bias, y = k.in<T>(y_at)](int64_t, int64_t c) {
          return [y, s = scale[c], b = bias[c]](int64_t i) {
            return s == T(0) ? T(0) : (y[i] - b) / s;
          };
        };
      },
      [=](const KernelArgs& k) {
        return [epsilon, variance = k.in<T>(variance_at)](int64_t g) {
          return inverse_of(static_cast<double>(variance[g]), epsilon);
        };
      });
}

template <class T>
BoundKernel instance_norm_grad(const KernelSite& site) {
  const Groups groups = instance_site(site.in("X").shape);
  const int x_at = site.position("X"), mean_at = site.position("SavedMean"),
            inverse_at = site.position("SavedVariance");
  return grouped_grad<T>(
      site, groups,
      [=](const KernelArgs& k) {
        return [x = k.in<T>(x_at), mean = k.in<T>(mean_at), inverse = k.in<T>(inverse_at)](
                   int64_t g, int64_t) {
          return [x, m = mean[g], v = inverse[g]](int64_t i) { return (x[i] - m) * v; };
        };
      },
      [=](const KernelArgs& k) {
        return
            [inverse = k.in<T>(inverse_at)](int64_t g) { return static_cast<double>(inverse[g]); };
      });
}

void instance_norm_gradients(Body& b) {
  const Expr x = b.in("X"), grad = b.in("Y@GRAD");
  std::vector<int> pixels, others = {0};
  for (int d = 2; d < x.rank(); ++d) pixels.push_back(d);
  others.insert(others.end(), pixels.begin(), pixels.end());
  const NormGradients made =
      norm_gradients({.x = x,
                      .grad = grad,
                      .axes = pixels,
                      .scale = b.has("Scale") ? align(b.in("Scale"), x.rank(), 1) : Expr(),
                      .epsilon = b.attr<float>("epsilon")});
  b.out("X@GRAD") = made.x;
  if (b.wants("Scale@GRAD")) b.out("Scale@GRAD") = reduce_sum(made.scaled, others);
  if (b.wants("Bias@GRAD")) b.out("Bias@GRAD") = reduce_sum(grad, others);
}

}  // namespace

void register_norm(Registry& ops) {
  ops.op("group_norm")
      .in("X", "[batch, channels, spatial...] in data_layout")
      .in_optional("Scale", "[channels]")
      .in_optional("Bias", "[channels]")
      .out("Y", "like X")
      .out_intermediate("Mean", "[batch, groups]")
      .out_intermediate("Variance", "[batch, groups]")
      .attr("epsilon", 1e-5f, "added to the variance")
      .between(0, 1)
      .required_attr<int>("groups", "into how many groups the channels are cut")
      .at_least(1)
      .attr("data_layout", "NCHW", "where the channels stand")
      .one_of({"NCHW", "NHWC", "AnyLayout"})
      .shape(group_norm_shape)
      .kernel(typed<float, double>([]<class T>(const KernelSite& site) {
        return grouped<T>(site, group_site(site, site.in("X").shape), "Mean", "Variance", false);
      }))
      .grad({"Scale", "Bias", "Y", "Variance"})
      .grad_kernel(typed<float, double>(
          []<class T>(const KernelSite& site) { return group_norm_grad<T>(site); }))
      .sample([](Draw& d) {
        return norm_sample(d, {2, 4, 3, 2}, 4, {{"groups", 2}});
      })
      .sample([](Draw& d) {
        return norm_sample(d, {2, 2, 3, 4}, 4,
                           {{"groups", 2}, {"data_layout", std::string("NHWC")}});
      })
      .sample([](Draw& d) {
        return norm_sample(d, {2, 3, 4}, 0, {{"groups", 1}});
      });
  ops.op("instance_norm")
      .in("X", "[batch, channels, spatial...]")
      .in_optional("Scale", "[channels]")
      .in_optional("Bias", "[channels]")
      .out("Y", "like X")
      .out_intermediate("SavedMean", "[batch * channels]")
      .out_intermediate("SavedVariance", "[batch * channels]: one over the deviation")
      .attr("epsilon", 1e-5f, "added to the variance")
      .between(0, 1e-3f)
      .shape(instance_norm_shape)
      .kernel(typed<float, double>([]<class T>(const KernelSite& site) {
        return grouped<T>(site, instance_site(site.in("X").shape), "SavedMean", "SavedVariance",
                          true);
      }))
      .grad({"X", "Scale", "SavedMean", "SavedVariance"})
      .grad_shape([](OpView& op) {
        op.set_out_like("X@GRAD", op.in("X"));
        for (const char* slot : {"Scale@GRAD", "Bias@GRAD"}) {
          op.set_out(slot, op.in("X").dtype, Shape{op.in("X").shape[1]});
        }
      })
      .grad_kernel(typed<float, double>(
          []<class T>(const KernelSite& site) { return instance_norm_grad<T>(site); }))
      .grad_definition(instance_norm_gradients)
      .sample([](Draw& d) {
        return norm_sample(d, {2, 3, 4, 2}, 3, {});
      })
      .sample([](Draw& d) {
        return norm_sample(d, {2, 2, 5}, 0, {});
      });
}

}  // namespace trireme
