// LeNet in C++ alone: learns to tell three drawn shapes apart, is saved, loaded and gives the same
// answers.
#include <cstdio>
#include <filesystem>

#include "core/random.h"
#include "io/inference_model.h"
#include "layers/layers.h"
#include "layers/optimizer.h"
#include "runtime/executor.h"

using namespace trireme;

namespace {

constexpr int kSide = 16, kBatch = 32, kClasses = 3;

struct Batch {
  Tensor images{DType::float32, {kBatch, 1, kSide, kSide}};
  Tensor labels{DType::int64, {kBatch, 1}};
};

// A square's outline, a cross or a full disc, at a random place, on noise.
Batch draw_batch(uint64_t number) {
  const Philox random(7, number);
  uint64_t next = 0;
  Batch batch;
  for (int i = 0; i < kBatch; ++i) {
    const int kind = static_cast<int>(random.uniform(next++) * kClasses);
    const int cx = 5 + static_cast<int>(random.uniform(next++) * 6);
    const int cy = 5 + static_cast<int>(random.uniform(next++) * 6);
    float* image = batch.images.data<float>() + i * kSide * kSide;
    for (int y = 0; y < kSide; ++y) {
      for (int x = 0; x < kSide; ++x) {
        const int dx = std::abs(x - cx), dy = std::abs(y - cy);
        const bool ink = kind == 0   ? std::max(dx, dy) == 4
                         : kind == 1 ? (dx == 0 && dy <= 4) || (dy == 0 && dx <= 4)
                                     : dx * dx + dy * dy <= 12;
        image[y * kSide + x] = static_cast<float>(ink ? 1.0 : 0.3 * random.uniform(next++));
      }
    }
    batch.labels.data<int64_t>()[i] = kind;
  }
  return batch;
}

}  // namespace

int main() {
  default_startup_program().set_seed(1);
  Var& image = layers::data("image", {1, kSide, kSide});
  Var& label = layers::data("label", {1}, {.dtype = DType::int64});
  Var& first = layers::simple_img_conv_pool(
      image, {.num_filters = 8, .filter_size = 3, .pool_size = 2, .pool_stride = 2, .act = "relu"});
  Var& second = layers::simple_img_conv_pool(
      first,
      {.num_filters = 16, .filter_size = 3, .pool_size = 2, .pool_stride = 2, .act = "relu"});
  Var& prediction = layers::fc(second, {.size = kClasses, .act = "softmax"});
  Var& loss = layers::mean(layers::cross_entropy(prediction, label));
  Var& accuracy = layers::accuracy(prediction, label);
  const auto test_program = clone(default_main_program(), /*for_test=*/true);
  optimizer::Adam(0.002).minimize(loss);

  Executor exe(cpu_place());
  exe.run(default_startup_program());
  for (uint64_t step = 0; step < 120; ++step) {
    const Batch batch = draw_batch(step);
    const auto results =
        exe.run(default_main_program(), {{"image", batch.images}, {"label", batch.labels}},
                {loss.name(), accuracy.name()});
    if (step % 30 == 29) {
      std::printf("step %3d: loss %.4f, accuracy %.3f\n", static_cast<int>(step + 1),
                  *results[0].tensor().data<float>(), *results[1].tensor().data<float>());
    }
  }
  const Batch unseen = draw_batch(1000);
  const auto results = exe.run(*test_program, {{"image", unseen.images}, {"label", unseen.labels}},
                               {accuracy.name(), prediction.name()});
  const float reached = *results[0].tensor().data<float>();
  std::printf("accuracy on unseen shapes: %.3f (goal 0.9)\n", reached);

  const std::string folder = std::filesystem::temp_directory_path() / "trireme_lenet_model";
  save_inference_model(folder, {"image"}, {prediction.name()}, default_main_program(),
                       global_scope(), {.params_filename = "params"});
  Scope scope;
  const InferenceModel model = load_inference_model(folder, scope, {.params_filename = "params"});
  const Tensor again =
      exe.run_one(*model.program, {{"image", unseen.images}}, model.targets[0], {.scope = &scope});
  std::filesystem::remove_all(folder);
  for (int64_t i = 0; i < again.numel(); ++i) {
    if (again.data<float>()[i] != results[1].tensor().data<float>()[i]) return 1;
  }
  std::printf("the loaded model gives the same answers\n");
  return reached >= 0.9f ? 0 : 1;
}
