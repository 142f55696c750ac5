// sample_logits: of every row's logits those of its labels and of drawn classes, for a softmax over
// few classes instead of all.
#include <cmath>

#include "ops/loss/class_labels.h"
#include "ops/loss/class_sampler.h"
#include "ops/scratch.h"
#include "ops/sequence/sequence_spans.h"
#include "ops/tensor/random_source.h"

namespace trireme {
namespace {

constexpr double kLargest = 1e20;  // stands for infinity

void sample_logits_shape(OpView& op) {
  const ValueInfo& logits = op.in("Logits");
  const ValueInfo& labels = op.in("Labels");
  const bool given = op.attr<bool>("use_customized_samples");
  if (logits.shape.rank() != 2 || labels.shape.rank() != 2 ||
      !logits.shape[0].may_equal(labels.shape[0])) {
    throw op.error(cat("Logits has shape ", logits.shape, " and Labels ", labels.shape))
        .fix("give Logits [batch, classes] and Labels [batch, right classes]");
  }
  if (labels.known && labels.dtype != DType::int64 && labels.dtype != DType::int32) {
    throw op.error(cat("Labels holds ", name_of(labels.dtype), " but labels are int64"))
        .fix("feed the labels as int64");
  }
  if (given != (op.has("CustomizedSamples") && op.has("CustomizedProbabilities"))) {
    throw op
        .error(given ? "use_customized_samples needs both customized inputs"
                     : "customized samples are given but use_customized_samples is False")
        .fix("give CustomizedSamples and CustomizedProbabilities together with the attribute");
  }
  const int samples = op.attr<int32_t>("num_samples");
  const Dim classes = logits.shape[1];
  if (!given && op.attr<bool>("uniq") && classes.known() && samples > classes.value()) {
    throw op.error(cat("num_samples is ", samples, " but there are ", classes, " classes"))
        .fix("draw fewer classes than there are");
  }
  const Dim rows = Dim::join(logits.shape[0], labels.shape[0]);
  const Shape shape = {rows, labels.shape[1] + Dim(samples)};
  for (const char* slot : {"CustomizedSamples", "CustomizedProbabilities"}) {
    if (given && !op.in(slot).shape.may_equal(shape)) {
      throw op.error(cat(slot, " has shape ", op.in(slot).shape, " but ", shape, " is needed"))
          .fix("give the labels first, then num_samples classes, for every row");
    }
  }
  op.set_out("Samples", DType::int64, shape);
  op.set_out("Probabilities", logits.dtype, shape);
  op.set_out("SampledLogits", logits.dtype, shape);
  op.set_out("SampledLabels", DType::int64, {rows, labels.shape[1]});
  for (const std::string slot : {"Logits", "Labels"}) {
    Shape kept = op.in(slot).shape;
    kept.insert(0, 0);
    op.set_out(slot + "Dim", logits.dtype, kept);
  }
}

// The arrays that classes are drawn in: those drawn, and one bit for every class that is among
// them.
struct DrawMemory {
  int64_t* drawn;
  uint64_t* seen;
  int64_t words;  // of `seen`
  size_t bytes;

  DrawMemory(int64_t wanted, int64_t classes, std::byte* memory) : words((classes + 63) / 64) {
    Scratch scratch(memory);
    drawn = scratch.take<int64_t>(wanted);
    seen = scratch.take<uint64_t>(words);
    bytes = scratch.bytes();
  }
};

// The labels, then classes drawn once for all rows. How likely a class is to be among them is known
// from the number of tries it took to find enough different ones.
template <class T>
void draw_classes(const KernelArgs& k, int labels_at, const Philox& numbers, bool unique,
                  int64_t classes, int64_t right, const Shape& shape, int64_t* samples,
                  T* probabilities) {
  const LogUniformClasses source{classes};
  const int64_t rows = shape.at(0), columns = shape.at(1), wanted = columns - right;
  const ClassLabels labels(k.in(labels_at));
  const DrawMemory memory(wanted, classes, k.scratch);
  std::fill_n(memory.seen, memory.words, uint64_t{0});
  int64_t tries = 0, found = 0;
  while (found < wanted) {
    const int64_t value = source.at(numbers.uniform(static_cast<uint64_t>(tries++)));
    uint64_t& word = memory.seen[value / 64];
    const uint64_t bit = uint64_t{1} << (value % 64);
    if (!unique || (word & bit) == 0) memory.drawn[found++] = value;
    word |= bit;
  }
  for (int64_t i = 0; i < rows * columns; ++i) {
    const int64_t j = i % columns;
    samples[i] =
        j < right ? labels.checked(i / columns * right + j, classes) : memory.drawn[j - right];
    const double p = source.probability(samples[i]);
    const auto n = static_cast<double>(tries);
    probabilities[i] = static_cast<T>(tries == wanted ? p * n : -std::expm1(n * std::log1p(-p)));
  }
}

template <class T>
T finite(T value) {
  const auto largest = static_cast<T>(kLargest);
  return std::clamp(value, -largest, largest);
}

template <class T>
BoundKernel sample_logits(const KernelSite& site) {
  const int logits_at = site.position("Logits"), labels_at = site.position("Labels");
  const int given_at = site.position("CustomizedSamples"),
            given_probabilities_at = site.position("CustomizedProbabilities");
  const int samples_at = site.out_position("Samples"),
            probabilities_at = site.out_position("Probabilities"),
            sampled_at = site.out_position("SampledLogits"),
            new_labels_at = site.out_position("SampledLabels");
  const bool unique = site.attr<bool>("uniq"), remove = site.attr<bool>("remove_accidental_hits");
  const int64_t classes = site.in("Logits").shape.at(1), right = site.in("Labels").shape.at(1);
  const Shape shape = site.out("Samples").shape;
  const RandomSource source = random_source(site);
  BoundKernel kernel([=](const KernelArgs& k) {
    auto* samples = k.out<int64_t>(samples_at);
    T* probabilities = k.out<T>(probabilities_at);
    const int64_t columns = shape.at(1);
    if (k.has_in(given_at)) {
      for (int64_t i = 0; i < shape.count(); ++i) {
        samples[i] = ClassLabels(k.in(given_at)).checked(i, classes);
        probabilities[i] = k.in<T>(given_probabilities_at)[i];
      }
    } else {
      draw_classes(k, labels_at, source.philox(k), unique, classes, right, shape, samples,
                   probabilities);
    }
    for (int64_t i = 0; i < shape.count(); ++i) {
      const int64_t row = i / columns, *labels = samples + row * columns;
      T value = k.in<T>(logits_at)[row * classes + samples[i]];
      const bool hit = remove && i % columns >= right &&
                       std::find(labels, labels + right, samples[i]) != labels + right;
      if (hit) value -= static_cast<T>(kLargest);
      k.out<T>(sampled_at)[i] = finite(value - finite(std::log(probabilities[i])));
    }
    for (int64_t i = 0; i < k.out(new_labels_at).numel(); ++i) {
      k.out<int64_t>(new_labels_at)[i] = i % right;
    }
  });
  kernel.scratch = DrawMemory(shape.at(1) - right, classes, nullptr).bytes;
  return kernel;
}

template <class T>
BoundKernel sample_logits_grad(const KernelSite& site) {
  const int samples_at = site.position("Samples"), grad_at = site.position("SampledLogits@GRAD");
  const int64_t columns = site.in("Samples").shape.at(1),
                classes = site.out("Logits@GRAD").shape.at(1);
  return BoundKernel([=](const KernelArgs& k) {
    T* grad = k.out<T>(0);
    std::fill_n(grad, k.out(0).numel(), T{0});
    for (int64_t i = 0; i < k.in(samples_at).numel(); ++i) {
      grad[i / columns * classes + k.in<int64_t>(samples_at)[i]] += k.in<T>(grad_at)[i];
    }
  });
}

}  // namespace

void register_sample_logits(Registry& ops) {
  ops.op("sample_logits")
      .doc(
          "The logits of each row's labels and of classes drawn for all rows, corrected by how "
          "likely each class is to be drawn")
      .in("Logits", "[batch, classes]")
      .in("Labels", "int64 [batch, right classes]")
      .in_optional("CustomizedSamples", "int64 [batch, right + num_samples]: used as they are")
      .in_optional("CustomizedProbabilities", "[batch, right + num_samples]: how likely they were")
      .out_intermediate("Samples", "int64 [batch, right + num_samples]: the classes")
      .out_intermediate("Probabilities", "[batch, right + num_samples]")
      .out_intermediate("LogitsDim", "empty: keeps the shape of Logits")
      .out_intermediate("LabelsDim", "empty: keeps the shape of Labels")
      .out_intermediate("SampledLogits", "[batch, right + num_samples]")
      .out("SampledLabels", "int64 [batch, right]: where the labels stand in SampledLogits")
      .attr("use_customized_samples", false, "take the customized inputs instead of drawing")
      .attr("uniq", true, "draw no class twice")
      .attr("remove_accidental_hits", true, "a drawn class that is a label of the row gets -1e20")
      .required_attr<int32_t>("num_samples", "how many classes to draw")
      .at_least(1)
      .attr("seed", 0, "0: other classes in every run; else the same in every run")
      .shape(sample_logits_shape)
      .kernel(
          typed<float, double>([]<class T>(const KernelSite& s) { return sample_logits<T>(s); }))
      .grad({"LogitsDim", "LabelsDim", "Samples"})
      .grad_outs({"SampledLogits"})
      .no_grad({"Labels", "CustomizedSamples", "CustomizedProbabilities"})
      .grad_shape([](OpView& op) {
        Shape shape = op.in("LogitsDim").shape;
        shape.erase(0);
        op.set_out("Logits@GRAD", op.in("SampledLogits@GRAD").dtype, shape);
      })
      .grad_kernel(typed<float, double>(
          []<class T>(const KernelSite& s) { return sample_logits_grad<T>(s); }))
      .traits({.random = true, .can_fail = true})
      .sample([](Draw& draw) {
        OpSample sample;
        const int64_t rows = draw.size(1, 3), classes = draw.size(5, 8);
        sample.inputs["Logits"] = {draw.uniform({rows, classes})};
        sample.inputs["Labels"] = {draw.ints({rows, draw.size(1, 2)}, 0, classes - 1)};
        sample.attrs["num_samples"] = 3;
        sample.attrs["seed"] = 9;
        // -1e20 would hide every other number of the check.
        sample.attrs["remove_accidental_hits"] = false;
        return sample;
      });
}

}  // namespace trireme
