// Ops that move whole rows between sequences: expand, expand_as, concat, reverse, reshape.
// Most are a map from output rows to input rows, made when the LoD is known.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "ops/sequence/sequence_rules.h"

namespace trireme {
namespace {

int64_t length(const std::vector<int64_t>& offsets, size_t i) {
  return offsets[i + 1] - offsets[i];
}

Lod one_level(std::vector<int64_t> offsets) { return {std::move(offsets)}; }

// --- sequence_expand: sequence i of X (or row i, when X has no LoD) is repeated as many times as
// sequence i of Y's ref_level has parts.

const std::vector<int64_t>* expand_reference(const OpView& op) {
  const ValueInfo& y = op.in("Y");
  if (y.lod.empty()) return sequence_offsets(op, "Y");
  const int levels = static_cast<int>(y.lod.size());
  const int level = op.attr<int>("ref_level");
  if (level < -1 || level >= levels) {
    throw op.error(cat("ref_level is ", level, " but Y has ", levels, " LoD levels"))
        .fix(cat("choose -1 (the last) or a level from 0 to ", levels - 1));
  }
  return level == -1 ? &y.lod.back() : &y.lod[static_cast<size_t>(level)];
}

std::vector<int64_t> expand_source(const OpView& op) {
  const ValueInfo& x = op.in("X");
  if (x.lod.size() > 1) {
    throw op.error(cat("X has ", x.lod.size(), " LoD levels but at most 1 can be expanded"))
        .fix("give X one LoD level or none");
  }
  std::vector<int64_t> offsets;
  if (!x.lod.empty()) {
    offsets = x.lod[0];
  } else {
    offsets.resize(static_cast<size_t>(x.shape.at(0)) + 1);
    std::iota(offsets.begin(), offsets.end(), int64_t{0});
  }
  const size_t wanted = expand_reference(op)->size() - 1;
  if (offsets.size() - 1 != wanted) {
    throw op
        .error(cat("X has ", offsets.size() - 1, x.lod.empty() ? " rows" : " sequences",
                   " but the level of Y it follows has ", wanted, " sequences"))
        .fix("give X one sequence (or one row, without LoD) for every sequence of Y");
  }
  return offsets;
}

RowMap expand_map(const KernelSite& op) {
  if (!expand_reference(op)) throw no_sequences(op, "Y");
  const std::vector<int64_t> source = expand_source(op);
  const std::vector<int64_t>& reference = *expand_reference(op);
  RowMap map;
  for (size_t i = 0; i + 1 < source.size(); ++i) {
    for (int64_t times = length(reference, i); times > 0; --times) {
      for (int64_t row = source[i]; row < source[i + 1]; ++row) map.push_back(row);
    }
  }
  return map;
}

void sequence_expand_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  Shape shape = x.shape;
  if (shape.rank() == 0) throw op.error("X has no dimensions").fix("give X rows: [rows, ...]");
  shape[0] = Dim();
  Lod lod;
  const std::vector<int64_t>* reference = expand_reference(op);
  if (reference && x.shape[0].known()) {
    const std::vector<int64_t> source = expand_source(op);
    std::vector<int64_t> offsets = {0};
    for (size_t i = 0; i + 1 < source.size(); ++i) {
      for (int64_t times = length(*reference, i); times > 0; --times) {
        offsets.push_back(offsets.back() + length(source, i));
      }
    }
    shape[0] = offsets.back();
    if (!x.lod.empty()) lod = one_level(std::move(offsets));
  }
  op.set_out("Out", x.dtype, shape);
  set_lod(op, "Out", std::move(lod), x.lod_level);
}

// --- sequence_expand_as: row i of X is repeated to the length of sequence i of Y.

RowMap expand_as_map(const KernelSite& op) {
  const std::vector<int64_t> reference = bound_offsets(op, "Y");
  RowMap map;
  for (size_t i = 0; i + 1 < reference.size(); ++i) {
    map.insert(map.end(), static_cast<size_t>(length(reference, i)), static_cast<int64_t>(i));
  }
  return map;
}

void expand_as_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  Shape shape = x.shape;
  if (shape.rank() == 0) throw op.error("X has no dimensions").fix("give X rows: [rows, ...]");
  shape[0] = Dim();
  if (const std::vector<int64_t>* reference = sequence_offsets(op, "Y")) {
    const auto sequences = static_cast<int64_t>(reference->size()) - 1;
    if (!x.shape[0].may_equal(sequences)) {
      throw op.error(cat("X has ", x.shape[0], " rows but Y has ", sequences, " sequences"))
          .fix("give X one row for every sequence of Y");
    }
    shape[0] = reference->back();
  }
  op.set_out("Out", x.dtype, shape);
  op.share_lod("Y", "Out");
}

// --- sequence_concat: sequence i of Out is sequence i of the first input, then of the second, ...

void sequence_concat_shape(OpView& op) {
  const ValueInfo& first = op.in("X");
  Shape shape = first.shape;
  std::vector<int64_t> offsets;
  bool known = true;
  for (size_t i = 0; i < op.count("X"); ++i) {
    const ValueInfo& x = op.in("X", i);
    Shape row = x.shape;
    if (row.rank() > 0) row[0] = first.shape.rank() > 0 ? first.shape[0] : Dim();
    if (row.rank() == 0 || !row.may_equal(first.shape)) {
      throw op.error(cat("X[", i, "] has shape ", x.shape, " but X[0] has ", first.shape))
          .fix("give inputs whose rows have one shape");
    }
    const std::vector<int64_t>* ends = sequence_offsets(op, "X", i);
    known = known && ends;
    if (!known) continue;
    if (i == 0) offsets.assign(ends->size(), 0);
    if (ends->size() != offsets.size()) {
      throw op
          .error(cat("X[", i, "] has ", ends->size() - 1, " sequences but X[0] has ",
                     offsets.size() - 1))
          .fix("give inputs with equal numbers of sequences");
    }
    for (size_t s = 0; s < ends->size(); ++s) offsets[s] += (*ends)[s];
  }
  shape[0] = known ? Dim(offsets.back()) : Dim();
  op.set_out("Out", first.dtype, shape);
  set_lod(op, "Out", known ? one_level(std::move(offsets)) : Lod{}, first.lod_level);
}

// For each input, the rows of Out its rows become.
std::vector<RowMap> concat_places(const KernelSite& site) {
  std::vector<std::vector<int64_t>> ends;
  for (size_t i = 0; i < site.count("X"); ++i) ends.push_back(bound_offsets(site, "X", i));
  std::vector<RowMap> places(ends.size());
  int64_t next = 0;
  for (size_t s = 0; s + 1 < ends[0].size(); ++s) {
    for (size_t i = 0; i < ends.size(); ++i) {
      for (int64_t n = length(ends[i], s); n > 0; --n) places[i].push_back(next++);
    }
  }
  return places;
}

BoundKernel concat(const KernelSite& site) {
  return BoundKernel([places = concat_places(site)](const KernelArgs& k) {
    auto* to = static_cast<std::byte*>(k.out(0).raw());
    for (size_t i = 0; i < places.size(); ++i) {
      if (places[i].empty()) continue;
      const Tensor& x = k.in(static_cast<int>(i));
      const size_t bytes = x.byte_size() / places[i].size();
      const auto* from = static_cast<const std::byte*>(x.raw());
      for (size_t row = 0; row < places[i].size(); ++row) {
        std::memcpy(to + static_cast<size_t>(places[i][row]) * bytes, from + row * bytes, bytes);
      }
    }
  });
}

BoundKernel concat_grad(const KernelSite& site) {
  const int dout = site.position("Out@GRAD");
  std::vector<KernelFn> gathers;
  std::vector<RowMap> places = concat_places(site);
  for (size_t i = 0; i < places.size(); ++i) {
    const int dx = site.out_position("X@GRAD", i);
    if (dx >= 0) gathers.push_back(gather_rows(dout, dx, std::move(places[i])).run);
  }
  return BoundKernel([=](const KernelArgs& k) {
    for (const KernelFn& gather : gathers) gather(k);
  });
}

// --- sequence_reverse: every sequence backwards. It is its own gradient.

BoundKernel reverse(const KernelSite& site) {
  const std::vector<int64_t> offsets = bound_offsets(site, "X");
  RowMap map;
  for (size_t i = 0; i + 1 < offsets.size(); ++i) {
    for (int64_t row = offsets[i + 1]; row > offsets[i]; --row) map.push_back(row - 1);
  }
  return gather_rows(0, 0, std::move(map));
}

void reverse_grad(GradMaker& g) {
  OpSpec spec{.type = "sequence_reverse"};
  spec.inputs["X"] = g.out_grad("Y");
  spec.outputs["Y"] = g.in_grad("X");
  g.append(std::move(spec));
}

// --- sequence_reshape: the elements of each sequence in rows of new_dim.

void reshape_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  const int64_t width = op.attr<int>("new_dim");
  if (x.shape.rank() != 2) {
    throw op.error(cat("X has shape ", x.shape, " but must be [rows, width]"))
        .fix("give X two dimensions");
  }
  Lod lod;
  const std::vector<int64_t>* offsets = sequence_offsets(op, "X");
  if (offsets && x.shape[1].known()) {
    lod = one_level(*offsets);
    for (size_t i = 1; i < offsets->size(); ++i) {
      const int64_t elements = length(*offsets, i - 1) * x.shape.at(1);
      if (elements % width != 0) {
        throw op
            .error(cat("sequence ", i - 1, " of X holds ", elements,
                       " elements, which do not fill rows of ", width))
            .fix("choose a new_dim that divides the elements of every sequence");
      }
      lod[0][i] = lod[0][i - 1] + elements / width;
    }
  }
  op.set_out("Out", x.dtype, {x.shape.numel() / Dim(width), width});
  set_lod(op, "Out", std::move(lod), x.lod_level);
}

// The same elements in the same order.
BoundKernel copy_sequence(const KernelSite& site, std::string_view from, std::string_view to) {
  const int in = site.position(from), out = site.out_position(to);
  return BoundKernel([=](const KernelArgs& k) {
    const size_t bytes = k.out(out).byte_size();
    if (bytes > 0) std::memcpy(k.out(out).raw(), k.in(in).raw(), bytes);
  });
}

OpSample expand_sample(Draw& draw, bool x_has_lod) {
  OpSample sample;
  const int64_t width = draw.size(1, 3);
  sample.inputs["X"] = {x_has_lod ? draw_sequences(draw, {width}) : draw.distinct({3, width})};
  sample.inputs["Y"] = {draw_sequences(draw, {1})};
  return sample;
}

}  // namespace

void register_sequence(Registry& ops) {
  ops.op("sequence_expand")
      .doc(
          "Repeats sequence i of X (row i, when X has no LoD) once for every part of sequence i "
          "of Y's ref_level")
      .in("X", "rows, in sequences or not")
      .in("Y", "gives its LoD, not its values")
      .out("Out", "the repeated rows; every repetition is a sequence when X has sequences")
      .attr("ref_level", -1, "the level of Y's LoD that is followed; -1 is the last")
      .shape(sequence_expand_shape)
      .kernel(untyped([](const KernelSite& s) { return gather_rows(0, 0, expand_map(s)); }))
      .grad({"X", "Y"})
      .no_grad({"Y"})
      .grad_kernel(add_rows_back("Out@GRAD", "X@GRAD", expand_map))
      .sample([](Draw& draw) { return expand_sample(draw, true); })
      .sample([](Draw& draw) { return expand_sample(draw, false); })
      .sample([](Draw& draw) {  // Y has 2 sequences of 3 sequences of rows
        OpSample sample = expand_sample(draw, false);
        sample.inputs["Y"] = {draw_sequences(draw, {1}, {.levels = 2})};
        const auto level = static_cast<int32_t>(draw.size(-1, 1));
        sample.attrs["ref_level"] = level;
        if (level == 0) sample.inputs["X"] = {draw.distinct({2, draw.size(1, 3)})};
        return sample;
      });

  ops.op("sequence_expand_as")
      .doc("Repeats row i of X to the length of sequence i of Y")
      .in("X", "one row for every sequence of Y")
      .in("Y", "gives its LoD, not its values")
      .out("Out", "as many rows as Y, with its LoD")
      .shape(expand_as_shape)
      .kernel(untyped([](const KernelSite& s) { return gather_rows(0, 0, expand_as_map(s)); }))
      .grad({"X", "Y"})
      .no_grad({"Y"})
      .grad_kernel(add_rows_back("Out@GRAD", "X@GRAD", expand_as_map))
      .sample([](Draw& draw) { return expand_sample(draw, false); });

  ops.op("sequence_concat")
      .doc("Joins the inputs sequence by sequence")
      .in_list("X", "inputs with equal numbers of sequences and rows of one shape")
      .out("Out", "sequence i is sequence i of each input, one after another")
      .shape(sequence_concat_shape)
      .kernel(untyped(concat))
      .grad({"X"})
      .grad_kernel(untyped(concat_grad))
      .sample([](Draw& draw) {
        OpSample sample;
        const int64_t width = draw.size(1, 3);
        for (int i = 0; i < 3; ++i) {
          sample.inputs["X"].push_back(draw_sequences(draw, {width}));
        }
        return sample;
      });

  ops.op("sequence_reverse")
      .traits({.linear = true})
      .doc("Every sequence of the last level backwards")
      .in("X", "rows in sequences")
      .out("Y", "like X")
      .shape([](OpView& op) {
        sequence_offsets(op, "X");
        op.set_out_like("Y", op.in("X"));
      })
      .kernel(untyped(reverse))
      .grad_maker(reverse_grad)
      .sample([](Draw& draw) {
        OpSample sample;
        sample.inputs["X"] = {
            draw_sequences(draw, {draw.size(1, 3)}, {.levels = draw.coin() ? 1 : 2})};
        return sample;
      });

  ops.op("sequence_reshape")
      .doc("The elements of every sequence in rows of new_dim")
      .in("X", "[rows, width] in sequences")
      .out("Out", "[elements / new_dim, new_dim]; sequences change their lengths")
      .required_attr<int>("new_dim", "the new width")
      .at_least(1)
      .shape(reshape_shape)
      .kernel(untyped([](const KernelSite& s) { return copy_sequence(s, "X", "Out"); }))
      .grad({"X"})
      .grad_kernel(
          untyped([](const KernelSite& s) { return copy_sequence(s, "Out@GRAD", "X@GRAD"); }))
      .sample([](Draw& draw) {
        OpSample sample;
        sample.inputs["X"] = {draw_sequences(draw, {4})};
        sample.attrs["new_dim"] = draw.coin() ? 2 : 1;
        return sample;
      });
}

}  // namespace trireme
