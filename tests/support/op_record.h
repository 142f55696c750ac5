// What tests show of each op: that they know its values, that a wrong use was refused.
//
// A test does nothing for it: run_op and ScopeRunner say whose results they give, error_of() which
// op complained and how. Whether a test knows the values that it was given is tried out: with
// TRIREME_SPOIL=<op> every result of that op is changed before a test sees it, and a test that
// knows better fails (coverage_test.cc).
#pragma once

#include <map>
#include <set>
#include <string>

#include "core/scope.h"
#include "ir/program.h"

namespace trireme::testing {

struct OpRecord {
  std::set<std::string> tests;                    // that were given something of it
  std::map<std::string, std::string> wrong_uses;  // test -> the first line of the error
};

const std::map<std::string, OpRecord>& op_records();  // by op

// What an error said; its first line names the op.
void note_wrong_use(const std::string& what);
// `result` is one of `op`; it is another tensor afterwards when that op is spoiled.
void note_result(const std::string& op, Tensor& result);
// The value that a program's last writer of `name` left there.
void note_result(const Program& program, const std::string& name, Variable& value);
// Of an op that leaves no tensor (a file, a print, an empty variable): whether what it did is
// right. The other way round when that op is spoiled.
bool shows(const std::string& op, bool right);

}  // namespace trireme::testing
