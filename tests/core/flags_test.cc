// Flags: names, types, refusals, and the environment.
#include "core/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <thread>

#include "core/error.h"
#include "core/tensor.h"

namespace trireme {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string error_of(const std::function<void()>& call, ErrorKind kind) {
  try {
    call();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), kind);
    return e.what();
  }
  return "no error";
}

// Puts flags back to their defaults, and the environment variable away, when a test ends.
class Flags : public ::testing::Test {
 protected:
  void SetUp() override { put_back(); }
  void TearDown() override { put_back(); }
  void put_back() {
    for (const Flag& flag : list_flags()) {
      set_flag(flag.name, flag.default_value);
      ::unsetenv(("FLAGS_" + flag.name).c_str());
    }
    ::unsetenv("CPU_NUM");
    ::unsetenv("CUDA_VISIBLE_DEVICES");
  }
};

TEST_F(Flags, ThePrefixIsOptional) {
  set_flag("FLAGS_check_nan_inf", true);
  EXPECT_EQ(get_flag("check_nan_inf"), FlagValue(true));
  EXPECT_EQ(get_flag("FLAGS_check_nan_inf"), FlagValue(true));
  EXPECT_TRUE(is_flag("check_nan_inf"));
  EXPECT_FALSE(is_flag("FLAGS_nothing"));
}

TEST_F(Flags, UnknownNameOffersNearOnes) {
  EXPECT_THAT(
      error_of([] { set_flag("FLAGS_check_nan_if", true); }, ErrorKind::invalid_argument),
      AllOf(HasSubstr("no flag named FLAGS_check_nan_if"), HasSubstr("FLAGS_check_nan_inf")));
  EXPECT_THAT(error_of([] { get_flag("eager_delete"); }, ErrorKind::invalid_argument),
              HasSubstr("FLAGS_eager_delete_tensor_gb"));
}

TEST_F(Flags, NumbersFitWhereTheyMeanTheSame) {
  set_flag("benchmark", int64_t{1});
  EXPECT_EQ(get_flag("benchmark"), FlagValue(true));
  set_flag("eager_delete_tensor_gb", int64_t{-1});
  EXPECT_EQ(get_flag("eager_delete_tensor_gb"), FlagValue(-1.0));
}

TEST_F(Flags, WrongTypeIsATypeError) {
  EXPECT_THAT(error_of([] { set_flag("benchmark", std::string("on")); }, ErrorKind::type_mismatch),
              HasSubstr("FLAGS_benchmark is a bool and cannot be set to a string, 'on'"));
  EXPECT_THAT(error_of([] { set_flag("paddle_num_threads", 2.5); }, ErrorKind::type_mismatch),
              HasSubstr("is a whole number and cannot be set to a number, 2.5"));
  EXPECT_THAT(error_of([] { set_flag("benchmark", int64_t{2}); }, ErrorKind::type_mismatch),
              HasSubstr("FLAGS_benchmark"));
}

TEST_F(Flags, RefusedOnesSayWhy) {
  set_flag("gpu_memory_limit_mb", int64_t{0});  // the default is fine
  EXPECT_THAT(
      error_of([] { set_flag("gpu_memory_limit_mb", int64_t{64}); }, ErrorKind::invalid_argument),
      AllOf(HasSubstr("cannot be set to 64"), HasSubstr("fix: leave it at 0")));
}

TEST_F(Flags, EachSaysInASentenceWhatItDoes) {
  for (const Flag& flag : list_flags()) {
    EXPECT_FALSE(flag.name.starts_with("FLAGS_"));
    EXPECT_TRUE(flag.why.ends_with('.')) << flag.name;
    EXPECT_EQ(flag.value.index(), flag.default_value.index()) << flag.name;
  }
}

TEST_F(Flags, ThreadsAreAtLeastOne) {
  EXPECT_THAT(
      error_of([] { set_flag("paddle_num_threads", int64_t{0}); }, ErrorKind::invalid_argument),
      HasSubstr("FLAGS_paddle_num_threads is 0 but must be at least 1"));
}

TEST_F(Flags, SelectedGpusIsAListOfIds) {
  EXPECT_TRUE(selected_gpus().empty());
  set_flag("selected_gpus", std::string("2, 0"));
  EXPECT_THAT(selected_gpus(), ::testing::ElementsAre(2, 0));
  EXPECT_THROW(set_flag("selected_gpus", std::string("0,x")), Error);
  EXPECT_THROW(set_flag("selected_gpus", std::string("-1")), Error);
}

TEST_F(Flags, GpusAreTheSelectedOnesElseTheVisibleOnes) {
  EXPECT_TRUE(gpus_of_environment().ids.empty());
  EXPECT_EQ(gpus_of_environment().chosen_by, "");
  ::setenv("CUDA_VISIBLE_DEVICES", "4,GPU-8932f937,7,-1,5", 1);  // -1 ends the list, as in CUDA
  EXPECT_THAT(gpus_of_environment().ids, ::testing::ElementsAre(0, 1, 2));
  EXPECT_EQ(gpus_of_environment().chosen_by, "CUDA_VISIBLE_DEVICES");
  ::setenv("FLAGS_selected_gpus", "2,0", 1);  // seen though the flags were read before
  EXPECT_THAT(gpus_of_environment().ids, ::testing::ElementsAre(2, 0));
  EXPECT_EQ(gpus_of_environment().chosen_by, "FLAGS_selected_gpus");
  set_flag("selected_gpus", std::string("1"));  // what is set later counts
  EXPECT_THAT(gpus_of_environment().ids, ::testing::ElementsAre(1));
  ::unsetenv("FLAGS_selected_gpus");
  EXPECT_EQ(gpus_of_environment().chosen_by, "CUDA_VISIBLE_DEVICES");
}

TEST_F(Flags, AWrongChoiceOfGpusIsNamed) {
  const auto problem = [] {
    return error_of([] { gpus_of_environment(); }, ErrorKind::invalid_argument);
  };
  ::setenv("CUDA_VISIBLE_DEVICES", "0;1", 1);
  EXPECT_THAT(problem(), HasSubstr("CUDA_VISIBLE_DEVICES is '0;1', which is not a list of GPUs"));
  for (const char* none : {"", "-1"}) {
    ::setenv("CUDA_VISIBLE_DEVICES", none, 1);
    EXPECT_THAT(problem(), HasSubstr("CUDA_VISIBLE_DEVICES hides every GPU"));
  }
  ::setenv("CUDA_VISIBLE_DEVICES", "2,3", 1);
  ::setenv("FLAGS_selected_gpus", "0,2", 1);
  EXPECT_THAT(problem(), HasSubstr("names GPU 2, but CUDA_VISIBLE_DEVICES leaves 2"));
  ::setenv("FLAGS_selected_gpus", "1,1", 1);
  EXPECT_THAT(problem(), HasSubstr("FLAGS_selected_gpus names GPU 1 twice"));
}

TEST_F(Flags, EitherNanFlagTurnsTheCheckOn) {
  EXPECT_FALSE(checks_nan_inf());
  set_flag("fast_check_nan_inf", true);
  EXPECT_TRUE(checks_nan_inf());
}

TEST_F(Flags, NewMemoryIsNanWhenAsked) {
  set_flag("init_allocated_mem", true);
  const Tensor tensor(DType::float32, {3});
  EXPECT_TRUE(std::isnan(tensor.data<float>()[2]));
}

TEST_F(Flags, TheEnvironmentSetsThem) {
  ::setenv("FLAGS_check_nan_inf", "True", 1);
  ::setenv("FLAGS_rpc_deadline", "5000", 1);
  ::setenv("FLAGS_fraction_of_gpu_memory_to_use", "0.5", 1);
  ::setenv("FLAGS_selected_gpus", "1", 1);
  EXPECT_EQ(get_flag("rpc_deadline"), FlagValue(int64_t{180000}));
  read_flags_from_environment();
  EXPECT_EQ(get_flag("check_nan_inf"), FlagValue(true));
  EXPECT_EQ(get_flag("rpc_deadline"), FlagValue(int64_t{5000}));
  EXPECT_EQ(get_flag("fraction_of_gpu_memory_to_use"), FlagValue(0.5));
  EXPECT_EQ(get_flag("selected_gpus"), FlagValue(std::string("1")));
}

TEST_F(Flags, ABadEnvironmentVariableIsNamed) {
  ::setenv("FLAGS_rpc_deadline", "soon", 1);
  EXPECT_THAT(error_of(read_flags_from_environment, ErrorKind::invalid_argument),
              HasSubstr("FLAGS_rpc_deadline is 'soon', which is not a whole number"));
}

TEST_F(Flags, CpuNumIsReadAtEveryCall) {
  ::setenv("CPU_NUM", "4", 1);
  EXPECT_EQ(cpu_num(), 4);
  ::setenv("CPU_NUM", "2", 1);
  EXPECT_EQ(cpu_num(), 2);
}

TEST_F(Flags, CpuNumUnsetBecomesOneWithOneNotice) {
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(cpu_num(), 1);
  EXPECT_EQ(cpu_num(), 1);
  const std::string notice = ::testing::internal::GetCapturedStderr();
  EXPECT_STREQ(std::getenv("CPU_NUM"), "1");
  // A machine with one core gets none: there is nothing to gain.
  const int expected = std::thread::hardware_concurrency() > 1 ? 1 : 0;
  EXPECT_EQ(std::ranges::count(notice, '\n'), expected);
}

TEST_F(Flags, ABadCpuNumIsAnError) {
  for (const char* bad : {"0", "-1", "many", "", "2x"}) {
    ::setenv("CPU_NUM", bad, 1);
    EXPECT_THAT(error_of([] { cpu_num(); }, ErrorKind::invalid_argument), HasSubstr("CPU_NUM is"));
  }
}

}  // namespace
}  // namespace trireme
