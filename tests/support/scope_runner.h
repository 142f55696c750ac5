// Runs one op on the variables of a scope, in place where names agree. For tests of optimizers and
// of ops that take SelectedRows.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "core/scope.h"
#include "ir/attribute.h"

namespace trireme::testing {

class ScopeRunner {
 public:
  void set(const std::string& name, Tensor tensor);
  void set(const std::string& name, SelectedRows rows);
  // Slot -> variable. Outputs that are not there are made.
  void run(const std::string& type, const std::map<std::string, std::string>& inputs,
           const std::map<std::string, std::string>& outputs, const Attrs& attrs = {});
  const Tensor& tensor(const std::string& name) const;
  const SelectedRows& rows(const std::string& name) const;

 private:
  std::unique_ptr<Scope> scope_ = std::make_unique<Scope>();
};

}  // namespace trireme::testing
