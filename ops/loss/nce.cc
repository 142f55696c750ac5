// nce: noise-contrastive estimation. Instead of all classes, the right ones are told apart from a
// few drawn ones.
#include <algorithm>

#include "ops/loss/class_labels.h"
#include "ops/loss/class_sampler.h"
#include "ops/recurrent/recurrent_rules.h"
#include "ops/sequence/sequence_spans.h"
#include "ops/tensor/random_source.h"

namespace trireme {
namespace {

enum Sampler { kUniform = 0, kLogUniform = 1, kCustom = 2 };

void nce_shape(OpView& op) {
  const Shape& input = op.in("Input").shape;
  const Shape& label = op.in("Label").shape;
  const Shape& weight = op.in("Weight").shape;
  const Dim classes(op.attr<int32_t>("num_total_classes"));
  if (input.rank() != 2 || !weight.may_equal({classes, input[1]})) {
    throw op
        .error(
            cat("Input has shape ", input, " and Weight ", weight, ", for ", classes, " classes"))
        .fix("give Input [batch, width] and Weight [num_total_classes, width]");
  }
  if (op.has("Bias") && !op.in("Bias").shape.numel().may_equal(classes)) {
    throw op
        .error(cat("Bias has shape ", op.in("Bias").shape, " but there are ", classes, " classes"))
        .fix(cat("give Bias the shape [", classes, ", 1]"));
  }
  const ValueInfo& labels = op.in("Label");
  if (labels.known && labels.dtype != DType::int64 && labels.dtype != DType::int32) {
    throw op.error(cat("Label holds ", name_of(labels.dtype), " but labels are int64"))
        .fix("feed the labels as int64");
  }
  if (label.rank() < 1 || label.rank() > 2 || !label[0].may_equal(input[0])) {
    throw op.error(cat("Label has shape ", label, " but Input has ", input[0], " rows"))
        .fix("give Label [batch, right classes]");
  }
  if (op.has("SampleWeight") && !op.in("SampleWeight").shape.numel().may_equal(input[0])) {
    throw op
        .error(cat("SampleWeight has shape ", op.in("SampleWeight").shape, " but Input has ",
                   input[0], " rows"))
        .fix("give one weight for every row");
  }
  const int sampler = op.attr<int32_t>("sampler");
  if (sampler == kCustom &&
      !(op.has("CustomDistProbs") && op.has("CustomDistAlias") && op.has("CustomDistAliasProbs"))) {
    throw op.error("sampler 2 needs CustomDistProbs, CustomDistAlias and CustomDistAliasProbs")
        .fix("give all three tables, one entry for every class");
  }
  const auto custom = op.attr<std::vector<int32_t>>("custom_neg_classes");
  const Dim negatives = custom.empty() ? Dim(op.attr<int32_t>("num_neg_samples"))
                                       : Dim(static_cast<int64_t>(custom.size()));
  const Dim columns = (label.rank() == 2 ? label[1] : Dim(1)) + negatives;
  const Dim rows = Dim::join(input[0], label[0]);
  op.set_out("Cost", op.in("Input").dtype, {rows, 1});
  op.set_out("SampleLogits", op.in("Input").dtype, {rows, columns});
  op.set_out("SampleLabels", DType::int64, {rows, columns});
}

// What forward and gradient share: which operands there are and how likely a class is drawn.
struct Nce {
  int input, label, weight, bias, row_weight, probabilities, alias, alias_probabilities;
  int64_t rows, width, classes, right, columns;
  int sampler;
  std::vector<int32_t> custom;
  double negatives;

  explicit Nce(const KernelSite& site)
      : input(site.position("Input")),
        label(site.position("Label")),
        weight(site.position("Weight")),
        bias(site.position("Bias")),
        row_weight(site.position("SampleWeight")),
        probabilities(site.position("CustomDistProbs")),
        alias(site.position("CustomDistAlias")),
        alias_probabilities(site.position("CustomDistAliasProbs")),
        rows(site.in("Input").shape.at(0)),
        width(site.in("Input").shape.at(1)),
        classes(site.attr<int32_t>("num_total_classes")),
        right(site.in("Label").shape.rank() == 2 ? site.in("Label").shape.at(1) : 1),
        sampler(site.attr<int32_t>("sampler")),
        custom(site.attr<std::vector<int32_t>>("custom_neg_classes")),
        negatives(site.attr<int32_t>("num_neg_samples")) {
    columns = right + (custom.empty() ? site.attr<int32_t>("num_neg_samples")
                                      : static_cast<int64_t>(custom.size()));
  }

  AliasClasses custom_classes(const KernelArgs& k) const {
    return {&k.in(probabilities), &k.in(alias), &k.in(alias_probabilities)};
  }
  // The last class is never drawn by the log-uniform sampler, as in the original.
  LogUniformClasses log_uniform() const { return {classes - 1}; }

  // How often the class is expected among the drawn ones.
  double noise(const KernelArgs& k, int64_t value) const {
    double p = 1.0 / static_cast<double>(classes);
    if (sampler == kLogUniform) p = log_uniform().probability(value);
    if (sampler == kCustom) p = custom_classes(k).probability(value);
    return p * negatives;
  }

  int64_t draw(const KernelArgs& k, const Philox& numbers, uint64_t i) const {
    const double u = numbers.uniform(2 * i);
    if (sampler == kLogUniform) return log_uniform().at(u);
    if (sampler == kCustom) return custom_classes(k).at(u, numbers.uniform(2 * i + 1));
    return static_cast<int64_t>(u * static_cast<double>(classes));
  }

  // The right classes, then the others, for every row.
  void choose(const KernelArgs& k, const RandomSource& source, int64_t* chosen) const {
    const Philox numbers = source.philox(k);
    const ClassLabels labels(k.in(label));
    for (int64_t i = 0; i < rows * columns; ++i) {
      const int64_t row = i / columns, j = i % columns;
      if (j < right) {
        chosen[i] = labels.checked(row * right + j, classes);
      } else if (!custom.empty()) {
        chosen[i] = custom[static_cast<size_t>(j - right)];
        if (chosen[i] < 0 || chosen[i] >= classes) {
          throw Error(ErrorKind::out_of_range, cat("custom_neg_classes holds ", chosen[i],
                                                   " but there are ", classes, " classes"))
              .fix(cat("use classes from 0 to ", classes - 1));
        }
      } else {
        chosen[i] = draw(k, numbers, static_cast<uint64_t>(i));
      }
    }
  }
};

// With o the sigmoid of a class's score and b how often it is drawn, a right class costs
// -log(o / (o + b)) and a drawn one -log(b / (o + b)).
template <class T>
BoundKernel nce(const KernelSite& site) {
  const int cost = site.out_position("Cost"), logits = site.out_position("SampleLogits"),
            chosen_at = site.out_position("SampleLabels");
  return BoundKernel([=, op = Nce(site), source = random_source(site)](const KernelArgs& k) {
    auto* chosen = k.out<int64_t>(chosen_at);
    op.choose(k, source, chosen);
    for (int64_t row = 0; row < op.rows; ++row) {
      const T* x = k.in<T>(op.input) + row * op.width;
      const T scale = k.has_in(op.row_weight) ? k.in<T>(op.row_weight)[row] : T{1};
      T sum = 0;
      for (int64_t j = 0; j < op.columns; ++j) {
        const int64_t at = row * op.columns + j, value = chosen[at];
        const T* w = k.in<T>(op.weight) + value * op.width;
        T score = k.has_in(op.bias) ? k.in<T>(op.bias)[value] : T{0};
        for (int64_t i = 0; i < op.width; ++i) score += x[i] * w[i];
        const T o = T{1} / (T{1} + std::exp(-score)), b = static_cast<T>(op.noise(k, value));
        k.out<T>(logits)[at] = o;
        sum += -std::log((j < op.right ? o : b) / (o + b));
      }
      k.out<T>(cost)[row] = scale * sum;
    }
  });
}

// The sparse gradient of Weight has one row for every chosen class, repeats included.
void nce_grad_shape(OpView& op) {
  for (const std::string slot : {"Input", "Bias", "Weight"}) {
    if (op.has(slot)) op.set_out_like(slot + "@GRAD", op.in(slot));
  }
  if (!op.wants("Weight@GRAD") || !op.attr<bool>("is_sparse")) return;
  ValueInfo& grad = op.out("Weight@GRAD");
  grad.type = VarType::selected_rows;
  grad.height = op.in("Weight").shape[0].value();
  grad.shape = {op.in("SampleLabels").shape.numel(), op.in("Weight").shape[1]};
}

template <class T>
BoundKernel nce_grad(const KernelSite& site) {
  const int logits = site.position("SampleLogits"), chosen_at = site.position("SampleLabels"),
            dcost = site.position("Cost@GRAD");
  const int dinput = site.out_position("Input@GRAD"), dweight = site.out_position("Weight@GRAD"),
            dbias = site.out_position("Bias@GRAD");
  const bool sparse = site.attr<bool>("is_sparse");
  return BoundKernel([=, op = Nce(site)](const KernelArgs& k) {
    const auto* chosen = k.in<int64_t>(chosen_at);
    T* dx = out_or_null<T>(k, dinput);
    T* db = out_or_null<T>(k, dbias);
    T* dw = nullptr;
    if (k.has_out(dweight) && sparse) {
      SelectedRows& grad = k.outs[dweight]->rows();
      grad.height = op.classes;
      grad.rows.assign(chosen, chosen + op.rows * op.columns);
      dw = grad.value.data<T>();
      std::fill_n(dw, grad.value.numel(), T{0});
    } else if (k.has_out(dweight)) {
      dw = k.out<T>(dweight);
      std::fill_n(dw, op.classes * op.width, T{0});
    }
    if (dx) std::fill_n(dx, op.rows * op.width, T{0});
    if (db) std::fill_n(db, op.classes, T{0});
    for (int64_t at = 0; at < op.rows * op.columns; ++at) {
      const int64_t row = at / op.columns, value = chosen[at];
      const T o = k.in<T>(logits)[at], b = static_cast<T>(op.noise(k, value));
      const T scale = k.has_in(op.row_weight) ? k.in<T>(op.row_weight)[row] : T{1};
      const bool is_right = at % op.columns < op.right;
      const T slope = is_right ? b * (o - T{1}) / (o + b) : o * (T{1} - o) / (o + b);
      const T grad = slope * scale * k.in<T>(dcost)[row];
      const T* x = k.in<T>(op.input) + row * op.width;
      const T* w = k.in<T>(op.weight) + value * op.width;
      T* to = dw ? dw + (sparse ? at : value) * op.width : nullptr;
      for (int64_t i = 0; i < op.width; ++i) {
        if (dx) dx[row * op.width + i] += grad * w[i];
        if (to) to[i] += grad * x[i];
      }
      if (db) db[value] += grad;
    }
  });
}

OpSample nce_sample(Draw& draw, int sampler) {
  OpSample sample;
  const int64_t rows = draw.size(1, 3), width = draw.size(1, 3), classes = draw.size(3, 5);
  sample.inputs["Input"] = {draw.uniform({rows, width})};
  sample.inputs["Label"] = {draw.ints({rows, draw.size(1, 2)}, 0, classes - 1)};
  sample.inputs["Weight"] = {draw.uniform({classes, width})};
  if (draw.coin()) sample.inputs["Bias"] = {draw.uniform({classes, 1})};
  sample.attrs["num_total_classes"] = static_cast<int32_t>(classes);
  sample.attrs["num_neg_samples"] = 3;
  sample.attrs["sampler"] = sampler;
  sample.attrs["seed"] = 7;
  sample.attrs["is_sparse"] = draw.coin();
  if (sampler == kCustom) {
    // All classes alike: every class fills its place alone.
    const auto n = static_cast<size_t>(classes);
    const std::vector<float> even(n, 1.0f / static_cast<float>(n)), ones(n, 1.0f);
    const std::vector<int32_t> none(n, -1);
    sample.inputs["CustomDistProbs"] = {make_tensor<float>({classes}, std::span(even))};
    sample.inputs["CustomDistAlias"] = {make_tensor<int32_t>({classes}, std::span(none))};
    sample.inputs["CustomDistAliasProbs"] = {make_tensor<float>({classes}, std::span(ones))};
  }
  return sample;
}

}  // namespace

void register_nce(Registry& ops) {
  OpSchema& row =
      ops.op("nce")
          .doc(
              "Noise-contrastive estimation: tells the right classes from num_neg_samples drawn "
              "ones instead of from all")
          .in("Input", "[batch, width]")
          .in("Label", "int64 [batch, right classes]")
          .in("Weight", "[num_total_classes, width]")
          .in_optional("Bias", "[num_total_classes, 1]")
          .in_optional("SampleWeight", "[batch, 1]: multiplies a row's cost")
          .in_optional("CustomDistProbs", "float32 [num_total_classes]: how likely each is drawn")
          .in_optional("CustomDistAlias", "int32: the class that shares a class's place; -1: none")
          .in_optional("CustomDistAliasProbs", "float32: how much of its place a class keeps")
          .out("Cost", "[batch, 1]")
          .out_intermediate("SampleLogits", "[batch, right + drawn]: sigmoid of the scores")
          .out_intermediate("SampleLabels", "int64 [batch, right + drawn]: the classes")
          .required_attr<int32_t>("num_total_classes", "how many classes there are")
          .at_least(2)
          .attr("num_neg_samples", 10, "how many classes are drawn for a row")
          .at_least(1)
          .attr("sampler", 0, "0 uniform, 1 log-uniform, 2 by the three tables")
          .between(0, 2)
          .attr("seed", 0, "0: other classes in every run; else the same in every run")
          .attr("is_sparse", false, "the gradient of Weight holds only the rows used")
          .attr("remote_prefetch", false, "fetch rows from parameter servers")
          .attr("trainer_id", 0, "this trainer's number, for parameter servers")
          .attr("height_sections", std::vector<int64_t>{}, "rows kept by each parameter server")
          .attr("epmap", std::vector<std::string>{}, "addresses of the parameter servers")
          .attr("table_names", std::vector<std::string>{}, "names of the table's parts there")
          .attr("custom_neg_classes", std::vector<int32_t>{},
                "used instead of drawn ones, by tests")
          .shape(nce_shape)
          .kernel(typed<float, double>([]<class T>(const KernelSite& s) { return nce<T>(s); }))
          .grad({"Input", "Label", "Bias", "Weight", "SampleLogits", "SampleLabels", "SampleWeight",
                 "CustomDistProbs", "CustomDistAlias", "CustomDistAliasProbs"})
          .no_grad({"Label", "SampleWeight", "CustomDistProbs", "CustomDistAlias",
                    "CustomDistAliasProbs"})
          .sparse_grad("Weight")
          .grad_shape(nce_grad_shape)
          .grad_kernel(
              typed<float, double>([]<class T>(const KernelSite& s) { return nce_grad<T>(s); }))
          .traits({.random = true, .can_fail = true});
  for (const int sampler : {kUniform, kLogUniform, kCustom}) {
    row.sample([=](Draw& draw) { return nce_sample(draw, sampler); });
  }
}

}  // namespace trireme
