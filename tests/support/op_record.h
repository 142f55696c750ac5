// What tests have shown of each op: that a result was looked at, that a wrong use was refused.
//
// A test does nothing for it: run_op and ScopeRunner say whose results they give, numbers() and
// max_abs_diff() that a result is looked at, error_of() which op complained and how.
#pragma once

#include <map>
#include <string>

#include "core/scope.h"
#include "ir/program.h"

namespace trireme::testing {

struct OpRecord {
  std::map<std::string, int> values;              // test -> how often it looked at results
  std::map<std::string, std::string> wrong_uses;  // test -> the first line of the error
};

const std::map<std::string, OpRecord>& op_records();  // by op

void note_values(const std::string& op);
// What an error said; its first line names the op.
void note_wrong_use(const std::string& what);
// In two steps: `result` is one of `op`; whoever reads the numbers of a result has looked at it.
void note_result(const std::string& op, const Tensor& result);
void note_look(const Tensor& tensor);
// The value that a program's last writer of `name` left there.
void note_result(const Program& program, const std::string& name, const Variable& value);

}  // namespace trireme::testing
