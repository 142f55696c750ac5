// Follows CONTRIBUTING.md: opens its device from a library and runs its op there.
#include <gtest/gtest.h>

#include "core/flags.h"
#include "tests/contributing/worked_ops.h"
#include "tests/support/op_runner.h"

namespace trireme::testing {
namespace {

#include "contributing/device_test.inc"

}  // namespace
}  // namespace trireme::testing
