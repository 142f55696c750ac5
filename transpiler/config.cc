// Checks a configuration, and says which mode it asks for.
#include "transpiler/config.h"

#include "core/error.h"
#include "core/text.h"

namespace trireme {
namespace {

Error config_error(std::string message, ErrorKind kind = ErrorKind::invalid_argument) {
  return Error(kind, std::move(message)).in("DistributeTranspilerConfig");
}

}  // namespace

void check(const DistributeTranspilerConfig& config) {
  if (config.min_block_size < 8192) {
    throw config_error(
        cat("min_block_size is ", config.min_block_size, " but must be at least 8192"),
        ErrorKind::assertion)
        .fix("min_block_size counts elements; smaller blocks cost more to send than they save");
  }
  if (config.mode != "pserver" && config.mode != "nccl2" && config.mode != "collective") {
    throw config_error(
        cat("mode is '", config.mode, "' but must be 'pserver', 'nccl2' or 'collective'"))
        .fix("set config.mode to one of the three");
  }
  if (config.nccl_comm_num < 1) {
    throw config_error(cat("nccl_comm_num is ", config.nccl_comm_num, " but must be at least 1"));
  }
  if (config.geo_sgd_need_push_nums < 1) {
    throw config_error(cat("geo_sgd_need_push_nums is ", config.geo_sgd_need_push_nums,
                           " but must be at least 1"));
  }
}

ResolvedMode resolve_mode(const DistributeTranspilerConfig& config, bool sync_mode_argument) {
  const bool sync = config.sync_mode && sync_mode_argument && !config.geo_sgd_mode;
  const auto needs_async = [&](const char* field) {
    throw config_error(cat(field, " is True while sync_mode is True"))
        .fix(cat("set config.sync_mode = False, or leave ", field, " False"));
  };
  const auto needs = [&](const char* field, const char* other) {
    throw config_error(cat(field, " is True while ", other, " is False"))
        .fix(cat("set config.", other, " = True, or leave ", field, " False"));
  };
  if (sync && config.runtime_split_send_recv) needs_async("runtime_split_send_recv");
  if (sync && config.half_async) needs_async("half_async");
  if (sync && config.enable_dc_asgd) {
    throw config_error("enable_dc_asgd is True while sync_mode is True", ErrorKind::assertion)
        .fix("set config.sync_mode = False: delays are compensated only where there are any");
  }
  if (config.half_async && !config.runtime_split_send_recv) {
    needs("half_async", "runtime_split_send_recv");
  }
  if (!sync && config.completely_not_async && !config.half_async) {
    needs("completely_not_async", "half_async");
  }
  if (config.geo_sgd_mode && config.half_async) {
    throw config_error("geo_sgd_mode and half_async are both True").fix("choose one of them");
  }
  if (config.geo_sgd_mode && config.enable_dc_asgd) {
    throw config_error("geo_sgd_mode and enable_dc_asgd are both True").fix("choose one of them");
  }
  ResolvedMode mode{.sync = sync, .merge_by_trainer = sync || config.completely_not_async};
  if (config.geo_sgd_mode) {
    mode.label = DistributedMode::geo;
  } else if (sync || config.completely_not_async) {
    mode.label = DistributedMode::sync;
  } else {
    mode.label =
        config.runtime_split_send_recv ? DistributedMode::async : DistributedMode::half_async;
  }
  return mode;
}

}  // namespace trireme
