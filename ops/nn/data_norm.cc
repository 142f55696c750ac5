// data_norm: columns normalised by statistics of all data seen so far, as click models use it.
#include <cmath>

#include "ir/schema.h"
#include "ops/recurrent/recurrent_rules.h"

namespace trireme {
namespace {

constexpr double kNothing = 1e-7;  // a slot whose first element is nearer to 0 was not shown

void data_norm_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  const Dim columns = x.shape.rank() == 2 ? x.shape[1] : Dim(-2);
  if (x.shape.rank() != 2) {
    throw op.error(cat("X has shape ", x.shape)).fix("give X [batch, columns]");
  }
  const bool shifts = op.attr<bool>("enable_scale_and_shift");
  for (const char* slot : {"BatchSize", "BatchSum", "BatchSquareSum", "scale_w", "bias"}) {
    const bool optional = slot[0] == 's' || slot[0] == 'b';
    if (optional && !shifts) continue;
    if (!op.has(slot)) {
      throw op.error(cat("enable_scale_and_shift needs ", slot)).fix("give scale_w and bias");
    }
    if (op.in(slot).shape.numel().may_equal(columns)) continue;
    throw op.error(cat(slot, " has shape ", op.in(slot).shape, " but X has ", columns, " columns"))
        .fix(cat("give ", slot, " the shape [", columns, "]"));
  }
  const int slot_dim = op.attr<int32_t>("slot_dim");
  if (slot_dim > 0 && columns.known() && columns.value() % slot_dim != 0) {
    throw op.error(cat("slot_dim is ", slot_dim, " but X has ", columns, " columns"))
        .fix("give a slot_dim that divides the number of columns");
  }
  op.set_out_like("Y", x);
  op.set_out("Means", x.dtype, {columns});
  op.set_out("Scales", x.dtype, {columns});
}

// With slot_dim, columns come in slots, and a slot that begins with 0 was not shown: it stays 0 and
// does not count.
struct DataNormSlots {
  int64_t rows, columns, width;  // width 0: no slots

  explicit DataNormSlots(const KernelSite& site)
      : rows(site.in("X").shape.at(0)),
        columns(site.in("X").shape.at(1)),
        width(std::max(site.attr<int32_t>("slot_dim"), 0)) {}

  template <class T>
  bool shown(const T* x, int64_t row, int64_t column) const {
    if (width == 0) return true;
    return std::abs(static_cast<double>(x[row * columns + column / width * width])) >= kNothing;
  }
};

template <class T>
BoundKernel data_norm(const KernelSite& site) {
  const int x_at = site.position("X"), size_at = site.position("BatchSize"),
            sum_at = site.position("BatchSum"), square_at = site.position("BatchSquareSum"),
            scale_at = site.position("scale_w"), bias_at = site.position("bias");
  const int y_at = site.out_position("Y"), means_at = site.out_position("Means"),
            scales_at = site.out_position("Scales");
  const bool shifts = site.attr<bool>("enable_scale_and_shift");
  return BoundKernel([=, slots = DataNormSlots(site)](const KernelArgs& k) {
    const T* x = k.in<T>(x_at);
    for (int64_t j = 0; j < slots.columns; ++j) {
      const T size = k.in<T>(size_at)[j];
      const T mean = k.in<T>(sum_at)[j] / size, scale = std::sqrt(size / k.in<T>(square_at)[j]);
      k.out<T>(means_at)[j] = mean;
      k.out<T>(scales_at)[j] = scale;
      for (int64_t row = 0; row < slots.rows; ++row) {
        const int64_t at = row * slots.columns + j;
        T y = (x[at] - mean) * scale;
        if (shifts) y = y * k.in<T>(scale_at)[j] + k.in<T>(bias_at)[j];
        k.out<T>(y_at)[at] = slots.shown(x, row, j) ? y : T{0};
      }
    }
  });
}

// The "gradients" of the statistics are what this batch adds to them; the optimizer does with them
// what it does. The op writes the statistics as they are: the original's kernel for CPUs does so,
// too.
template <class T>
BoundKernel data_norm_grad(const KernelSite& site) {
  const int x_at = site.position("X"), dy_at = site.position("Y@GRAD"),
            scale_at = site.position("scale_w"), means_at = site.position("Means"),
            scales_at = site.position("Scales");
  const int dx_at = site.out_position("X@GRAD"), dscale_at = site.out_position("scale_w@GRAD"),
            dbias_at = site.out_position("bias@GRAD");
  const int added_at[] = {site.out_position("BatchSize@GRAD"), site.out_position("BatchSum@GRAD"),
                          site.out_position("BatchSquareSum@GRAD")};
  const int kept_at[] = {site.out_position("BatchSize"), site.out_position("BatchSum"),
                         site.out_position("BatchSquareSum")};
  const int old_at[] = {site.position("BatchSize"), site.position("BatchSum"),
                        site.position("BatchSquareSum")};
  const auto epsilon = static_cast<T>(site.attr<float>("epsilon"));
  const bool shifts = site.attr<bool>("enable_scale_and_shift");
  return BoundKernel([=, slots = DataNormSlots(site)](const KernelArgs& k) {
    const T* x = k.in<T>(x_at);
    const T* dy = k.in<T>(dy_at);
    for (int64_t j = 0; j < slots.columns; ++j) {
      const T mean = k.in<T>(means_at)[j], scale = k.in<T>(scales_at)[j];
      const T weight = shifts ? k.in<T>(scale_at)[j] : T{1};
      T count = 0, sum = 0, square = 0, dweight = 0, dbias = 0;
      for (int64_t row = 0; row < slots.rows; ++row) {
        const int64_t at = row * slots.columns + j;
        const bool shown = slots.shown(x, row, j);
        if (k.has_out(dx_at)) k.out<T>(dx_at)[at] = shown ? dy[at] * scale * weight : T{0};
        if (!shown) continue;
        count += 1;
        sum += x[at];
        square += (x[at] - mean) * (x[at] - mean);
        dweight += dy[at] * (x[at] - mean) * scale;
        dbias += dy[at];
      }
      // A slot adds its mean as one element; one that was never shown adds what leaves 0 and 1.
      if (slots.width > 0 && count > 0) {
        sum /= count;
        square = square / count + count * epsilon;
        count = 1;
      } else if (slots.width > 0) {
        count = square = 1;
      } else {
        square += count * epsilon;
      }
      const T added[] = {count, sum, square};
      for (int i = 0; i < 3; ++i) {
        if (k.has_out(added_at[i])) k.out<T>(added_at[i])[j] = added[i];
        if (k.has_out(kept_at[i])) k.out<T>(kept_at[i])[j] = k.in<T>(old_at[i])[j];
      }
      if (k.has_out(dscale_at)) k.out<T>(dscale_at)[j] = dweight;
      if (k.has_out(dbias_at)) k.out<T>(dbias_at)[j] = dbias;
    }
  });
}

void add_attributes(OpSchema& row) {
  row.attr("epsilon", 1e-4f, "what every element adds to the square sum beside its own square")
      .attr("slot_dim", -1, "columns of a slot; not positive: no slots")
      .attr("summary_decay_rate", 0.9999999f,
            "accepted; changes nothing: the optimizer alone moves the statistics")
      .attr("enable_scale_and_shift", false, "multiply by scale_w and add bias")
      .attr("data_layout", "NCHW", "accepted; changes no result")
      .attr("sync_stats", false, "statistics over all devices; one device changes nothing");
}

constexpr const char* kStatistics[] = {"BatchSize", "BatchSum", "BatchSquareSum"};

void make_data_norm_grad(GradMaker& g) {
  OpSpec spec{.type = "data_norm_grad",
              .inputs = {{"X", g.in("X")},
                         {"Y@GRAD", g.out_grad("Y")},
                         {"Means", g.out("Means")},
                         {"Scales", g.out("Scales")}},
              .outputs = {{"X@GRAD", g.in_grad("X")}},
              .attrs = g.op().attrs()};
  for (const std::string slot : kStatistics) {
    spec.inputs[slot] = spec.outputs[slot] = g.in(slot);
    spec.outputs[slot + "@GRAD"] = g.in_grad(slot);
  }
  for (const std::string slot : {"scale_w", "bias"}) {
    if (g.in(slot).empty()) continue;
    spec.inputs[slot] = g.in(slot);
    spec.outputs[slot + "@GRAD"] = g.in_grad(slot);
  }
  g.append(std::move(spec));
}

}  // namespace

void register_data_norm(Registry& ops) {
  OpSchema& row = ops.op("data_norm")
                      .doc("Columns normalised by the mean and deviation of all data seen so far")
                      .in_optional("scale_w", "[columns], with enable_scale_and_shift")
                      .in_optional("bias", "[columns], with enable_scale_and_shift")
                      .in("X", "[batch, columns]")
                      .in("BatchSize", "[columns]: how many elements were seen")
                      .in("BatchSum", "[columns]: their sum")
                      .in("BatchSquareSum", "[columns]: the sum of their squared deviations")
                      .out("Y", "like X")
                      .out_intermediate("Means", "[columns]")
                      .out_intermediate("Scales", "[columns]: one over the deviation");
  add_attributes(row);
  row.shape(data_norm_shape)
      .kernel(typed<float, double>([]<class T>(const KernelSite& s) { return data_norm<T>(s); }))
      .grad_maker(make_data_norm_grad)
      // Their gradients are what a batch adds to them, no derivatives.
      .no_grad({"BatchSize", "BatchSum", "BatchSquareSum"})
      .sample([](Draw& draw) {
        OpSample sample;
        const int64_t columns = draw.size(1, 4);
        sample.inputs["X"] = {draw.uniform({3, columns})};
        sample.inputs["BatchSize"] = {draw.uniform({columns}, 5, 9)};
        sample.inputs["BatchSum"] = {draw.uniform({columns})};
        sample.inputs["BatchSquareSum"] = {draw.uniform({columns}, 2, 4)};
        if (draw.size(0, 1) == 1) {
          sample.inputs["scale_w"] = {draw.uniform({columns})};
          sample.inputs["bias"] = {draw.uniform({columns})};
          sample.attrs["enable_scale_and_shift"] = true;
        }
        return sample;
      });

  OpSchema& grad = ops.op("data_norm_grad")
                       .doc("The gradient of data_norm, and what this batch adds to the statistics")
                       .in("X", "[batch, columns]")
                       .in("Y@GRAD", "gradient of Y")
                       .in_optional("scale_w", "[columns]")
                       .in_optional("bias", "[columns]")
                       .in("Scales", "[columns]")
                       .in("Means", "[columns]");
  for (const std::string slot : kStatistics) grad.in(slot, "[columns]: as it was");
  for (const std::string slot : kStatistics) grad.out_optional(slot, "the variable, as it was");
  for (const char* slot : {"X@GRAD", "BatchSize@GRAD", "BatchSum@GRAD", "BatchSquareSum@GRAD",
                           "scale_w@GRAD", "bias@GRAD"}) {
    grad.out_optional(slot, "a gradient");
  }
  add_attributes(grad);
  for (const std::string slot : kStatistics) grad.inplace(slot, slot);
  grad.traits({.linear = true})
      .shape([](OpView& op) {
        op.set_out_like("X@GRAD", op.in("X"));
        for (const std::string slot : kStatistics) {
          op.set_out_like(slot, op.in(slot));
          op.set_out_like(slot + "@GRAD", op.in(slot));
        }
        for (const std::string slot : {"scale_w", "bias"}) {
          if (op.has(slot)) op.set_out_like(slot + "@GRAD", op.in(slot));
        }
      })
      .kernel(
          typed<float, double>([]<class T>(const KernelSite& s) { return data_norm_grad<T>(s); }));
}

}  // namespace trireme
