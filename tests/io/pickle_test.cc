// Pickles: known bytes, Python's own reading of ours and ours of Python's, and what is refused.
#include "io/pickle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "core/file.h"
#include "tests/support/op_runner.h"
#include "tests/support/temp_dir.h"

namespace trireme {
namespace {

using ::testing::HasSubstr;
using trireme::testing::error_of;
using trireme::testing::floats;
using trireme::testing::numbers;
using trireme::testing::TempDir;

template <size_t N>
std::string with_zeros(const char (&text)[N]) {
  return {text, N - 1};
}

Pickle pickle_of(std::string_view bytes) {
  ByteSource source = ByteSource::memory(bytes, "test");
  return Pickle::read(source);
}

NamedTensors state_of(std::string_view bytes) {
  ByteSource source = ByteSource::memory(bytes, "test");
  return read_state(source);
}

std::string bytes_of(const NamedTensors& state, const PickleOptions& options = {}) {
  StringSink sink;
  write_state(sink, state, options);
  return sink.text;
}

// A Python that has numpy; empty when there is none here.
const std::string& python() {
  static const std::string found = [] {
    for (const std::string candidate : {"python3", "/usr/bin/python3"}) {
      const std::string test = candidate + " -c 'import numpy' >/dev/null 2>&1";
      if (std::system(test.c_str()) == 0) return candidate;
    }
    return std::string();
  }();
  return found;
}
int run_python(const TempDir& dir, const std::string& script) {
  write_file(dir / "script.py", script);
  return std::system(("cd '" + dir.path() + "' && " + python() + " script.py").c_str());
}

NamedTensors every_type() {
  NamedTensors state;
  for (const DType dtype : {DType::boolean, DType::int8, DType::uint8, DType::int16, DType::int32,
                            DType::int64, DType::float16, DType::float32, DType::float64}) {
    state.emplace_back(std::string(name_of(dtype)),
                       cast(floats({2, 3}, {0, 1, 2, 3, 100, 127}), dtype));
  }
  state.emplace_back("empty", Tensor(DType::float32, {0, 2}));
  state.emplace_back("w\xc3\xa9", floats({300}, std::vector<float>(300, -1.5f)));
  return state;
}

void expect_same(const NamedTensors& got, const NamedTensors& wanted) {
  ASSERT_EQ(got.size(), wanted.size());
  for (const auto& pair : wanted) {
    const std::string& name = pair.first;
    const Tensor& tensor = pair.second;
    const auto found =
        std::find_if(got.begin(), got.end(), [&](const auto& item) { return item.first == name; });
    ASSERT_NE(found, got.end()) << name;
    EXPECT_EQ(found->second.dtype(), tensor.dtype()) << name;
    EXPECT_EQ(found->second.shape(), tensor.shape()) << name;
    EXPECT_EQ(numbers(found->second), numbers(tensor)) << name;
  }
}

TEST(Pickle, RoundTripsInEveryProtocol) {
  for (const int protocol : {2, 3, 4}) {
    expect_same(state_of(bytes_of(every_type(), {.protocol = protocol})), every_type());
  }
  EXPECT_THAT(error_of([] { bytes_of({}, {.protocol = 5}); }), HasSubstr("must be 2, 3 or 4"));
}

TEST(Pickle, SlicesHaveTheOriginalsNames) {
  const NamedTensors state = {{"w", floats({5}, {1, 2, 3, 4, 5})}};
  const std::string bytes = bytes_of(state, {.protocol = 3, .largest_array = 8});
  EXPECT_THAT(bytes, HasSubstr("w@@.0"));
  EXPECT_THAT(bytes, HasSubstr("w@@.2"));
  EXPECT_THAT(bytes, HasSubstr("UnpackBigParamInfor@@"));
  expect_same(state_of(bytes), state);
}

TEST(Pickle, PythonReadsOurs) {
  if (python().empty()) GTEST_SKIP() << "python3 with numpy is not here";
  const TempDir dir;
  for (const int protocol : {2, 3, 4}) {
    write_file(dir / "state", bytes_of(every_type(), {.protocol = protocol}));
    EXPECT_EQ(run_python(dir, R"(
import pickle, numpy as np
state = pickle.load(open('state', 'rb'))
for name in 'bool int8 uint8 int16 int32 int64 float16 float32 float64'.split():
    assert state[name].dtype == np.dtype(name), name
    want = np.array([[0, 1, 2], [3, 100, 127]]).astype(name)
    assert (state[name] == want).all(), name
    state[name][0, 0] = 1
assert state['empty'].shape == (0, 2)
assert (state['w\u00e9'] == -1.5).all() and state['w\u00e9'].shape == (300,)
)"),
              0)
        << "protocol " << protocol;
  }
}

TEST(Pickle, WeReadPythons) {
  if (python().empty()) GTEST_SKIP() << "python3 with numpy is not here";
  const TempDir dir;
  ASSERT_EQ(run_python(dir, R"(
import collections, pickle, numpy as np
state = {}
for name in 'bool int8 uint8 int16 int32 int64 float16 float32 float64'.split():
    state[name] = np.array([[0, 1, 2], [3, 100, 127]]).astype(name)
state['empty'] = np.zeros((0, 2), 'float32')
state['w\u00e9'] = np.full(300, -1.5, 'float32')
for protocol in (2, 3, 4):
    pickle.dump(state, open('state%d' % protocol, 'wb'), protocol)
pickle.dump(collections.OrderedDict(state), open('state5', 'wb'), 2)
fortran = np.asfortranarray(np.arange(6, dtype='float32').reshape(2, 3))
pickle.dump({'t': fortran, 'same': fortran, 'pair': ('pair', np.ones(2, 'float32'))},
            open('fortran', 'wb'), 4)
)"),
            0);
  for (const char* file : {"state2", "state3", "state4", "state5"}) {
    expect_same(state_of(read_file(dir / file, 1 << 20)), every_type());
  }
  const NamedTensors fortran = state_of(read_file(dir / "fortran", 1 << 20));
  EXPECT_EQ(numbers(fortran[0].second), (std::vector<double>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(numbers(fortran[2].second), (std::vector<double>{1, 1}));
}

// What Python 2's cPickle wrote: text without a character set, memo numbers from 1.
TEST(Pickle, ReadsPython2) {
  const std::string bytes = with_zeros(
      "\x80\x02}q\x01U\x01wq\x02"
      "cnumpy.core.multiarray\n_reconstruct\nq\x03"
      "cnumpy\nndarray\nq\x04K\0\x85q\x05U\x01"
      "bq\x06\x87Rq\x07(K\x01K\x02\x85q\x08"
      "cnumpy\ndtype\nq\x09U\x02"
      "f4q\x0aK\0K\x01\x87Rq\x0b(K\x03U\x01<q\x0cNNN"
      "J\xff\xff\xff\xffJ\xff\xff\xff\xffK\0tb\x89U\x08\0\0\x80?\0\0\0@tbs.");
  const NamedTensors state = state_of(bytes);
  ASSERT_EQ(state.size(), 1u);
  EXPECT_EQ(state[0].first, "w");
  EXPECT_EQ(numbers(state[0].second), (std::vector<double>{1, 2}));
}

TEST(Pickle, NeverCallsCode) {
  EXPECT_THAT(error_of([&] {
                pickle_of(
                    "\x80\x02"
                    "cposix\nsystem\n.");
              }),
              HasSubstr("the pickle wants posix.system, which is not plain data"));
  for (const std::string what : {"\x80\x02"
                                 "cbuiltins\neval\n.",
                                 "\x80\x02"
                                 "c__builtin__\ngetattr\n.",
                                 "\x80\x02"
                                 "cnumpy\nload\n."}) {
    EXPECT_THAT(error_of([&] { pickle_of(what); }), HasSubstr("not plain data"));
  }
}

TEST(Pickle, PlainValues) {
  const Pickle pickle =
      pickle_of(with_zeros("\x80\x04}(\x8c\x01"
                           "aK\x07\x8c\x01"
                           "bNX\x01\0\0\0c\x88X\x01\0\0\0d"
                           "G\x3f\xf8\0\0\0\0\0\0X\x01\0\0\0e](K\x01M\0\x01"
                           "J\xff\xff\xff\xff\x8a\x02\0\x80"
                           "eu."));
  const PickleValue& dict = pickle.top();
  EXPECT_EQ(dict.find("a")->integer, 7);
  EXPECT_EQ(dict.find("b")->kind, PickleValue::Kind::none);
  EXPECT_EQ(dict.find("c")->integer, 1);
  EXPECT_EQ(dict.find("d")->real, 1.5);
  ASSERT_EQ(dict.find("e")->items.size(), 4u);
  EXPECT_EQ(dict.find("e")->items[1]->integer, 256);
  EXPECT_EQ(dict.find("e")->items[2]->integer, -1);
  EXPECT_EQ(dict.find("e")->items[3]->integer, -32768);
  EXPECT_EQ(dict.find("f"), nullptr);
}

TEST(Pickle, AListThatHoldsItselfIsFine) {
  const Pickle pickle = pickle_of(with_zeros("\x80\x02]q\0h\0a."));
  EXPECT_EQ(pickle.top().items.at(0), &pickle.top());
}

TEST(Pickle, EveryTruncationIsAnError) {
  for (const int protocol : {2, 4}) {
    const std::string bytes = bytes_of({{"w", floats({2}, {1, 2})}}, {.protocol = protocol});
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_THROW(state_of(std::string_view(bytes).substr(0, size)), Error) << size;
    }
  }
}

TEST(Pickle, ArraysWhoseBytesDoNotFitAreRefused) {
  std::string bytes = bytes_of({{"w", floats({2}, {1, 2})}}, {.protocol = 3});
  const size_t shape = bytes.find("K\x02t");
  ASSERT_NE(shape, std::string::npos);
  bytes[shape + 1] = 3;
  EXPECT_THAT(error_of([&] { state_of(bytes); }), HasSubstr("an array of [3] float32 has 8 bytes"));
}

// The same text is turned into bytes over and over: a short file that asks for much memory.
TEST(Pickle, MemoryIsBoundedByTheFile) {
  std::string bytes =
      "\x80\x02"
      "c_codecs\nencode\nq";
  bytes += '\0';
  bytes += "0X";
  const uint32_t size = 1 << 20;
  bytes.append(reinterpret_cast<const char*>(&size), 4);
  bytes += std::string(size, 'x') +
           "q\x01"
           "0](";
  for (int i = 0; i < 1000; ++i) {
    bytes += 'h';
    bytes += '\0';
    bytes += "h\x01X";
    bytes += with_zeros("\x06\0\0\0latin1\x86R");
  }
  bytes += "e.";
  EXPECT_THAT(error_of([&] { pickle_of(bytes); }), HasSubstr("far more memory than the file"));
}

}  // namespace
}  // namespace trireme
