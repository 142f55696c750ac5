// A steady step of every op of the table, and of its gradient: no memory asked for.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "compile/pipeline.h"
#include "core/text.h"
#include "ir/schema.h"
#include "tests/runtime/heap.h"
#include "tests/runtime/op_calls.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

// Ops whose runs ask for memory, by the reason why they must.
const std::map<std::string, std::set<std::string>>& asking_ops() {
  static const std::map<std::string, std::set<std::string>> reasons = {
      {"calls functions of the user's", {"py_func", "py_func_grad"}},
      {"gathers boxes in lists, on the host",
       {"detection_map", "generate_proposals", "mine_hard_examples", "multiclass_nms",
        "multiclass_nms2", "collect_fpn_proposals", "distribute_fpn_proposals",
        "generate_mask_labels", "generate_proposal_labels", "locality_aware_nms", "matrix_nms",
        "retinanet_detection_output", "retinanet_target_assign", "rpn_target_assign"}},
      {"gathers instances in lists, on the host", {"filter_by_instag", "filter_by_instag_grad"}},
  };
  return reasons;
}

// The heap calls of a steady step. Every result is a state: it is computed and handed to nobody.
size_t heap_calls_of_a_step(const OpProgram& built, const std::vector<std::string>& passes_off) {
  for (const Op* op : built.program->global_block().ops()) {
    for (const std::string& name : op->output_names()) {
      if (name != kEmptyVar) built.program->global_block().var(name).set_persistable(true);
    }
  }
  Scope scope;
  for (const auto& [name, rows] : built.states) scope.var(name).rows() = rows;
  Executor executor;
  RunOptions options{.scope = &scope, .threads = 1, .cut_bytes = 0, .passes_off = passes_off};
  // The second binds again where an output was not there in the first.
  for (int i = 0; i < 2; ++i) executor.run(*built.program, built.feeds, {}, options);
  const size_t before = heap_calls();
  executor.run(*built.program, built.feeds, {}, std::move(options));
  return heap_calls() - before;
}

class OpSteps {
 public:
  // The op alone, then with its gradient: what that asks for more is the gradient's.
  void add(const OpCall& call) {
    for (const auto& passes_off : {std::vector<std::string>{}, pass_names()}) {
      const size_t alone = heap_calls_of_a_step(build_op(call), passes_off);
      count(name_of_call(call), alone);
      const OpSchema& row = op_table().get(call.type);
      if (!row.differentiable() || !call.sparse_inputs.empty()) continue;
      OpProgram both = build_op(call);
      append_gradient(both, run_op(call));
      count(row.grad_op_type(), heap_calls_of_a_step(both, passes_off) - alone);
    }
  }
  const std::map<std::string, size_t>& calls() const { return calls_; }
  int steps() const { return steps_; }

 private:
  static std::string name_of_call(const OpCall& call) {
    return call.type + (call.sparse_inputs.empty() ? "" : " of SelectedRows");
  }
  void count(const std::string& op, size_t calls) {
    size_t& most = calls_[op];
    most = std::max(most, calls);
    ++steps_;
  }

  std::map<std::string, size_t> calls_;  // op -> the most of its steps
  int steps_ = 0;
};

TEST(OpSteps, AskForNoMemory) {
  OpSteps steps;
  for (const OpSchema* row : op_table().rows()) {
    // A gradient runs with its op; a primitive with the ops that are made of it.
    if (row->forward() || row->trait().primitive || row->type().ends_with("_grad")) continue;
    const std::vector<OpCall> calls = calls_of(*row);
    // What ranks exchange: SteadyStep.ThatExchangesByARingLooksNothingUpAndAsksForNoMemory.
    const bool alone = row->trait().exchange != Exchange::by_ring;
    EXPECT_FALSE(calls.empty() && !row->trait().host && alone) << row->type() << " has no call";
    for (OpCall call : calls) {
      SCOPED_TRACE(row->type());
      try {
        steps.add(call);
        // What a host op does is the sample's own.
        if (row->trait().host || !call.sparse_inputs.empty()) continue;
        call.inputs = in_float32(call.inputs);
        steps.add(call);
        if (const std::optional<OpCall> sparse = of_rows(call)) steps.add(*sparse);
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
    }
  }

  std::map<std::string, std::string> reason_of;
  for (const auto& [reason, ops] : asking_ops()) {
    for (const std::string& op : ops) reason_of[op] = reason;
  }
  size_t quiet = 0;
  for (const auto& [op, calls] : steps.calls()) {
    const bool listed = reason_of.erase(op) > 0;
    quiet += calls == 0;
    EXPECT_EQ(calls > 0, listed) << op << ": " << calls << " heap calls in a steady step";
  }
  for (const auto& [op, reason] : reason_of) ADD_FAILURE() << op << " is listed but did not run";
  std::printf("steady steps: %d of %zu ops and gradients; %zu ask for no memory", steps.steps(),
              steps.calls().size(), quiet);
  for (const auto& [reason, ops] : asking_ops()) {
    std::printf(", %zu: %s", ops.size(), reason.c_str());
  }
  std::printf("\n");
}

// A plan runs the first kernel that takes the operands; the others are run here.
TEST(KernelSteps, AskForNoMemory) {
  int kernels = 0;
  const auto run_all = [&](const OpSchema& row, const Tensors& inputs, const Attrs& attrs) {
    Tensors outputs;
    for (const Kernel& kernel : row.kernels()) {
      KernelRunner runner(row, kernel, inputs, attrs);
      if (runner.declined()) continue;
      runner.run();
      const size_t before = heap_calls();
      runner.run();
      EXPECT_EQ(heap_calls() - before, 0u) << row.type() << " " << kernel.name;
      outputs = runner.results();
      ++kernels;
    }
    return outputs;
  };
  for (const OpSchema* row : op_table().rows()) {
    if (row->kernels().size() < 2 || row->forward()) continue;
    for (size_t rule = 0; rule < row->samples().size(); ++rule) {
      Draw draw(rule + 1);
      const OpSample sample = row->samples()[rule](draw);
      for (const Tensors& inputs : {sample.inputs, in_float32(sample.inputs)}) {
        const Tensors outputs = run_all(*row, inputs, sample.attrs);
        if (!row->differentiable()) continue;
        Tensors given = inputs;
        for (const auto& [slot, tensors] : outputs) {
          given[slot] = tensors;
          const Tensor weights = draw.uniform(tensors.front().shape());
          given[grad_name(slot)] = {cast(weights, tensors.front().dtype())};
        }
        run_all(op_table().get(row->grad_op_type()), given, sample.attrs);
      }
    }
  }
  std::printf("steady runs of %d kernels of ops with several\n", kernels);
  EXPECT_GT(kernels, 0);
}

}  // namespace
}  // namespace trireme::testing
