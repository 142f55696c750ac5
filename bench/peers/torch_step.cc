// One training step of PyTorch from C++, on the small nets of bench/workloads.cc; one JSON line.
//
// torch_step NAME [--reps N] [--secs S]
// Only where a step is short does it matter who calls. Threads are OMP_NUM_THREADS.
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace nn = torch::nn;
using torch::Tensor;

namespace {

struct Workload {
  nn::Sequential model;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  Tensor x;
  std::function<Tensor(const Tensor&)> loss;
};

std::function<Tensor(const Tensor&)> class_loss(int64_t rows, int64_t count) {
  const Tensor label = torch::randint(count, {rows}, torch::kInt64);
  return [label](const Tensor& out) { return torch::nn::functional::cross_entropy(out, label); };
}

std::unique_ptr<torch::optim::Optimizer> sgd(nn::Sequential& model) {
  return std::make_unique<torch::optim::SGD>(model->parameters(), 0.01);
}

Workload make(const std::string& name) {
  if (name == "toy") {
    nn::Sequential model(nn::Linear(1, 10));
    return {model, sgd(model), torch::randn({10, 1}), [](const Tensor& out) { return out.mean(); }};
  }
  if (name == "fit_a_line") {
    nn::Sequential model(nn::Linear(13, 1));
    const Tensor y = torch::randn({20, 1});
    return {model, sgd(model), torch::randn({20, 13}),
            [y](const Tensor& out) { return torch::mse_loss(out, y); }};
  }
  if (name == "mlp") {
    nn::Sequential model(nn::Linear(784, 200), nn::ReLU(), nn::Linear(200, 200), nn::ReLU(),
                         nn::Linear(200, 10));
    return {model, sgd(model), torch::randn({64, 784}), class_loss(64, 10)};
  }
  if (name == "lenet") {
    nn::Sequential model(nn::Conv2d(1, 20, 5), nn::ReLU(), nn::MaxPool2d(2), nn::Conv2d(20, 50, 5),
                         nn::ReLU(), nn::MaxPool2d(2), nn::Flatten(), nn::Linear(800, 10));
    return {model, std::make_unique<torch::optim::Adam>(model->parameters(), 1e-3),
            torch::randn({64, 1, 28, 28}), class_loss(64, 10)};
  }
  std::fprintf(stderr, "there is no workload %s in C++\n", name.c_str());
  std::exit(1);
}

double seconds(const std::function<void()>& step, int times) {
  const auto before = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) step();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
}

}  // namespace

int main(int count, char** words) {
  std::string name = "toy";
  int reps = 9;
  double secs = 1;
  for (int i = 1; i < count; ++i) {
    if (i + 1 < count && std::strcmp(words[i], "--reps") == 0) {
      reps = std::atoi(words[++i]);
    } else if (i + 1 < count && std::strcmp(words[i], "--secs") == 0) {
      secs = std::atof(words[++i]);
    } else {
      name = words[i];
    }
  }
  torch::manual_seed(0);
  Workload work = make(name);
  const auto step = [&] {
    work.optimizer->zero_grad();
    work.loss(work.model->forward(work.x)).backward();
    work.optimizer->step();
  };
  seconds(step, 3);
  int steps = 1;
  double spent = seconds(step, 1);
  while (spent < secs / 4) spent = seconds(step, steps *= 4);
  steps = std::max(1, static_cast<int>(steps * secs / spent));
  std::vector<double> times;
  const std::clock_t cpu = std::clock();
  for (int r = 0; r < reps; ++r) times.push_back(seconds(step, steps) / steps);
  const double each = static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC / steps / reps;
  std::sort(times.begin(), times.end());
  std::printf(
      "{\"name\": \"%s\", \"threads\": %d, \"ms\": %.5f, \"cpu_ms\": %.5f, \"version\": \"%s\"}\n",
      name.c_str(), torch::get_num_threads(), times[times.size() / 2] * 1e3, each * 1e3,
      TORCH_VERSION);
  return 0;
}
