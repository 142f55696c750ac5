// DistributeTranspiler: one trained program in, the programs of a cluster out.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "ir/program.h"
#include "transpiler/config.h"
#include "transpiler/placement.h"
#include "transpiler/report.h"

namespace trireme {

struct TranspileRequest {
  int trainer_id = 0;
  std::shared_ptr<Program> program;          // edited in place
  std::shared_ptr<Program> startup_program;  // edited in place
  std::string pservers = "127.0.0.1:6174";   // "ip:port,ip:port"
  // How many, with parameter servers; the ranks' endpoints otherwise, as a comma list or a list.
  std::variant<int, std::string, std::vector<std::string>> trainers = 1;
  bool sync_mode = true;
  std::string current_endpoint = "127.0.0.1:6174";
  // Where print_log's lines go; null: standard output.
  PrintLine print = {};
};

class DistributeTranspiler {
 public:
  // The config is copied: what its owner does to it later changes nothing here.
  explicit DistributeTranspiler(const DistributeTranspilerConfig& config = {});

  // Makes `program` and `startup_program` those of a trainer, or of a rank. Nothing waits here.
  void transpile(const TranspileRequest& request);

  // With parameter servers. These change no program and may be asked in any order.
  // wait_port: the first runs of this program and its startup program wait until every server
  // accepts connections (see DistributedFacts::wait_for). Nothing waits here.
  std::shared_ptr<Program> get_trainer_program(bool wait_port = true) const;
  std::shared_ptr<Program> get_pserver_program(const std::string& endpoint) const;
  // Main and startup program of a server.
  std::pair<std::shared_ptr<Program>, std::shared_ptr<Program>> get_pserver_programs(
      const std::string& endpoint) const;
  // Deprecated. `pserver_program`: null, or one made for this endpoint; `startup_program`: null, or
  // transpile's.
  std::shared_ptr<Program> get_startup_program(const std::string& endpoint,
                                               const Program* pserver_program = nullptr,
                                               const Program* startup_program = nullptr) const;

  const DistributeTranspilerConfig& config() const { return config_; }
  // The startup program as it was before transpile; null before it.
  std::shared_ptr<const Program> origin_startup_program() const;
  const Placement& placement() const;  // Error before transpile and in other modes
  void set_server_config(const ServerRuntimeConfig& server);

 private:
  void transpile_pserver(const TranspileRequest& request);
  void transpile_nccl2(const TranspileRequest& request);
  void transpile_collective(const TranspileRequest& request);
  std::shared_ptr<Program> server_program(const std::string& endpoint) const;
  std::shared_ptr<Program> server_startup(const std::string& endpoint) const;

  DistributeTranspilerConfig config_;
  ServerRuntimeConfig server_;
  std::string done_;  // the mode transpile ran in
  std::optional<Placement> placement_;
  std::shared_ptr<Program> program_, startup_;
  std::shared_ptr<const Program> origin_startup_;
};

}  // namespace trireme
