// An optimizer whose program is cut into sections, which run one after another.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/place.h"
#include "layers/optimizer.h"

namespace trireme::optimizer {

struct PipelineOptions {
  // Where the forward part is cut. The loss's cut is the last: forward and backward meet there.
  std::vector<std::vector<Var*>> cuts = {};
  std::vector<Place> places = {};     // of each section: 2 * cuts - 1
  std::vector<int> concurrency = {};  // how many batches a section may have at hand: as many
  int queue_size = 30;                // batches that wait between sections
  int sync_steps = 1;                 // after how many batches the sections' parameters meet
  int start_cpu_core_id = 0;          // the first core of the sections
};

// One part of a step: forward to a cut, forward and backward around the loss, or back to a cut's
// gradient, with the updates of the parameters whose gradients it computes.
struct PipelineSection {
  Place place;
  int concurrency = 1;
  std::vector<std::string> ops;      // their types, in order
  std::vector<std::string> inputs;   // what others compute, feeds and parameters
  std::vector<std::string> outputs;  // the cut's variables, or their gradients
};

// Updates as the inner optimizer does, and says which op of the program is in which section. A plan
// has the ops of all sections, in order: each of them already uses all cores, so that batches which
// overlap would be no faster, and would compute gradients from parameters of steps before.
class Pipeline {
 public:
  explicit Pipeline(std::shared_ptr<Optimizer> inner, const PipelineOptions& options,
                    const SourceLine& line = SourceLine::here());
  Minimized minimize(Var& loss, const MinimizeOptions& options = {},
                     SourceLine line = SourceLine::here());
  Optimizer& inner() const { return *inner_; }
  const std::vector<PipelineSection>& sections() const { return sections_; }  // once minimized

 private:
  struct CutVar {
    std::string name;
    uint64_t program;
  };
  void check_cuts(const Var& loss, const SourceLine& line) const;
  std::vector<std::vector<std::string>> boundaries(const Block& block) const;
  void divide(const Block& block);

  std::shared_ptr<Optimizer> inner_;
  std::vector<std::vector<CutVar>> cuts_;
  std::vector<Place> places_;
  std::vector<int> concurrency_;
  std::vector<PipelineSection> sections_;
};

}  // namespace trireme::optimizer
