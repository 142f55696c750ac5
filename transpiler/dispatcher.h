// Which parameter server keeps which block.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"

namespace trireme {

// A parameter, or a slice of one, that wants a server.
struct PlacedVar {
  std::string name;
  Shape shape;
  DType dtype = DType::float32;
};

// Derive from it for a rule of your own: one endpoint for every variable.
class PsDispatcher {
 public:
  explicit PsDispatcher(std::vector<std::string> pserver_endpoints);
  virtual ~PsDispatcher() = default;
  const std::vector<std::string>& eps() const { return eps_; }
  virtual void reset() { step_ = 0; }
  virtual std::vector<std::string> dispatch(const std::vector<PlacedVar>& vars) = 0;

 protected:
  size_t step_ = 0;

 private:
  std::vector<std::string> eps_;
};

// One after another; goes on where the last call stopped.
class RoundRobin : public PsDispatcher {
 public:
  using PsDispatcher::PsDispatcher;
  std::vector<std::string> dispatch(const std::vector<PlacedVar>& vars) override;
};

// By the name's 64-bit FNV-1a hash: equal in every process.
class HashName : public PsDispatcher {
 public:
  using PsDispatcher::PsDispatcher;
  std::vector<std::string> dispatch(const std::vector<PlacedVar>& vars) override;
};

}  // namespace trireme
