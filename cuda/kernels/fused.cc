// p.fused: a tile program as one kernel for each shape of its results, and one for its sum.
#include <algorithm>

#include "core/text.h"
#include "cuda/emit.h"
#include "cuda/kernels/register.h"

namespace trireme::cuda {
namespace {

const char* const kTileFunctions[] = {
    "copy",       "neg",  "abs",     "sign", "square", "exp", "log",   "log1p",    "sqrt",  "rsqrt",
    "reciprocal", "tanh", "sigmoid", "sin",  "cos",    "erf", "floor", "ceil",     "round", "add",
    "sub",        "mul",  "div",     "pow",  "max",    "min", "mod",   "floordiv", "eq",    "ne",
    "lt",         "le",   "gt",      "ge",   "not",    "and", "or",    "xor",      "select"};
static_assert(std::size(kTileFunctions) == static_cast<size_t>(TileOp::select) + 1);

// Writes the steps behind some registers, at one element of one shape.
class TileText {
 public:
  TileText(const KernelSite& site, const TileProgram& program)
      : site_(site), program_(program), operands_(static_cast<int>(site.in_size())) {}

  bool is_mask(int reg) const {
    if (reg < operands_) return site_.in_at(static_cast<size_t>(reg))->dtype == DType::boolean;
    const int step = step_of(reg);
    if (step < 0) return false;
    const TileProgram::Step& one = program_.steps[static_cast<size_t>(step)];
    if (one.op == TileOp::select) return is_mask(one.in[1]);
    if (one.op == TileOp::copy) return is_mask(one.in[0]);
    return makes_mask(one.op);
  }

  Shape shape_of(int reg) const {
    if (reg < operands_) return site_.in_at(static_cast<size_t>(reg))->shape;
    const int step = step_of(reg);
    Shape shape;
    if (step < 0) return shape;
    const TileProgram::Step& one = program_.steps[static_cast<size_t>(step)];
    for (int i = 0; i < tile_operands(one.op); ++i) shape = joined(shape, shape_of(one.in[i]));
    return shape;
  }

  void need(int reg) {
    if (std::find(needed_.begin(), needed_.end(), reg) != needed_.end()) return;
    const int step = step_of(reg);
    if (step >= 0) {
      const TileProgram::Step& one = program_.steps[static_cast<size_t>(step)];
      for (int i = 0; i < tile_operands(one.op); ++i) need(one.in[i]);
    }
    if (reg < operands_) loads_.push_back(reg);
    needed_.push_back(reg);
  }

  const std::vector<int>& loads() const { return loads_; }
  std::vector<Strides> strides(const Shape& shape) const {
    std::vector<Strides> all;
    for (const int reg : loads_) {
      all.push_back(broadcast_strides(site_.in_at(static_cast<size_t>(reg))->shape, shape));
    }
    return all;
  }

  // The i-th load stands at p.at[first + i] and o<i>.
  std::string text(int first) const {
    std::string out;
    for (const int reg : needed_) {
      const std::string type = is_mask(reg) ? "bool" : "float";
      out += cat("const ", type, " r", reg, " = ");
      const int step = step_of(reg);
      if (reg < operands_) {
        const auto at = std::find(loads_.begin(), loads_.end(), reg) - loads_.begin();
        const std::string stored = type_text(site_.in_at(static_cast<size_t>(reg))->dtype);
        out += cat("((const ", stored, "*)p.at[", first + at, "])[o", at, "]");
      } else if (step < 0) {
        out += number_text(program_.constants[static_cast<size_t>(reg - operands_)]);
      } else {
        const TileProgram::Step& one = program_.steps[static_cast<size_t>(step)];
        if (one.rounds != DType::float32) out += cat("(", type_text(one.rounds), ")");
        out += cat("e_", kTileFunctions[static_cast<size_t>(one.op)], "(");
        for (int i = 0; i < tile_operands(one.op); ++i) out += cat(i ? ", r" : "r", one.in[i]);
        out += ")";
      }
      out += ";\n";
    }
    return out;
  }

 private:
  int step_of(int reg) const {  // negative: an operand or a constant
    return reg - operands_ - static_cast<int>(program_.constants.size());
  }
  static Shape joined(const Shape& a, const Shape& b) {
    const int rank = std::max(a.rank(), b.rank());
    Shape out;
    for (int d = 0; d < rank; ++d) {
      const int x = d - (rank - a.rank()), y = d - (rank - b.rank());
      const int64_t own = x < 0 ? 1 : a.at(x), other = y < 0 ? 1 : b.at(y);
      out.push_back(own == 1 ? other : own);
    }
    return out;
  }

  const KernelSite& site_;
  const TileProgram& program_;
  int operands_;
  std::vector<int> needed_, loads_;
};

KernelFn fused_run(Launch what, std::vector<int> outs, std::vector<int> loads) {
  return [what = std::move(what), outs = std::move(outs),
          loads = std::move(loads)](const KernelArgs& k) {
    AddressList at;
    for (const int out : outs) at.push_back(k.out(out).address());
    for (const int in : loads) at.push_back(k.in(in).address());
    launch(what, at, *k.queue);
  };
}

constexpr int64_t kMany = 1 << 18;  // elements that fill a card even where a thread has four

KernelFn fused_results(const KernelSite& site, const TileProgram& program,
                       const std::vector<int>& outs) {
  TileText tile(site, program);
  std::string stores;
  FourElements four;
  for (size_t i = 0; i < outs.size(); ++i) {
    const int reg = program.results[static_cast<size_t>(outs[i])];
    tile.need(reg);
    const std::string type = type_text(site.out_at(static_cast<size_t>(outs[i]))->dtype);
    stores += cat("((", type, "*)p.at[", i, "])[at] = r", reg, ";\n");
    four.declared += cat(type, " y", i, "[4];\n");
    four.each += cat("y", i, "[u] = r", reg, ";\n");
    four.stored += cat("((", type, "*)p.at[", i, "])[at] = y", i, "[u];\n");
  }
  four.each = tile.text(static_cast<int>(outs.size())) + four.each;
  const Shape& shape = site.out_at(static_cast<size_t>(outs[0]))->shape;
  const int addresses = static_cast<int>(outs.size() + tile.loads().size());
  if (shape.count() >= kMany) {
    return fused_run(pointwise_by_four(shape, tile.strides(shape), four, addresses), outs,
                     tile.loads());
  }
  return fused_run(pointwise(shape, tile.strides(shape),
                             tile.text(static_cast<int>(outs.size())) + stores, addresses),
                   outs, tile.loads());
}

KernelFn fused_sum(const KernelSite& site, const TileProgram& program) {
  TileText tile(site, program);
  tile.need(program.sum.reg);
  const Shape shape = tile.shape_of(program.sum.reg);
  const int out = static_cast<int>(site.out_size()) - 1;
  const int64_t results = site.out_at(static_cast<size_t>(out))->shape.count();
  const int64_t folded = results == 0 ? 0 : shape.count() / results;
  // The strides are part of the text: a fold has numbers of its own.
  Walked walk = walked(shape, tile.strides(shape), 0);
  std::string offsets = walk.offsets;
  for (size_t i = walk.numbers.size(); i > 0; --i) {
    const std::string name = cat("d.v[", i - 1, "]"), number = cat(walk.numbers[i - 1], "ll");
    for (size_t found = offsets.find(name); found != std::string::npos;
         found = offsets.find(name, found + number.size())) {
      offsets.replace(found, name.size(), number);
    }
  }
  const Fold fold{.acc = "double",
                  .start = "0",
                  .fold = "acc + (double)x",
                  .combine = "acc + other",
                  .load = cat("float x; { const uint64 at = e;\n", offsets, tile.text(1), "x = r",
                              program.sum.reg, "; }\n"),
                  .stored = cat("((float*)p.at[0])[at] = (float)(acc / ",
                                program.sum.mean ? folded : int64_t{1}, ".0);\n")};
  return fused_run(
      folding(shape, program.sum.axes, fold, static_cast<int>(tile.loads().size()) + 1), {out},
      tile.loads());
}

BoundKernel fused_kernel(const KernelSite& site) {
  if (!site.decided().program) throw InternalError("a p.fused node has no program");
  const TileProgram& program = *site.decided().program;
  std::vector<KernelFn> runs;
  // The sum first: results may take the memory of operands that it reads.
  if (program.sum.reg >= 0) runs.push_back(fused_sum(site, program));
  std::vector<bool> taken(site.out_size());
  for (size_t i = 0; i < site.out_size(); ++i) {
    if (taken[i] || program.results[i] < 0) continue;
    std::vector<int> outs;
    for (size_t j = i; j < site.out_size(); ++j) {
      if (program.results[j] < 0 || !(site.out_at(j)->shape == site.out_at(i)->shape)) continue;
      taken[j] = true;
      outs.push_back(static_cast<int>(j));
    }
    runs.push_back(fused_results(site, program, outs));
  }
  return on_queue([runs = std::move(runs)](const KernelArgs& k) {
    for (const KernelFn& run : runs) run(k);
  });
}

}  // namespace

void add_fused(DeviceKernels& kernels) {
  add_to(kernels, "p.fused", "generated", untyped(fused_kernel), Halves::taken);
}

}  // namespace trireme::cuda
