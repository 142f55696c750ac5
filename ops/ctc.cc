// Connectionist temporal classification: warpctc (the loss) and ctc_align (from a path to labels).
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/sequence_rules.h"
#include "ops/sequence_spans.h"

namespace trireme {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();  // the logarithm of 0

double log_add(double a, double b) {
  if (a < b) std::swap(a, b);
  return b == kNever ? a : a + std::log1p(std::exp(b - a));
}

// A label sequence with blanks around and between its labels. A path stands at one state, and at
// each step stays, goes on by one, or by two where that passes a blank between unequal labels.
class Lattice {
 public:
  Lattice(std::vector<int64_t> labels, int64_t blank) {
    states_.assign(2 * labels.size() + 1, blank);
    for (size_t i = 0; i < labels.size(); ++i) states_[2 * i + 1] = labels[i];
    // Equal neighbours need a blank between them, so a step of their own.
    needed_ = static_cast<int64_t>(labels.size());
    for (size_t i = 1; i < labels.size(); ++i) needed_ += labels[i] == labels[i - 1] ? 1 : 0;
  }

  // The loss of log probabilities [time, classes], and into `grad` [time, classes] how likely each
  // class is at each step among the paths that give the labels. Too few steps for the labels cost
  // nothing, as in the original, and false is returned.
  bool run(const std::vector<double>& log_probs, int64_t time, int64_t classes, double* loss,
           std::vector<double>* grad) const {
    *loss = 0;
    if (needed_ > time || time == 0) return false;
    const auto count = states_.size();
    const auto at = [&](int64_t t, size_t s) { return static_cast<size_t>(t) * count + s; };
    const auto log_prob = [&](int64_t t, size_t s) {
      return log_probs[static_cast<size_t>(t * classes + states_[s])];
    };
    std::vector<double> ahead(static_cast<size_t>(time) * count, kNever);  // up to and with step t
    std::vector<double> behind(ahead);                                     // after step t
    for (size_t s = 0; s < std::min<size_t>(2, count); ++s) ahead[at(0, s)] = log_prob(0, s);
    for (int64_t t = 1; t < time; ++t) {
      for (size_t s = 0; s < count; ++s) {
        double sum = ahead[at(t - 1, s)];
        if (s >= 1) sum = log_add(sum, ahead[at(t - 1, s - 1)]);
        if (s >= 2 && may_skip(s)) sum = log_add(sum, ahead[at(t - 1, s - 2)]);
        ahead[at(t, s)] = sum + log_prob(t, s);
      }
    }
    for (size_t s = count - std::min<size_t>(2, count); s < count; ++s) behind[at(time - 1, s)] = 0;
    for (int64_t t = time - 2; t >= 0; --t) {
      for (size_t s = 0; s < count; ++s) {
        double sum = behind[at(t + 1, s)] + log_prob(t + 1, s);
        if (s + 1 < count) {
          sum = log_add(sum, behind[at(t + 1, s + 1)] + log_prob(t + 1, s + 1));
        }
        if (s + 2 < count && may_skip(s + 2)) {
          sum = log_add(sum, behind[at(t + 1, s + 2)] + log_prob(t + 1, s + 2));
        }
        behind[at(t, s)] = sum;
      }
    }
    double total = kNever;
    for (size_t s = 0; s < count; ++s) total = log_add(total, ahead[at(0, s)] + behind[at(0, s)]);
    *loss = -total;
    for (int64_t t = 0; t < time; ++t) {
      for (size_t s = 0; s < count; ++s) {
        (*grad)[static_cast<size_t>(t * classes + states_[s])] +=
            std::exp(ahead[at(t, s)] + behind[at(t, s)] - total);
      }
    }
    return true;
  }

 private:
  bool may_skip(size_t s) const { return s % 2 == 1 && states_[s] != states_[s - 2]; }

  std::vector<int64_t> states_;
  int64_t needed_ = 0;
};

void warpctc_shape(OpView& op) {
  const ValueInfo& logits = op.in("Logits");
  const bool padded = op.has("LogitsLength");
  if (padded != op.has("LabelLength")) {
    throw op.error("only one of LogitsLength and LabelLength is given")
        .fix("give both lengths, or none and LoD");
  }
  if (logits.shape.rank() != (padded ? 3 : 2)) {
    throw op.error(cat("Logits has shape ", logits.shape))
        .fix(padded ? "with lengths give Logits [time, batch, classes]"
                    : "give Logits [rows, classes] with LoD, or give both lengths");
  }
  const ValueInfo& label = op.in("Label");
  if (label.known && label.dtype != DType::int32 && label.dtype != DType::int64) {
    throw op.error(cat("Label holds ", name_of(label.dtype), " but labels are int32"))
        .fix("feed the labels as int32");
  }
  if (padded ? label.shape.rank() < 2 : !label.shape.product(1, label.shape.rank()).may_equal(1)) {
    throw op.error(cat("Label has shape ", label.shape))
        .fix(padded ? "with lengths give Label [batch, labels]" : "give Label [rows, 1] with LoD");
  }
  const Dim classes = logits.shape.back();
  const int blank = op.attr<int32_t>("blank");
  if (classes.known() && blank >= classes.value()) {
    throw op.error(cat("blank is ", blank, " but Logits has ", classes, " classes"))
        .fix("count the blank among the classes: the labels, and one for the blank");
  }
  const Dim sequences =
      sequence_count(op, "Logits", "LogitsLength", padded ? logits.shape[1] : Dim());
  const Dim labelled = sequence_count(op, "Label", "LabelLength", padded ? label.shape[0] : Dim());
  if (!sequences.may_equal(labelled)) {
    throw op.error(cat("Logits has ", sequences, " sequences but Label has ", labelled))
        .fix("give one label sequence for every sequence of logits");
  }
  Dim time = padded ? logits.shape[0] : Dim();
  if (!padded && !logits.lod.empty()) {
    const std::vector<int64_t>& offsets = logits.lod.back();
    int64_t longest = 0;
    for (size_t s = 0; s + 1 < offsets.size(); ++s)
      longest = std::max(longest, offsets[s + 1] - offsets[s]);
    time = longest;
  }
  op.set_out("WarpCTCGrad", logits.dtype, {time, Dim::join(sequences, labelled), classes});
  op.set_out("Loss", logits.dtype, {Dim::join(sequences, labelled), 1});
}

template <class T>
std::vector<double> log_softmax(const T* logits, const Span& s, int64_t classes) {
  std::vector<double> out(static_cast<size_t>(s.length * classes));
  for (int64_t t = 0; t < s.length; ++t) {
    const T* x = logits + s.row(t) * classes;
    const double top = static_cast<double>(*std::max_element(x, x + classes));
    double sum = 0;
    for (int64_t j = 0; j < classes; ++j) sum += std::exp(static_cast<double>(x[j]) - top);
    for (int64_t j = 0; j < classes; ++j) {
      out[static_cast<size_t>(t * classes + j)] = static_cast<double>(x[j]) - top - std::log(sum);
    }
  }
  return out;
}

std::vector<int64_t> labels_of(const Tensor& label, const Span& s, int64_t classes) {
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < s.length; ++i) {
    labels.push_back(int_at(label, s.row(i)));
    if (labels.back() < 0 || labels.back() >= classes) {
      throw Error(ErrorKind::out_of_range,
                  cat("Label holds ", labels.back(), " but Logits has ", classes, " classes"))
          .fix(cat("give labels from 0 to ", classes - 1));
    }
  }
  return labels;
}

// WarpCTCGrad is the gradient of the loss: the softmax, less how likely each class is.
template <class T>
BoundKernel warpctc(const KernelSite& site) {
  const int logits_at = site.position("Logits"), label_at = site.position("Label");
  const int grad_at = site.out_position("WarpCTCGrad"), loss_at = site.out_position("Loss");
  const int64_t classes = site.in("Logits").shape.back().value();
  const int64_t blank = site.attr<int32_t>("blank");
  const SequenceSpans logit_spans(site, "Logits", "LogitsLength", Padded::time_first);
  const SequenceSpans label_spans(site, "Label", "LabelLength");
  return BoundKernel([=](const KernelArgs& k) {
    const std::vector<Span> rows = logit_spans.at(k), labels = label_spans.at(k);
    const auto sequences = static_cast<int64_t>(rows.size());
    T* grad = k.out<T>(grad_at);
    std::fill_n(grad, k.out(grad_at).numel(), T{0});
    for (int64_t s = 0; s < sequences; ++s) {
      const Span& span = rows[static_cast<size_t>(s)];
      const std::vector<double> log_probs = log_softmax(k.in<T>(logits_at), span, classes);
      std::vector<double> likely(log_probs.size());
      const Lattice lattice(labels_of(k.in(label_at), labels[static_cast<size_t>(s)], classes),
                            blank);
      double loss = 0;
      const bool possible = lattice.run(log_probs, span.length, classes, &loss, &likely);
      k.out<T>(loss_at)[s] = static_cast<T>(loss);
      for (int64_t t = 0; possible && t < span.length; ++t) {
        for (int64_t j = 0; j < classes; ++j) {
          const auto at = static_cast<size_t>(t * classes + j);
          grad[(t * sequences + s) * classes + j] =
              static_cast<T>(std::exp(log_probs[at]) - likely[at]);
        }
      }
    }
  });
}

template <class T>
BoundKernel warpctc_grad(const KernelSite& site) {
  const int grad_at = site.position("WarpCTCGrad"), loss_grad_at = site.position("Loss@GRAD");
  const int64_t classes = site.in("Logits").shape.back().value();
  const bool by_times = site.attr<bool>("norm_by_times");
  const SequenceSpans spans(site, "Logits", "LogitsLength", Padded::time_first);
  return BoundKernel([=](const KernelArgs& k) {
    T* dx = k.out<T>(0);
    std::fill_n(dx, k.out(0).numel(), T{0});
    const std::vector<Span> rows = spans.at(k);
    const auto sequences = static_cast<int64_t>(rows.size());
    for (int64_t s = 0; s < sequences; ++s) {
      const Span& span = rows[static_cast<size_t>(s)];
      T factor = k.in<T>(loss_grad_at)[s];
      if (by_times && span.length > 0) factor /= static_cast<T>(span.length);
      for (int64_t t = 0; t < span.length; ++t) {
        const T* from = k.in<T>(grad_at) + (t * sequences + s) * classes;
        for (int64_t j = 0; j < classes; ++j) dx[span.row(t) * classes + j] = from[j] * factor;
      }
    }
  });
}

// ---- ctc_align

template <class T>
std::vector<T> align(const T* path, const Span& s, int64_t blank, bool merge) {
  std::vector<T> labels;
  for (int64_t t = 0; t < s.length; ++t) {
    const T now = path[s.row(t)];
    const bool repeats = merge && t > 0 && now == path[s.row(t - 1)];
    if (static_cast<int64_t>(now) != blank && !repeats) labels.push_back(now);
  }
  return labels;
}

void ctc_align_shape(OpView& op) {
  const ValueInfo& input = op.in("Input");
  const bool padded = op.has("InputLength");
  if (input.shape.rank() != 2 || (!padded && !input.shape[1].may_equal(1))) {
    throw op.error(cat("Input has shape ", input.shape))
        .fix(padded ? "with InputLength give Input [batch, time]"
                    : "give Input [rows, 1] with LoD, or give InputLength");
  }
  sequence_count(op, "Input", "InputLength", input.shape[0]);
  op.set_out("Output", input.dtype, padded ? input.shape : Shape{Dim(), 1});
  if (!padded) set_lod(op, "Output", {}, 1);
  op.set_out("OutputLength", input.dtype, {input.shape[0], 1});
}

// With LoD the result has as many rows as labels are found; where there are none at all it is one
// row of -1.
template <class T>
BoundKernel ctc_align(const KernelSite& site) {
  const int length_at = site.out_position("OutputLength");
  const int64_t blank = site.attr<int32_t>("blank");
  const bool merge = site.attr<bool>("merge_repeated");
  const auto padding = static_cast<T>(site.attr<int32_t>("padding_value"));
  const SequenceSpans spans(site, "Input", "InputLength");
  return BoundKernel([=](const KernelArgs& k) {
    const Tensor& input = k.in(0);
    std::vector<T> all, lengths;
    Lod lod = {{0}};
    for (const Span& s : spans.at(k)) {
      std::vector<T> labels = align(input.data<T>(), s, blank, merge);
      lengths.push_back(static_cast<T>(labels.size()));
      if (spans.padded()) labels.resize(static_cast<size_t>(input.shape().at(1)), padding);
      all.insert(all.end(), labels.begin(), labels.end());
      lod[0].push_back(static_cast<int64_t>(all.size()));
    }
    if (spans.padded()) {
      k.out(0) = make_tensor<T>(input.shape(), std::span<const T>(all));
      if (k.has_out(length_at)) {
        k.out(length_at) = make_tensor<T>({spans.sequences(), 1}, std::span<const T>(lengths));
      }
      return;
    }
    if (all.empty()) all.push_back(static_cast<T>(-1));
    k.out(0) = make_tensor<T>({static_cast<int64_t>(all.size()), 1}, std::span<const T>(all));
    k.out(0).set_lod(lod);
  });
}

OpSample ctc_sample(Draw& draw, bool padded) {
  OpSample sample;
  const int64_t classes = draw.size(3, 4);
  sample.attrs["blank"] = static_cast<int32_t>(draw.size(0, classes - 1));
  // Two labels, equal ones too, fit into three steps.
  if (padded) {
    sample.inputs["Logits"] = {draw.uniform({5, 2, classes})};
    sample.inputs["Label"] = {draw.ints({2, 3}, 0, classes - 1, DType::int32)};
    sample.inputs["LogitsLength"] = {draw.ints({2}, 3, 5)};
    sample.inputs["LabelLength"] = {draw.ints({2}, 0, 2)};
  } else {
    Tensor logits = draw.uniform({8, classes});
    logits.set_lod({{0, 3, 3 + draw.size(3, 4), 8}});
    Tensor label = draw.ints({3, 1}, 0, classes - 1, DType::int32);
    label.set_lod({{0, 2, 3, 3}});
    sample.inputs["Logits"] = {logits};
    sample.inputs["Label"] = {label};
  }
  return sample;
}

}  // namespace

void register_ctc(Registry& ops) {
  ops.op("warpctc")
      .doc(
          "The CTC loss: how unlikely a label sequence is, summed over every way to lay it out "
          "over "
          "the steps with repeats and blanks. The softmax is part of it")
      .in("Logits", "[rows, classes] in sequences, or with lengths [time, batch, classes]")
      .in("Label", "int32 [rows, 1] in sequences, or with lengths [batch, labels]")
      .in_optional("LogitsLength", "int64 [batch]: how many steps of each sequence count")
      .in_optional("LabelLength", "int64 [batch]: how many labels of each sequence count")
      .out_intermediate("WarpCTCGrad", "[longest time, sequences, classes]: the loss's gradient")
      .out("Loss", "[sequences, 1]; 0 where there are fewer steps than the labels need")
      .attr("blank", 0, "the class that means no label")
      .at_least(0)
      .attr("norm_by_times", false, "divide the gradient, not the loss, by the number of steps")
      .shape(warpctc_shape)
      .kernel(typed<float, double>([]<class T>(const KernelSite& s) { return warpctc<T>(s); }))
      .grad({"WarpCTCGrad", "Logits", "LogitsLength"})
      .no_grad({"Label", "LogitsLength", "LabelLength"})
      .grad_kernel(
          typed<float, double>([]<class T>(const KernelSite& s) { return warpctc_grad<T>(s); }))
      .traits({.can_fail = true})
      .sample([](Draw& draw) { return ctc_sample(draw, false); })
      .sample([](Draw& draw) { return ctc_sample(draw, true); });

  ops.op("ctc_align")
      .doc("Labels from the class of every step: repeats merged, then blanks taken out")
      .in("Input", "int32 or int64 [rows, 1] in sequences, or with InputLength [batch, time]")
      .in_optional("InputLength", "int64 [batch, 1]: how many steps of each row count")
      .out("Output", "[labels, 1] in sequences, or [batch, time] filled up with padding_value")
      .out_optional("OutputLength", "[batch, 1], with InputLength: labels found")
      .attr("blank", 0, "the class that means no label")
      .attr("merge_repeated", true, "equal neighbours are one label")
      .attr("padding_value", 0, "what stands after the labels")
      .shape(ctc_align_shape)
      .traits({.host = true})
      .kernel(
          typed<int64_t, int32_t>([]<class T>(const KernelSite& s) { return ctc_align<T>(s); }));
}

}  // namespace trireme
