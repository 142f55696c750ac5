// Ops that take arrays, rank tables or sub-blocks have no samples in the op table: programs of this
// room's tests compare their gradients with differences. Told at the end, when all have run.
#include "ir/schema.h"
#include "tests/layers/loop_net.h"

namespace trireme {
namespace {

class GradientCoverage : public ::testing::Environment {
 public:
  void TearDown() override {
    const ::testing::UnitTest& tests = *::testing::UnitTest::GetInstance();
    if (tests.test_to_run_count() != tests.total_test_count()) return;
    int found = 0;
    std::vector<std::string> missing;
    for (const OpSchema* row : op_table().rows()) {
      if (row->forward() || !row->differentiable() || !row->samples().empty()) continue;
      if (row->trait().primitive) continue;
      compared_with_differences().contains(row->type()) ? void(++found)
                                                        : missing.push_back(row->type());
    }
    std::printf("gradients in whole programs: %d ops\n", found);
    EXPECT_TRUE(missing.empty()) << "no program compares the gradient of " << join(missing);
  }
};

[[maybe_unused]] const ::testing::Environment* const added =
    ::testing::AddGlobalTestEnvironment(new GradientCoverage);

}  // namespace
}  // namespace trireme
