// One kernel of a row, made by hand and run without a plan: any of a row's kernels, not only the
// one that a plan chooses.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "ir/schema.h"
#include "ops/run_context.h"
#include "tests/support/op_program.h"

namespace trireme::testing {

class KernelRunner {
 public:
  // Single operands by slot. Gradients of inputs that are given are results too.
  KernelRunner(const OpSchema& row, const Kernel& kernel, const Tensors& inputs,
               const Attrs& attrs);

  bool declined() const { return !bound_; }  // built without its library, or of other types
  int parts() const { return bound_ ? bound_->parts : 0; }
  // The result takes a copy of the operand's memory, which it may overwrite. False where their
  // types or shapes differ, or one is not there.
  bool put_over(const std::string& operand, const std::string& result);
  void run(bool in_parts = true);  // nothing where it declined
  Tensors results() const;         // none where it declined

 private:
  // What random kernels ask of their run: always the same.
  struct FirstStep final : RunContext {
    void run_region(int, StepScopes*) override { no_sub_block(); }
    void begin_iterations(int, int64_t) override { no_sub_block(); }
    void run_iteration(int, const Iteration&) override { no_sub_block(); }
    void end_iterations(int) override { no_sub_block(); }
    [[noreturn]] static void no_sub_block() {
      throw InternalError("a kernel alone has no sub-block");
    }
    Scope& scope() override { return variables; }
    uint64_t step() const override { return 0; }
    uint64_t process_seed() const override { return 1; }
    uint64_t iteration() const override { return 0; }
    StreamOffset stream_offset() const override { return {}; }
    Scope variables;
  };

  const OpSchema& row_;
  std::deque<Variable> memory_;
  std::vector<Variable*> ins_, outs_;
  std::optional<BoundKernel> bound_;
  std::shared_ptr<Buffer> scratch_;
  FirstStep step_;
};

}  // namespace trireme::testing
