// Ops of transpiled programs that run in one process: cutting and joining of what servers hold.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "core/flags.h"
#include "core/random.h"
#include "core/text.h"
#include "ir/schema.h"
#include "ops/remote/row_init.h"

namespace trireme {
namespace {

const OpTraits kHostOp{.host = true, .no_inference = true};

// ---- split_byref

std::vector<int64_t> section_rows(const OpView& op) {
  const auto given = op.attr<std::vector<int32_t>>("sections");
  std::vector<int64_t> rows(given.begin(), given.end());
  if (const int num = op.attr<int32_t>("num"); rows.empty() && num > 0) {
    const Dim whole = op.in("X").shape.rank() ? op.in("X").shape[0] : Dim();
    if (whole.known() && whole.value() % num != 0) {
      throw op.error(cat("X has ", whole, " rows, which do not divide into ", num, " equal parts"))
          .fix("choose another num, or give sections");
    }
    rows.assign(static_cast<size_t>(num), (whole / Dim(num)).value());
  }
  return rows;
}

void split_byref_shape(OpView& op) {
  const ValueInfo& x = op.in("X");
  const std::vector<int64_t> rows = section_rows(op);
  if (rows.size() != op.out_count("Out")) {
    throw op
        .error(cat("there are ", rows.size(), " sections but ", op.out_count("Out"), " outputs"))
        .fix("give one output for every section");
  }
  Dim total = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    ValueInfo& out = op.out("Out", i);
    out.type = x.type;
    out.dtype = x.dtype;
    out.shape = x.shape;
    if (out.shape.rank() > 0) out.shape[0] = rows[i];
    total = total + Dim(rows[i]);
  }
  if (x.shape.rank() > 0 && !x.shape[0].may_equal(total)) {
    throw op.error(cat("the sections have ", total, " rows but X is ", x.shape))
        .fix("give sections that add up to the rows of X");
  }
}

KernelFn split_byref(const KernelSite& site) {
  const size_t count = site.out_count("Out");
  return [count](const KernelArgs& k) {
    const std::byte* from = k.in(0).bytes().data();
    for (size_t i = 0; i < count; ++i) {
      const std::span<std::byte> to = k.out(static_cast<int>(i)).bytes();
      if (!to.empty()) std::memcpy(to.data(), from, to.size());
      from += to.size();
    }
  };
}

// ---- tables whose rows go to server (id mod n)

int64_t shard_of(int64_t id, int64_t shards) { return ((id % shards) + shards) % shards; }

std::vector<int64_t> ids_of(const Tensor& tensor) {
  std::vector<int64_t> ids(static_cast<size_t>(tensor.numel()));
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = tensor.dtype() == DType::int32 ? tensor.data<int32_t>()[i] : tensor.data<int64_t>()[i];
  }
  return ids;
}

void split_rows(const SelectedRows& from, std::span<Variable* const> outs) {
  const auto shards = static_cast<int64_t>(outs.size());
  const size_t row_bytes = from.rows.empty() ? 0 : from.value.byte_size() / from.rows.size();
  for (int64_t shard = 0; shard < shards; ++shard) {
    outs[shard]->clear();
    SelectedRows& to = outs[shard]->rows();
    to.height = from.height;
    std::vector<size_t> taken;
    for (size_t r = 0; r < from.rows.size(); ++r) {
      if (shard_of(from.rows[r], shards) != shard) continue;
      to.rows.push_back(from.rows[r]);
      taken.push_back(r);
    }
    Shape shape = from.value.shape();
    shape[0] = static_cast<int64_t>(taken.size());
    to.value = Tensor(from.value.dtype(), shape);
    const std::byte* source = from.value.bytes().data();
    for (size_t i = 0; i < taken.size(); ++i) {
      std::memcpy(to.value.bytes().data() + i * row_bytes, source + taken[i] * row_bytes,
                  row_bytes);
    }
  }
}

// Ids are merged: every server is asked once for each row.
void split_dense_ids(std::span<Variable* const> ins, std::span<Variable* const> outs) {
  std::set<int64_t> wanted;
  for (const Variable* in : ins) {
    for (const int64_t id : ids_of(in->tensor())) wanted.insert(id);
  }
  const auto shards = static_cast<int64_t>(outs.size());
  for (int64_t shard = 0; shard < shards; ++shard) {
    std::vector<int64_t> ids;
    std::ranges::copy_if(wanted, std::back_inserter(ids),
                         [&](int64_t id) { return shard_of(id, shards) == shard; });
    outs[shard]->clear();
    outs[shard]->tensor() = make_tensor<int64_t>({static_cast<int64_t>(ids.size()), 1}, ids);
  }
}

KernelFn split_ids(const KernelSite& site) {
  const size_t in_count = site.count("Ids"), out_count = site.out_count("Out");
  return [=](const KernelArgs& k) {
    const std::span ins(k.ins, in_count), outs(k.outs, out_count);
    if (ins[0]->kind() == Kind::rows) {
      if (in_count > 1)
        throw Error(cat("Ids holds ", in_count, " variables but SelectedRows come alone"));
      split_rows(std::as_const(*ins[0]).rows(), outs);
    } else {
      split_dense_ids(ins, outs);
    }
  };
}

KernelFn merge_ids(const KernelSite& site) {
  const size_t asked = site.count("Ids"), shards = site.count("Rows");
  if (shards != site.count("X") || asked != site.out_count("Out")) {
    throw site
        .error(cat("there are ", asked, " Ids for ", site.out_count("Out"), " outputs and ", shards,
                   " Rows for ", site.count("X"), " X"))
        .fix("give one output for every Ids, and one X for every Rows");
  }
  const int ids_at = site.position("Ids"), rows_at = site.position("Rows"),
            x_at = site.position("X");
  return [=](const KernelArgs& k) {
    std::map<int64_t, std::pair<size_t, size_t>> place;  // id -> shard, row in it
    for (size_t s = 0; s < shards; ++s) {
      const std::vector<int64_t> rows = ids_of(k.in(rows_at + static_cast<int>(s)));
      for (size_t r = 0; r < rows.size(); ++r) place[rows[r]] = {s, r};
    }
    const Tensor& first = k.in(x_at);
    const Shape row_shape = first.shape();
    const size_t row_bytes = static_cast<size_t>(row_shape.product(1, row_shape.rank()).value()) *
                             size_of(first.dtype());
    for (size_t i = 0; i < asked; ++i) {
      const Tensor& ids_tensor = k.in(ids_at + static_cast<int>(i));
      const std::vector<int64_t> ids = ids_of(ids_tensor);
      Shape shape = row_shape;
      shape[0] = static_cast<int64_t>(ids.size());
      k.outs[i]->clear();
      Tensor& out = k.outs[i]->tensor();
      out = Tensor(first.dtype(), shape);
      out.set_lod(ids_tensor.lod());
      for (size_t j = 0; j < ids.size(); ++j) {
        const auto found = place.find(ids[j]);
        if (found == place.end()) throw Error(cat("Ids names ", ids[j], ", which no Rows holds"));
        const auto [shard, row] = found->second;
        std::memcpy(out.bytes().data() + j * row_bytes,
                    k.in(x_at + static_cast<int>(shard)).bytes().data() + row * row_bytes,
                    row_bytes);
      }
    }
  };
}

// The table has room for as many rows as its value has; an id seen for the first time takes the
// next of them, as it was initialised.
KernelFn lookup_sparse_table(const KernelSite& site) {
  const int w = site.position("W"), ids_at = site.position("Ids");
  const int64_t padding = site.attr<int64_t>("padding_idx");
  const bool grows = site.attr<bool>("auto_grown_table"), is_test = site.attr<bool>("is_test");
  return [=](const KernelArgs& k) {
    SelectedRows& table = k.ins[w]->rows();
    const Tensor& value = table.value;
    const int64_t capacity = value.shape().at(0);
    std::map<int64_t, int64_t> place;
    for (size_t r = 0; r < table.rows.size(); ++r) place.emplace(table.rows[r], r);
    const std::vector<int64_t> ids = ids_of(k.in(ids_at));
    Shape shape = value.shape();
    shape[0] = static_cast<int64_t>(ids.size());
    k.outs[0]->clear();
    Tensor& out = k.outs[0]->tensor();
    out = Tensor(value.dtype(), shape);
    const size_t row_bytes = ids.empty() ? 0 : out.byte_size() / ids.size();
    for (size_t i = 0; i < ids.size(); ++i) {
      std::byte* to = out.bytes().data() + i * row_bytes;
      auto found = place.find(ids[i]);
      if (found == place.end() && grows && !is_test && ids[i] != padding) {
        const auto next = static_cast<int64_t>(table.rows.size());
        if (next >= capacity) {
          throw Error(ErrorKind::resource_exhausted,
                      cat("the table has room for ", capacity, " ids and all are taken; id ",
                          ids[i], " is new"))
              .fix("build the embedding with more rows");
        }
        table.rows.push_back(ids[i]);
        found = place.emplace(ids[i], next).first;
      }
      if (ids[i] == padding || (found == place.end() && is_test)) {
        std::memset(to, 0, row_bytes);
      } else if (found == place.end()) {
        throw Error(cat("the table holds no row ", ids[i]));
      } else {
        std::memcpy(to, value.bytes().data() + static_cast<size_t>(found->second) * row_bytes,
                    row_bytes);
      }
    }
  };
}

KernelFn ref_by_trainer_id(const KernelSite& site) {
  const auto count = static_cast<int64_t>(site.count("X"));
  const int x = site.position("X"), id_at = site.position("TrainerId");
  return [=](const KernelArgs& k) {
    const Tensor& given = k.in(id_at);
    const int64_t id =
        given.dtype() == DType::int32 ? *given.data<int32_t>() : *given.data<int64_t>();
    if (id < 0 || id >= count) {
      throw Error(cat("TrainerId is ", id, " but there are ", count, " copies"));
    }
    const Tensor& from = k.in(x + static_cast<int>(id));
    copy_contents(from, k.out(0));
  };
}

// ---- variables that take no memory

KernelFn fake_init(const KernelSite& site) {
  const auto extents = site.attr<std::vector<int64_t>>("shape");
  const Shape shape{std::span<const int64_t>(extents)};
  if (!shape.known()) {
    throw site.error(cat("shape is [", join(extents), "]")).fix("give extents of 0 or more");
  }
  const DType dtype = site.out("Out").dtype;
  const bool rows = site.out("Out").type == VarType::selected_rows;
  return [=](const KernelArgs& k) {
    k.outs[0]->clear();
    if (rows) {
      k.outs[0]->rows().height = shape.rank() > 0 ? shape.at(0) : 0;
    } else {
      k.outs[0]->tensor() = Tensor::without_memory(dtype, shape);
    }
  };
}

KernelFn init_rows(const KernelSite& site) {
  using Law = RowInit::Law;
  static const std::map<std::string, std::tuple<Law, const char*, const char*>> laws = {
      {"fill_constant", {Law::constant, "value", "value"}},
      {"uniform_random", {Law::uniform, "min", "max"}},
      {"gaussian_random", {Law::normal, "mean", "std"}},
      {"truncated_gaussian_random", {Law::truncated_normal, "mean", "std"}}};
  const auto initializer = site.attr<std::string>("initializer");
  const auto found = laws.find(initializer);
  if (found == laws.end()) {
    throw site.error(cat("initializer is ", initializer))
        .fix("choose fill_constant, uniform_random, gaussian_random or truncated_gaussian_random");
  }
  const auto extents = site.attr<std::vector<int64_t>>("shape");
  const Shape shape{std::span<const int64_t>(extents)};
  if (shape.rank() < 1 || !shape.known() || site.out("Out").dtype != DType::float32) {
    throw site.error(cat("Out is ", name_of(site.out("Out").dtype), " ", shape))
        .fix("rows on first use are for tables of float32 with known extents");
  }
  const auto& [law, first, second] = found->second;
  if (law != Law::constant && std::get<bool>(get_flag("original_random"))) {
    throw site.error("FLAGS_original_random draws a table in order, not row by row")
        .fix("set FLAGS_original_random or FLAGS_table_memory, not both");
  }
  RowInit made;
  made.shape = shape;
  made.law = law;
  made.first = site.attr<float>(first);
  made.second = site.attr<float>(second);
  made.seed = static_cast<uint64_t>(site.attr<int64_t>("seed"));
  // That of the op which would make the whole table (ir/kernel.cc).
  made.stream = stream_of(cat(initializer, ' ', site.attr<int32_t>(kRandomPosition)));
  made.begin = static_cast<uint64_t>(stream_begin(site));
  return [made](const KernelArgs& k) {
    auto rows = std::make_shared<RowInit>(made);
    if (rows->seed == 0) rows->seed = fresh_seed();
    k.outs[0]->clear();
    k.outs[0]->set_host(std::move(rows));
  };
}

KernelFn delete_var(const KernelSite& site) {
  return [count = site.count("X")](const KernelArgs& k) {
    for (size_t i = 0; i < count; ++i) k.ins[i]->clear();
  };
}

}  // namespace

void register_sharding(Registry& ops) {
  ops.op("split_byref")
      .doc("Cuts a tensor into groups of rows.")
      .in("X", "any tensor with rows")
      .out_list("Out", "its rows, group by group")
      .attr("sections", std::vector<int32_t>{}, "rows of every group")
      .attr("num", 0, "this many equal groups, where sections is empty")
      .shape(split_byref_shape)
      .kernel(untyped(split_byref))
      .grad_maker([](GradMaker& g) {
        g.append({"concat", {{"X", g.out_grad("Out")}}, {{"Out", g.in_grad("X")}}, {{"axis", 0}}});
      })
      .sample([](Draw& d) {
        return OpSample{.inputs = {{"X", {d.uniform({5, d.size(1, 3)})}}},
                        .attrs = {{"sections", std::vector<int32_t>{2, 3}}},
                        .out_counts = {{"Out", 2}}};
      });

  ops.op("split_ids")
      .doc("Cuts ids, or the rows of a gradient, by id modulo the number of outputs.")
      .in_list("Ids", "tensors of ids (merged: each id comes out once), or one SelectedRows")
      .out_list("Out", "one part for every server")
      .traits(kHostOp)
      .kernel(untyped(split_ids));
  ops.op("merge_ids")
      .doc("Puts rows that came in parts back into the order of the ids that asked for them.")
      .in_list("Ids", "what was asked for")
      .in_list("Rows", "the ids of every part")
      .in_list("X", "the rows of every part")
      .out_list("Out", "rows in the order of Ids, with its LoD")
      .traits(kHostOp)
      .kernel(untyped(merge_ids));
  ops.op("lookup_sparse_table")
      .doc("Looks ids up in a table kept as SelectedRows.")
      .in("W", "the table: named rows, and room for more")
      .in("Ids", "the ids")
      .out("Out", "their rows")
      .attr("padding_idx", int64_t{-1}, "the id whose row is zeros; -1: none")
      .attr("auto_grown_table", true, "an unknown id takes a free row")
      .attr("is_test", false, "an unknown id reads as zeros and takes no row")
      .traits({.host = true, .effect = true, .no_inference = true})
      .kernel(untyped(lookup_sparse_table));
  ops.op("ref_by_trainer_id")
      .doc("The X of one trainer.")
      .in_list("X", "one for every trainer, all of one shape")
      .in("TrainerId", "which; one whole number")
      .out("Out", "that one")
      .shape(same_as("X"))
      .traits({.can_fail = true})
      .kernel(untyped(ref_by_trainer_id));

  ops.op("fake_init")
      .doc("Gives a variable a shape and no memory: its rows are on parameter servers.")
      .out("Out", "a tensor or SelectedRows")
      .required_attr<std::vector<int64_t>>("shape", "the shape")
      .traits({.host = true, .effect = true, .no_inference = true})
      .kernel(untyped(fake_init));
  ops.op("init_rows")
      .doc("Says how rows of a table begin that a parameter server makes when they are first used.")
      .out("Out", "the table")
      .required_attr<std::vector<int64_t>>("shape", "the shape of the table")
      .required_attr<std::string>("initializer", "the op that would make the whole table")
      .attr("value", 0.0f, "of fill_constant")
      .attr("min", -1.0f, "of uniform_random")
      .attr("max", 1.0f, "of uniform_random")
      .attr("mean", 0.0f, "of gaussian_random and truncated_gaussian_random")
      .attr("std", 1.0f, "of gaussian_random and truncated_gaussian_random")
      .attr("seed", int64_t{0}, "0: other numbers in every process")
      .attr(std::string(kRandomPosition), 0,
            "of the initializer among the random ops of its program")
      .traits({.host = true, .effect = true, .no_inference = true})
      .kernel(untyped(init_rows));
  ops.op("delete_var")
      .doc("Ends the life of variables: reading one after it is an error.")
      .in_list("X", "the variables")
      .traits({.host = true, .effect = true, .no_inference = true, .marker = Marker::end_of_life})
      .kernel(untyped(delete_var));
}

}  // namespace trireme
