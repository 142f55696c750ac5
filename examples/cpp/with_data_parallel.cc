// The documents' samples of CompiledProgram and with_data_parallel in C++: the same steps as in
// Python, and the same numbers (tests/python/test_documents_twins.py).
#include "examples/cpp/twin.h"
#include "layers/layers.h"
#include "layers/optimizer.h"
#include "runtime/compiled_program.h"
#include "runtime/feed_split.h"

using namespace trireme;

int main() {
  const auto main_program = Program::create(), startup_program = Program::create();
  startup_program->set_seed(1);
  const ProgramGuard guard(main_program, startup_program);
  Executor exe(cpu_place());
  Var& data = layers::data("X", {1});
  Var& hidden = layers::fc(data, {.size = 10});
  Var& loss = layers::mean(hidden);
  const auto test_program = clone(*main_program, /*for_test=*/true);
  optimizer::Sgd(0.01).minimize(loss);
  exe.run(*startup_program);

  CompiledProgram compiled_prog(main_program);
  const auto alone = compiled_prog.run(exe, Feeds{{"X", tenths(10)}}, {loss.name()});
  bool same = twins("on one device", join_pieces(loss.name(), alone[0]), {0.0066190f});

  const std::vector<Place> parallel_places(2, cpu_place());
  CompiledProgram compiled_train_prog(main_program);
  compiled_train_prog.with_data_parallel({.loss_name = loss.name(), .places = parallel_places});
  CompiledProgram compiled_test_prog(test_program);
  compiled_test_prog.with_data_parallel(
      {.share_vars_from = &compiled_train_prog, .places = parallel_places});
  const auto train = compiled_train_prog.run(exe, Feeds{{"X", tenths(10)}}, {loss.name()});
  same &= twins("training on two", join_pieces(loss.name(), train[0]), {0.0024453f, 0.0081876f});
  const auto test = compiled_test_prog.run(exe, Feeds{{"X", tenths(3)}}, {loss.name()});
  same &= twins("testing on two", join_pieces(loss.name(), test[0]), {-0.0009066f, 0.0007336f});
  return same ? 0 : 1;
}
