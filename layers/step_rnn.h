// Recurrent networks written step by step: StaticRNN (sequences of one length), DynamicRNN (LoD).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "layers/arguments.h"
#include "layers/control_flow.h"
#include "layers/sub_block.h"

namespace trireme::layers {

// One step is the sub-block; sequences are [T, ...] and each step sees one row:
//   StaticRNN rnn;
//   rnn.step([&] {
//     Var& word = rnn.step_input(x);
//     Var& before = rnn.memory({.shape = {-1, 200}, .batch_ref = &word});
//     Var& hidden = *fc({word, before}, 200);
//     rnn.update_memory(before, hidden);
//     rnn.step_output(hidden);
//   });
//   Var& all = *rnn()[0];
class StaticRNN : public SubBlock {
 public:
  explicit StaticRNN(const std::string& name = {}, SourceLine line = SourceLine::here());

  void step(const std::function<void()>& build) { run(build); }
  void begin() override;
  void complete() override;

  struct MemoryOptions {
    Var* init = nullptr;  // else made from the rest: `shape` filled with init_value
    std::vector<int64_t> shape = {};
    Var* batch_ref = nullptr;  // tells the batch size; shape[init_batch_dim_idx] is -1
    double init_value = 0;
    int init_batch_dim_idx = 0;
    int ref_batch_dim_idx = 1;
  };
  Var& memory(const MemoryOptions& options, SourceLine line = SourceLine::here());
  Var& step_input(Var& x, SourceLine line = SourceLine::here());
  void step_output(Var& o, SourceLine line = SourceLine::here());
  void output(const Vars& outputs, SourceLine line = SourceLine::here());
  void update_memory(Var& mem, Var& var, SourceLine line = SourceLine::here());
  // After the block: the sequences [T, ...] of step outputs.
  const std::vector<Var*>& operator()(SourceLine line = SourceLine::here()) const;

 private:
  struct Memory {
    Var* init;
    Var* before;           // inside, as a step begins
    Var* after = nullptr;  // inside, what update_memory gave
  };
  void require_inside(const char* what) const;

  std::string name_;
  SourceLine line_;
  enum class Status { before, inside, after } status_ = Status::before;
  std::vector<Var*> inputs_;  // outside
  std::vector<Memory> memories_;
  std::vector<Var*> outputs_;  // outside
  std::optional<Dim> length_;
};

// The same for sequences of different lengths: in step t only those take part that have one. Rows
// of a step are ordered by the length of their sequence, longest first.
class DynamicRNN {
 public:
  explicit DynamicRNN(const std::string& name = {}, SourceLine line = SourceLine::here());

  void block(const std::function<void()>& build);  // begin, build, complete
  void begin();
  void complete();
  void abandon();

  Var& step_input(Var& x, int level = 0, SourceLine line = SourceLine::here());
  // The same in every step: one row or one sequence per sequence of the step inputs.
  Var& static_input(Var& x, SourceLine line = SourceLine::here());
  struct MemoryOptions {
    Var* init = nullptr;  // else `shape` (without the batch) filled with `value`
    std::vector<int64_t> shape = {};
    double value = 0;
    bool need_reorder = false;  // init is in the order of the batch
    DType dtype = DType::float32;
  };
  Var& memory(const MemoryOptions& options, SourceLine line = SourceLine::here());
  void update_memory(Var& ex_mem, Var& new_mem, SourceLine line = SourceLine::here());
  void output(const Vars& outputs, SourceLine line = SourceLine::here());
  // After the block: outputs as sequences, in the order of the batch.
  const std::vector<Var*>& operator()(SourceLine line = SourceLine::here()) const;

 private:
  Block& outside() const;
  Var& outside_var(const std::string& name, DType dtype, VarType type = VarType::lod_tensor) const;
  void append_outside(OpSpec spec) const;
  Var& zero_index();
  Var& reordered(Var& x, const char* name);
  void require_inside(const char* what) const;

  std::string name_;
  SourceLine line_;
  enum class Status { before, inside, after } status_ = Status::before;
  Var* condition_ = nullptr;
  std::optional<While> loop_;
  Var* step_ = nullptr;
  Var* zero_ = nullptr;
  Var* table_ = nullptr;
  Var* longest_ = nullptr;
  std::vector<Var*> input_arrays_;
  std::map<std::string, Var*> memory_arrays_;   // by the variable inside
  std::vector<std::pair<Var*, Var*>> updates_;  // new value inside, array
  std::vector<Var*> output_arrays_;
  std::vector<Var*> outputs_;
};

}  // namespace trireme::layers
