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
#include "ir/body.h"
#include "ir/schema.h"
#include "ops/host/host_operands.h"
#include "ops/run_context.h"

namespace trireme {
namespace {

using RankNames = std::vector<std::string>;

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

// In the plan of a step it is an instruction like others (p.exchange): ranks go on while values
// travel, and those that are ready at about the same time go together.
Expr exchange(Expr x, std::string ring, const char* way, const char* op, int root = 0,
              int ranks = 1) {
  return emit("p.exchange", {x},
              {{"ring", std::move(ring)},
               {"way", std::string(way)},
               {"op", std::string(op)},
               {"root", int32_t{root}},
               {"ranks", int32_t{ranks}}});
}

std::string ring_of(const Body& b) { return ring_name(b.attr<int32_t>("ring_id")); }

void same_on_all(OpView& op) {
  if (op.in("X").type != VarType::lod_tensor) {
    throw op.error(cat("X is ", name_of(op.in("X").type)))
        .fix("exchange dense tensors: an embedding has them with is_sparse=False");
  }
  take_facts(op.in("X"), op.out("Out"));
}

void rows_of_all(OpView& op) {
  same_on_all(op);
  Shape& shape = op.out("Out").shape;
  if (shape.rank() == 0) shape.push_back(1);
  if (shape[0].known()) shape[0] = shape.at(0) * op.attr<int32_t>("nranks");
}

// The ranks meet.
OpSchema& meeting(Registry& ops, const char* type, const char* doc,
                  std::function<KernelFn(const KernelSite&)> make) {
  return ops.op(type)
      .doc(doc)
      .traits({.host = true, .effect = true, .no_inference = true})
      .kernel(untyped(std::move(make)));
}

// A tensor of every rank, and what they make of them.
OpSchema& exchanged(Registry& ops, const char* type, const char* doc) {
  return ops.op(type)
      .doc(doc)
      .in("X", "any tensor")
      .out("Out", "like X")
      .shape(same_on_all)
      .traits({.effect = true, .exchange = Exchange::by_ring});
}

OpSchema& on_a_ring(OpSchema& row) {
  return row.attr("ring_id", 0, "the ring")
      .attr("use_calc_stream", false, "accepted; changes no result");
}

void register_meeting(Registry& ops) {
  meeting(ops, "gen_nccl_id", "All ranks meet: what replicas exchange goes to all of them.",
          gen_nccl_id)
      .out("NCCLID", "the ranks, as this one knows them")
      .attr("trainers", RankNames{}, "endpoints of all ranks")
      .required_attr<int32_t>("trainer_id", "this rank")
      .attr("nccl_comm_num", 1, "number of rings; one carries all")
      .attr("use_hierarchical_allreduce", false,
            "sums inside nodes first, then among the first ranks of nodes")
      .attr("hierarchical_allreduce_inter_nranks", -1, "ranks of one node");
  meeting(ops, "c_gen_nccl_id", "The ranks of one ring meet.", c_gen_nccl_id)
      .out("Out", "the ranks, as this one knows them")
      .required_attr<std::string>("endpoint", "of this rank")
      .attr("other_endpoints", RankNames{}, "of the others")
      .attr("rank", 0, "this rank");
  meeting(ops, "c_comm_init", "From here on the ring has its number.", c_comm_init)
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
  register_meeting(ops);
  on_a_ring(exchanged(ops, "c_broadcast", "The root's value on every rank."))
      .attr("root", 0, "whose value it is")
      .at_least(0)
      .body([](Body& b) {
        b.out("Out") = exchange(b.in("X"), ring_of(b), "broadcast", "sum", b.attr<int32_t>("root"));
      });
  const auto reduction = [&](const char* type, const char* doc, const char* op) {
    on_a_ring(exchanged(ops, type, doc)).body([op](Body& b) {
      b.out("Out") = exchange(b.in("X"), ring_of(b), "all_reduce", op);
    });
  };
  reduction("c_allreduce_sum", "The sum of all ranks' values on every rank.", "sum");
  reduction("c_allreduce_max", "The largest of all ranks' values on every rank.", "max");
  reduction("c_allreduce_min", "The smallest of all ranks' values on every rank.", "min");
  reduction("c_allreduce_prod", "The product of all ranks' values on every rank.", "product");
  on_a_ring(exchanged(ops, "c_allgather", "All ranks' rows on every rank, in their order."))
      .attr("nranks", 1, "how many ranks")
      .at_least(1)
      .shape(rows_of_all)
      .body([](Body& b) {
        b.out("Out") =
            exchange(b.in("X"), ring_of(b), "all_gather", "sum", 0, b.attr<int32_t>("nranks"));
      });
  ops.op("barrier")
      .doc("Waits until every rank has come here.")
      .in("X", "any tensor")
      .out_optional("Out", "X")
      .attr("ring_id", 0, "the ring")
      .shape(same_as("X"))
      .traits({.effect = true, .exchange = Exchange::by_ring})
      .body([](Body& b) {
        b.emitter().emit("p.exchange", {},
                         {{"ring", ring_of(b)},
                          {"way", std::string("barrier")},
                          {"op", std::string("sum")},
                          {"root", int32_t{0}},
                          {"ranks", int32_t{1}}});
        b.out("Out") = b.in("X");
      });
  exchanged(ops, "allreduce", "All ranks' values reduced into one, on every rank.")
      .attr("reduce_type", 0, "0 sum, 1 product, 2 max, 3 min")
      .between(0, 3)
      .attr("sync_mode", false, "accepted; changes no result")
      .body([](Body& b) {
        constexpr const char* kOps[] = {"sum", "product", "max", "min"};
        b.out("Out") =
            exchange(b.in("X"), kProcessesName, "all_reduce", kOps[b.attr<int32_t>("reduce_type")]);
      });
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
