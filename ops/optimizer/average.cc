// average_accumulates: the running sums behind ModelAverage.
#include <algorithm>

#include "ir/schema.h"

namespace trireme {
namespace {

// After so many updates the youngest sum is moved on, before it loses small addends to rounding.
constexpr int64_t kUpdatesPerSum = 16384;

constexpr std::array kSums = {"sum_1", "sum_2", "sum_3"};
constexpr std::array kCounters = {"num_accumulates", "old_num_accumulates", "num_updates"};

void average_shape(OpView& op) {
  if (op.attr<int64_t>("min_average_window") > op.attr<int64_t>("max_average_window")) {
    throw op
        .error(cat("min_average_window is ", op.attr<int64_t>("min_average_window"),
                   " but max_average_window is ", op.attr<int64_t>("max_average_window")))
        .fix("give a min_average_window of at most max_average_window");
  }
  const ValueInfo& param = op.in("param");
  for (const std::string name : kSums) {
    if (!op.in("in_" + name).shape.may_equal(param.shape)) {
      throw op
          .error(cat("in_", name, " has shape ", op.in("in_" + name).shape, " but param has ",
                     param.shape))
          .fix(cat("create in_", name, " with the parameter's shape"));
    }
    op.set_out_like("out_" + name, param);
  }
  for (const std::string name : kCounters) {
    const ValueInfo& counter = op.in("in_" + name);
    if (counter.dtype != DType::int64 || !counter.shape.numel().may_equal(1)) {
      throw op
          .error(cat("in_", name, " is ", name_of(counter.dtype), " ", counter.shape,
                     " but counts in one int64"))
          .fix(cat("create in_", name, " as int64 of shape [1]"));
    }
    op.set_out_like("out_" + name, counter);
  }
}

// sum_1 grows by param at every update. Every kUpdatesPerSum updates it is added to sum_2 and
// starts anew. When the window is full, sum_1 + sum_2 becomes sum_3 (the finished window), both
// start anew, and the number of its updates is kept in old_num_accumulates.
template <class T>
KernelFn average_accumulates(const KernelSite& site) {
  struct Slot {
    int in, out;
  };
  const auto slot = [&](const std::string& name) {
    return Slot{site.position("in_" + name), site.out_position("out_" + name)};
  };
  const int param = site.position("param");
  const Slot sum_1 = slot("sum_1"), sum_2 = slot("sum_2"), sum_3 = slot("sum_3");
  const Slot accumulates = slot("num_accumulates"), old = slot("old_num_accumulates");
  const Slot updates = slot("num_updates");
  const double rate = site.attr<float>("average_window");
  const auto most = site.attr<int64_t>("max_average_window");
  const auto least = site.attr<int64_t>("min_average_window");
  return [=](const KernelArgs& k) {
    const int64_t updated = *k.in<int64_t>(updates.in) + 1;
    int64_t accumulated = *k.in<int64_t>(accumulates.in) + 1;
    int64_t finished = *k.in<int64_t>(old.in);
    const bool moves_on = updated % kUpdatesPerSum == 0;
    const auto window = std::min(most, static_cast<int64_t>(static_cast<double>(updated) * rate));
    const bool full = accumulated >= least && accumulated >= window;
    if (full) {
      finished = accumulated;
      accumulated = 0;
    }
    const T* p = k.in<T>(param);
    const T* s1 = k.in<T>(sum_1.in);
    const T* s2 = k.in<T>(sum_2.in);
    const T* s3 = k.in<T>(sum_3.in);
    for (int64_t i = 0; i < k.in(param).numel(); ++i) {
      T young = s1[i] + p[i], middle = s2[i], done = s3[i];
      if (moves_on) {
        middle += young;
        young = 0;
      }
      if (full) {
        done = young + middle;
        young = middle = 0;
      }
      k.out<T>(sum_1.out)[i] = young;
      k.out<T>(sum_2.out)[i] = middle;
      k.out<T>(sum_3.out)[i] = done;
    }
    *k.out<int64_t>(updates.out) = updated;
    *k.out<int64_t>(accumulates.out) = accumulated;
    *k.out<int64_t>(old.out) = finished;
  };
}

}  // namespace

void register_average(Registry& ops) {
  OpSchema& row = ops.op("average_accumulates")
                      .doc(
                          "Adds a parameter to its running sums; ModelAverage divides them by the "
                          "number of updates they hold")
                      .in("param", "the parameter")
                      .in("in_sum_1", "the youngest sum")
                      .in("in_sum_2", "the sum before it")
                      .in("in_sum_3", "the sum of the finished window")
                      .in("in_num_accumulates", "updates in the open window, one int64")
                      .in("in_old_num_accumulates", "updates in the finished window, one int64")
                      .in("in_num_updates", "all updates, one int64")
                      .out("out_sum_1", "in_sum_1 after this update")
                      .out("out_sum_2", "in_sum_2 after this update")
                      .out("out_sum_3", "in_sum_3 after this update")
                      .out("out_num_accumulates", "in_num_accumulates after this update")
                      .out("out_old_num_accumulates", "in_old_num_accumulates after this update")
                      .out("out_num_updates", "in_num_updates after this update")
                      .attr("average_window", 0.0f, "window length as a share of all updates")
                      .required_attr<int64_t>("max_average_window", "longest window")
                      .attr("min_average_window", int64_t{10000}, "shortest window");
  for (const std::string name : kSums) row.inplace("in_" + name, "out_" + name);
  for (const std::string name : kCounters) row.inplace("in_" + name, "out_" + name);
  row.shape(average_shape)
      .kernel(typed<float, double>(
          []<class T>(const KernelSite& site) { return average_accumulates<T>(site); }))
      .sample([](Draw& draw) {
        OpSample sample;
        const Shape shape = draw.shape(1, 3);
        sample.inputs["param"] = {draw.uniform(shape)};
        for (const std::string name : kSums) sample.inputs["in_" + name] = {draw.uniform(shape)};
        for (const std::string name : kCounters) {
          sample.inputs["in_" + name] = {draw.ints({1}, 0, 20)};
        }
        sample.attrs["max_average_window"] = int64_t{15};
        sample.attrs["min_average_window"] = int64_t{5};
        sample.attrs["average_window"] = 0.5f;
        return sample;
      });
}

}  // namespace trireme
