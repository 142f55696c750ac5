// CTC, beam search and their measures.
#include "layers/decode.h"

#include "core/text.h"
#include "layers/layer_helper.h"
#include "layers/math_op.h"
#include "layers/nn.h"
#include "layers/tensor.h"

namespace trireme::layers {
namespace {

void add(VarSlots& slots, const char* slot, Var* var) {
  if (var) slots.push_back({slot, *var});
}

// A result that no gradient flows through.
Var& measure(LayerHelper& helper, DType dtype) {
  return helper.create_variable_for_type_inference(dtype, /*stop_gradient=*/true);
}

}  // namespace

Var& warpctc(Var& input, Var& label, const WarpCtcOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("warpctc");
  Var& labels = label.dtype() == DType::int32 ? label : cast(label, DType::int32, line);
  VarSlots inputs = {{"Logits", input}, {"Label", labels}};
  add(inputs, "LogitsLength", options.input_length);
  add(inputs, "LabelLength", options.label_length);
  Var& loss = helper.create_variable_for_type_inference(input.dtype());
  Var& grad = helper.create_variable_for_type_inference(input.dtype());
  helper.append_op("warpctc", inputs, {{"WarpCTCGrad", grad}, {"Loss", loss}},
                   {{"blank", options.blank}, {"norm_by_times", options.norm_by_times}});
  return loss;
}

CtcLabels ctc_greedy_decoder(Var& input, int blank, const CtcGreedyDecoderOptions& options,
                             SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("ctc_greedy_decoder", options.name);
  Var* indices = &topk(input, 1, {}, line).indices;
  Var& labels = measure(helper, DType::int64);
  Attrs attrs = {{"blank", blank}, {"merge_repeated", true}};
  if (!options.input_length) {
    helper.append_op("ctc_align", {{"Input", *indices}}, {{"Output", labels}}, attrs);
    return {labels, nullptr};
  }
  indices = &squeeze(*indices, {2}, {}, line);
  Var& lengths = measure(helper, DType::int64);
  attrs["padding_value"] = options.padding_value;
  helper.append_op("ctc_align", {{"Input", *indices}, {"InputLength", *options.input_length}},
                   {{"Output", labels}, {"OutputLength", lengths}}, attrs);
  return {labels, &lengths};
}

EditDistance edit_distance(Var& input, Var& label, const EditDistanceOptions& options,
                           SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("edit_distance");
  const auto cleaned = [&](Var& from) -> Var* {
    if (options.ignored_tokens.empty()) return &from;
    Var& erased = helper.create_variable_for_type_inference(DType::int64);
    helper.append_op("sequence_erase", {{"X", from}}, {{"Out", erased}},
                     {{"tokens", options.ignored_tokens}});
    return &erased;
  };
  VarSlots inputs = {{"Hyps", *cleaned(input)}, {"Refs", *cleaned(label)}};
  add(inputs, "HypsLength", options.input_length);
  add(inputs, "RefsLength", options.label_length);
  Var& distance = measure(helper, DType::float32);
  Var& count = measure(helper, DType::int64);
  helper.append_op("edit_distance", inputs, {{"Out", distance}, {"SequenceNum", count}},
                   {{"normalized", options.normalized}});
  return {distance, count};
}

ChunkEval chunk_eval(Var& input, Var& label, const ChunkEvalOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("chunk_eval");
  VarSlots inputs = {{"Inference", input}, {"Label", label}};
  add(inputs, "SeqLength", options.seq_length);
  const ChunkEval made{measure(helper, DType::float32), measure(helper, DType::float32),
                       measure(helper, DType::float32), measure(helper, DType::int64),
                       measure(helper, DType::int64),   measure(helper, DType::int64)};
  helper.append_op("chunk_eval", inputs,
                   {{"Precision", made.precision},
                    {"Recall", made.recall},
                    {"F1-Score", made.f1_score},
                    {"NumInferChunks", made.num_infer_chunks},
                    {"NumLabelChunks", made.num_label_chunks},
                    {"NumCorrectChunks", made.num_correct_chunks}},
                   {{"num_chunk_types", options.num_chunk_types},
                    {"chunk_scheme", options.chunk_scheme},
                    {"excluded_chunk_types", options.excluded_chunk_types}});
  return made;
}

BeamSearchStep beam_search(Var& pre_ids, Var& pre_scores, Var* ids, Var& scores,
                           const BeamSearchOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("beam_search", options.name);
  VarSlots inputs = {{"pre_ids", pre_ids}, {"pre_scores", pre_scores}, {"scores", scores}};
  add(inputs, "ids", ids);
  Var& selected_scores = helper.create_variable_for_type_inference(pre_scores.dtype());
  Var& selected_ids = helper.create_variable_for_type_inference(pre_ids.dtype());
  Var& parents = helper.create_variable_for_type_inference(DType::int32);
  helper.append_op("beam_search", inputs,
                   {{"selected_ids", selected_ids},
                    {"selected_scores", selected_scores},
                    {"parent_idx", parents}},
                   {{"level", options.level},
                    {"beam_size", options.beam_size},
                    {"end_id", options.end_id},
                    {"is_accumulated", options.is_accumulated}});
  return {selected_ids, selected_scores, parents};
}

Sentences beam_search_decode(Var& ids, Var& scores, const BeamSearchDecodeOptions& options,
                             SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("beam_search_decode", options.name);
  Var& sentence_ids = helper.create_variable_for_type_inference(ids.dtype());
  Var& sentence_scores = helper.create_variable_for_type_inference(scores.dtype());
  helper.append_op("beam_search_decode", {{"Ids", ids}, {"Scores", scores}},
                   {{"SentenceIds", sentence_ids}, {"SentenceScores", sentence_scores}},
                   {{"beam_size", options.beam_size}, {"end_id", options.end_id}});
  return {sentence_ids, sentence_scores};
}

Var& sampled_softmax_with_cross_entropy(Var& logits, Var& label,
                                        const SampledSoftmaxOptions& options, SourceLine line) {
  const LineScope scope(line);
  LayerHelper helper("sample_logits");
  const bool given = options.customized_samples != nullptr;
  if (given != (options.customized_probabilities != nullptr)) {
    throw helper.error("customized_samples and customized_probabilities go together");
  }
  Var& samples =
      given ? *options.customized_samples : helper.create_variable_for_type_inference(DType::int64);
  Var& probabilities = given ? *options.customized_probabilities
                             : helper.create_variable_for_type_inference(logits.dtype());
  Var& sampled_logits = helper.create_variable_for_type_inference(logits.dtype());
  Var& sampled_label = helper.create_variable_for_type_inference(DType::int64);
  Var& soft_label = helper.create_variable_for_type_inference(DType::int64);
  Var& logits_dim = helper.create_variable_for_type_inference(logits.dtype());
  Var& labels_dim = helper.create_variable_for_type_inference(label.dtype());
  VarSlots inputs = {{"Logits", logits}, {"Labels", label}};
  add(inputs, "CustomizedSamples", options.customized_samples);
  add(inputs, "CustomizedProbabilities", options.customized_probabilities);
  helper.append_op("sample_logits", inputs,
                   {{"Samples", samples},
                    {"Probabilities", probabilities},
                    {"SampledLabels", sampled_label},
                    {"SampledLogits", sampled_logits},
                    {"LogitsDim", logits_dim},
                    {"LabelsDim", labels_dim}},
                   {{"use_customized_samples", given},
                    {"uniq", true},
                    {"remove_accidental_hits", options.remove_accidental_hits},
                    {"num_samples", options.num_samples},
                    {"seed", options.seed}});
  Var& loss = helper.create_variable_for_type_inference(logits.dtype());
  Var& softmax = helper.create_variable_for_type_inference(logits.dtype());
  helper.append_op("one_hot", {{"X", sampled_label}}, {{"Out", soft_label}},
                   {{"depth", options.num_samples + 1}});
  helper.append_op("softmax_with_cross_entropy",
                   {{"Logits", sampled_logits}, {"Label", soft_label}},
                   {{"Softmax", softmax}, {"Loss", loss}},
                   {{"soft_label", true}, {"ignore_index", 0}, {"numeric_stable_mode", false}});
  return math_op("elementwise_div", loss, Scalar(options.num_true), line);
}

}  // namespace trireme::layers
