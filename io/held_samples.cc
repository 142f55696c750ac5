// Samples of files held in memory: loaded by several threads, shuffled, merged by their ids.
#include <algorithm>
#include <atomic>
#include <exception>
#include <iterator>
#include <map>
#include <random>
#include <thread>

#include "core/error.h"
#include "io/multi_slot.h"

namespace trireme {

HeldSamples::HeldSamples(MultiSlotFormat format, const SampleSource& source,
                         const std::vector<std::string>& files, int threads)
    : format_(std::move(format)) {
  std::vector<std::vector<MultiSlotSample>> by_file(files.size());
  std::vector<std::exception_ptr> problems(files.size());
  std::atomic<size_t> next = 0;
  const auto load = [&] {
    for (size_t i = next++; i < files.size(); i = next++) {
      try {
        SampleReader reader(format_, source, {files[i]});
        MultiSlotSample sample;
        while (reader.next(sample)) by_file[i].push_back(std::move(sample));
      } catch (...) {
        problems[i] = std::current_exception();
      }
    }
  };
  std::vector<std::thread> team;
  for (int t = 1; t < threads; ++t) team.emplace_back(load);
  load();
  for (std::thread& thread : team) thread.join();
  for (const std::exception_ptr& problem : problems) {
    if (problem) std::rethrow_exception(problem);
  }
  for (auto& samples : by_file) std::ranges::move(samples, std::back_inserter(samples_));
}

void HeldSamples::shuffle(uint64_t seed) {
  std::mt19937_64 numbers(seed);
  for (size_t i = samples_.size(); i > 1; --i) std::swap(samples_[i - 1], samples_[numbers() % i]);
}

size_t HeldSamples::merge_by_id(size_t count) {
  if (!format_.has_id) {
    throw Error("samples have no ids to merge them by")
        .fix("call set_parse_ins_id(True) before loading");
  }
  std::map<std::string, std::vector<MultiSlotSample*>> by_id;
  for (MultiSlotSample& sample : samples_) by_id[sample.id].push_back(&sample);
  std::vector<MultiSlotSample> merged;
  size_t dropped = 0;
  for (const auto& [id, same] : by_id) {
    if (same.size() != count) {
      dropped += same.size();
      continue;
    }
    MultiSlotSample one;
    one.id = id;
    std::vector<size_t> floats_at(count, 0), integers_at(count, 0);
    for (size_t v = 0; v < format_.vars.size(); ++v) {
      const MultiSlotVar& var = format_.vars[v];
      one.counts.push_back(0);
      for (size_t s = 0; s < count; ++s) {
        const int32_t values = same[s]->counts[v];
        size_t& at = (var.is_float ? floats_at : integers_at)[s];
        if (!var.is_dense || s == 0) {
          if (var.is_float) {
            one.floats.insert(one.floats.end(), &same[s]->floats[at],
                              &same[s]->floats[at] + values);
          } else {
            one.integers.insert(one.integers.end(), &same[s]->integers[at],
                                &same[s]->integers[at] + values);
          }
          one.counts.back() += values;
        }
        at += static_cast<size_t>(values);
      }
    }
    merged.push_back(std::move(one));
  }
  samples_ = std::move(merged);
  return dropped;
}

std::vector<Tensor> HeldSamples::batch(size_t begin, size_t count) const {
  std::vector<const MultiSlotSample*> rows;
  for (size_t i = begin; i < std::min(begin + count, samples_.size()); ++i)
    rows.push_back(&samples_[i]);
  return batch_of(format_, rows);
}

}  // namespace trireme
