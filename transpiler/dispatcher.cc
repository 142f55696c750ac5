// Deals blocks out to servers, in turn or by name.
#include "transpiler/dispatcher.h"

#include "core/error.h"
#include "core/random.h"

namespace trireme {

PsDispatcher::PsDispatcher(std::vector<std::string> pserver_endpoints)
    : eps_(std::move(pserver_endpoints)) {
  if (eps_.empty()) {
    throw Error("pserver_endpoints is empty")
        .in("PSDispatcher")
        .fix("give at least one \"ip:port\"");
  }
}

std::vector<std::string> RoundRobin::dispatch(const std::vector<PlacedVar>& vars) {
  std::vector<std::string> chosen;
  for (size_t i = 0; i < vars.size(); ++i) {
    chosen.push_back(eps()[step_]);
    step_ = (step_ + 1) % eps().size();
  }
  return chosen;
}

std::vector<std::string> HashName::dispatch(const std::vector<PlacedVar>& vars) {
  std::vector<std::string> chosen;
  for (const PlacedVar& var : vars) chosen.push_back(eps()[stream_of(var.name) % eps().size()]);
  return chosen;
}

}  // namespace trireme
