// The op table. One row defines an operator; docs, Python signatures, checks and tests come from
// it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/attribute.h"
#include "ir/body.h"
#include "ir/kernel.h"
#include "ir/op_view.h"
#include "ir/program.h"
#include "ir/sample.h"

namespace trireme {

struct SlotSpec {
  std::string name;
  std::string doc;
  bool duplicable = false;    // "X*": a list of variables
  bool dispensable = false;   // "X?": may be absent
  bool intermediate = false;  // "X~": an output not meant to be fetched
  bool no_grad = false;       // never gets a gradient (ids, labels, masks)
};

struct AttrSpec {
  std::string name;
  AttrType type = AttrType::int32;
  std::optional<Attribute> fallback;  // none: the attribute is required
  std::string doc;
  std::function<std::string(const Attribute&)> problem;  // empty text: fine
};

using ShapeRule = std::function<void(OpView&)>;
using BodyRule = std::function<void(Body&)>;
using VjpRule = std::function<void(Vjp&)>;
using SampleRule = std::function<OpSample(Draw&)>;

// What a gradient maker gets: the forward op, and which inputs want a gradient.
class GradMaker {
 public:
  GradMaker(const Op& op, std::function<bool(const std::string&)> wants_grad,
            std::function<bool(const std::string&)> has_grad = {})
      : op_(op), wants_grad_(std::move(wants_grad)), has_grad_(std::move(has_grad)) {}
  const Op& op() const { return op_; }
  const std::vector<std::string>& in(std::string_view slot) const { return op_.input(slot); }
  const std::vector<std::string>& out(std::string_view slot) const { return op_.output(slot); }
  std::vector<std::string> out_grad(std::string_view slot) const;
  // Gradient names, @EMPTY@ where no gradient is wanted; an empty list when none is.
  std::vector<std::string> in_grad(std::string_view slot) const;
  bool wants(const std::string& name) const { return wants_grad_(name); }
  // Whether a gradient arrives at any output of this slot.
  bool arrives(std::string_view slot) const;
  // The op's attributes that `row` has, or any op may have.
  Attrs attrs_for(const OpSchema& row) const;
  void append(OpSpec spec) { made_.push_back(std::move(spec)); }
  std::vector<OpSpec> take() { return std::move(made_); }

 private:
  const Op& op_;
  std::function<bool(const std::string&)> wants_grad_, has_grad_;
  std::vector<OpSpec> made_;
};
using GradRule = std::function<void(GradMaker&)>;

// The gradient of a gradient where the original has an op for it, <type>_grad_grad. Its slots are
// named by what they hold: of a gradient op that reads X and Out@GRAD and gives X@GRAD, DDX is what
// arrives at X@GRAD, and DOut is Out@GRAD. As results, DX is the gradient of X, DDOut that of
// Out@GRAD.
struct SecondGradient {
  struct Result {
    std::string slot;
    // Zero unless something arrives in one of these, and then left out; none: in any.
    std::vector<std::string> from = {};
  };
  std::vector<std::string> ins;  // "DX?": may be absent, as what arrives always may
  std::vector<Result> outs;
  BodyRule body;
  // Of what arrives: zeros where nothing does, for the original's sake.
  std::vector<std::string> filled = {};
};

// How iterations of an op's sub-block hand values on. Names inside (`entry`: there when one begins,
// `last`: when it ends) belong to the sub-block even if a block around it has them too; names
// outside are operands and results of the op. Empty names: there is none.
struct RegionLink {
  enum class How {
    carry,   // entry begins as `from` (else zeros like `like`) and becomes last; `to` is the end
             // value
    sum,     // `to` is the sum of last over all iterations, zeros like `like` where there was none
    slice,   // entry is one row of `from`
    stack,   // last becomes one row of `to`
    append,  // the rows of last stand in `to` below those of the iterations before
  };
  How how = How::carry;
  std::string entry, last;
  std::string from, to, like;
};
using RegionRule = std::function<std::vector<RegionLink>(const Op&)>;

// The border of an op's sub-block as its gradient sees it.
struct Border {
  std::string outs;  // the slot of what is written inside and seen outside
  // Written inside in one iteration and read by the next; an empty name: it has no such side.
  struct Handed {
    std::string written, read;
  };
  std::vector<Handed> handed = {};
  // Slots whose gradients leave; inside, their variables may have other names.
  struct Input {
    std::string slot;
    std::vector<std::string> outside, inside;
  };
  std::vector<Input> inputs = {};
  std::string condition = {};  // the slot that says whether the block runs at all; empty: it does
  // The gradient op lists the gradients that arrive in this attribute, and in its slot no others;
  // empty: its slot has @EMPTY@ in place of these.
  std::string arriving_attr = {};
  std::vector<std::string> unread = {};  // input slots that the gradient op does not have
};
using BorderRule = std::function<Border(const Op&)>;

// What an op of a program says to a compilation, where it is no computation.
enum class Marker {
  none,
  feed,         // its output is fed
  fetch,        // what is fetched is the caller's list
  read,         // its outputs are taken out of a reader and fed
  reader,       // a reader is its queue, which the caller keeps
  end_of_life,  // its inputs are not read any more
};

// A copy between the host's memory and a device's.
enum class Transfer { none, upload, download };

// What replicas, or the processes of a job, make of their values together.
enum class Exchange {
  none,
  sum,       // of all operands, by position
  sum_rows,  // of SelectedRows: how many rows there will be, only the run knows
  by_ring,   // what its attributes say, among the ranks of the ring that they name
};

// What an op does with images whose channels stand in blocks (ChannelBlocks).
enum class BlockedImages {
  no,       // needs them plain
  makes,    // a convolution: works on them best
  follows,  // goes on with them where it finds them
  any,      // works element by element, wherever they stand; so does every row with a tile step
};

// How an op is made into instructions and what may be done with it.
struct OpTraits {
  bool primitive = false;  // written by bodies only; not an op of programs
  bool host = false;       // runs on the caller's thread between segments (print, save, readers)
  bool effect = false;     // always runs, in program order among effects
  bool random = false;     // draws numbers
  bool can_fail = false;   // complains about its data (labels, ids, Assert): never pruned silently
  bool no_inference = false;  // control flow and the like: outputs are not inferred at append
  // Shape depends on these inputs' values: the op starts a segment, bound when they are computed.
  std::vector<std::string> reads_values;
  // Outputs whose variable keeps what it held and is changed in place: elements of arrays.
  std::vector<std::string> updates;
  // Inputs that the op changes when it works on gradients: an element that is read is taken away.
  std::vector<std::string> takes;
  // Takes what every replica of a data-parallel run has computed; alone, its own.
  Exchange exchange = Exchange::none;
  bool once = false;                 // its sub-block runs at most once
  std::vector<std::string> decides;  // inputs that say whether its sub-block runs
  Transfer transfer = Transfer::none;
  // A host op whose shape rule says before the run what it will leave.
  bool inferred_ahead = false;
  // Programs with it are built, printed and saved; running one is refused until what it needs is
  // built.
  bool cannot_run = false;
  Marker marker = Marker::none;

  // What passes may know about it. A trait that is missing costs a fusion or a refusal, never a
  // wrong number.
  std::optional<TileOp> tile;  // does to float32 numbers and masks what this step does
  int like = -1;  // the operand that is looked at for its shape alone: the result has that shape
  bool keeps_rows = false;  // the first result has the first extent of the first operand
  bool fills = false;       // one number everywhere, by its attributes
  bool sums = false;        // adds up its first operand along `axes`, or to the shape of `like`
  bool averages = false;    // the mean of its first operand
  bool linear = false;      // linear in the gradients that reach it, as every gradient op is
  bool product = false;     // the matrix product of X and Y
  std::string turns_x;      // ... and the attribute that turns X over; empty: there is none
  BlockedImages images = BlockedImages::no;
  std::string layout_attr;    // where it takes images in blocks: the attribute that says where
                              // channels stand
  std::string over_replicas;  // the row that computes the same over the replicas' whole batch

  // What the backward and clones may know about it.
  bool counts = false;      // adds its attribute `step` to one number
  bool repeatable = false;  // computes the same again although it has overwritten an operand
  std::vector<std::string> training_outputs;  // clones for test do not have them
};

class OpSchema {
 public:
  explicit OpSchema(std::string type) : type_(std::move(type)) {}

  // Building a row. Every call returns the row.
  OpSchema& doc(std::string text);
  OpSchema& in(std::string name, std::string doc);
  OpSchema& in_list(std::string name, std::string doc);
  OpSchema& in_optional(std::string name, std::string doc);
  OpSchema& in_optional_list(std::string name, std::string doc);
  OpSchema& out(std::string name, std::string doc);
  OpSchema& out_list(std::string name, std::string doc);
  OpSchema& out_optional(std::string name, std::string doc);
  OpSchema& out_optional_list(std::string name, std::string doc);
  OpSchema& out_intermediate(std::string name, std::string doc);
  template <class T>
  OpSchema& attr(std::string name, T fallback, std::string doc) {
    return add_attr(
        {std::move(name), AttrType{}, Attribute(std::move(fallback)), std::move(doc), {}});
  }
  OpSchema& attr(std::string name, const char* fallback, std::string doc) {
    return attr(std::move(name), std::string(fallback), std::move(doc));
  }
  template <class T>
  OpSchema& required_attr(std::string name, std::string doc) {
    AttrSpec spec{
        std::move(name), static_cast<AttrType>(Attribute(T{}).index()), {}, std::move(doc), {}};
    return add_attr(std::move(spec));
  }
  // Checks on the attribute added last.
  OpSchema& at_least(double low);
  OpSchema& between(double low, double high);
  OpSchema& one_of(std::vector<std::string> choices);

  OpSchema& shape(ShapeRule rule);
  OpSchema& body(BodyRule rule);  // used when every operand is dense
  // The CPU's, tried in the order given; also used where an operand is not dense and there is a
  // body. Other devices add theirs when they are opened (ir/device_kernels.h).
  OpSchema& kernel(KernelMake make, std::string name = "reference");
  OpSchema& vjp(VjpRule rule);  // primitives, and gradient ops that are differentiated in turn

  // Gradient. `uses`: the forward slots that <type>_grad reads beside the gradients of the outputs.
  // The <type>_grad row is made from this one; it runs grad_body, or grad_kernel, or the VJP of
  // body.
  OpSchema& grad(std::vector<std::string> uses);
  OpSchema& grad_outs(std::vector<std::string> slots);  // outputs whose gradients are read;
                                                        // default: all that are not intermediate
  // Beside those: outputs whose gradients are read only where one arrives; else the slot is left
  // out.
  OpSchema& grad_outs_if_any(std::vector<std::string> slots);
  OpSchema& no_grad(const std::vector<std::string>& in_slots);  // inputs that never get one
  OpSchema& grad_type(std::string type);                        // another name than <type>_grad
  OpSchema& grad_shape(ShapeRule rule);  // default: X@GRAD is like X, else like the first Out@GRAD
  OpSchema& grad_body(BodyRule rule);
  OpSchema& grad_kernel(KernelMake make, std::string name = "reference");
  OpSchema& grad_maker(GradRule rule);  // anything else: the ops it appends
  // Gradients of the gradient op. They are there where that is a body or is made from one; else the
  // row states what a gradient kernel computes as a body, which is not run itself, or the
  // gradients of its operands.
  OpSchema& grad_definition(BodyRule rule);
  OpSchema& grad_vjp(VjpRule rule);
  // Linear in its first input: the gradient of its gradient is the op itself, as the original has
  // it.
  OpSchema& second_grad_is_itself();
  OpSchema& region(RegionRule rule);  // ops with a sub-block: the links of its iterations
  OpSchema& border(BorderRule rule);  // ops with a sub-block that have a gradient
  // The gradient of `in_slot` is SelectedRows when `is_sparse` is set on the op.
  OpSchema& sparse_grad(std::string in_slot);

  OpSchema& inplace(std::string in_slot,
                    std::string out_slot);  // may share memory when names agree
  // The output holds the input's elements in the same order, when there are as many of them and
  // they have the same type. So does the input's gradient those of the output's.
  OpSchema& renames(std::string in_slot, std::string out_slot);
  OpSchema& traits(OpTraits traits);  // once per row
  OpSchema& sample(SampleRule rule);  // several may be given
  // Relative tolerance of the gradient check where 1e-6 cannot hold, with the reason.
  OpSchema& tolerance(double relative, std::string reason);

  // Reading a row.
  const std::string& type() const { return type_; }
  const std::string& documentation() const { return doc_; }
  const std::vector<SlotSpec>& inputs() const { return inputs_; }
  const std::vector<SlotSpec>& outputs() const { return outputs_; }
  const std::vector<AttrSpec>& attributes() const { return attrs_; }
  const SlotSpec* find_input(std::string_view name) const;
  const SlotSpec* find_output(std::string_view name) const;
  const AttrSpec* find_attribute(std::string_view name) const;
  const ShapeRule& shape_rule() const { return shape_; }
  const BodyRule& body_rule() const { return body_; }
  const VjpRule& vjp_rule() const { return vjp_; }
  const BodyRule& definition() const { return definition_; }       // what its kernels compute
  const std::vector<Kernel>& kernels() const { return kernels_; }  // the CPU's; see kernels_for
  const RegionRule& region_rule() const { return region_; }
  const BorderRule& border_rule() const { return border_; }
  const OpTraits& trait() const { return traits_; }
  const std::vector<std::pair<std::string, std::string>>& inplace_pairs() const { return inplace_; }
  // Input and output of renames(); empty where there are none.
  const std::pair<std::string, std::string>& renaming() const { return renaming_; }
  const std::vector<SampleRule>& samples() const { return samples_; }
  double grad_tolerance() const { return tolerance_; }
  const std::string& tolerance_reason() const { return tolerance_reason_; }

  bool differentiable() const { return has_grad_ || grad_rule_ != nullptr; }
  const std::vector<std::string>& grad_uses() const { return grad_uses_; }
  const std::string& sparse_grad_slot() const { return sparse_grad_slot_; }
  std::string grad_op_type() const { return grad_type_.empty() ? type_ + "_grad" : grad_type_; }
  // The forward row a generated gradient row came from; null for others.
  const OpSchema* forward() const { return forward_; }
  // A row of a gradient, be it generated or written out.
  bool is_gradient() const { return forward_ || type_.ends_with("_grad"); }
  std::vector<OpSpec> make_grad(GradMaker& maker) const;

 private:
  friend class Registry;
  OpSchema& add_attr(AttrSpec spec);
  OpSchema& add_check(std::function<std::string(const Attribute&)> problem);
  OpSchema& add_slot(std::vector<SlotSpec>& slots, SlotSpec spec);
  std::vector<std::string> grad_out_slots() const;
  OpSchema make_grad_row() const;
  bool twice_differentiable() const;

  std::string type_, doc_;
  std::vector<SlotSpec> inputs_, outputs_;
  std::vector<AttrSpec> attrs_;
  ShapeRule shape_, grad_shape_;
  BodyRule body_, grad_body_, definition_, grad_definition_;
  VjpRule vjp_, grad_vjp_;
  std::vector<Kernel> kernels_, grad_kernels_;
  bool has_grad_ = false;
  std::vector<std::string> grad_uses_, grad_outs_, grad_outs_if_any_;
  std::string grad_type_, sparse_grad_slot_;
  GradRule grad_rule_, second_grad_rule_;
  RegionRule region_;
  BorderRule border_;
  std::vector<std::pair<std::string, std::string>> inplace_;
  std::pair<std::string, std::string> renaming_;
  OpTraits traits_;
  bool has_traits_ = false;
  std::vector<SampleRule> samples_;
  double tolerance_ = 1e-6;
  std::string tolerance_reason_;
  const OpSchema* forward_ = nullptr;
};

class Registry {
 public:
  OpSchema& op(std::string type);         // a new row; a second row of one name is an InternalError
  OpSchema& primitive(std::string type);  // the same, marked primitive; names start with "p."
  const OpSchema* find(std::string_view type) const;
  const OpSchema& get(std::string_view type) const;  // Error (unimplemented) naming near matches
  std::vector<const OpSchema*> rows() const;         // sorted by type
  // Adds the op that is the gradient of the gradient of `row`, which has all its slots and
  // attributes.
  void second_gradient(OpSchema& row, SecondGradient parts);
  void finish();  // makes the gradient rows; called once all are there
  // Kernels of the CPU that are tried before those the row has, in this order. An InternalError
  // where there is no such row; gradient rows are there once the table is finished.
  void add_kernels(std::string_view type, std::vector<Kernel> kernels);

 private:
  std::map<std::string, std::unique_ptr<OpSchema>, std::less<>> rows_;
};

// The table, made on first use by calling register_all_ops (ops/register.cc), and then
// add_cpu_kernels (cpu/kernels/register.cc). Nothing below includes either.
const Registry& op_table();
const OpTraits& traits_of(const Op& op);  // those of its row; none where the table has no such row
void register_all_ops(Registry& ops);
void add_cpu_kernels(Registry& ops);

// Attributes every op may carry (op_role, ...), and those of the original that change no result
// here (use_cudnn, workspace_size_MB, ...): accepted and kept, not checked.
bool is_common_attr(std::string_view name);
bool is_ignored_attr(std::string_view name);

// Fills defaults and checks `spec` against its row: slots, required inputs, attribute types and
// ranges. Errors say what to write instead; whoever appends adds the op and its line
// (add_op_context).
void check_and_fill(const OpSchema& schema, OpSpec& spec);

// Runs the row's shape rule on a program's op and writes what it says into the output variables.
void infer_op(Op& op);

// Common shape rules.
ShapeRule same_as(std::string in_slot, std::string out_slot = "Out");  // facts and LoD of the input
// numpy broadcasting of two known-rank shapes with fluid's axis; used by elementwise ops.
Shape broadcast_shapes(const OpView& op, const Shape& x, const Shape& y, int axis);
int normal_axis(const OpView& op, int axis, int rank, std::string_view name = "axis");

}  // namespace trireme
