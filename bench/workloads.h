// The programs that are timed: the models of bench/peers/torch_step.py, built from layers.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runtime/executor.h"

namespace trireme::bench {

struct Workload {
  std::string name;
  std::function<Var&()> build;  // appends to the default programs; returns the loss
  Feeds feeds;                  // one fixed batch
};

std::vector<std::string> workload_names();
// An Error when there is none of that name. `half`: its optimizer is decorated to compute in it.
Workload workload(const std::string& name, std::optional<DType> half = std::nullopt);

}  // namespace trireme::bench
