// Layers that end in sequences of labels: layers/decode.h.
#include "layers/decode.h"

#include "python/binding/casters.h"

namespace trireme::binding {
namespace {

using namespace pybind11::literals;
using OptionalInts = std::optional<std::vector<int>>;

void bind_label_measures(py::module_& m) {
  const py::object none = py::none();
  m.def(
      "warpctc",
      [](Var& input, Var& label, int blank, bool norm_by_times, Var* input_length,
         Var* label_length) {
        return &layers::warpctc(input, label, {blank, norm_by_times, input_length, label_length},
                                python_line());
      },
      "input"_a, "label"_a, "blank"_a = 0, "norm_by_times"_a = false, "input_length"_a = none,
      "label_length"_a = none);
  m.def(
      "ctc_greedy_decoder",
      [](Var& input, int blank, Var* input_length, int padding_value,
         const Text& name) -> py::object {
        const layers::CtcLabels found = layers::ctc_greedy_decoder(
            input, blank, {input_length, padding_value, name}, python_line());
        if (!found.lengths) return py::cast(&found.labels);
        return py::make_tuple(&found.labels, found.lengths);
      },
      "input"_a, "blank"_a, "input_length"_a = none, "padding_value"_a = 0, "name"_a = none);
  m.def(
      "edit_distance",
      [](Var& input, Var& label, bool normalized, const OptionalInts& ignored_tokens,
         Var* input_length, Var* label_length) {
        const layers::EditDistance made = layers::edit_distance(
            input, label,
            {normalized, ignored_tokens.value_or(std::vector<int>{}), input_length, label_length},
            python_line());
        return py::make_tuple(&made.distance, &made.sequence_num);
      },
      "input"_a, "label"_a, "normalized"_a = true, "ignored_tokens"_a = none,
      "input_length"_a = none, "label_length"_a = none);
  m.def(
      "chunk_eval",
      [](Var& input, Var& label, const std::string& chunk_scheme, int num_chunk_types,
         const OptionalInts& excluded_chunk_types, Var* seq_length) {
        const layers::ChunkEval made =
            layers::chunk_eval(input, label,
                               {chunk_scheme, num_chunk_types,
                                excluded_chunk_types.value_or(std::vector<int>{}), seq_length},
                               python_line());
        return py::make_tuple(&made.precision, &made.recall, &made.f1_score, &made.num_infer_chunks,
                              &made.num_label_chunks, &made.num_correct_chunks);
      },
      "input"_a, "label"_a, "chunk_scheme"_a, "num_chunk_types"_a, "excluded_chunk_types"_a = none,
      "seq_length"_a = none);
}

void bind_beam_search(py::module_& m) {
  const py::object none = py::none();
  m.def(
      "beam_search",
      [](Var& pre_ids, Var& pre_scores, Var* ids, Var& scores, int beam_size, int end_id, int level,
         bool is_accumulated, const Text& name, bool return_parent_idx) {
        const layers::BeamSearchStep step =
            layers::beam_search(pre_ids, pre_scores, ids, scores,
                                {beam_size, end_id, level, is_accumulated, name}, python_line());
        py::list results;
        results.append(&step.selected_ids);
        results.append(&step.selected_scores);
        if (return_parent_idx) results.append(&step.parent_idx);
        return py::tuple(results);
      },
      "pre_ids"_a, "pre_scores"_a, "ids"_a, "scores"_a, "beam_size"_a, "end_id"_a, "level"_a = 0,
      "is_accumulated"_a = true, "name"_a = none, "return_parent_idx"_a = false);
  m.def(
      "beam_search_decode",
      [](Var& ids, Var& scores, int beam_size, int end_id, const Text& name) {
        const layers::Sentences made =
            layers::beam_search_decode(ids, scores, {beam_size, end_id, name}, python_line());
        return py::make_tuple(&made.ids, &made.scores);
      },
      "ids"_a, "scores"_a, "beam_size"_a, "end_id"_a, "name"_a = none);
}

}  // namespace

void bind_layers_decode(py::module_& m) {
  const py::object none = py::none();
  bind_label_measures(m);
  bind_beam_search(m);
  m.def(
      "sampled_softmax_with_cross_entropy",
      [](Var& logits, Var& label, int num_samples, int num_true, bool remove_accidental_hits,
         bool use_customized_samples, Var* customized_samples, Var* customized_probabilities,
         int seed) {
        if (!use_customized_samples) customized_samples = customized_probabilities = nullptr;
        return &layers::sampled_softmax_with_cross_entropy(
            logits, label,
            {num_samples, num_true, remove_accidental_hits, customized_samples,
             customized_probabilities, seed},
            python_line());
      },
      "logits"_a, "label"_a, "num_samples"_a, "num_true"_a = 1, "remove_accidental_hits"_a = true,
      "use_customized_samples"_a = false, "customized_samples"_a = none,
      "customized_probabilities"_a = none, "seed"_a = 0);
}

}  // namespace trireme::binding
