#include "tests/support/op_record.h"

#include <gtest/gtest.h>

#include <set>

#include "core/text.h"

namespace trireme::testing {
namespace {

struct Record {
  std::map<std::string, OpRecord> ops;
  std::map<const void*, std::set<std::string>> results;  // of the test that runs, by their memory
  const ::testing::TestInfo* test = nullptr;
};

Record& record() {
  static Record made;
  return made;
}

// The test that runs; memory of earlier ones may be in use again.
std::string begin_note() {
  const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
  if (test != record().test) record().results.clear();
  record().test = test;
  return test ? cat(test->test_suite_name(), ".", test->name()) : std::string();
}

}  // namespace

const std::map<std::string, OpRecord>& op_records() { return record().ops; }

void note_values(const std::string& op) {
  const std::string test = begin_note();
  ++record().ops[op].values[test];
}

void note_wrong_use(const std::string& what) {
  if (what.find("this is a bug in Trireme") != what.npos) return;  // no answer to a wrong use
  const std::string line = what.substr(0, what.find('\n'));
  const size_t in = line.find(" in "), end = line.find(": ");
  if (in == line.npos || end == line.npos || end < in) return;
  const std::string test = begin_note();
  record().ops[line.substr(in + 4, end - in - 4)].wrong_uses.emplace(test, line);
}

void note_result(const std::string& op, const Tensor& result) {
  begin_note();
  if (result.initialized() && result.numel() > 0) record().results[result.address()].insert(op);
}

void note_look(const Tensor& tensor) {
  begin_note();
  if (!tensor.initialized() || tensor.numel() == 0) return;
  const auto found = record().results.find(tensor.address());
  if (found == record().results.end()) return;
  for (const std::string& op : found->second) note_values(op);
}

void note_result(const Program& program, const std::string& name, const Variable& value) {
  const Op* writer = nullptr;
  for (const Op* op : program.global_block().ops()) {
    for (const std::string& output : op->output_names()) {
      if (output == name) writer = op;
    }
  }
  if (!writer) return;
  if (value.kind() == Kind::dense) {
    note_result(writer->type(), value.tensor());
  } else if (value.kind() == Kind::array) {
    for (const Tensor& tensor : value.array()) note_result(writer->type(), tensor);
  } else {
    note_values(writer->type());  // rows and tables have no numbers(): the test reads them itself
  }
}

}  // namespace trireme::testing
