// L0: what users build, print, clone, transpile and save. Identity is by name, as in the file
// format.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"
#include "core/error.h"
#include "core/shape.h"
#include "ir/attribute.h"

namespace trireme {

class Block;
class Op;
class Program;
class Var;
class Initializer;        // layers/
class Regularizer;        // layers/
class GradientClip;       // layers/
struct DistributedFacts;  // ir/distributed.h

// VarType.Type numbers of the containers (element types are DType).
enum class VarType : int {
  lod_tensor = 7,
  selected_rows = 8,
  feed_minibatch = 9,
  fetch_list = 10,
  step_scopes = 11,
  lod_rank_table = 12,
  lod_tensor_array = 13,
  place_list = 14,
  reader = 15,
  raw = 17,
  tuple = 18,
  // Of 2.4; read, kept and written, not run.
  string = 25,
  strings = 26,
  vocab = 27,
  feed_list = 28,
  pstring = 29,
  sparse_coo = 30,
  sparse_csr = 31,
};
std::string_view name_of(VarType type);  // "LOD_TENSOR", ...

// Bits of the op_role attribute.
namespace op_role {
inline constexpr int kForward = 0, kBackward = 1, kOptimize = 2, kRpc = 4, kDist = 8, kLrSched = 16,
                     kLoss = 256, kNotSpecified = 4096;
}
inline constexpr std::string_view kGradSuffix = "@GRAD";
inline constexpr std::string_view kEmptyVar = "@EMPTY@";
inline std::string grad_name(std::string_view name) { return std::string(name) + "@GRAD"; }

// Names by slot. A map, so that slots print and save in one order.
using Slots = std::map<std::string, std::vector<std::string>, std::less<>>;

struct VarSpec {
  std::string name;  // empty: the next _generated_var_N
  VarType type = VarType::lod_tensor;
  DType dtype = DType::float32;
  Shape shape;
  int lod_level = 0;
  bool persistable = false;
  bool stop_gradient = false;
  bool is_data = false;
  bool need_check_feed = false;
  bool has_shape = true;  // false: shape and dtype are not set yet; inference fills them
};

// What only parameters have.
struct ParameterInfo {
  bool trainable = true;
  float learning_rate = 1.0f;     // times the optimizer's
  std::string learning_rate_var;  // set: the variable that is this parameter's whole rate
  std::shared_ptr<Regularizer> regularizer;
  std::shared_ptr<GradientClip> gradient_clip;  // set_gradient_clip's old way
  bool do_model_average = true;
  bool need_clip = true;
  bool is_distributed = false;
};

class Var {
 public:
  const std::string& name() const { return spec_.name; }
  VarType type() const { return spec_.type; }
  DType dtype() const { return spec_.dtype; }
  const Shape& shape() const { return spec_.shape; }
  int lod_level() const { return spec_.lod_level; }
  bool persistable() const { return spec_.persistable; }
  bool stop_gradient() const { return spec_.stop_gradient; }
  bool is_data() const { return spec_.is_data; }
  bool need_check_feed() const { return spec_.need_check_feed; }
  bool has_shape() const { return spec_.has_shape; }
  const VarSpec& spec() const { return spec_; }
  Block& block() const { return *block_; }

  // Every setter touches the program.
  void set_type(VarType type);
  void set_dtype(DType dtype);
  void set_shape(const Shape& shape);
  void set_lod_level(int level);
  void set_persistable(bool on);
  void set_stop_gradient(bool on);
  void set_is_data(bool on);
  void set_need_check_feed(bool on);

  bool is_parameter() const { return parameter_ != nullptr; }
  const ParameterInfo* parameter() const { return parameter_.get(); }
  ParameterInfo& edit_parameter();  // makes the variable a parameter if it is none
  void drop_parameter();

  std::optional<std::pair<float, float>> error_clip;  // min, max put on this variable's gradient
  std::string unknown_fields;  // bytes of fields we do not know, kept for writing
  std::vector<std::pair<DType, Shape>> reader_slots;  // READER variables: one per tensor
  std::vector<int> reader_lod_levels;

  std::string describe() const;  // "float32 [64, 784]"

 private:
  friend class Block;
  friend class Program;
  Var(Block& block, VarSpec spec) : block_(&block), spec_(std::move(spec)) {}
  Block* block_;
  VarSpec spec_;
  std::unique_ptr<ParameterInfo> parameter_;
};

struct OpSpec {
  std::string type;
  Slots inputs;
  Slots outputs;
  Attrs attrs;
};

class Op {
 public:
  const std::string& type() const { return type_; }
  const Slots& inputs() const { return inputs_; }
  const Slots& outputs() const { return outputs_; }
  const Attrs& attrs() const { return attrs_; }
  OpSpec spec() const { return {type_, inputs_, outputs_, attrs_}; }
  // Names in a slot; empty when the slot is absent.
  const std::vector<std::string>& input(std::string_view slot) const;
  const std::vector<std::string>& output(std::string_view slot) const;
  std::vector<std::string> input_names() const;  // all slots, in slot order
  std::vector<std::string> output_names() const;

  bool has_attr(std::string_view name) const { return attrs_.find(name) != attrs_.end(); }
  const Attribute* find_attr(std::string_view name) const;
  template <class T>
  T attr(std::string_view name) const {
    const Attribute* value = find_attr(name);
    if (!value) throw no_attr(name);
    return attr_as<T>(*value, name);
  }
  template <class T>
  T attr_or(std::string_view name, T otherwise) const {
    const Attribute* value = find_attr(name);
    return value ? attr_as<T>(*value, name) : otherwise;
  }
  int role() const { return attr_or<int32_t>("op_role", op_role::kForward); }
  bool has_role(int bit) const { return (role() & bit) != 0; }
  // The sub-block of while, conditional_block, recurrent...; null when it has none.
  Block* sub_block() const;

  void set_type(std::string type);
  void set_input(std::string_view slot, std::vector<std::string> names);
  void set_output(std::string_view slot, std::vector<std::string> names);
  void remove_input(std::string_view slot);
  void remove_output(std::string_view slot);
  void set_attr(std::string_view name, Attribute value);
  void remove_attr(std::string_view name);
  void rename_input(std::string_view from, const std::string& to);
  void rename_output(std::string_view from, const std::string& to);

  Block& block() const { return *block_; }
  const SourceLine& line() const { return line_; }
  void set_line(SourceLine line) { line_ = std::move(line); }  // not an edit: lines are not saved
  int index() const;                                           // position in its block
  bool is_target = false;
  std::string unknown_fields;
  // Outputs that memory_optimize gave the name of a dead variable: name now -> the variable's own.
  // A fetch of the variable's own name still finds its value. Saved as an attribute.
  std::map<std::string, std::string, std::less<>> former_names;
  // The variable that an output stands for: its former name where it has one.
  const std::string& own_name(const std::string& output) const {
    const auto former = former_names.find(output);
    return former == former_names.end() ? output : former->second;
  }

 private:
  friend class Block;
  Op(Block& block, OpSpec spec, SourceLine line);
  Error no_attr(std::string_view name) const;
  Block* block_;
  std::string type_;
  Slots inputs_, outputs_;
  Attrs attrs_;
  SourceLine line_;
};

class Block {
 public:
  int index() const { return index_; }
  int parent_index() const { return parent_; }
  int forward_index() const { return forward_; }
  Block* parent() const;
  Program& program() const { return *program_; }
  void set_parent_index(int index);
  void set_forward_index(int index);

  const std::vector<Var*>& vars() const { return var_order_; }  // in order of creation
  Var* find_var(std::string_view name) const;                   // in this block alone
  Var& var(std::string_view name) const;                        // same, an Error if absent
  // Then in parent and forward blocks, the nearest first; every block sees the global one's.
  Var* find_var_recursive(std::string_view name) const;
  // Existing name: the same variable, if what both state agrees, else an Error.
  Var& create_var(VarSpec spec);
  // The caller has decided on name and shape; no initializer is run (layers/ does that).
  Var& create_parameter(VarSpec spec, ParameterInfo info);
  void remove_var(std::string_view name);
  void rename_var(std::string_view from,
                  const std::string& to);  // in ops of this and inner blocks too

  size_t size() const { return ops_.size(); }
  Op& op(size_t index) const { return *ops_.at(index); }
  std::vector<Op*> ops() const;
  // Fills op_role, op_role_var, op_namescope and op_device from the program's state; checks slots
  // and attributes against the op table; infers types and shapes of outputs. `line`: where the user
  // asked.
  Op& append_op(OpSpec spec, const SourceLine& line = SourceLine::here());
  Op& prepend_op(OpSpec spec, const SourceLine& line = SourceLine::here());
  Op& insert_op(size_t index, OpSpec spec, const SourceLine& line = SourceLine::here());
  // Nothing is filled, checked or inferred: for readers of files, clones and transpilers.
  Op& insert_raw_op(size_t index, OpSpec spec, const SourceLine& line = {});
  void remove_ops(size_t begin, size_t end);

  std::string unknown_fields;

 private:
  friend class Program;
  Block(Program& program, int index, int parent)
      : program_(&program), index_(index), parent_(parent) {}
  void rename_in_ops(const std::string& from, const std::string& to);
  Program* program_;
  int index_;
  int parent_;
  int forward_ = -1;
  std::vector<Var*> var_order_;
  std::map<std::string, std::unique_ptr<Var>, std::less<>> vars_;
  std::vector<std::unique_ptr<Op>> ops_;
  // Removed things stay alive as long as the program: Python may still hold them.
  std::vector<std::unique_ptr<Var>> removed_vars_;
  std::vector<std::unique_ptr<Op>> removed_ops_;
};

// Adds op, operands (slot, name, type, shape) and the user's line. Where ops nest, the innermost
// is the one that is named.
Error& add_op_context(Error& error, const Op& op);

inline constexpr int64_t kProgramVersion = 2004002;

class Program : public std::enable_shared_from_this<Program> {
 public:
  static std::shared_ptr<Program> create();
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  uint64_t id() const { return id_; }            // never reused
  uint64_t version() const { return version_; }  // raised by every edit
  void touch() { ++version_; }

  size_t num_blocks() const { return blocks_.size(); }
  Block& block(int index) const;  // Error (out_of_range) when there is none
  Block& global_block() const { return *blocks_.front(); }
  Block& current_block() const { return *blocks_[current_]; }
  int current_index() const { return current_; }
  void set_current(int index);           // Error (out_of_range) when there is none
  Block& create_block(int parent = -2);  // -2: child of the current block; becomes current
  void rollback();                       // the current block's parent becomes current
  // Blocks by the numbers of `kept`, renumbered in that order; sub-block attributes follow.
  void keep_blocks(const std::vector<int>& kept);

  std::vector<Var*> parameters() const;  // over all blocks
  int seed() const { return seed_; }
  void set_seed(int seed);
  static void set_default_seed(int seed);  // the seed of programs created from now on

  // State given to ops appended from now on.
  int role = op_role::kForward;
  std::vector<std::string> role_vars;
  std::string name_scope = "/";
  std::string device;
  int random_ops = 0;      // how many it ever took in: the next one's random_position
  int backward_count = 0;  // how often append_backward ran: later runs prefix their gradients
  // What a transpiler made of this program; null: none did. Copies share it; it is not saved.
  std::shared_ptr<const DistributedFacts> distributed;
  bool memory_optimized = false;  // memory_optimize or release_memory ran on it
  bool for_inference = false;     // read from a saved model: runs expect its parameters to stay
  // The learning rate that a schedule on the host writes before each run; empty: there is none.
  std::string scheduled_rate;

  // Files: the version they carry and what we do not know of them.
  int64_t desc_version = kProgramVersion;
  std::map<std::string, int> op_versions;  // 2.4's op_version_map
  std::string unknown_fields;

 private:
  friend class Block;
  Program();
  void note_holder(std::string_view name, const Block& block);
  void forget_holder(std::string_view name, const Block& block);
  uint64_t id_;
  uint64_t version_ = 0;
  int current_ = 0;
  int seed_;
  std::vector<std::unique_ptr<Block>> blocks_;
  std::vector<std::unique_ptr<Block>> removed_blocks_;
  // By name: the blocks that have a variable of it, so that a search need not ask every block.
  std::map<std::string, std::vector<const Block*>, std::less<>> holders_;
};

// While one of these lives, ops appended on this thread carry its line: a layer that appends
// several ops takes the user's line once, and the outermost one wins.
class LineScope {
 public:
  explicit LineScope(const SourceLine& line);
  ~LineScope();
  static const SourceLine* current();
  // Asked when no LineScope is open; Python's binding installs one that walks its own frames.
  using Provider = std::function<SourceLine()>;
  static void set_provider(Provider provider);

 private:
  bool outermost_;
};

// Full copy. for_test: drops backward, optimize and LR ops, sets is_test (the spec's clone rules).
std::shared_ptr<Program> clone(const Program& program, bool for_test);
// Keeps what `targets` (variable names) need, given that `feeds` are fed.
std::shared_ptr<Program> prune(const Program& program, const std::vector<std::string>& feeds,
                               const std::vector<std::string>& targets);
// As prune, and optimize-role ops stay too (fetching an optimizer's ops).
std::shared_ptr<Program> prune_keeping_optimizers(const Program& program,
                                                  const std::vector<std::string>& feeds,
                                                  const std::vector<std::string>& targets);
// Copy with every is_test set; drops everything up to the first `read` op when asked.
std::shared_ptr<Program> inference_copy(const Program& program, bool prune_read_ops);

std::string to_text(const Program& program);  // 2.4's readable form
std::string to_text(const Block& block);
std::string to_text(const Op& op);
std::string to_text(const Var& var);

// Wire format (ir/wire.cc). Reading accepts any field order and keeps unknown fields; bad bytes are
// an Error, never a crash. Writing is canonical: equal programs give equal bytes.
std::string serialize(const Program& program);
std::shared_ptr<Program> parse_program(std::string_view bytes);
std::string to_proto_text(const Program& program);  // 1.8's printing
std::string to_proto_text(const Block& block);
std::string to_proto_text(const Op& op);
std::string to_proto_text(const Var& var);

}  // namespace trireme
