// Layers that end in sequences of labels: CTC, beam search, their measures, and a softmax over
// drawn classes.
#pragma once

#include <string>
#include <vector>

#include "layers/arguments.h"

namespace trireme::layers {

struct WarpCtcOptions {
  int blank = 0;
  bool norm_by_times = false;
  Var* input_length = nullptr;  // both given: input is padded, [time, batch, classes]
  Var* label_length = nullptr;
};
// The CTC loss of each sequence; input are scores before a softmax, and the blank is one of them.
Var& warpctc(Var& input, Var& label, const WarpCtcOptions& options = {},
             SourceLine line = SourceLine::here());

struct CtcGreedyDecoderOptions {
  Var* input_length = nullptr;  // given: input is padded, [batch, time, classes]
  int padding_value = 0;
  std::string name = {};
};
struct CtcLabels {
  Var& labels;
  Var* lengths;  // null without input_length
  operator Var&() const { return labels; }
};
// The likeliest class of every step, repeats merged, blanks taken out.
CtcLabels ctc_greedy_decoder(Var& input, int blank, const CtcGreedyDecoderOptions& options = {},
                             SourceLine line = SourceLine::here());

struct EditDistanceOptions {
  bool normalized = true;
  std::vector<int> ignored_tokens = {};  // taken out of both first
  Var* input_length = nullptr;
  Var* label_length = nullptr;
};
struct EditDistance {
  Var& distance;
  Var& sequence_num;
};
EditDistance edit_distance(Var& input, Var& label, const EditDistanceOptions& options = {},
                           SourceLine line = SourceLine::here());

struct ChunkEvalOptions {
  std::string chunk_scheme = "IOB";  // IOB, IOE, IOBES, plain
  int num_chunk_types = 0;
  std::vector<int> excluded_chunk_types = {};
  Var* seq_length = nullptr;
};
struct ChunkEval {
  Var& precision;
  Var& recall;
  Var& f1_score;
  Var& num_infer_chunks;
  Var& num_label_chunks;
  Var& num_correct_chunks;
};
ChunkEval chunk_eval(Var& input, Var& label, const ChunkEvalOptions& options,
                     SourceLine line = SourceLine::here());

struct BeamSearchOptions {
  int beam_size = 0;
  int end_id = 0;
  int level = 0;
  bool is_accumulated = true;
  std::string name = {};
};
struct BeamSearchStep {
  Var& selected_ids;
  Var& selected_scores;
  Var& parent_idx;
};
// `ids` null: the column is the word.
BeamSearchStep beam_search(Var& pre_ids, Var& pre_scores, Var* ids, Var& scores,
                           const BeamSearchOptions& options, SourceLine line = SourceLine::here());

struct BeamSearchDecodeOptions {
  int beam_size = 0;
  int end_id = 0;
  std::string name = {};
};
struct Sentences {
  Var& ids;
  Var& scores;
};
// `ids` and `scores` are the arrays that the steps were written to.
Sentences beam_search_decode(Var& ids, Var& scores, const BeamSearchDecodeOptions& options,
                             SourceLine line = SourceLine::here());

struct SampledSoftmaxOptions {
  int num_samples = 0;
  int num_true = 1;
  bool remove_accidental_hits = true;
  Var* customized_samples = nullptr;  // both: used instead of drawing
  Var* customized_probabilities = nullptr;
  int seed = 0;
};
// softmax_with_cross_entropy over the labels and num_samples drawn classes, for very many classes.
Var& sampled_softmax_with_cross_entropy(Var& logits, Var& label,
                                        const SampledSoftmaxOptions& options,
                                        SourceLine line = SourceLine::here());

}  // namespace trireme::layers
