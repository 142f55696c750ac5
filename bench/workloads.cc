// Builds each timed program from layers, with the numbers that are fed to it.
#include "bench/workloads.h"

#include <cmath>
#include <map>

#include "core/error.h"
#include "core/random.h"
#include "core/text.h"
#include "layers/layers.h"
#include "layers/mixed_precision.h"
#include "layers/optimizer.h"

namespace trireme::bench {
namespace {

std::optional<DType> half;  // what the nets compute in where they can; none: float32

void minimise(std::shared_ptr<Optimizer> optimizer, Var& loss) {
  if (!half) {
    optimizer->minimize(loss);
    return;
  }
  const bool scales = *half == DType::float16;  // bfloat16 has the range of float32
  mixed_precision::OptimizerWithMixedPrecision(std::move(optimizer),
                                               {.init_loss_scaling = scales ? 32768.0 : 1.0,
                                                .use_dynamic_loss_scaling = scales,
                                                .half = *half})
      .minimize(loss);
}

Tensor noise(const Shape& shape, uint64_t stream) {
  const Philox random(3, stream);
  Tensor made(DType::float32, shape);
  for (int64_t i = 0; i < made.numel(); ++i) {
    made.data<float>()[i] = static_cast<float>(2 * random.uniform(static_cast<uint64_t>(i)) - 1);
  }
  return made;
}

Tensor classes(const Shape& shape, int64_t count, uint64_t stream) {
  const Philox random(4, stream);
  Tensor made(DType::int64, shape);
  for (int64_t i = 0; i < made.numel(); ++i) {
    made.data<int64_t>()[i] =
        static_cast<int64_t>(random.uniform(static_cast<uint64_t>(i)) * static_cast<double>(count));
  }
  return made;
}

Var& class_loss(Var& logits) {
  Var& label = layers::data("label", {1}, {.dtype = DType::int64});
  return layers::mean(layers::softmax_with_cross_entropy(logits, label));
}

Workload toy() {
  return {"toy",
          [&]() -> Var& {
            Var& x = layers::data("x", {1});
            Var& loss = layers::mean(layers::fc(x, {.size = 10}));
            minimise(std::make_shared<optimizer::Sgd>(0.01), loss);
            return loss;
          },
          {{"x", noise({10, 1}, 0)}}};
}

Workload fit_a_line() {
  return {"fit_a_line",
          []() -> Var& {
            Var& x = layers::data("x", {13});
            Var& y = layers::data("y", {1});
            Var& loss = layers::mean(layers::square_error_cost(layers::fc(x, {.size = 1}), y));
            minimise(std::make_shared<optimizer::Sgd>(0.01), loss);
            return loss;
          },
          {{"x", noise({20, 13}, 0)}, {"y", noise({20, 1}, 1)}}};
}

Workload mlp() {
  return {"mlp",
          []() -> Var& {
            Var& x = layers::data("x", {784});
            Var& first = layers::fc(x, {.size = 200, .act = "relu"});
            Var& second = layers::fc(first, {.size = 200, .act = "relu"});
            Var& loss = class_loss(layers::fc(second, {.size = 10}));
            minimise(std::make_shared<optimizer::Sgd>(0.01), loss);
            return loss;
          },
          {{"x", noise({64, 784}, 0)}, {"label", classes({64, 1}, 10, 0)}}};
}

Workload lenet() {
  return {"lenet",
          []() -> Var& {
            Var& x = layers::data("x", {1, 28, 28});
            const auto stage = [](Var& in, int maps) -> Var& {
              return layers::simple_img_conv_pool(in, {.num_filters = maps,
                                                       .filter_size = 5,
                                                       .pool_size = 2,
                                                       .pool_stride = 2,
                                                       .act = "relu"});
            };
            Var& loss = class_loss(layers::fc(stage(stage(x, 20), 50), {.size = 10}));
            minimise(std::make_shared<optimizer::Adam>(0.001), loss);
            return loss;
          },
          {{"x", noise({64, 1, 28, 28}, 0)}, {"label", classes({64, 1}, 10, 0)}}};
}

Workload ngram() {
  Feeds feeds{{"label", classes({100, 1}, 2073, 9)}};
  for (int i = 0; i < 4; ++i) {
    feeds[cat("word", i)] = classes({100, 1}, 2073, static_cast<uint64_t>(i));
  }
  return {
      "ngram",
      []() -> Var& {
        std::vector<Var*> words;
        for (int i = 0; i < 4; ++i) {
          Var& word = layers::data(cat("word", i), {1}, {.dtype = DType::int64});
          words.push_back(&layers::embedding(word, {.size = {2073, 32}, .param_attr = "shared_w"}));
        }
        Var& context = layers::concat(words, 1);
        Var& hidden = layers::fc(context, {.size = 256, .act = "sigmoid"});
        Var& loss = class_loss(layers::fc(hidden, {.size = 2073}));
        minimise(std::make_shared<optimizer::Sgd>(0.01), loss);
        return loss;
      },
      std::move(feeds)};
}

Var& conv_bn(Var& in, int maps, int window, int stride, const char* act, bool bias = false) {
  layers::Conv2dOptions options{
      .num_filters = maps, .filter_size = window, .stride = stride, .padding = window / 2};
  if (!bias) options.bias_attr = false;
  return layers::batch_norm(layers::conv2d(in, options), {.act = act});
}

Workload vgg16() {
  return {"vgg16",
          []() -> Var& {
            Var* x = &layers::data("x", {3, 32, 32});
            for (const int maps :
                 {64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0}) {
              x = maps ? &conv_bn(*x, maps, 3, 1, "relu", true)
                       : &layers::pool2d(*x, {.pool_size = 2, .pool_stride = 2});
            }
            Var& hidden = layers::batch_norm(layers::fc(*x, {.size = 512}), {.act = "relu"});
            Var& loss = class_loss(layers::fc(hidden, {.size = 10}));
            minimise(std::make_shared<optimizer::Momentum>(0.01, 0.9), loss);
            return loss;
          },
          {{"x", noise({32, 3, 32, 32}, 0)}, {"label", classes({32, 1}, 10, 0)}}};
}

Var& bottleneck(Var& in, int maps, int stride, bool project) {
  Var& first = conv_bn(in, maps, 1, 1, "relu");
  Var& second = conv_bn(first, maps, 3, stride, "relu");
  Var& third = conv_bn(second, 4 * maps, 1, 1, "");
  Var& way = project ? conv_bn(in, 4 * maps, 1, stride, "") : in;
  return layers::elementwise_add(third, way, {.act = "relu"});
}

Workload resnet50() {
  return {"resnet50",
          []() -> Var& {
            Var* x = &conv_bn(layers::data("x", {3, 224, 224}), 64, 7, 2, "relu");
            x = &layers::pool2d(*x, {.pool_size = 3, .pool_stride = 2, .pool_padding = 1});
            const int blocks[] = {3, 4, 6, 3};
            for (int stage = 0; stage < 4; ++stage) {
              for (int i = 0; i < blocks[stage]; ++i) {
                x = &bottleneck(*x, 64 << stage, i == 0 && stage > 0 ? 2 : 1, i == 0);
              }
            }
            x = &layers::pool2d(*x, {.pool_type = "avg", .global_pooling = true});
            Var& loss = class_loss(layers::fc(*x, {.size = 1000}));
            minimise(std::make_shared<optimizer::Momentum>(0.01, 0.9), loss);
            return loss;
          },
          {{"x", noise({8, 3, 224, 224}, 0)}, {"label", classes({8, 1}, 1000, 0)}}};
}

// 32 sequences of 100 words: embedding, one LSTM, the largest of each feature over time.
Workload lstm() {
  Tensor words = classes({3200, 1}, 5147, 0);
  Lod lod(1);
  for (size_t i = 0; i <= 32; ++i) lod[0].push_back(i * 100);
  words.set_lod(lod);
  return {"lstm",
          []() -> Var& {
            Var& words = layers::data("words", {1}, {.dtype = DType::int64, .lod_level = 1});
            Var& embedded = layers::embedding(words, {.size = {5147, 512}});
            Var& gates = layers::fc(embedded, {.size = 2048});
            Var& hidden =
                layers::dynamic_lstm(gates, {.size = 2048, .use_peepholes = false}).hidden;
            Var& loss = class_loss(layers::fc(layers::sequence_pool(hidden, "max"), {.size = 2}));
            minimise(std::make_shared<optimizer::Adam>(0.001), loss);
            return loss;
          },
          {{"words", words}, {"label", classes({32, 1}, 2, 1)}}};
}

// One encoder layer out of plain ops: attention of 8 heads, then two products with a relu between.
Var& encoder_layer(Var& x, int64_t width) {
  constexpr int64_t kHeads = 8;
  const auto dense = [](Var& in, int64_t size, const char* act = "") -> Var& {
    return layers::fc(in, {.size = size, .num_flatten_dims = 2, .act = act});
  };
  const auto heads = [&](Var& in) -> Var& {
    Var& split = layers::reshape(in, {0, 0, kHeads, width / kHeads});
    return layers::transpose(split, {0, 2, 1, 3});
  };
  const std::vector<Var*> parts = layers::split(dense(x, 3 * width), 3, -1);
  Var& query = heads(*parts[0]);
  Var& key = heads(*parts[1]);
  Var& value = heads(*parts[2]);
  const auto of_head = width / kHeads;
  const double scale = 1 / std::sqrt(static_cast<double>(of_head));
  Var& weights = layers::softmax(layers::matmul(query, key, {.transpose_y = true, .alpha = scale}));
  Var& mixed = layers::transpose(layers::matmul(weights, value), {0, 2, 1, 3});
  Var& attended = dense(layers::reshape(mixed, {0, 0, width}), width);
  Var& first = layers::layer_norm(layers::elementwise_add(x, attended), {.begin_norm_axis = 2});
  Var& wide = dense(dense(first, 4 * width, "relu"), width);
  return layers::layer_norm(layers::elementwise_add(first, wide), {.begin_norm_axis = 2});
}

Workload transformer() {
  return {"transformer",
          []() -> Var& {
            Var* x = &layers::data("x", {64, 512});
            for (int layer = 0; layer < 6; ++layer) x = &encoder_layer(*x, 512);
            Var& loss = class_loss(layers::reshape(*x, {-1, 512}));
            minimise(std::make_shared<optimizer::Adam>(0.0001), loss);
            return loss;
          },
          {{"x", noise({8, 64, 512}, 0)}, {"label", classes({512, 1}, 512, 0)}}};
}

// Wide and deep: 26 slots share a table of a million rows; 13 dense features.
Var& click_loss() {
  Var& dense = layers::data("dense", {13});
  Var& slots = layers::data("slots", {26, 1}, {.dtype = DType::int64});
  Var& label = layers::data("label", {1});
  Var& rows = layers::embedding(slots, {.size = {1000000, 10}, .is_sparse = true});
  const std::vector<Var*> features{&layers::reshape(rows, {-1, 260}), &dense};
  Var* deep = &layers::concat(features, 1);
  for (int i = 0; i < 3; ++i) deep = &layers::fc(*deep, {.size = 400, .act = "relu"});
  Var& logit =
      layers::elementwise_add(layers::fc(*deep, {.size = 1}), layers::fc(dense, {.size = 1}));
  return layers::mean(layers::sigmoid_cross_entropy_with_logits(logit, label));
}

Feeds click_feeds() {
  Tensor label = noise({512, 1}, 2);
  for (int64_t i = 0; i < 512; ++i) label.data<float>()[i] = label.data<float>()[i] > 0 ? 1 : 0;
  return {{"dense", noise({512, 13}, 0)},
          {"slots", classes({512, 26, 1}, 1000000, 1)},
          {"label", label}};
}

Workload ctr_sgd() {
  return {"ctr_sgd",
          []() -> Var& {
            Var& loss = click_loss();
            minimise(std::make_shared<optimizer::Sgd>(0.01), loss);
            return loss;
          },
          click_feeds()};
}

Workload ctr_adagrad() {
  return {"ctr_adagrad",
          []() -> Var& {
            Var& loss = click_loss();
            minimise(std::make_shared<optimizer::Adagrad>(0.01), loss);
            return loss;
          },
          click_feeds()};
}

const std::map<std::string, Workload (*)()>& table() {
  static const std::map<std::string, Workload (*)()> made{{"toy", toy},
                                                          {"fit_a_line", fit_a_line},
                                                          {"mlp", mlp},
                                                          {"lenet", lenet},
                                                          {"ngram", ngram},
                                                          {"vgg16", vgg16},
                                                          {"resnet50", resnet50},
                                                          {"lstm", lstm},
                                                          {"transformer", transformer},
                                                          {"ctr_sgd", ctr_sgd},
                                                          {"ctr_adagrad", ctr_adagrad}};
  return made;
}

}  // namespace

std::vector<std::string> workload_names() {
  std::vector<std::string> names;
  for (const auto& [name, make] : table()) names.push_back(name);
  return names;
}

Workload workload(const std::string& name, std::optional<DType> computes_in) {
  half = computes_in;
  const auto found = table().find(name);
  if (found == table().end()) {
    throw Error(cat("there is no workload ", name))
        .fix(cat("choose from ", join(workload_names())));
  }
  return found->second();
}

}  // namespace trireme::bench
