// The documents' samples of ParallelExecutor in C++, which has no such class: a CompiledProgram on
// CPU_NUM devices takes the same steps and gets the same numbers
// (tests/python/test_documents_twins.py).
#include <cstdlib>

#include "examples/cpp/twin.h"
#include "layers/layers.h"
#include "layers/optimizer.h"
#include "runtime/compiled_program.h"
#include "runtime/feed_split.h"

using namespace trireme;

int main() {
  setenv("CPU_NUM", "2", /*overwrite=*/1);
  Executor exe(cpu_place());
  const auto train_program = Program::create(), startup_program = Program::create();
  startup_program->set_seed(1);
  const ProgramGuard guard(train_program, startup_program);
  Var& data = layers::data("X", {1});
  Var& hidden = layers::fc(data, {.size = 10});
  Var& loss = layers::mean(hidden);
  const auto test_program = clone(*train_program, /*for_test=*/true);
  optimizer::Sgd(0.01).minimize(loss);
  exe.run(*startup_program);

  CompiledProgram train_exe(train_program);
  train_exe.with_data_parallel({.loss_name = loss.name()});
  CompiledProgram test_exe(test_program);
  test_exe.with_data_parallel({.share_vars_from = &train_exe});

  // A dict is split: each of the two devices has five samples.
  const auto split = train_exe.run(exe, Feeds{{"X", tenths(10)}}, {loss.name()});
  bool same = twins("a dict", join_pieces(loss.name(), split[0]), {0.0036103f, 0.0096276f});
  // A list has one dict for each device.
  const std::vector<Feeds> list = {{{"X", tenths(10)}}, {{"X", tenths(9)}}};
  const auto listed = train_exe.run(exe, list, {loss.name()});
  same &= twins("a list", join_pieces(loss.name(), listed[0]), {0.0053165f, 0.0047422f});
  const auto tested = test_exe.run(exe, Feeds{{"X", tenths(3)}}, {loss.name()});
  same &= twins("testing", join_pieces(loss.name(), tested[0]), {-0.0009042f, 0.0007395f});

  exe.drop_temporaries(*test_program);
  const auto again = test_exe.run(exe, Feeds{{"X", tenths(3)}}, {loss.name()});
  same &= twins("after dropping the scopes", join_pieces(loss.name(), again[0]),
                {-0.0009042f, 0.0007395f});
  return same ? 0 : 1;
}
