// What a frame gives to its group and takes from it.
#include "runtime/collective_step.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "core/text.h"
#include "cpu/vectorised.h"

namespace trireme {
namespace {

using Way = Collective::Kind;

// By operand: whether it stands right behind the one before, in a bucket of the plan.
std::vector<bool> find_followers(const Plan& plan, const Node& node) {
  std::map<int, int> before;  // by value
  for (const Plan::Bucket& bucket : plan.buckets) {
    for (size_t i = 1; i < bucket.entries.size(); ++i) {
      before[bucket.entries[i].value] = bucket.entries[i - 1].value;
    }
  }
  std::vector<bool> follows(node.ins.size(), false);
  for (size_t i = 1; i < node.ins.size(); ++i) {
    const auto found = before.find(node.ins[i]);
    follows[i] = found != before.end() && found->second == node.ins[i - 1];
  }
  return follows;
}

Collective what_by_ring(const Attrs& attrs) {
  const auto& way = std::get<std::string>(attrs.at("way"));
  const auto& op = std::get<std::string>(attrs.at("op"));
  using Op = Collective::Op;
  return {.kind = way == "broadcast"    ? Way::broadcast
                  : way == "all_gather" ? Way::all_gather
                  : way == "barrier"    ? Way::barrier
                                        : Way::all_reduce,
          .op = op == "product" ? Op::product
                : op == "max"   ? Op::max
                : op == "min"   ? Op::min
                                : Op::sum,
          .root = std::get<int32_t>(attrs.at("root")),
          .tag = {}};
}

// Ranks may have other instructions besides, so what they exchange is named by what it is and by
// how often that has been exchanged before.
std::string tag_by_ring(const Plan& plan, int instruction) {
  const Node& node = plan.graph.nodes[plan.instructions[instruction].node];
  const auto name_of_first = [&](const Node& of) {
    return of.ins.empty() ? "barrier" : plan.graph.values[of.ins.front()].info.name;
  };
  int before = 0;
  for (int i = 0; i < instruction; ++i) {
    const Node& other = plan.graph.nodes[plan.instructions[i].node];
    before += other.schema == node.schema && name_of_first(other) == name_of_first(node);
  }
  std::string tag = name_of_first(node);
  if (node.ins.size() > 1) tag += cat(" and ", node.ins.size() - 1, " more");
  return before > 0 ? cat(tag, ", ", before + 1) : tag;
}

}  // namespace

CollectiveStep::CollectiveStep(const Plan& plan, int instruction)
    : node_(plan.graph.nodes[plan.instructions[instruction].node]),
      kind_(node_.schema->trait().exchange),
      to_first_(node_.decided.to_first) {
  const ValueInfo* first = node_.ins.empty() ? nullptr : &plan.graph.values[node_.ins[0]].info;
  follows_ = find_followers(plan, node_);
  if (kind_ == Exchange::by_ring) {
    what_ = what_by_ring(*node_.attrs);
    what_.tag = tag_by_ring(plan, instruction);
    ring_ = std::get<std::string>(node_.attrs->at("ring"));
  } else {
    what_.kind = kind_ == Exchange::sum_rows ? to_first_ ? Way::gather : Way::all_gather
                 : to_first_                 ? Way::reduce
                                             : Way::all_reduce;
    // A sum without a name is that of what each replica's loss averages over.
    const std::string name = !first ? "before the update" : first->name;
    what_.tag = cat("#", instruction, " ", name.empty() ? "the weight of the loss" : name);
  }
  what_.dtype = first ? first->dtype : DType::float32;
}

CollectiveStep::~CollectiveStep() = default;

void CollectiveStep::join(const std::shared_ptr<Group>& group) {
  if (kept_group_ == group) return;
  join(*group);
  kept_group_ = group;
}

void CollectiveStep::join(Group& group) {
  group_ = &group;
  started_ = false;
  if (kind_ == Exchange::by_ring) check_members(*node_.attrs);
  if (kind_ != Exchange::sum_rows) {
    ticket_ = group.prepare(what_);
    return;
  }
  counts_.resize(static_cast<size_t>(group.size()));
  Collective what = what_;
  what.tag = what_.tag + ", values";
  ticket_ = group.prepare(what);
  what.tag = what_.tag + ", rows";
  what.dtype = DType::int64;
  row_ticket_ = group.prepare(what);
  what.tag = what_.tag + ", how many rows";
  what.kind = Way::all_gather;
  count_ticket_ = group.prepare(what);
}

void CollectiveStep::check_members(const Attrs& attrs) const {
  const int size = group_->size(), ranks = std::get<int32_t>(attrs.at("ranks"));
  if (what_.root < 0 || what_.root >= size) {
    throw Error(cat("root is ", what_.root, ", but there are ", size, " ranks"))
        .fix("choose a rank");
  }
  if (what_.kind == Way::all_gather && ranks != size) {
    throw Error(cat("nranks is ", ranks, ", but there are ", size, " ranks"))
        .fix("give the number of ranks");
  }
}

bool CollectiveStep::run(const BoundInstruction& bound) {
  return kind_ == Exchange::sum_rows ? sum_rows(bound) : exchange(bound);
}

bool CollectiveStep::exchange(const BoundInstruction& bound) {
  if (!started_) {
    pieces_.clear();
    const Tensor* before = nullptr;
    for (size_t i = 0; i < bound.ins.size(); ++i) {
      const Tensor& in = std::as_const(*bound.ins[i]).tensor();
      const Tensor& out = std::as_const(*bound.outs[i]).tensor();
      // A parameter that was set to another shape than the program says has a gradient elsewhere.
      const bool goes_on = follows_[i] && before->buffer() == in.buffer();
      before = &in;
      if (!goes_on) {
        pieces_.push_back({.in = in.address(), .out = out.address(), .count = in.numel()});
        continue;
      }
      Piece& piece = pieces_.back();
      const auto between =
          static_cast<const std::byte*>(in.address()) - static_cast<const std::byte*>(piece.in);
      piece.count = between / static_cast<std::ptrdiff_t>(size_of(in.dtype())) + in.numel();
    }
    ticket_->start({.pieces = pieces_});
    started_ = true;
  }
  if (!ticket_->done()) return false;
  started_ = false;
  return true;
}

bool CollectiveStep::sum_rows(const BoundInstruction& bound) {
  const SelectedRows& mine = std::as_const(*bound.ins[0]).rows();
  if (!started_) {
    stage_ = Stage::counts;
    count_ = static_cast<int64_t>(mine.rows.size());
    count_piece_ = {.in = &count_, .out = counts_.data(), .count = 1};
    count_ticket_->start({.pieces = {&count_piece_, 1}});
    started_ = true;
  }
  if (stage_ == Stage::counts) {
    if (!count_ticket_->done()) return false;
    gather_rows(mine);
    stage_ = Stage::rows;
    rows_done_ = false;
  }
  if (!rows_done_ && !row_ticket_->done()) return false;
  rows_done_ = true;
  if (!ticket_->done()) return false;
  started_ = false;
  Variable& taker = *bound.outs[0];
  if (taker.kind() != Kind::rows) taker.clear();
  if (takes_result()) merge_rows(mine, taker.rows());
  return true;
}

void CollectiveStep::gather_rows(const SelectedRows& mine) {
  const int64_t all = std::accumulate(counts_.begin(), counts_.end(), int64_t{0});
  const Shape& shape = mine.value.shape();
  const int64_t width = shape.product(1, shape.rank()).value();
  if (takes_result()) {
    gathered_.rows.resize(static_cast<size_t>(all));
    Shape whole = shape;
    whole[0] = all;
    gathered_.value.resize(mine.value.dtype(), whole);
  }
  row_piece_ = {.in = mine.rows.address(),
                .out = takes_result() ? gathered_.rows.address() : nullptr,
                .count = count_};
  row_ticket_->start({.pieces = {&row_piece_, 1}, .counts = counts_});
  pieces_.assign(1, {.in = count_ > 0 ? mine.value.address() : nullptr,
                     .out = takes_result() ? gathered_.value.address() : nullptr,
                     .count = count_ * width});
  value_counts_ = counts_;
  for (int64_t& each : value_counts_) each *= width;
  ticket_->start({.pieces = pieces_, .counts = value_counts_});
}

// Each row once, ascending; what members hold for one row is added up in their order.
void CollectiveStep::merge_rows(const SelectedRows& mine, SelectedRows& sum) {
  order_.clear();
  for (size_t i = 0; i < gathered_.rows.size(); ++i) order_.emplace_back(gathered_.rows[i], i);
  std::sort(order_.begin(), order_.end());
  sum.height = mine.height;
  sum.rows.clear();
  for (const auto& [row, position] : order_) {
    if (sum.rows.empty() || sum.rows.back() != row) sum.rows.push_back(row);
  }
  Shape shape = gathered_.value.shape();
  shape[0] = static_cast<int64_t>(sum.rows.size());
  sum.value.resize(gathered_.value.dtype(), shape);
  const int64_t width = shape.product(1, shape.rank()).value();
  const auto add = [&]<class T>(T* sums) {
    const T* given = std::as_const(gathered_.value).data<T>();
    int64_t at = -1;  // among the sums
    for (const auto& [row, position] : order_) {
      const T* from = given + static_cast<int64_t>(position) * width;
      if (at < 0 || sum.rows[static_cast<size_t>(at)] != row) {
        std::copy_n(from, width, sums + ++at * width);
        continue;
      }
      T* to = sums + at * width;
      vectorised([=] {
        for (int64_t i = 0; i < width; ++i) to[i] += from[i];
      });
    }
  };
  switch (sum.value.dtype()) {
    case DType::float32:
      return add(sum.value.data<float>());
    case DType::float64:
      return add(sum.value.data<double>());
    default:
      throw InternalError(cat("a gradient of type ", name_of(sum.value.dtype())));
  }
}

}  // namespace trireme
