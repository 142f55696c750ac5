// One line of the MultiSlot format, and batches of lines that were read.
#include "io/multi_slot.h"

#include <algorithm>
#include <charconv>
#include <numeric>

#include "core/error.h"
#include "core/lod.h"
#include "core/text.h"

namespace trireme {
namespace {

class Words {
 public:
  explicit Words(std::string_view line) : rest_(line) { skip(); }
  bool more() const { return !rest_.empty(); }
  std::string_view next() {
    const size_t end = std::min(rest_.find_first_of(" \t\r\n"), rest_.size());
    const std::string_view word = rest_.substr(0, end);
    rest_.remove_prefix(end);
    skip();
    return word;
  }

 private:
  void skip() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size())); }
  std::string_view rest_;
};

template <class T>
T number_in(std::string_view word, const std::string& of, const char* kind) {
  T value{};
  const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (problem == std::errc() && end == word.data() + word.size()) return value;
  throw Error(cat(of, " has '", word, "' where ", kind, " must stand"));
}

// Unsigned 64-bit ids keep their bits.
int64_t integer_in(std::string_view word, const std::string& of) {
  uint64_t id = 0;
  const auto [end, problem] = std::from_chars(word.data(), word.data() + word.size(), id);
  if (problem == std::errc() && end == word.data() + word.size()) return static_cast<int64_t>(id);
  return number_in<int64_t>(word, of, "a whole number");
}

std::string one_word(Words& words, const char* what) {
  if (!words.more() || words.next() != "1" || !words.more()) {
    throw Error(cat("it does not begin with \"1 ", what, "\""));
  }
  return std::string(words.next());
}

int64_t values_of(const MultiSlotVar& var) {
  return std::accumulate(var.row_shape.begin(), var.row_shape.end(), int64_t{1},
                         std::multiplies<>());
}

void parse_var(Words& words, const MultiSlotVar& var, MultiSlotSample& sample) {
  if (!words.more()) throw Error(cat("it ends before ", var.name));
  const auto count = number_in<int32_t>(words.next(), var.name, "the number of its values");
  if (count <= 0)
    throw Error(cat(var.name, " has ", count, " values; an empty one must be padded"));
  if (var.is_dense && count != values_of(var)) {
    throw Error(cat(var.name, " has ", count, " values for the shape [", join(var.row_shape), "]"));
  }
  for (int32_t i = 0; i < count; ++i) {
    if (!words.more())
      throw Error(cat(var.name, " has ", i, " values where ", count, " are announced"));
    if (var.is_float) {
      sample.floats.push_back(number_in<float>(words.next(), var.name, "a number"));
    } else {
      sample.integers.push_back(integer_in(words.next(), var.name));
    }
  }
  sample.counts.push_back(count);
}

}  // namespace

MultiSlotSample parse_sample(std::string_view line, const MultiSlotFormat& format) {
  Words words(line);
  MultiSlotSample sample;
  if (format.has_id) sample.id = one_word(words, "id");
  if (format.has_content) one_word(words, "content");
  for (const MultiSlotVar& var : format.vars) parse_var(words, var, sample);
  int left = 0;
  for (; words.more(); ++left) words.next();
  if (left > 0) throw Error(cat(left, " words are left over"));
  return sample;
}

std::vector<Tensor> batch_of(const MultiSlotFormat& format,
                             const std::vector<const MultiSlotSample*>& samples) {
  std::vector<size_t> floats_at(samples.size(), 0), integers_at(samples.size(), 0);
  std::vector<Tensor> batch;
  for (size_t v = 0; v < format.vars.size(); ++v) {
    const MultiSlotVar& var = format.vars[v];
    Lod lod = {{0}};
    for (const MultiSlotSample* sample : samples)
      lod[0].push_back(lod[0].back() + sample->counts[v]);
    std::vector<int64_t> shape = {lod[0].back(), 1};
    if (var.is_dense) {
      shape = var.row_shape;
      shape.insert(shape.begin(), static_cast<int64_t>(samples.size()));
    }
    Tensor tensor(var.is_float ? DType::float32 : DType::int64,
                  Shape(std::span<const int64_t>(shape)));
    for (size_t s = 0; s < samples.size(); ++s) {
      const auto count = static_cast<size_t>(samples[s]->counts[v]);
      if (var.is_float) {
        std::copy_n(&samples[s]->floats[floats_at[s]], count, tensor.data<float>() + lod[0][s]);
      } else {
        std::copy_n(&samples[s]->integers[integers_at[s]], count,
                    tensor.data<int64_t>() + lod[0][s]);
      }
      (var.is_float ? floats_at : integers_at)[s] += count;
    }
    if (!var.is_dense) tensor.set_lod(lod);
    batch.push_back(std::move(tensor));
  }
  return batch;
}

}  // namespace trireme
