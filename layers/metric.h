// Metrics computed inside a program.
#pragma once

#include <array>
#include <string>

#include "layers/arguments.h"

namespace trireme::layers {

struct AccuracyOptions {
  int k = 1;
  Var* correct = nullptr;  // int32 outputs of the user's own
  Var* total = nullptr;
};
// The share of rows whose label is among the k largest of `input`.
Var& accuracy(Var& input, Var& label, const AccuracyOptions& options = {},
              SourceLine line = SourceLine::here());

struct AucOptions {
  std::string curve = "ROC";  // or PR
  int num_thresholds = 4095;
  int topk = 1;         // anything else is an error
  int slide_steps = 1;  // batches that batch_auc looks back on
};
struct Auc {
  Var& auc;                    // over everything since the startup program ran
  Var& batch_auc;              // over the last slide_steps batches
  std::array<Var*, 4> states;  // batch_stat_pos, batch_stat_neg, stat_pos, stat_neg
};
Auc auc(Var& input, Var& label, const AucOptions& options = {},
        SourceLine line = SourceLine::here());

}  // namespace trireme::layers
