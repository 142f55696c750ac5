// Text files of samples in the MultiSlot format: a line is a sample, "n value ... value" for each
// variable.
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/tensor.h"

namespace trireme {

// A variable, and how its values stand in a line.
struct MultiSlotVar {
  std::string name;
  bool is_float = true;  // float32, else int64
  bool is_dense =
      true;  // every sample has row_shape's count of values; else the values are a sequence
  std::vector<int64_t> row_shape = {};
};

struct MultiSlotFormat {
  std::vector<MultiSlotVar> vars;
  bool has_id = false;       // "1 id" in front of the variables
  bool has_content = false;  // and "1 content" behind the id
};

// What a file goes through before it is parsed.
struct SampleSource {
  std::string pipe_command = "cat";   // its input is the file, its output has the lines
  std::string download_command = {};  // called with the file's name, gives the pipe's input
};

struct MultiSlotSample {
  std::string id;
  std::vector<float> floats;      // the values of all variables that are float, one after the other
  std::vector<int64_t> integers;  // of all others
  std::vector<int32_t> counts;    // by variable
};

// An Error that says what is wrong with the line.
MultiSlotSample parse_sample(std::string_view line, const MultiSlotFormat& format);

// Tensors by variable of the samples, in their order.
std::vector<Tensor> batch_of(const MultiSlotFormat& format,
                             const std::vector<const MultiSlotSample*>& samples);

// The samples of one file after the other, as they are asked for. The command ends with the reader.
class SampleReader {
 public:
  SampleReader(MultiSlotFormat format, SampleSource source, std::vector<std::string> files);
  ~SampleReader();
  SampleReader(const SampleReader&) = delete;
  SampleReader& operator=(const SampleReader&) = delete;
  bool next(MultiSlotSample& sample);  // false: there are no more
  void stop();                         // from another thread: next() comes to its end

 private:
  void open();
  void close();
  bool next_line(std::string& line);

  MultiSlotFormat format_;
  SampleSource source_;
  std::vector<std::string> files_;
  size_t file_ = 0;   // the one that is open or comes next
  std::mutex mutex_;  // of child_ and stopped_
  int child_ = -1;
  bool stopped_ = false;
  int pipe_ = -1;
  std::string held_;  // read and not parsed yet
  size_t parsed_ = 0;
};

// Batches that `threads` readers make ahead, each of its share of the files; taken from each in
// turn.
class QueuedBatches {
 public:
  struct Options {
    int64_t batch_size = 1;
    int threads = 1;
    size_t ahead = 4;  // batches that each thread may be ahead
  };
  QueuedBatches(const MultiSlotFormat& format, const SampleSource& source,
                const std::vector<std::string>& files, const Options& options);
  ~QueuedBatches();
  // Empty: there are no more. What a thread failed with is thrown where its batch would come.
  std::vector<Tensor> next();

 private:
  struct Lane;
  void read(Lane& lane);
  MultiSlotFormat format_;
  Options options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;
  std::vector<std::unique_ptr<Lane>> lanes_;
  size_t turn_ = 0;
};

// All samples of some files, in memory.
class HeldSamples {
 public:
  HeldSamples(MultiSlotFormat format, const SampleSource& source,
              const std::vector<std::string>& files, int threads);
  size_t size() const { return samples_.size(); }
  void shuffle(uint64_t seed);
  // Samples of one id become one, with all their sequences; those whose id does not stand `count`
  // times are dropped. Dense variables must be equal and are kept once. Returns how many were
  // dropped.
  size_t merge_by_id(size_t count);
  std::vector<Tensor> batch(size_t begin, size_t count) const;

 private:
  MultiSlotFormat format_;
  std::vector<MultiSlotSample> samples_;
};

}  // namespace trireme
