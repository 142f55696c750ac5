// Stepping through sequences of different lengths: rank tables, and tensors cut into time steps.
#include "ops/control/rank_table.h"

#include <cstring>

#include "core/text.h"
#include "ops/host/host_operands.h"
#include "ops/rules.h"

namespace trireme {
namespace {

std::shared_ptr<RankTable> table_at(const KernelArgs& k, int at) {
  std::shared_ptr<RankTable> table = k.ins[at]->host<RankTable>();
  if (!table) {
    throw Error(ErrorKind::precondition, "RankTable holds no rank table")
        .fix("make it with lod_rank_table");
  }
  return table;
}

KernelFn lod_rank_table(const KernelSite& site) {
  return [level = site.attr<int32_t>("level")](const KernelArgs& k) {
    const Lod& lod = k.in(0).lod();
    if (level < 0 || static_cast<size_t>(level) >= lod.size()) {
      throw Error(cat("level is ", level, " but X has ", lod.size(), " levels of sequences"))
          .fix("feed X with its LoD, or choose a level that it has");
    }
    reused_host<RankTable>(*k.outs[0]).order(lod, static_cast<size_t>(level));
  };
}

// ---- tensors into time steps and back

void check_sequences(const RankTable& table, const Tensor& x) {
  const size_t level = table.level();
  if (x.lod().size() <= level) {
    throw Error(cat("X is ", x.describe(), " but the rank table orders sequences of level ", level))
        .fix("feed X with the LoD of the variable that the table was made from");
  }
  const std::vector<int64_t>& offsets = x.lod()[level];
  bool fits = offsets.size() == table.items.size() + 1;
  for (size_t i = 0; fits && i < table.items.size(); ++i) {
    const auto at = static_cast<size_t>(table.items[i].index);
    fits = offsets[at + 1] - offsets[at] == table.items[i].length;
  }
  if (!fits) {
    throw Error(cat("X is ", x.describe(), ": other sequences than the rank table was made from"))
        .fix("give step inputs whose sequences have the same lengths");
  }
}

// Element t holds step t of the sequences that have one, longest sequence first.
void cut_into_steps(const Tensor& x, const RankTable& table, PieceList& pieces,
                    TensorArray& steps) {
  check_sequences(table, x);
  const size_t level = table.level();
  steps.resize(static_cast<size_t>(table.longest()));
  for (int64_t t = 0; t < table.longest(); ++t) {
    pieces.clear();
    for (const RankTable::Item& item : table.items) {
      if (item.length <= t) break;
      const int64_t at = x.lod()[level][static_cast<size_t>(item.index)] + t;
      pieces.add(x, level + 1, at, at + 1);
    }
    pieces.join({}, &x, steps.renew(static_cast<size_t>(t)));
  }
}

// `gaps`: gradients, where elements that nobody read are zero.
void join_steps(const TensorArray& array, const RankTable& table, bool gaps, PieceList& all,
                Tensor& joined) {
  const Tensor* like = nullptr;
  for (const Tensor& element : array) {
    if (element.initialized() && !like) like = &element;
  }
  const auto missing = [&](int64_t t) {
    const auto at = static_cast<size_t>(t);
    return at >= array.size() || !array[at].initialized();
  };
  for (int64_t t = 0; t < table.longest(); ++t) {
    if (!missing(t) || (gaps && like)) continue;
    throw Error(ErrorKind::precondition,
                cat("the longest sequence has ", table.longest(), " steps but element ", t,
                    " of the array was never written"))
        .fix("write one element per step");
  }
  all.clear();
  for (const int64_t at : table.place) {
    for (int64_t t = 0; t < table.items[static_cast<size_t>(at)].length; ++t) {
      if (missing(t)) {
        all.add_zeros(1);
        continue;
      }
      const Tensor& element = array[static_cast<size_t>(t)];
      const int64_t items = element.lod().empty()
                                ? element.shape().at(0)
                                : static_cast<int64_t>(element.lod()[0].size()) - 1;
      if (at >= items) {
        throw Error(cat("element ", t, " of the array is ", element.describe(), " but ",
                        table.alive(t), " sequences have that many steps"))
            .fix("keep one row per sequence that is still going on");
      }
      all.add(element, 0, at, at + 1);
    }
  }
  all.join(table.levels, like, joined);
}

void like_ranked_x(OpView& op, VarType type, int lod_levels) {
  const ValueInfo& x = op.in("X");
  ValueInfo& out = op.out("Out");
  out.type = type;
  out.dtype = x.dtype;
  out.shape = x.shape;
  if (out.shape.rank() > 0) out.shape[0] = Dim();
  out.lod_level = std::max(0, x.lod_level + lod_levels);
  out.known = x.known;
}

// The gradient of each of the two is the other one, applied to gradients.
GradRule undone_by(const char* type) {
  return [type](GradMaker& g) {
    g.append({type,
              {{"X", g.out_grad("Out")}, {"RankTable", g.in("RankTable")}},
              {{"Out", g.in_grad("X")}},
              {}});
  };
}

void register_steps(Registry& ops) {
  ops.op("lod_tensor_to_array")
      .doc("Cuts sequences into time steps: element t holds row t of each that has one.")
      .in("X", "sequences")
      .in("RankTable", "their order by length")
      .out("Out", "one element per step of the longest sequence")
      .shape([](OpView& op) { like_ranked_x(op, VarType::lod_tensor_array, -1); })
      .grad_maker(undone_by("array_to_lod_tensor"))
      .no_grad({"RankTable"})
      .traits({.host = true, .linear = true})
      .kernel(untyped([](const KernelSite&) {
        return [pieces = std::make_shared<PieceList>()](const KernelArgs& k) {
          if (k.outs[0]->kind() != Kind::array) k.outs[0]->clear();
          cut_into_steps(k.in(0), *table_at(k, 1), *pieces, k.outs[0]->array());
        };
      }));
  ops.op("array_to_lod_tensor")
      .doc("Joins time steps to sequences again.")
      .in("X", "one element per step")
      .in("RankTable", "the order by length that the steps are in")
      .out("Out", "sequences in the order of the batch")
      .shape([](OpView& op) {
        require_array(op, "X");
        like_ranked_x(op, VarType::lod_tensor, 1);
      })
      .grad_maker(undone_by("lod_tensor_to_array"))
      .no_grad({"RankTable"})
      .traits({.host = true, .linear = true})
      .kernel(untyped([](const KernelSite& site) {
        return [gaps = works_on_gradients(site, site.in("X").name),
                pieces = std::make_shared<PieceList>()](const KernelArgs& k) {
          if (k.outs[0]->kind() != Kind::dense) k.outs[0]->clear();
          join_steps(std::as_const(*k.ins[0]).array(), *table_at(k, 1), gaps, *pieces, k.out(0));
        };
      }));
}

// ---- batches in the order of the table

// Sequence (or row, where there is no LoD) i of the result is number from(i) of x.
template <class From>
void reorder(const Tensor& x, const RankTable& table, From from, PieceList& all, Variable& result) {
  const int64_t items =
      x.lod().empty() ? x.shape().at(0) : static_cast<int64_t>(x.lod()[0].size()) - 1;
  if (items != static_cast<int64_t>(table.items.size())) {
    throw Error(
        cat("X is ", x.describe(), " but the rank table orders ", table.items.size(), " sequences"))
        .fix("give one row or one sequence per sequence of the batch");
  }
  all.clear();
  for (int64_t i = 0; i < items; ++i) {
    const int64_t at = from(static_cast<size_t>(i));
    all.add(x, 0, at, at + 1);
  }
  all.join(&x, result);
}

void register_reorder(Registry& ops) {
  const auto shape = [](OpView& op) { like_ranked_x(op, VarType::lod_tensor, 0); };
  ops.op("reorder_lod_tensor_by_rank")
      .doc("Puts the rows or sequences of a batch in the order of a rank table.")
      .in("X", "one row or one sequence per sequence of the table")
      .in("RankTable", "the order")
      .out("Out", "longest first")
      .shape(shape)
      .grad_maker(undone_by("reorder_lod_tensor_by_rank_grad"))
      .no_grad({"RankTable"})
      .traits({.host = true})
      .kernel(untyped([](const KernelSite&) {
        return [pieces = std::make_shared<PieceList>()](const KernelArgs& k) {
          const auto table = table_at(k, 1);
          reorder(
              k.in(0), *table, [&](size_t i) { return table->items[i].index; }, *pieces,
              *k.outs[0]);
        };
      }));
  ops.op("reorder_lod_tensor_by_rank_grad")
      .doc("The gradient of reorder_lod_tensor_by_rank: the order of the batch again.")
      .in("X", "the gradient of the reordered batch")
      .in("RankTable", "the order")
      .out("Out", "the gradient of the batch")
      .shape(shape)
      .traits({.host = true, .linear = true})
      .kernel(untyped([](const KernelSite&) {
        return [pieces = std::make_shared<PieceList>()](const KernelArgs& k) {
          const auto table = table_at(k, 1);
          reorder(
              k.in(0), *table, [&](size_t i) { return table->place[i]; }, *pieces, *k.outs[0]);
        };
      }));
}

// ---- shrink_rnn_memory

KernelFn shrink_memory(const KernelSite& site) {
  return [x = site.position("X"), table = site.position("RankTable"), i = site.position("I"),
          out = site.out_position("Out"),
          first = std::make_shared<PieceList>()](const KernelArgs& k) {
    const Tensor& memory = k.in(x);
    const auto step = static_cast<int64_t>(element_as_double(k.in(i), 0));
    const int64_t alive = table_at(k, table)->alive(step);
    const int64_t items = memory.lod().empty() ? memory.shape().at(0)
                                               : static_cast<int64_t>(memory.lod()[0].size()) - 1;
    if (alive > items) {
      throw Error(cat("X is ", memory.describe(), " but ", alive, " sequences have a step ", step))
          .fix("begin with one row per sequence");
    }
    first->clear();
    if (alive > 0) first->add(memory, 0, 0, alive);
    first->join(&memory, *k.outs[out]);
  };
}

// Sequences that ended earlier get no gradient from this step.
KernelFn grow_gradient(const KernelSite& site) {
  return [x = site.position("X"), gradient = site.position("Out@GRAD"),
          out = site.out_position("X@GRAD")](const KernelArgs& k) {
    const Tensor& memory = k.in(x);
    const Tensor& arriving = k.in(gradient);
    set_zeros(*k.outs[out], memory);
    if (arriving.byte_size() > 0) {
      std::memcpy(k.out(out).raw(), arriving.raw(), arriving.byte_size());
    }
  };
}

}  // namespace

void register_rank_table(Registry& ops) {
  ops.op("lod_rank_table")
      .doc("Orders the sequences of a batch by length, longest first.")
      .in("X", "sequences")
      .out("Out", "the rank table")
      .attr("level", 0, "the LoD level")
      .traits({.host = true, .no_inference = true})
      .kernel(untyped(lod_rank_table));
  ops.op("max_sequence_len")
      .in("RankTable", "sequences by length")
      .out("Out", "the length of the longest, int64 [1]")
      .shape([](OpView& op) { op.set_out("Out", DType::int64, {1}); })
      .traits({.host = true})
      .kernel(untyped([](const KernelSite&) {
        return [](const KernelArgs& k) { set_number(*k.outs[0], table_at(k, 0)->longest()); };
      }));
  register_steps(ops);
  register_reorder(ops);
  ops.op("shrink_rnn_memory")
      .doc("Keeps the rows of sequences that have a step I.")
      .in("X", "one row per sequence that was alive before, longest first")
      .in("RankTable", "sequences by length")
      .in("I", "the step, one integer")
      .out("Out", "the first rows of X")
      .shape([](OpView& op) { like_ranked_x(op, VarType::lod_tensor, 0); })
      .grad({"X"})
      .no_grad({"RankTable", "I"})
      .grad_kernel(untyped(grow_gradient))
      .traits({.host = true})
      .kernel(untyped(shrink_memory));
}

}  // namespace trireme
