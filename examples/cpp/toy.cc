// The documents' toy in C++: one fully connected layer, its mean, SGD; then saved, loaded and run
// again.
#include <cstdio>
#include <filesystem>

#include "io/inference_model.h"
#include "layers/layers.h"
#include "layers/optimizer.h"
#include "runtime/executor.h"

using namespace trireme;

int main() {
  Var& x = layers::data("X", {1});
  Var& hidden = layers::fc(x, {.size = 10});
  Var& loss = layers::mean(hidden);
  const auto test_program = clone(default_main_program(), /*for_test=*/true);
  optimizer::Sgd(0.01).minimize(loss);

  Executor exe(cpu_place());
  exe.run(default_startup_program());
  const Tensor input = make_tensor<float>({4, 1}, {0.1f, 0.2f, 0.3f, 0.4f});
  for (int step = 0; step < 5; ++step) {
    const Tensor value = exe.run_one(default_main_program(), {{"X", input}}, loss.name());
    std::printf("step %d: loss %.6f\n", step, *value.data<float>());
  }
  const Tensor before = exe.run_one(*test_program, {{"X", input}}, hidden.name());

  const std::string folder = std::filesystem::temp_directory_path() / "trireme_toy_model";
  save_inference_model(folder, {"X"}, {hidden.name()}, default_main_program(), global_scope());
  Scope scope;
  const InferenceModel model = load_inference_model(folder, scope);
  const Tensor after =
      exe.run_one(*model.program, {{"X", input}}, model.targets[0], {.scope = &scope});
  std::filesystem::remove_all(folder);

  for (int64_t i = 0; i < before.numel(); ++i) {
    if (before.data<float>()[i] != after.data<float>()[i]) {
      std::printf("the loaded model gives another number at %d\n", static_cast<int>(i));
      return 1;
    }
  }
  std::printf("the loaded model gives the same %d numbers\n", static_cast<int>(before.numel()));
  return 0;
}
