// Taking one of several ways: rows split and merged by a mask, one operand chosen by a number.
#include <span>

#include "core/text.h"
#include "ops/host/host_operands.h"
#include "ops/rules.h"

namespace trireme {
namespace {

// ---- split_lod_tensor, merge_lod_tensor

std::span<const bool> mask_at(const KernelArgs& k, int at) {
  const Tensor& mask = k.in(at);
  if (mask.dtype() != DType::boolean) {
    throw Error(cat("Mask is ", mask.describe(), ", not bool"))
        .fix("compare two values to get a bool");
  }
  return {mask.data<bool>(), static_cast<size_t>(mask.numel())};
}

// Items that a mask speaks about: sequences of one level, or rows where there is no LoD.
int64_t items_of(const Tensor& x, size_t level) {
  if (x.lod().empty()) return x.shape().at(0);
  return static_cast<int64_t>(x.lod().at(level).size()) - 1;
}

KernelFn split(const KernelSite& site) {
  return [level = static_cast<size_t>(site.attr<int32_t>("level")), x_at = site.position("X"),
          mask_position = site.position("Mask"), true_at = site.out_position("OutTrue"),
          false_at = site.out_position("OutFalse"),
          part = std::make_shared<PieceList>()](const KernelArgs& k) {
    const Tensor& x = k.in(x_at);
    const std::span<const bool> mask = mask_at(k, mask_position);
    if (level > 0 && level >= x.lod().size()) {
      throw Error(cat("level is ", level, " but X is ", x.describe()));
    }
    if (items_of(x, level) != static_cast<int64_t>(mask.size())) {
      throw Error(cat("X is ", x.describe(), " but Mask has ", mask.size(), " elements"))
          .fix("give one bool per row, or per sequence");
    }
    for (const bool side : {true, false}) {
      const int at = side ? true_at : false_at;
      if (!k.has_out(at)) continue;
      part->clear();
      for (size_t i = 0; i < mask.size(); ++i) {
        if (mask[i] != side) continue;
        const auto item = static_cast<int64_t>(i);
        part->add(x, level, item, item + 1);
      }
      part->join(&x, *k.outs[at]);
    }
  };
}

KernelFn merge(const KernelSite& site) {
  return [level = static_cast<size_t>(site.attr<int32_t>("level")), x_at = site.position("X"),
          mask_position = site.position("Mask"), true_at = site.position("InTrue"),
          false_at = site.position("InFalse"),
          all = std::make_shared<PieceList>()](const KernelArgs& k) {
    const Tensor& x = k.in(x_at);
    const std::span<const bool> mask = mask_at(k, mask_position);
    const Tensor* sides[2] = {&k.in(false_at), &k.in(true_at)};
    int64_t next[2] = {0, 0};  // items, or rows where X says how many rows an item has
    all->clear();
    bool grouped = false;
    for (size_t i = 0; i < mask.size(); ++i) {
      const Tensor& side = *sides[mask[i]];
      int64_t& at = next[mask[i]];
      int64_t take = 1;
      // Gradients may come without LoD: the rows are those of X.
      if (side.lod().empty() && level < x.lod().size() && i + 1 < x.lod()[level].size()) {
        const auto item = static_cast<int64_t>(i);
        const RowRange rows = rows_of_items(x.lod(), level, item, item + 1);
        take = rows.end - rows.begin;
        grouped = true;
      }
      const int64_t items = items_of(side, 0);
      if (at + take > items) {
        throw Error(cat("Mask asks for ", at + take, " items of ", mask[i] ? "InTrue" : "InFalse",
                        ", which is ", side.describe()))
            .fix("merge what was split with the same mask");
      }
      all->add(side, 0, at, at + take);
      at += take;
    }
    const Tensor* like = sides[1]->numel() > 0 ? sides[1] : sides[0];
    all->join(like, *k.outs[0]);
    if (grouped && k.out(0).lod().empty()) k.out(0).mutable_lod() = x.lod();
  };
}

void like(OpView& op, std::string_view in, std::string_view out) {
  if (!op.wants(out)) return;
  const ValueInfo& x = op.in(in);
  op.set_out(out, x.dtype, x.shape);
  ValueInfo& result = op.out(out);
  result.lod_level = x.lod_level;
  result.known = x.known;
  if (result.shape.rank() > 0) result.shape[0] = Dim();
}

void register_split_merge(Registry& ops) {
  ops.op("split_lod_tensor")
      .doc("Parts the rows or sequences of a tensor by a mask.")
      .in("X", "rows, or sequences")
      .in("Mask", "bool [n, 1], one per row or sequence")
      .out("OutTrue", "those whose mask is true")
      .out("OutFalse", "the others")
      .attr("level", 0, "the LoD level whose sequences are parted")
      .at_least(0)
      .shape([](OpView& op) {
        like(op, "X", "OutTrue");
        like(op, "X", "OutFalse");
      })
      .grad_maker([](GradMaker& g) {
        g.append({"merge_lod_tensor",
                  {{"X", g.in("X")},
                   {"Mask", g.in("Mask")},
                   {"InTrue", g.out_grad("OutTrue")},
                   {"InFalse", g.out_grad("OutFalse")}},
                  {{"Out", g.in_grad("X")}},
                  {{"level", g.op().attr_or<int32_t>("level", 0)}}});
      })
      .no_grad({"Mask"})
      .traits({.host = true, .linear = true})
      .kernel(untyped(split));
  ops.op("merge_lod_tensor")
      .doc("Puts together what split_lod_tensor parted.")
      .in("X", "what was split, or the mask: its LoD may say how rows group")
      .in("Mask", "bool [n, 1], one per row or sequence")
      .in("InTrue", "rows or sequences whose mask is true")
      .in("InFalse", "the others")
      .out("Out", "all of them, in the order of the mask")
      .attr("level", 0, "the LoD level whose sequences were parted")
      .at_least(0)
      .shape([](OpView& op) { like(op, "InTrue", "Out"); })
      .grad_maker([](GradMaker& g) {
        g.append({"split_lod_tensor",
                  {{"X", g.out_grad("Out")}, {"Mask", g.in("Mask")}},
                  {{"OutTrue", g.in_grad("InTrue")}, {"OutFalse", g.in_grad("InFalse")}},
                  {{"level", g.op().attr_or<int32_t>("level", 0)}}});
      })
      .no_grad({"X", "Mask"})
      .traits({.host = true, .linear = true})
      .kernel(untyped(merge));
}

// ---- select_input, select_output

size_t chosen(const KernelArgs& k, int mask, size_t ways) {
  const Tensor& number = k.in(mask);
  if (number.numel() != 1) {
    throw Error(cat("Mask is ", number.describe(), ", not one number"));
  }
  const auto way = static_cast<int64_t>(element_as_double(number, 0));
  if (way < 0 || static_cast<size_t>(way) >= ways) {
    throw Error(ErrorKind::out_of_range, cat("Mask is ", way, " but there are ", ways, " ways"))
        .fix(cat("choose from 0 to ", ways - 1));
  }
  return static_cast<size_t>(way);
}

void register_select(Registry& ops) {
  ops.op("select_input")
      .doc("One of several variables, chosen by a number.")
      .in_optional_list("X", "the variables; those that are not chosen may hold nothing")
      .in("Mask", "which one, one integer")
      .out("Out", "a copy of it")
      .shape([](OpView& op) {
        if (op.count("X") == 0)
          throw op.error("X is empty").fix("give it variables to choose from");
        op.set_out_like("Out", op.in("X"));
        Shape& shape = op.out("Out").shape;
        for (size_t i = 1; i < op.count("X"); ++i) {
          const Shape& other = op.in("X", i).shape;
          for (int d = 0; other.rank() == shape.rank() && d < shape.rank(); ++d) {
            if (!(other[d] == shape[d])) shape[d] = Dim();
          }
        }
      })
      .grad_maker([](GradMaker& g) {
        g.append({"select_output",
                  {{"X", g.out_grad("Out")}, {"Mask", g.in("Mask")}},
                  {{"Out", g.in_grad("X")}},
                  {}});
      })
      .no_grad({"Mask"})
      .traits({.host = true, .inferred_ahead = true, .linear = true})
      .kernel(untyped([](const KernelSite& site) {
        std::vector<std::string> names;
        for (size_t i = 0; i < site.count("X"); ++i) names.push_back(site.in("X", i).name);
        return [names, x = site.position("X"), mask = site.position("Mask")](const KernelArgs& k) {
          const size_t way = chosen(k, mask, names.size());
          const Variable& source = *k.ins[x + static_cast<int>(way)];
          if (!source.initialized() && source.kind() != Kind::array) {
            throw Error(ErrorKind::precondition,
                        cat("Mask chooses ", names[way],
                            ", which holds nothing: the block that writes it did not run"))
                .fix(cat("write ", names[way], " on every way that chooses it"));
          }
          k.outs[0]->copy_from(source);
        };
      }));
  ops.op("select_output")
      .doc("Hands a variable to one of several, chosen by a number; the others are zero.")
      .in("X", "the variable")
      .in("Mask", "which one, one integer")
      .out_list("Out", "a copy of X in one, zeros like X in the others")
      .shape([](OpView& op) {
        for (size_t i = 0; i < op.out_count("Out"); ++i) {
          if (op.out_position("Out", i) < 0 || !op.out_at(op.out_position("Out", i))) continue;
          ValueInfo& out = op.out("Out", i);
          const std::string name = out.name;
          out = op.in("X");
          out.name = name;
        }
      })
      .traits({.host = true, .inferred_ahead = true, .linear = true})
      .kernel(untyped([](const KernelSite& site) {
        return [first = site.out_position("Out"), ways = site.out_count("Out"),
                x = site.position("X"), mask = site.position("Mask")](const KernelArgs& k) {
          const Variable& source = *k.ins[x];
          const size_t way = chosen(k, mask, ways);
          for (size_t i = 0; i < ways; ++i) {
            const int at = first + static_cast<int>(i);
            if (!k.has_out(at)) continue;
            if (i == way) {
              k.outs[at]->copy_from(source);
            } else if (source.kind() == Kind::dense) {
              set_zeros(*k.outs[at], source.tensor());
              k.out(at).mutable_lod().clear();
            } else {
              if (source.kind() != Kind::array || k.outs[at]->kind() != Kind::array) {
                k.outs[at]->clear();
              }
              if (source.kind() == Kind::array) k.outs[at]->array().clear();
            }
          }
        };
      }));
}

}  // namespace

void register_branch(Registry& ops) {
  register_split_merge(ops);
  register_select(ops);
  ops.op("rnn_memory_helper")
      .doc("A copy: what StaticRNN hands on or gives out.")
      .in("X", "any tensor")
      .out("Out", "a copy of it")
      .attr("dtype", static_cast<int32_t>(DType::float32), "kept for files; not used")
      .shape([](OpView& op) {
        require_dense(op, "X");
        op.set_out_like("Out", op.in("X"));
      })
      .body([](Body& b) { b.out("Out") = reshape_like(b.in("X"), b.in("X")); })
      .grad({"X", "Out"})
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.uniform(d.shape(1, 3))}}}};
      });
}

}  // namespace trireme
