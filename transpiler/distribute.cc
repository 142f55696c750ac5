// Checks what is asked for, then makes the programs of the mode.
#include "transpiler/distribute.h"

#include <algorithm>

#include "core/endpoints.h"
#include "core/flags.h"
#include "core/text.h"
#include "core/warning.h"
#include "ir/distributed.h"
#include "transpiler/collective.h"
#include "transpiler/edit.h"
#include "transpiler/server.h"
#include "transpiler/trainer.h"

namespace trireme {
namespace {

constexpr EndpointUse kTrainers{"DistributeTranspiler", "trainers"};
constexpr EndpointUse kPservers{"DistributeTranspiler", "pservers"};

int flag(const char* name) { return static_cast<int>(std::get<int64_t>(get_flag(name))); }

void check_fresh(const TranspileRequest& request) {
  if (!request.program || !request.startup_program) {
    throw transpile_error("transpile needs a program and its startup program");
  }
  for (const Program* program : {request.program.get(), request.startup_program.get()}) {
    if (!program->distributed) continue;
    throw transpile_error(
        cat(program == request.program.get() ? "program" : "startup_program",
            " was transpiled already, in mode '", program->distributed->mode, "'"),
        ErrorKind::precondition)
        .fix("transpile a program once; clone it before if another mode is wanted too");
  }
}

void check_trainer_id(int id, int trainers) {
  if (id >= 0 && id < trainers) return;
  throw transpile_error(cat("trainer_id is ", id, " but must be from 0 to ", trainers - 1))
      .fix("number the trainers from 0; on a server any of their numbers will do");
}

// The endpoints of all ranks, and which of them this process is.
Ranks find_ranks(const TranspileRequest& request, const std::string& mode) {
  Ranks ranks;
  if (const auto* text = std::get_if<std::string>(&request.trainers)) {
    ranks.endpoints = parse_endpoints(*text, kTrainers);
  } else if (const auto* list = std::get_if<std::vector<std::string>>(&request.trainers)) {
    if (mode == "nccl2") {
      throw transpile_error("trainers is a list but in nccl2 mode must be a string",
                            ErrorKind::assertion)
          .fix("write trainers=\"ip:port,ip:port\"");
    }
    ranks.endpoints = *list;
    check_endpoints(ranks.endpoints, kTrainers);
  } else {
    const ErrorKind kind = mode == "nccl2" ? ErrorKind::assertion : ErrorKind::invalid_argument;
    throw transpile_error(cat("trainers is ", std::get<int>(request.trainers), " but in ", mode,
                              " mode must name the endpoints of all ranks"),
                          kind)
        .fix("write trainers=\"ip:port,ip:port\"");
  }
  ranks.rank = request.trainer_id;
  ranks.current_endpoint = request.current_endpoint;
  check_trainer_id(ranks.rank, ranks.count());
  if (std::ranges::find(ranks.endpoints, ranks.current_endpoint) == ranks.endpoints.end()) {
    throw transpile_error(cat("current_endpoint is ", ranks.current_endpoint,
                              ", which is not among trainers ", join(ranks.endpoints, ",")));
  }
  return ranks;
}

std::shared_ptr<DistributedFacts> facts_of(const std::string& mode, int trainer_id) {
  auto facts = std::make_shared<DistributedFacts>();
  facts->mode = mode;
  facts->trainer_id = trainer_id;
  facts->is_chief = trainer_id == 0;
  return facts;
}

// Rank 0 gives the ids to the others when the startup program runs, and only then do they listen.
std::shared_ptr<const DistributedFacts> waiting_for_ranks(const DistributedFacts& facts,
                                                          const DistributeTranspilerConfig& config,
                                                          const Ranks& ranks) {
  auto startup = std::make_shared<DistributedFacts>(facts);
  if (config.wait_port && ranks.rank == 0) {
    startup->wait_for = ranks.endpoints;
    std::erase(startup->wait_for, ranks.current_endpoint);
  }
  return startup;
}

// Edits copies first: what an edit complains about leaves the user's programs as they are.
template <class Edit>
void edit_both(const TranspileRequest& request, Edit edit) {
  const auto main = clone(*request.program, false);
  const auto startup = clone(*request.startup_program, false);
  edit(*main, *startup);
  edit(*request.program, *request.startup_program);
}

void mark(Program& program, std::shared_ptr<const DistributedFacts> facts) {
  program.distributed = std::move(facts);
  program.touch();
}

}  // namespace

DistributeTranspiler::DistributeTranspiler(const DistributeTranspilerConfig& config)
    : config_(config) {
  check(config_);
  server_.rpc_send_thread_num = flag("rpc_send_thread_num");
  server_.rpc_get_thread_num = flag("rpc_get_thread_num");
  server_.rpc_prefetch_thread_num = flag("rpc_prefetch_thread_num");
}

void DistributeTranspiler::transpile(const TranspileRequest& request) {
  check_fresh(request);
  if (config_.mode == "nccl2") {
    transpile_nccl2(request);
  } else if (config_.mode == "collective") {
    transpile_collective(request);
  } else {
    transpile_pserver(request);
  }
  done_ = config_.mode;
  program_ = request.program;
  startup_ = request.startup_program;
}

void DistributeTranspiler::transpile_pserver(const TranspileRequest& request) {
  const int* trainers = std::get_if<int>(&request.trainers);
  if (!trainers) {
    throw transpile_error("trainers names endpoints but in pserver mode must be a number",
                          ErrorKind::type_mismatch)
        .fix("write trainers=2, or set config.mode = \"nccl2\"");
  }
  if (*trainers < 1)
    throw transpile_error(cat("trainers is ", *trainers, " but must be at least 1"));
  std::vector<std::string> endpoints = parse_endpoints(request.pservers, kPservers);
  check_trainer_id(request.trainer_id, *trainers);
  Placement placement = place(*request.program, *request.startup_program, config_,
                              request.sync_mode, request.trainer_id, *trainers, endpoints);
  placement.server = server_;
  edit_both(request, [&](Program& trainer, Program& trainer_startup) {
    if (config_.geo_sgd_mode) {
      make_geo_trainer(trainer, placement);
      make_geo_trainer_startup(trainer_startup, placement);
    } else {
      make_trainer(trainer, placement);
      make_trainer_startup(trainer_startup, trainer, placement);
    }
  });
  auto facts = facts_of("pserver", request.trainer_id);
  facts->endpoints = endpoints;
  facts->ps_endpoint = request.current_endpoint;
  facts->tables = placement.tables;
  facts->slices = slice_records(placement);
  if (config_.wait_port) facts->wait_for = endpoints;
  mark(*request.program, facts);
  mark(*request.startup_program, facts);
  if (config_.print_log) {
    for (const std::string& line : balance_lines(placement)) print_log_line(request.print, line);
  }
  origin_startup_ = placement.startup;
  placement_ = std::move(placement);
}

void DistributeTranspiler::transpile_nccl2(const TranspileRequest& request) {
  const Ranks ranks = find_ranks(request, "nccl2");
  const int inter = config_.hierarchical_allreduce_inter_nranks;
  if (config_.use_hierarchical_allreduce) {
    if (inter < 1) {
      throw transpile_error(cat("hierarchical_allreduce_inter_nranks is ", inter,
                                " but must say how many ranks one node has"),
                            ErrorKind::assertion);
    }
    if (ranks.count() <= inter || ranks.count() % inter != 0) {
      throw transpile_error(
          cat("hierarchical_allreduce_inter_nranks is ", inter, " for ", ranks.count(),
              " trainers; there must be more trainers than that, and a multiple of it"),
          ErrorKind::assertion);
    }
  }
  origin_startup_ = clone(*request.startup_program, false);
  make_nccl2(*request.startup_program, config_, ranks);
  auto facts = facts_of("nccl2", ranks.rank);
  facts->trainer_endpoints = ranks.endpoints;
  facts->nccl_comm_num = config_.nccl_comm_num;
  facts->use_hierarchical_allreduce = config_.use_hierarchical_allreduce;
  facts->hierarchical_allreduce_inter_nranks = inter;
  mark(*request.program, facts);
  mark(*request.startup_program, waiting_for_ranks(*facts, config_, ranks));
}

void DistributeTranspiler::transpile_collective(const TranspileRequest& request) {
  if (!config_.collective_mode) {
    throw transpile_error("collective_mode is None but mode is 'collective'")
        .fix(
            "set config.collective_mode to 'grad_allreduce', 'local_sgd' or "
            "'single_process_multi_thread'");
  }
  const std::string& how = *config_.collective_mode;
  if (how != "grad_allreduce" && how != "local_sgd" && how != "single_process_multi_thread") {
    throw transpile_error(cat("collective_mode is '", how,
                              "' but must be 'grad_allreduce', 'local_sgd' or "
                              "'single_process_multi_thread'"));
  }
  auto facts = facts_of("collective", request.trainer_id);
  facts->nccl_comm_num = config_.nccl_comm_num;
  std::shared_ptr<const DistributedFacts> startup_facts;
  std::shared_ptr<const Program> startup = clone(*request.startup_program, false);
  if (how == "single_process_multi_thread") {
    const int* count = std::get_if<int>(&request.trainers);
    const int ranks = count ? *count : find_ranks(request, "collective").count();
    if (ranks < 1) throw transpile_error(cat("trainers is ", ranks, " but must be at least 1"));
    check_trainer_id(request.trainer_id, ranks);
    edit_both(request, [&](Program& main, Program& first) {
      make_multi_thread(main, first, config_.nccl_comm_num, ranks);
    });
  } else {
    const Ranks ranks = find_ranks(request, "collective");
    if (ranks.count() < 2) {
      throw transpile_error(cat("trainers names one endpoint, ", ranks.endpoints.front(), ", but ",
                                how, " needs at least two"))
          .fix("run the program as it is, without a transpiler");
    }
    facts->trainer_endpoints = ranks.endpoints;
    startup_facts = waiting_for_ranks(*facts, config_, ranks);
    const auto make = how == "local_sgd" ? make_local_sgd : make_grad_allreduce;
    edit_both(request, [&](Program& main, Program& first) {
      make(main, first, config_.nccl_comm_num, ranks);
    });
  }
  origin_startup_ = startup;
  mark(*request.program, facts);
  mark(*request.startup_program, startup_facts ? startup_facts : facts);
}

const Placement& DistributeTranspiler::placement() const {
  if (done_.empty()) {
    throw transpile_error("transpile has not run", ErrorKind::precondition)
        .fix("call transpile first");
  }
  if (!placement_) {
    throw transpile_error(cat("mode is '", done_, "', which has no parameter servers"),
                          ErrorKind::precondition)
        .fix("run the program and startup program that transpile edited");
  }
  return *placement_;
}

std::shared_ptr<Program> DistributeTranspiler::get_trainer_program(bool wait_port) const {
  const Placement& placed = placement();
  auto facts = std::make_shared<DistributedFacts>(*program_->distributed);
  facts->wait_for = wait_port ? placed.endpoints : std::vector<std::string>();
  program_->distributed = startup_->distributed = facts;
  return program_;
}

std::shared_ptr<Program> DistributeTranspiler::server_program(const std::string& endpoint) const {
  const Placement& placed = placement();
  if (std::ranges::find(placed.endpoints, endpoint) == placed.endpoints.end()) {
    throw transpile_error(cat("endpoint is ", endpoint, ", which is not among pservers ",
                              join(placed.endpoints, ",")),
                          ErrorKind::not_found);
  }
  std::shared_ptr<Program> made = placed.config.geo_sgd_mode ? make_geo_server(placed, endpoint)
                                                             : make_server(placed, endpoint);
  auto facts = std::make_shared<DistributedFacts>(*program_->distributed);
  facts->ps_endpoint = endpoint;
  facts->wait_for.clear();  // it is waited for
  mark(*made, facts);
  return made;
}

std::shared_ptr<Program> DistributeTranspiler::server_startup(const std::string& endpoint) const {
  const std::shared_ptr<Program> server = server_program(endpoint);
  std::shared_ptr<Program> startup = make_server_startup(placement(), *server, endpoint);
  mark(*startup, server->distributed);
  return startup;
}

std::shared_ptr<Program> DistributeTranspiler::get_pserver_program(
    const std::string& endpoint) const {
  warn("get_pserver_program is deprecated: get_pserver_programs returns both programs");
  return server_program(endpoint);
}

std::pair<std::shared_ptr<Program>, std::shared_ptr<Program>>
DistributeTranspiler::get_pserver_programs(const std::string& endpoint) const {
  return {server_program(endpoint), server_startup(endpoint)};
}

std::shared_ptr<Program> DistributeTranspiler::get_startup_program(
    const std::string& endpoint, const Program* pserver_program,
    const Program* startup_program) const {
  const Placement& placed = placement();
  warn("get_startup_program is deprecated: get_pserver_programs returns both programs");
  if (startup_program && startup_program != startup_.get()) {
    warn(
        "get_startup_program was given another startup_program than transpile: transpile's is "
        "used");
  }
  if (pserver_program) {
    const auto& facts = pserver_program->distributed;
    if (!facts || facts->ps_endpoint != endpoint || facts->endpoints != placed.endpoints) {
      throw transpile_error(
          cat("pserver_program was not made by get_pserver_program for ", endpoint));
    }
  }
  return server_startup(endpoint);
}

std::shared_ptr<const Program> DistributeTranspiler::origin_startup_program() const {
  return origin_startup_;
}

void DistributeTranspiler::set_server_config(const ServerRuntimeConfig& server) {
  server_ = server;
  if (placement_) placement_->server = server;
}

}  // namespace trireme
