// Ranks meet (gen_nccl_id, c_gen_nccl_id, c_comm_init) and exchange tensors (c_allreduce_sum, ...).
// The names are those of programs; who carries the tensors is comm/'s affair.
#include "ops/remote/rings.h"

#include <cstring>

#include "comm/process_group.h"
#include "comm/ring.h"
#include "core/caller_poll.h"
#include "core/endpoints.h"
#include "core/flags.h"
#include "core/text.h"
#include "ir/schema.h"
#include "ops/host/host_operands.h"
#include "ops/run_context.h"

namespace trireme {
namespace {

using RankNames = std::vector<std::string>;
using Way = Collective::Kind;

std::chrono::milliseconds flag_in_ms(const char* name) {
  return std::chrono::milliseconds(std::get<int64_t>(get_flag(name)));
}

std::shared_ptr<Ring> meet(const RankNames& endpoints, int rank, const std::string& purpose,
                           int per_node = 0) {
  const auto limit = flag_in_ms("rpc_deadline");
  ProcessGroupOptions options{
      .who = {.endpoints = endpoints,
              .rank = rank,
              .purpose = purpose,
              .limit = limit.count() > 0 ? limit : std::chrono::hours{24 * 365},
              .poll = poll_caller},
      .per_node = per_node,
      .limit = flag_in_ms("collective_limit")};
  return std::make_shared<Ring>(make_process_group(options), endpoints);
}

void check_rank(const KernelSite& site, int rank, size_t count) {
  if (rank >= 0 && static_cast<size_t>(rank) < count) return;
  throw site.error(cat("this is rank ", rank, " of ", count))
      .fix(cat("give a rank from 0 to ", count - 1));
}

// 0: one level.
int ranks_of_a_node(const KernelSite& site, int ranks) {
  if (!site.attr<bool>("use_hierarchical_allreduce")) return 0;
  const int each = site.attr<int32_t>("hierarchical_allreduce_inter_nranks");
  if (each > 1 && each < ranks && ranks % each == 0) return each;
  throw site
      .error(
          cat("hierarchical_allreduce_inter_nranks is ", each, ", and there are ", ranks, " ranks"))
      .fix("give the number of ranks of one node: more than one, and a part of all");
}

KernelFn gen_nccl_id(const KernelSite& site) {
  const auto endpoints = site.attr<RankNames>("trainers");
  const int rank = site.attr<int32_t>("trainer_id");
  check_endpoints(endpoints, {"gen_nccl_id", "trainers"});
  check_rank(site, rank, endpoints.size());
  const int per_node = ranks_of_a_node(site, static_cast<int>(endpoints.size()));
  const std::string purpose =
      cat("an nccl2 job", per_node > 0 ? cat(", ", per_node, " ranks a node") : "");
  return [=](const KernelArgs& k) {
    k.outs[0]->clear();
    k.outs[0]->set_host(meet(endpoints, rank, purpose, per_node));
  };
}

KernelFn c_gen_nccl_id(const KernelSite& site) {
  RankNames endpoints = site.attr<RankNames>("other_endpoints");
  const int rank = site.attr<int32_t>("rank");
  check_rank(site, rank, endpoints.size() + 1);
  endpoints.insert(endpoints.begin() + rank, site.attr<std::string>("endpoint"));
  check_endpoints(endpoints, {"c_gen_nccl_id", "endpoints"});
  return [=, id = site.out("Out").name](const KernelArgs& k) {
    k.outs[0]->clear();
    k.outs[0]->set_host(meet(endpoints, rank, "ring " + id));
  };
}

KernelFn c_comm_init(const KernelSite& site) {
  const int ranks = site.attr<int32_t>("nranks"), rank = site.attr<int32_t>("rank"),
            ring_id = site.attr<int32_t>("ring_id");
  return [=, id = site.in("X").name](const KernelArgs& k) {
    const auto ring = std::as_const(*k.ins[0]).host<Ring>();
    if (!ring) {
      throw Error(ErrorKind::precondition, cat(id, " holds no ring: the ranks have not met"))
          .fix("let c_gen_nccl_id write it first");
    }
    if (ring->group->size() != ranks || ring->group->rank() != rank) {
      throw Error(cat("nranks is ", ranks, " and rank ", rank, ", but ", id, " was made by rank ",
                      ring->group->rank(), " of ", ring->group->size()))
          .fix("give c_gen_nccl_id and c_comm_init the same ranks");
    }
    k.run->scope().var(ring_name(ring_id)).set_host(ring);
  };
}

// A ticket for each tensor of an op, made when the ring is there.
struct RingCall {
  Collective what;
  std::string name;  // of the variable that holds the ring
  std::shared_ptr<Ring> ring = nullptr;
  std::unique_ptr<Ticket> ticket = nullptr;

  Ticket& on(const Scope& scope) {
    std::shared_ptr<Ring> found = find_ring(scope, name);
    if (found != ring) {
      if (what.root < 0 || what.root >= found->group->size()) {
        throw Error(cat("root is ", what.root, ", but there are ", found->group->size(), " ranks"))
            .fix("choose a rank");
      }
      ticket = found->group->prepare(what);
      ring = std::move(found);
    }
    return *ticket;
  }
};

std::shared_ptr<RingCall> call_of(const KernelSite& site, Way kind, Collective::Op op, int root = 0,
                                  std::string ring = "") {
  const ValueInfo& x = site.in("X");
  return std::make_shared<RingCall>(
      RingCall{.what = {.kind = kind, .dtype = x.dtype, .op = op, .root = root, .tag = x.name},
               .name = ring.empty() ? ring_name(site.attr<int32_t>("ring_id")) : std::move(ring)});
}

KernelFn same_on_all(std::shared_ptr<RingCall> call) {
  return [call](const KernelArgs& k) {
    const Tensor& x = k.in(0);
    const Lod lod = x.lod();  // Out may be X
    Tensor& out = result_of_shape(*k.outs[0], x.dtype(), x.shape());
    out.set_lod(lod);
    const Piece piece{.in = x.address(), .out = out.address(), .count = x.numel()};
    run_collective(call->on(k.run->scope()), {.pieces = {&piece, 1}});
  };
}

KernelFn c_broadcast(const KernelSite& site) {
  return same_on_all(
      call_of(site, Way::broadcast, Collective::Op::sum, site.attr<int32_t>("root")));
}

KernelFn reduced(const KernelSite& site, Collective::Op op, std::string ring = "") {
  return same_on_all(call_of(site, Way::all_reduce, op, 0, std::move(ring)));
}

KernelFn allreduce(const KernelSite& site) {
  using Op = Collective::Op;
  const int type = site.attr<int32_t>("reduce_type");
  if (type < 0 || type > 3) {
    throw site.error(cat("reduce_type is ", type)).fix("0 sum, 1 product, 2 max, 3 min");
  }
  constexpr Op kOps[] = {Op::sum, Op::product, Op::max, Op::min};
  return reduced(site, kOps[type], kProcessesName);
}

KernelFn c_allgather(const KernelSite& site) {
  auto call = call_of(site, Way::all_gather, Collective::Op::sum);
  const int ranks = site.attr<int32_t>("nranks");
  return [=](const KernelArgs& k) {
    const Tensor& x = k.in(0);
    Ticket& ticket = call->on(k.run->scope());
    if (call->ring->group->size() != ranks) {
      throw Error(cat("nranks is ", ranks, ", but there are ", call->ring->group->size(), " ranks"))
          .fix("give the number of ranks");
    }
    Shape shape = x.shape();
    if (shape.rank() == 0) shape.push_back(1);
    shape[0] = shape.at(0) * ranks;
    Tensor& out = result_of_shape(*k.outs[0], x.dtype(), shape);
    const Piece piece{.in = x.address(), .out = out.address(), .count = x.numel()};
    run_collective(ticket, {.pieces = {&piece, 1}});
  };
}

KernelFn barrier_kernel(const KernelSite& site) {
  auto call = call_of(site, Way::barrier, Collective::Op::sum);
  return [=](const KernelArgs& k) { run_collective(call->on(k.run->scope()), {}); };
}

OpSchema& of_ranks(Registry& ops, const char* type, const char* doc,
                   std::function<KernelFn(const KernelSite&)> make) {
  return ops.op(type)
      .doc(doc)
      .traits({.host = true, .effect = true, .no_inference = true})
      .kernel(untyped(std::move(make)));
}

// A tensor of every rank, and what they make of them.
OpSchema& exchanged(Registry& ops, const char* type, const char* doc,
                    std::function<KernelFn(const KernelSite&)> make) {
  return of_ranks(ops, type, doc, std::move(make))
      .in("X", "any tensor")
      .out("Out", "like X")
      .attr("ring_id", 0, "the ring")
      .attr("use_calc_stream", false, "accepted; changes no result");
}

void register_meeting(Registry& ops) {
  of_ranks(ops, "gen_nccl_id", "All ranks meet: what replicas exchange goes to all of them.",
           gen_nccl_id)
      .out("NCCLID", "the ranks, as this one knows them")
      .attr("trainers", RankNames{}, "endpoints of all ranks")
      .required_attr<int32_t>("trainer_id", "this rank")
      .attr("nccl_comm_num", 1, "number of rings; one carries all")
      .attr("use_hierarchical_allreduce", false,
            "sums inside nodes first, then among the first ranks of nodes")
      .attr("hierarchical_allreduce_inter_nranks", -1, "ranks of one node");
  of_ranks(ops, "c_gen_nccl_id", "The ranks of one ring meet.", c_gen_nccl_id)
      .out("Out", "the ranks, as this one knows them")
      .required_attr<std::string>("endpoint", "of this rank")
      .attr("other_endpoints", RankNames{}, "of the others")
      .attr("rank", 0, "this rank");
  of_ranks(ops, "c_comm_init", "From here on the ring has its number.", c_comm_init)
      .in("X", "what c_gen_nccl_id has written")
      .required_attr<int32_t>("nranks", "how many ranks")
      .required_attr<int32_t>("rank", "this rank")
      .attr("ring_id", 0, "the ring")
      .attr("device_id", -1, "the device; -1: the executor's");
  ops.op("c_comm_init_all")
      .doc("Makes the communicators of all devices of this process.")
      .traits({.host = true, .effect = true, .no_inference = true, .cannot_run = true})
      .kernel(untyped([](const KernelSite& site) -> KernelFn {
        throw site.error("the devices of one process are no ranks here")
            .fix(
                "leave the transpiler out: CompiledProgram(program).with_data_parallel(loss_name) "
                "trains on all devices of a process");
      }))
      .attr("devices", std::vector<int32_t>{}, "the devices; empty: all")
      .attr("ring_id", 0, "the ring");
}

}  // namespace

void register_rings(Registry& ops) {
  using Op = Collective::Op;
  register_meeting(ops);
  exchanged(ops, "c_broadcast", "The root's value on every rank.", c_broadcast)
      .attr("root", 0, "whose value it is");
  const auto reduction = [&](const char* type, const char* doc, Op op) {
    exchanged(ops, type, doc, [op](const KernelSite& site) { return reduced(site, op); });
  };
  reduction("c_allreduce_sum", "The sum of all ranks' values on every rank.", Op::sum);
  reduction("c_allreduce_max", "The largest of all ranks' values on every rank.", Op::max);
  reduction("c_allreduce_min", "The smallest of all ranks' values on every rank.", Op::min);
  reduction("c_allreduce_prod", "The product of all ranks' values on every rank.", Op::product);
  exchanged(ops, "c_allgather", "All ranks' rows on every rank, in their order.", c_allgather)
      .attr("nranks", 1, "how many ranks");
  of_ranks(ops, "barrier", "Waits until every rank has come here.", barrier_kernel)
      .in("X", "any tensor")
      .out("Out", "nothing is written")
      .attr("ring_id", 0, "the ring");
  of_ranks(ops, "allreduce", "All ranks' values reduced into one, on every rank.", allreduce)
      .in("X", "any tensor")
      .out("Out", "like X")
      .attr("reduce_type", 0, "0 sum, 1 product, 2 max, 3 min")
      .attr("sync_mode", false, "accepted; changes no result");
  // One queue of work: what was asked before is done before, so there is nothing to wait for.
  for (const char* type : {"c_sync_calc_stream", "c_sync_comm_stream"}) {
    OpSchema& row = ops.op(type)
                        .doc("Orders computation and communication; X itself.")
                        .in("X", "any tensor")
                        .out("Out", "X")
                        .shape(same_as("X"))
                        .body([](Body& b) { b.out("Out") = b.in("X"); })
                        .inplace("X", "Out");
    if (std::string_view(type) == "c_sync_comm_stream") row.attr("ring_id", 0, "the ring");
  }
}

}  // namespace trireme
