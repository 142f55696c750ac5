// A plane through noisy points, learned with parameter servers from a program without Python.
//
//   .venv/bin/python -m paddle.distributed.launch_ps --server_num 2 --worker_num 2
//   build/release/examples/plane
//
// The launcher starts this program for every server and trainer and says which it is in the
// environment. Each trainer draws points of its own; ends with 1 unless what it has learned is the
// plane.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "layers/layers.h"
#include "layers/loss.h"
#include "layers/optimizer.h"
#include "runtime/executor.h"
#include "transpiler/distribute.h"

using namespace trireme;

namespace {

constexpr int kSteps = 300, kBatch = 32, kInputs = 8;

std::string from_environment(const char* name, const char* otherwise = nullptr) {
  const char* value = std::getenv(name);
  if (value || otherwise) return value ? value : otherwise;
  std::fprintf(stderr, "%s is not set: start this program with launch_ps\n", name);
  std::exit(2);
}

double slope(int i) { return 0.5 * i - 1.5; }

void draw_points(std::mt19937& draw, Tensor& x, Tensor& y) {
  std::uniform_real_distribution<float> place(-1, 1);
  std::normal_distribution<float> noise(0, 0.01f);
  for (int row = 0; row < kBatch; ++row) {
    double height = 2 + noise(draw);
    for (int i = 0; i < kInputs; ++i) {
      const float at = x.data<float>()[row * kInputs + i] = place(draw);
      height += slope(i) * at;
    }
    y.data<float>()[row] = static_cast<float>(height);
  }
}

int train(Executor& exe, const Program& program, const Var& loss, int number) {
  exe.run(default_startup_program());
  std::mt19937 draw(100 + static_cast<unsigned>(number));
  Tensor x(DType::float32, {kBatch, kInputs}), y(DType::float32, {kBatch, 1});
  float error = 0;
  for (int step = 0; step < kSteps; ++step) {
    draw_points(draw, x, y);
    error = *exe.run_one(program, {{"x", x}, {"y", y}}, loss.name()).data<float>();
  }
  exe.close();  // this trainer has left; the last one out ends the servers
  std::printf("trainer %d: mean squared error %.5f\n", number, static_cast<double>(error));
  return error < 0.001f ? 0 : 1;
}

int run() {
  const std::string servers = from_environment("PADDLE_PSERVERS_IP_PORT_LIST");
  const int trainers = std::stoi(from_environment("PADDLE_TRAINERS_NUM"));
  const int number = std::stoi(from_environment("PADDLE_TRAINER_ID", "0"));

  Var& x = layers::data("x", {kInputs});
  Var& y = layers::data("y", {1});
  Var& guess = layers::fc(x, {.size = 1});
  Var& loss = layers::mean(layers::square_error_cost(guess, y));
  optimizer::Sgd(0.2).minimize(loss);

  DistributeTranspiler transpiler;
  transpiler.transpile({.trainer_id = number,
                        .program = default_main_program().shared_from_this(),
                        .startup_program = default_startup_program().shared_from_this(),
                        .pservers = servers,
                        .trainers = trainers});
  Executor exe(cpu_place());
  if (from_environment("TRAINING_ROLE") == "PSERVER") {
    const auto own = from_environment("POD_IP") + ":" + from_environment("PADDLE_PORT");
    const auto [program, startup] = transpiler.get_pserver_programs(own);
    exe.run(*startup);
    exe.run(*program);  // until the last trainer has left
    return 0;
  }
  return train(exe, *transpiler.get_trainer_program(), loss, number);
}

}  // namespace

int main() {
  try {
    return run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
