// Every op of the table has known values and a wrong use in this program's tests. Told at its end,
// when all of them have run. A test knows an op's values when it fails once they are others: the
// tests that were given results of the op run again in a process that spoils them.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "core/text.h"
#include "ir/schema.h"
#include "tests/support/op_record.h"

namespace trireme::testing {
namespace {

std::set<std::string> those_that_cannot_run() {
  std::set<std::string> types;
  for (const OpSchema* row : op_table().rows()) {
    if (row->trait().cannot_run) types.insert(row->type());
  }
  return types;
}

const char* const kOtherProcesses = "talks to other processes: tests/python/test_ps_sync.py";
std::set<std::string> those_of_other_processes() {
  return {"send",           "recv",     "send_barrier",      "fetch_barrier",
          "recv_save",      "prefetch", "checkpoint_notify", "distributed_lookup_table",
          "listen_and_serv"};
}

const char* const kOtherRanks = "talks to other ranks: tests/python/test_ranks.py";
std::set<std::string> those_of_other_ranks() {
  return {"gen_nccl_id",     "c_gen_nccl_id",    "c_comm_init", "c_broadcast",
          "c_allreduce_sum", "c_allreduce_max",  "barrier",     "c_allreduce_min",
          "allreduce",       "c_allreduce_prod", "c_allgather"};
}

// Ops that give no numbers in one process, by the reason.
const std::map<std::string, std::set<std::string>>& without_values() {
  static const std::map<std::string, std::set<std::string>> reasons = {
      {"cannot run yet", those_that_cannot_run()},
      {"is done by whoever runs the program: tests/python/test_reader.py",
       {"create_double_buffer_reader", "create_py_reader", "read"}},
      {kOtherProcesses, those_of_other_processes()},
      {kOtherRanks, those_of_other_ranks()},
  };
  return reasons;
}

// Ops that cannot be used wrongly, by the reason.
const std::map<std::string, std::set<std::string>>& without_wrong_use() {
  static const std::map<std::string, std::set<std::string>> reasons = {
      {"takes any variable",
       {"assign", "c_sync_calc_stream", "c_sync_comm_stream", "delete_var", "shape", "size"}},
      {"has no operand, and its attribute may be any number", {"seed"}},
      {"is done by whoever runs the program: tests/python/test_reader.py",
       {"create_double_buffer_reader", "create_py_reader", "read"}},
      {kOtherProcesses, those_of_other_processes()},
      {kOtherRanks, those_of_other_ranks()},
      {"is done by whoever runs the program: any result may be fetched", {"fetch"}},
  };
  return reasons;
}

// What check_and_fill says of every op alike: it shows nothing of the op's own rules.
bool is_general(const std::string& what) {
  for (const char* ending : {" is missing", " does not exist"}) {
    if (what.ends_with(ending)) return true;
  }
  return what.find(" slot ") != what.npos;
}

// Tests that compare what the table gives them with itself.
bool is_generated(const std::string& test) {
  return test.starts_with("OpTable.") || test.starts_with("Kernels.");
}

bool has_values(const std::string& op, const OpRecord& record) {
  std::vector<std::string> tests;
  for (const std::string& test : record.tests) {
    if (!is_generated(test)) tests.push_back(test);
  }
  if (tests.empty()) return false;
  static const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const int status =
      std::system(cat("TRIREME_SPOIL=", op, " '", program, "' --gtest_fail_fast --gtest_filter='",
                      join(tests, ":"), "' > /dev/null 2>&1")
                      .c_str());
  return WIFEXITED(status) && WEXITSTATUS(status) == 1;  // GoogleTest's for a failed test
}

bool has_wrong_use(const std::string&, const OpRecord& record) {
  return std::any_of(record.wrong_uses.begin(), record.wrong_uses.end(), [](const auto& test) {
    return !is_generated(test.first) && !is_general(test.second);
  });
}

using Exempt = std::map<std::string, std::set<std::string>>;

void report(const char* what, const Exempt& exempt,
            bool (*shown)(const std::string&, const OpRecord&)) {
  std::map<std::string, std::string> reason_of;
  for (const auto& [reason, types] : exempt) {
    for (const std::string& type : types) {
      EXPECT_TRUE(op_table().find(type)) << type << " is no op";
      reason_of[type] = reason;
    }
  }
  std::vector<std::string> missing;
  int found = 0, all = 0;
  for (const OpSchema* row : op_table().rows()) {
    // A gradient op is made from its op's row and checked with it.
    if (row->trait().primitive || row->is_gradient()) continue;
    const bool runs = !row->trait().cannot_run;
    all += runs;
    const auto record = op_records().find(row->type());
    const bool has = record != op_records().end() && shown(row->type(), record->second);
    found += has && runs;
    const bool excused = reason_of.contains(row->type());
    EXPECT_FALSE(has && excused) << row->type() << " needs no excuse any more";
    if (!has && !excused) missing.push_back(row->type());
  }
  std::printf("%s: %d of %d ops that run", what, found, all);
  for (const auto& [reason, types] : exempt) std::printf(", %zu: %s", types.size(), reason.c_str());
  std::printf("\n");
  EXPECT_TRUE(missing.empty()) << "no " << what << " for " << missing.size()
                               << " ops: " << join(missing);
}

class Coverage : public ::testing::Environment {
 public:
  void TearDown() override {
    // Some of the tests alone show some of the ops.
    const ::testing::UnitTest& tests = *::testing::UnitTest::GetInstance();
    if (tests.test_to_run_count() != tests.total_test_count()) return;
    if (!tests.Passed()) return;  // what fails anyway shows nothing
    report("known values", without_values(), has_values);
    report("wrong uses", without_wrong_use(), has_wrong_use);
  }
};

[[maybe_unused]] const ::testing::Environment* const added =
    ::testing::AddGlobalTestEnvironment(new Coverage);

}  // namespace
}  // namespace trireme::testing
