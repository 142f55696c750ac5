// Linear-chain conditional random fields: linear_chain_crf (the loss) and crf_decoding (the best
// path). Transition holds the start weights, the end weights, then one row per tag: from that tag
// to every other.
#include <algorithm>
#include <cmath>

#include "ops/loss/class_labels.h"
#include "ops/recurrent/recurrent_rules.h"
#include "ops/scratch.h"
#include "ops/sequence/sequence_rules.h"
#include "ops/sequence/sequence_spans.h"

namespace trireme {
namespace {

constexpr int64_t kStart = 0, kEnd = 1, kFirstTag = 2;  // rows of Transition

struct CrfFacts {
  Dim sequences, tags;
};

// Emission is [rows, tags] with LoD, or with Length [batch, time, tags].
CrfFacts crf_facts(const OpView& op) {
  const ValueInfo& emission = op.in("Emission");
  const Shape& transition = op.in("Transition").shape;
  const bool padded = op.has("Length");
  if (emission.shape.rank() != (padded ? 3 : 2)) {
    throw op.error(cat("Emission has shape ", emission.shape))
        .fix(padded ? "with Length give Emission [batch, time, tags]"
                    : "give Emission [rows, tags] with LoD, or give Length");
  }
  const Dim tags = Dim::join(emission.shape.back(), transition.rank() == 2 ? transition[1] : Dim());
  if (!transition.may_equal({tags + Dim(kFirstTag), tags}) ||
      !emission.shape.back().may_equal(tags)) {
    throw op
        .error(cat("Transition has shape ", transition, " but ", emission.shape.back(),
                   " tags need [", emission.shape.back() + Dim(kFirstTag), ", ",
                   emission.shape.back(), "]"))
        .fix("give Transition a start row, an end row and one row for every tag");
  }
  return {sequence_count(op, "Emission", "Length", emission.shape[0]), tags};
}

// One tag for every row of Emission; a trailing dimension of 1 is fine.
void check_tags(const OpView& op) {
  const ValueInfo& label = op.in("Label");
  if (label.known && label.dtype != DType::int64 && label.dtype != DType::int32) {
    throw op.error(cat("Label holds ", name_of(label.dtype), " but tags are int64"))
        .fix("feed the tags as int64");
  }
  Shape rows = op.in("Emission").shape;
  rows.erase(rows.rank() - 1);
  Shape with_one = rows;
  with_one.push_back(1);
  if (label.shape.may_equal(rows) || label.shape.may_equal(with_one)) return;
  throw op
      .error(cat("Label has shape ", label.shape, " but Emission ", op.in("Emission").shape,
                 " has rows ", rows))
      .fix(cat("give Label the shape ", with_one));
}

void crf_shape(OpView& op) {
  const CrfFacts facts = crf_facts(op);
  check_tags(op);
  const ValueInfo& emission = op.in("Emission");
  const DType dtype = emission.dtype;
  op.set_out("Alpha", dtype, emission.shape);
  op.set_out("EmissionExps", dtype, emission.shape);
  op.set_out("TransitionExps", dtype, {facts.tags + Dim(kFirstTag), facts.tags});
  op.set_out("LogLikelihood", dtype, {facts.sequences, 1});
}

// Divides a row by its sum and returns the sum.
template <class T>
T normalize(T* row, int64_t n) {
  T sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += row[i];
  for (int64_t i = 0; i < n; ++i) row[i] /= sum;
  return sum;
}

// Operands of one call, by row of Emission.
template <class T>
struct Chain {
  int64_t tags;
  const T* emission;
  const T* transition;
  ClassLabels label;
  const T* exps;             // e^(emission - its row's largest)
  const T* transition_exps;  // e^transition

  const T* x(int64_t row) const { return emission + row * tags; }
  const T* e(int64_t row) const { return exps + row * tags; }
  const T* w(int64_t row) const { return transition + row * tags; }
  const T* we(int64_t row) const { return transition_exps + row * tags; }
  int64_t tag(int64_t row) const { return label.checked(row, tags); }
};

// The score of the labelled path.
template <class T>
T path_score(const Chain<T>& c, const Span& s) {
  T score = c.w(kStart)[c.tag(s.row(0))] + c.w(kEnd)[c.tag(s.row(s.length - 1))];
  for (int64_t t = 0; t < s.length; ++t) {
    const int64_t row = s.row(t), tag = c.tag(row);
    score += c.x(row)[tag];
    if (t > 0) score += c.w(kFirstTag + c.tag(s.row(t - 1)))[tag];
  }
  return score;
}

// Fills alpha, each row scaled to sum one, and returns the logarithm of the sum over all paths.
template <class T>
T log_partition(const Chain<T>& c, const Span& s, T* alpha) {
  T log_sum = 0;
  for (int64_t t = 0; t < s.length; ++t) {
    T* a = alpha + s.row(t) * c.tags;
    const T* e = c.e(s.row(t));
    for (int64_t j = 0; j < c.tags; ++j) {
      T into = 0;
      if (t == 0) {
        into = c.we(kStart)[j];
      } else {
        const T* before = alpha + s.row(t - 1) * c.tags;
        for (int64_t i = 0; i < c.tags; ++i) into += before[i] * c.we(kFirstTag + i)[j];
      }
      a[j] = into * e[j];
    }
    const T* x = c.x(s.row(t));
    log_sum += *std::max_element(x, x + c.tags) + std::log(normalize(a, c.tags));
  }
  const T* last = alpha + s.row(s.length - 1) * c.tags;
  T sum = 0;
  for (int64_t j = 0; j < c.tags; ++j) sum += last[j] * c.we(kEnd)[j];
  return log_sum + std::log(sum);
}

template <class T>
BoundKernel crf(const KernelSite& site) {
  const int emission = site.position("Emission"), transition = site.position("Transition"),
            label = site.position("Label");
  const int alpha = site.out_position("Alpha"), exps = site.out_position("EmissionExps"),
            transition_exps = site.out_position("TransitionExps"),
            cost = site.out_position("LogLikelihood");
  const int64_t tags = site.in("Transition").shape.at(1);
  const SequenceSpans spans(site, "Emission", "Length");
  return BoundKernel([=](const KernelArgs& k) {
    const T* x = k.in<T>(emission);
    const int64_t rows = tags == 0 ? 0 : k.in(emission).numel() / tags;
    for (int64_t row = 0; row < rows; ++row) {
      const T* from = x + row * tags;
      const T top = *std::max_element(from, from + tags);
      for (int64_t j = 0; j < tags; ++j) k.out<T>(exps)[row * tags + j] = std::exp(from[j] - top);
    }
    for (int64_t i = 0; i < k.in(transition).numel(); ++i) {
      k.out<T>(transition_exps)[i] = std::exp(k.in<T>(transition)[i]);
    }
    std::fill_n(k.out<T>(alpha), rows * tags, T{0});
    const Chain<T> chain{tags,
                         x,
                         k.in<T>(transition),
                         ClassLabels(k.in(label)),
                         k.out<T>(exps),
                         k.out<T>(transition_exps)};
    for (int64_t s = 0; s < spans.sequences(); ++s) {
      // A sequence without rows costs nothing.
      const Span at = spans.at(k, s);
      T& out = k.out<T>(cost)[s];
      out = 0;
      if (at.length > 0) {
        out = log_partition(chain, at, k.out<T>(alpha)) - path_score(chain, at);
      }
    }
  });
}

// How likely each tag is at each row, less 1 for the labelled one, is the gradient of the emission;
// how likely each pair of neighbours, less 1 for the labelled pair, that of the transition. Both
// come from alpha and its mirror image beta, whose rows are scaled to sum one as well.
template <class T>
struct CrfGradMemory {
  T *beta, *pairs, *likely;  // [time, tags], [tags, tags], [tags]
  size_t bytes;

  CrfGradMemory(int64_t longest, int64_t tags, std::byte* memory) {
    Scratch scratch(memory);
    beta = scratch.take<T>(longest * tags);
    pairs = scratch.take<T>(tags * tags);
    likely = scratch.take<T>(tags);
    bytes = scratch.bytes();
  }
};

template <class T>
void crf_backward(const Chain<T>& c, const Span& s, const T* alpha, T grad, T* demission,
                  T* dtransition, const CrfGradMemory<T>& m) {
  const int64_t n = c.tags;
  T *beta = m.beta, *pairs = m.pairs, *likely = m.likely;
  for (int64_t t = s.length - 1; t >= 0; --t) {
    T* b = beta + t * n;
    for (int64_t i = 0; i < n; ++i) {
      b[i] = t == s.length - 1 ? c.we(kEnd)[i] : T{0};
      for (int64_t j = 0; t < s.length - 1 && j < n; ++j) {
        b[i] += c.we(kFirstTag + i)[j] * c.e(s.row(t + 1))[j] * b[n + j];
      }
    }
    normalize(b, n);
  }
  for (int64_t t = 0; t < s.length; ++t) {
    const int64_t row = s.row(t), tag = c.tag(row);
    for (int64_t j = 0; j < n; ++j) likely[j] = alpha[row * n + j] * beta[t * n + j];
    normalize(likely, n);
    likely[tag] -= 1;
    for (int64_t j = 0; j < n; ++j) {
      if (demission) demission[row * n + j] = grad * likely[j];
      if (dtransition && t == 0) dtransition[kStart * n + j] += grad * likely[j];
      if (dtransition && t == s.length - 1) dtransition[kEnd * n + j] += grad * likely[j];
    }
    if (!dtransition || t == 0) continue;
    const int64_t before = s.row(t - 1);
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        pairs[i * n + j] =
            alpha[before * n + i] * c.we(kFirstTag + i)[j] * c.e(row)[j] * beta[t * n + j];
      }
    }
    normalize(pairs, n * n);
    pairs[c.tag(before) * n + tag] -= 1;
    for (int64_t i = 0; i < n * n; ++i) dtransition[kFirstTag * n + i] += grad * pairs[i];
  }
}

template <class T>
BoundKernel crf_grad(const KernelSite& site) {
  const int emission = site.position("Emission"), transition = site.position("Transition"),
            label = site.position("Label"), alpha = site.position("Alpha"),
            exps = site.position("EmissionExps"), transition_exps = site.position("TransitionExps"),
            cost_grad = site.position("LogLikelihood@GRAD");
  const int demission = site.out_position("Emission@GRAD"),
            dtransition = site.out_position("Transition@GRAD");
  const int64_t tags = site.in("Transition").shape.at(1);
  const SequenceSpans spans(site, "Emission", "Length");
  BoundKernel kernel([=](const KernelArgs& k) {
    T* dx = out_or_null<T>(k, demission);
    T* dw = out_or_null<T>(k, dtransition);
    if (dx) std::fill_n(dx, k.in(emission).numel(), T{0});
    if (dw) std::fill_n(dw, k.in(transition).numel(), T{0});
    const Chain<T> chain{
        tags,          k.in<T>(emission),       k.in<T>(transition), ClassLabels(k.in(label)),
        k.in<T>(exps), k.in<T>(transition_exps)};
    const CrfGradMemory<T> memory(spans.longest(), tags, k.scratch);
    for (int64_t s = 0; s < spans.sequences(); ++s) {
      const Span at = spans.at(k, s);
      if (at.length == 0) continue;
      crf_backward(chain, at, k.in<T>(alpha), k.in<T>(cost_grad)[s], dx, dw, memory);
    }
  });
  kernel.scratch = CrfGradMemory<T>(spans.longest(), tags, nullptr).bytes;
  return kernel;
}

// ---- decoding

void decoding_shape(OpView& op) {
  crf_facts(op);
  if (op.has("Label")) check_tags(op);
  const Shape& emission = op.in("Emission").shape;
  op.set_out("ViterbiPath", DType::int64,
             op.has("Length") ? Shape{emission[0], emission[1]} : Shape{emission[0], 1});
  op.share_lod("Emission", "ViterbiPath");
}

template <class T>
struct DecodeMemory {  // both [time, tags]
  T* score;
  int64_t* from;
  size_t bytes;

  DecodeMemory(int64_t longest, int64_t tags, std::byte* memory) {
    Scratch scratch(memory);
    score = scratch.take<T>(longest * tags);
    from = scratch.take<int64_t>(longest * tags);
    bytes = scratch.bytes();
  }
};

// The path with the largest score; the lower tag wins a tie.
template <class T>
void best_path(int64_t n, const T* emission, const T* w, const Span& s, int64_t* path,
               const DecodeMemory<T>& m) {
  T* score = m.score;
  int64_t* from = m.from;
  for (int64_t t = 0; t < s.length; ++t) {
    for (int64_t j = 0; j < n; ++j) {
      T best = t == 0 ? w[kStart * n + j] : score[(t - 1) * n] + w[kFirstTag * n + j];
      int64_t before = 0;
      for (int64_t i = 1; t > 0 && i < n; ++i) {
        const T other = score[(t - 1) * n + i] + w[(kFirstTag + i) * n + j];
        if (other > best) {
          best = other;
          before = i;
        }
      }
      score[t * n + j] = best + emission[s.row(t) * n + j];
      from[t * n + j] = before;
    }
  }
  int64_t tag = 0;
  const T* last = score + (s.length - 1) * n;
  for (int64_t j = 1; j < n; ++j) {
    if (last[j] + w[kEnd * n + j] > last[tag] + w[kEnd * n + tag]) tag = j;
  }
  for (int64_t t = s.length - 1; t >= 0; --t) {
    path[s.row(t)] = tag;
    tag = from[t * n + tag];
  }
}

template <class T>
BoundKernel decode(const KernelSite& site) {
  const int emission = site.position("Emission"), transition = site.position("Transition"),
            label = site.position("Label"), path = site.out_position("ViterbiPath");
  const int64_t tags = site.in("Transition").shape.at(1);
  const SequenceSpans spans(site, "Emission", "Length");
  BoundKernel kernel([=](const KernelArgs& k) {
    const DecodeMemory<T> memory(spans.longest(), tags, k.scratch);
    auto* out = k.out<int64_t>(path);
    std::fill_n(out, k.out(path).numel(), int64_t{0});
    for (int64_t sequence = 0; sequence < spans.sequences(); ++sequence) {
      const Span s = spans.at(k, sequence);
      if (s.length == 0) continue;
      best_path(tags, k.in<T>(emission), k.in<T>(transition), s, out, memory);
      if (!k.has_in(label)) continue;
      for (int64_t t = 0; t < s.length; ++t) {
        out[s.row(t)] = out[s.row(t)] == int_at(k.in(label), s.row(t)) ? 1 : 0;
      }
    }
  });
  kernel.scratch = DecodeMemory<T>(spans.longest(), tags, nullptr).bytes;
  return kernel;
}

Tensor draw_tags(Draw& draw, const Shape& shape, int64_t tags, const Lod& lod) {
  Tensor label = draw.ints(shape, 0, tags - 1);
  label.set_lod(lod);
  return label;
}

OpSample crf_sample(Draw& draw, bool padded) {
  OpSample sample;
  const int64_t tags = draw.size(2, 4);
  sample.inputs["Transition"] = {draw.uniform({tags + kFirstTag, tags})};
  if (padded) {
    const int64_t batch = draw.size(1, 3), time = draw.size(1, 4);
    sample.inputs["Emission"] = {draw.uniform({batch, time, tags})};
    sample.inputs["Label"] = {draw_tags(draw, {batch, time, 1}, tags, {})};
    sample.inputs["Length"] = {draw.ints({batch, 1}, 0, time)};
  } else {
    const Tensor emission = draw_sequences(draw, {tags});
    sample.inputs["Emission"] = {emission};
    sample.inputs["Label"] = {draw_tags(draw, {emission.shape()[0], 1}, tags, emission.lod())};
  }
  return sample;
}

}  // namespace

void register_crf(Registry& ops) {
  ops.op("linear_chain_crf")
      .doc(
          "What a labelled sequence costs under a linear-chain conditional random field: the "
          "logarithm of the sum over all paths, less the score of the labelled one")
      .in("Emission", "[rows, tags] in sequences, or with Length [batch, time, tags]")
      .in("Transition", "[tags + 2, tags]: the start weights, the end weights, from tag to tag")
      .in("Label", "int64: the tag of every row")
      .in_optional("Length", "int64 [batch, 1]: how many rows of each padded sequence count")
      .out_intermediate("Alpha", "like Emission: forward sums, every row scaled to sum one")
      .out_intermediate("EmissionExps", "like Emission: e to the emission less its row's largest")
      .out_intermediate("TransitionExps", "like Transition: e to the transition")
      .out("LogLikelihood", "[sequences, 1]: the negative log likelihood, 0 for an empty sequence")
      .shape(crf_shape)
      .kernel(typed<float, double>([]<class T>(const KernelSite& s) { return crf<T>(s); }))
      .grad(
          {"Emission", "Transition", "Label", "Alpha", "EmissionExps", "TransitionExps", "Length"})
      .no_grad({"Label", "Length"})
      .grad_kernel(
          typed<float, double>([]<class T>(const KernelSite& s) { return crf_grad<T>(s); }))
      .traits({.can_fail = true})
      .sample([](Draw& draw) { return crf_sample(draw, false); })
      .sample([](Draw& draw) { return crf_sample(draw, true); });

  ops.op("crf_decoding")
      .doc("The best path of tags; with Label, 1 where it has the labelled tag and 0 elsewhere")
      .in("Emission", "[rows, tags] in sequences, or with Length [batch, time, tags]")
      .in("Transition", "[tags + 2, tags], as linear_chain_crf trains it")
      .in_optional("Label", "int64: the tag of every row")
      .in_optional("Length", "int64 [batch, 1]: how many rows of each padded sequence count")
      .out("ViterbiPath", "int64 [rows, 1] with Emission's LoD, or [batch, time], 0 past the end")
      .shape(decoding_shape)
      .kernel(typed<float, double>([]<class T>(const KernelSite& s) { return decode<T>(s); }))
      .traits({.can_fail = true})
      .sample([](Draw& draw) {
        OpSample sample = crf_sample(draw, draw.coin());
        if (draw.coin()) sample.inputs.erase("Label");
        return sample;
      });
}

}  // namespace trireme
