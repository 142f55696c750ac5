// Keeps the records by op and test, and changes the results of an op that is to be spoiled.
#include "tests/support/op_record.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "core/text.h"

namespace trireme::testing {
namespace {

std::map<std::string, OpRecord>& records() {
  static std::map<std::string, OpRecord> made;
  return made;
}

std::string test_name() {
  const ::testing::TestInfo* test = ::testing::UnitTest::GetInstance()->current_test_info();
  return test ? cat(test->test_suite_name(), ".", test->name()) : std::string();
}

// Whether results of this op are to be changed.
bool note(const std::string& op) {
  static const char* const spoiled = std::getenv("TRIREME_SPOIL");
  records()[op].tests.insert(test_name());
  return spoiled && op == spoiled;
}

// Other numbers of the same kind. A tensor of its own: the memory may be an operand's too.
Tensor spoiled(const Tensor& tensor) {
  Tensor wide = cast(tensor, DType::float64).clone();
  double* values = wide.data<double>();
  for (int64_t i = 0; i < wide.numel(); ++i) {
    values[i] =
        tensor.dtype() == DType::boolean ? 1 - values[i] : values[i] + 1 + std::fabs(values[i]);
  }
  Tensor changed = cast(wide, tensor.dtype());
  changed.set_lod(tensor.lod());
  return changed;
}

}  // namespace

const std::map<std::string, OpRecord>& op_records() { return records(); }

void note_wrong_use(const std::string& what) {
  if (what.find("this is a bug in Trireme") != what.npos) return;  // no answer to a wrong use
  const std::string line = what.substr(0, what.find('\n'));
  const size_t in = line.find(" in "), end = line.find(": ");
  if (in == line.npos || end == line.npos || end < in) return;
  records()[line.substr(in + 4, end - in - 4)].wrong_uses.emplace(test_name(), line);
}

void note_result(const std::string& op, Tensor& result) {
  if (result.initialized() && result.numel() > 0 && note(op)) result = spoiled(result);
}

bool shows(const std::string& op, bool right) { return note(op) ? !right : right; }

void note_result(const Program& program, const std::string& name, Variable& value) {
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
    for (Tensor& tensor : value.array()) note_result(writer->type(), tensor);
  } else if (value.kind() == Kind::rows) {
    note_result(writer->type(), value.rows().value);
  }
}

}  // namespace trireme::testing
