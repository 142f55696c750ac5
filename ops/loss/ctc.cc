// Connectionist temporal classification: warpctc (the loss) and ctc_align (from a path to labels).
#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/loss/class_labels.h"
#include "ops/scratch.h"
#include "ops/sequence/sequence_rules.h"
#include "ops/sequence/sequence_spans.h"

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
  // The arrays that it works in, for sequences of up to so many steps and labels.
  struct Memory {
    int64_t* states;
    double *ahead, *behind;      // [time, states]
    double *log_probs, *likely;  // [time, classes]
    size_t bytes;

    Memory(int64_t time, int64_t labels, int64_t classes, std::byte* memory) {
      const int64_t count = 2 * labels + 1;
      Scratch scratch(memory);
      states = scratch.take<int64_t>(count);
      ahead = scratch.take<double>(time * count);
      behind = scratch.take<double>(time * count);
      log_probs = scratch.take<double>(time * classes);
      likely = scratch.take<double>(time * classes);
      bytes = scratch.bytes();
    }
  };

  Lattice(const ClassLabels& labels, const Span& span, int64_t classes, int64_t blank,
          const Memory& memory)
      : memory_(memory), count_(2 * span.length + 1), needed_(span.length) {
    std::fill_n(memory_.states, count_, blank);
    for (int64_t i = 0; i < span.length; ++i) {
      const int64_t label = labels[span.row(i)];
      if (label < 0 || label >= classes) {
        throw Error(ErrorKind::out_of_range,
                    cat("Label holds ", label, " but Logits has ", classes, " classes"))
            .fix(cat("give labels from 0 to ", classes - 1));
      }
      memory_.states[2 * i + 1] = label;
      // Equal neighbours need a blank between them, so a step of their own.
      if (i > 0 && label == memory_.states[2 * i - 1]) ++needed_;
    }
  }

  // The loss of the log probabilities, and how likely each class is at each step among the paths
  // that give the labels. Too few steps for the labels cost nothing, as in the original, and false
  // is returned.
  bool run(int64_t time, int64_t classes, double* loss) const {
    *loss = 0;
    if (needed_ > time || time == 0) return false;
    const int64_t count = count_, *states = memory_.states;
    const auto at = [&](int64_t t, int64_t s) { return t * count + s; };
    const auto log_prob = [&](int64_t t, int64_t s) {
      return memory_.log_probs[t * classes + states[s]];
    };
    double *ahead = memory_.ahead, *behind = memory_.behind;  // up to and with step t, and after it
    std::fill_n(ahead, time * count, kNever);
    std::fill_n(behind, time * count, kNever);
    for (int64_t s = 0; s < std::min<int64_t>(2, count); ++s) ahead[at(0, s)] = log_prob(0, s);
    for (int64_t t = 1; t < time; ++t) {
      for (int64_t s = 0; s < count; ++s) {
        double sum = ahead[at(t - 1, s)];
        if (s >= 1) sum = log_add(sum, ahead[at(t - 1, s - 1)]);
        if (s >= 2 && may_skip(s)) sum = log_add(sum, ahead[at(t - 1, s - 2)]);
        ahead[at(t, s)] = sum + log_prob(t, s);
      }
    }
    for (int64_t s = count - std::min<int64_t>(2, count); s < count; ++s) {
      behind[at(time - 1, s)] = 0;
    }
    for (int64_t t = time - 2; t >= 0; --t) {
      for (int64_t s = 0; s < count; ++s) {
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
    for (int64_t s = 0; s < count; ++s) total = log_add(total, ahead[at(0, s)] + behind[at(0, s)]);
    *loss = -total;
    std::fill_n(memory_.likely, time * classes, 0.0);
    for (int64_t t = 0; t < time; ++t) {
      for (int64_t s = 0; s < count; ++s) {
        memory_.likely[t * classes + states[s]] +=
            std::exp(ahead[at(t, s)] + behind[at(t, s)] - total);
      }
    }
    return true;
  }

 private:
  bool may_skip(int64_t s) const {
    return s % 2 == 1 && memory_.states[s] != memory_.states[s - 2];
  }

  Memory memory_;
  int64_t count_, needed_;
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
void log_softmax(const T* logits, const Span& s, int64_t classes, double* out) {
  for (int64_t t = 0; t < s.length; ++t) {
    const T* x = logits + s.row(t) * classes;
    const double top = static_cast<double>(*std::max_element(x, x + classes));
    double sum = 0;
    for (int64_t j = 0; j < classes; ++j) sum += std::exp(static_cast<double>(x[j]) - top);
    for (int64_t j = 0; j < classes; ++j) {
      out[t * classes + j] = static_cast<double>(x[j]) - top - std::log(sum);
    }
  }
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
  const int64_t time = logit_spans.longest(), labels = label_spans.longest();
  BoundKernel kernel([=](const KernelArgs& k) {
    const Lattice::Memory memory(time, labels, classes, k.scratch);
    const int64_t sequences = logit_spans.sequences();
    T* grad = k.out<T>(grad_at);
    std::fill_n(grad, k.out(grad_at).numel(), T{0});
    for (int64_t s = 0; s < sequences; ++s) {
      const Span span = logit_spans.at(k, s);
      log_softmax(k.in<T>(logits_at), span, classes, memory.log_probs);
      const Lattice lattice(ClassLabels(k.in(label_at)), label_spans.at(k, s), classes, blank,
                            memory);
      double loss = 0;
      const bool possible = lattice.run(span.length, classes, &loss);
      k.out<T>(loss_at)[s] = static_cast<T>(loss);
      for (int64_t t = 0; possible && t < span.length; ++t) {
        for (int64_t j = 0; j < classes; ++j) {
          const int64_t at = t * classes + j;
          grad[(t * sequences + s) * classes + j] =
              static_cast<T>(std::exp(memory.log_probs[at]) - memory.likely[at]);
        }
      }
    }
  });
  kernel.scratch = Lattice::Memory(time, labels, classes, nullptr).bytes;
  return kernel;
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
    const int64_t sequences = spans.sequences();
    for (int64_t s = 0; s < sequences; ++s) {
      const Span span = spans.at(k, s);
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
    for (int64_t s = 0; s < spans.sequences(); ++s) {
      std::vector<T> labels = align(input.data<T>(), spans.at(k, s), blank, merge);
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
