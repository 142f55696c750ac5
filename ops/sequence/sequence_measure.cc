// Measures of found sequences against reference ones: edit_distance and chunk_eval.
#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

#include "ops/sequence/sequence_rules.h"
#include "ops/sequence/sequence_spans.h"

namespace trireme {
namespace {

void check_ints(const OpView& op, std::string_view slot) {
  const ValueInfo& ids = op.in(slot);
  if (!ids.known || ids.dtype == DType::int64 || ids.dtype == DType::int32) return;
  throw op.error(cat(slot, " holds ", name_of(ids.dtype), " but must hold int64"))
      .fix(cat("cast ", slot, " to int64"));
}

// With lengths [batch, time] (or [batch, time, 1]), else one number for every row.
void check_rows(const OpView& op, std::string_view slot, bool padded) {
  check_ints(op, slot);
  const Shape& shape = op.in(slot).shape;
  const int fixed = padded ? 2 : 1;
  if (shape.rank() >= fixed && shape.product(fixed, shape.rank()).may_equal(1)) return;
  throw op.error(cat(slot, " has shape ", shape))
      .fix(padded ? cat("give ", slot, " the shape [batch, time]")
                  : cat("give ", slot, " the shape [rows, 1] with LoD, or give lengths"));
}

// ---- edit_distance

void edit_distance_shape(OpView& op) {
  const bool padded = op.has("HypsLength");
  if (padded != op.has("RefsLength")) {
    throw op.error(cat("only one of HypsLength and RefsLength is given"))
        .fix("give both lengths, or none and LoD");
  }
  check_rows(op, "Hyps", padded);
  check_rows(op, "Refs", padded);
  const Dim hyps = sequence_count(op, "Hyps", "HypsLength", op.in("Hyps").shape[0]);
  const Dim refs = sequence_count(op, "Refs", "RefsLength", op.in("Refs").shape[0]);
  if (!hyps.may_equal(refs)) {
    throw op.error(cat("Hyps has ", hyps, " sequences but Refs has ", refs))
        .fix("give one reference for every hypothesis");
  }
  op.set_out("Out", DType::float32, {Dim::join(hyps, refs), 1});
  op.set_out("SequenceNum", DType::int64, {1});
}

// Levenshtein's distance: `row[j]` is the distance between the words read so far and the first j of
// the reference.
int64_t distance(const Tensor& hyps, const Span& hyp, const Tensor& refs, const Span& ref,
                 int64_t* row) {
  std::iota(row, row + ref.length + 1, int64_t{0});
  for (int64_t i = 0; i < hyp.length; ++i) {
    int64_t diagonal = row[0];
    row[0] = i + 1;
    for (int64_t j = 0; j < ref.length; ++j) {
      const int64_t at = j + 1;
      const bool same = int_at(hyps, hyp.row(i)) == int_at(refs, ref.row(j));
      const int64_t replaced = diagonal + (same ? 0 : 1);
      diagonal = row[at];
      row[at] = std::min({row[at] + 1, row[at - 1] + 1, replaced});
    }
  }
  return row[ref.length];
}

BoundKernel edit_distance(const KernelSite& site) {
  const int hyps_at = site.position("Hyps"), refs_at = site.position("Refs");
  const int count_at = site.out_position("SequenceNum"), out_at = site.out_position("Out");
  const bool normalized = site.attr<bool>("normalized");
  const SequenceSpans hyps(site, "Hyps", "HypsLength"), refs(site, "Refs", "RefsLength");
  BoundKernel kernel([=](const KernelArgs& k) {
    auto* row = reinterpret_cast<int64_t*>(k.scratch);
    for (int64_t s = 0; s < hyps.sequences(); ++s) {
      const Span hyp = hyps.at(k, s), ref = refs.at(k, s);
      if (normalized && ref.length == 0) {
        throw Error(cat("reference ", s, " is empty, so its distance cannot be normalized"))
            .fix("set normalized=False, or leave empty references out");
      }
      auto value = static_cast<float>(distance(k.in(hyps_at), hyp, k.in(refs_at), ref, row));
      if (normalized) value /= static_cast<float>(ref.length);
      k.out<float>(out_at)[s] = value;
    }
    if (k.has_out(count_at)) *k.out<int64_t>(count_at) = hyps.sequences();
  });
  kernel.scratch = static_cast<size_t>(refs.longest() + 1) * sizeof(int64_t);
  return kernel;
}

// ---- chunk_eval

// A label is type * tags + tag; the number above all labels means outside of any chunk. Which tag
// means what depends on the scheme; -1: the scheme has none.
struct Scheme {
  int64_t tags = 1, begin = -1, inside = -1, end = -1, single = -1;
};

Scheme scheme_of(const std::string& name) {
  if (name == "IOB") return {.tags = 2, .begin = 0, .inside = 1};
  if (name == "IOE") return {.tags = 2, .inside = 0, .end = 1};
  if (name == "IOBES") return {.tags = 4, .begin = 0, .inside = 1, .end = 2, .single = 3};
  return {};  // plain: neighbours of one type are one chunk
}

struct Chunk {
  int64_t begin, end, type;
  bool operator==(const Chunk&) const = default;
  bool operator<(const Chunk& other) const {
    return std::tie(begin, end, type) < std::tie(other.begin, other.end, other.type);
  }
};

struct ChunkReader {
  Scheme scheme;
  int64_t types;
  std::set<int64_t> excluded;

  // Between two neighbours of one type: whether the first one's chunk ends there.
  bool splits(int64_t before, int64_t tag) const {
    return before == scheme.end || before == scheme.single || tag == scheme.begin ||
           tag == scheme.single;
  }

  // Writes the chunks of the types that count, in order, and returns how many there are.
  int64_t read(const Tensor& labels, const Span& s, const char* slot, Chunk* chunks) const {
    int64_t count = 0;
    int64_t begin = 0, type = types, tag = -1;  // type `types` is outside
    for (int64_t t = 0; t <= s.length; ++t) {
      const int64_t label = t < s.length ? int_at(labels, s.row(t)) : types * scheme.tags;
      if (label < 0 || label > types * scheme.tags) {
        throw Error(ErrorKind::out_of_range,
                    cat(slot, " holds ", label, " but labels go from 0 to ", types * scheme.tags))
            .fix("check num_chunk_types and chunk_scheme");
      }
      const int64_t next_type = label / scheme.tags, next_tag = label % scheme.tags;
      const bool goes_on = next_type == type && !splits(tag, next_tag);
      if (!goes_on) {
        if (type != types && !excluded.contains(type)) chunks[count++] = {begin, t - 1, type};
        begin = t;
      }
      type = next_type;
      tag = next_tag;
    }
    return count;
  }
};

void chunk_eval_shape(OpView& op) {
  const bool padded = op.has("SeqLength");
  check_rows(op, "Inference", padded);
  check_rows(op, "Label", padded);
  if (!op.in("Inference").shape.numel().may_equal(op.in("Label").shape.numel())) {
    throw op
        .error(cat("Inference has shape ", op.in("Inference").shape, " but Label has ",
                   op.in("Label").shape))
        .fix("give one label for every inferred one");
  }
  sequence_count(op, "Label", "SeqLength", op.in("Label").shape[0]);
  for (const char* slot : {"Precision", "Recall", "F1-Score"}) {
    op.set_out(slot, DType::float32, {1});
  }
  for (const char* slot : {"NumInferChunks", "NumLabelChunks", "NumCorrectChunks"}) {
    op.set_out(slot, DType::int64, {1});
  }
}

BoundKernel chunk_eval(const KernelSite& site) {
  const auto excluded = site.attr<std::vector<int32_t>>("excluded_chunk_types");
  const ChunkReader reader{scheme_of(site.attr<std::string>("chunk_scheme")),
                           site.attr<int32_t>("num_chunk_types"),
                           {excluded.begin(), excluded.end()}};
  std::vector<int> outs;
  for (const char* slot : {"Precision", "Recall", "F1-Score", "NumInferChunks", "NumLabelChunks",
                           "NumCorrectChunks"}) {
    outs.push_back(site.out_position(slot));
  }
  const int inferred_at = site.position("Inference"), label_at = site.position("Label");
  const SequenceSpans spans(site, "Label", "SeqLength");
  const int64_t most = spans.longest();  // chunks of a sequence
  BoundKernel kernel([=](const KernelArgs& k) {
    Chunk *found = reinterpret_cast<Chunk*>(k.scratch), *wanted = found + most;
    Chunk* both = wanted + most;
    int64_t inferred = 0, labelled = 0, correct = 0;
    for (int64_t sequence = 0; sequence < spans.sequences(); ++sequence) {
      const Span s = spans.at(k, sequence);
      const int64_t found_count = reader.read(k.in(inferred_at), s, "Inference", found);
      const int64_t wanted_count = reader.read(k.in(label_at), s, "Label", wanted);
      inferred += found_count;
      labelled += wanted_count;
      correct +=
          std::set_intersection(found, found + found_count, wanted, wanted + wanted_count, both) -
          both;
    }
    const auto ratio = [](double part, double of) { return of == 0 ? 0.0 : part / of; };
    const double precision = ratio(static_cast<double>(correct), static_cast<double>(inferred));
    const double recall = ratio(static_cast<double>(correct), static_cast<double>(labelled));
    const double scores[] = {precision, recall, ratio(2 * precision * recall, precision + recall)};
    const int64_t counts[] = {inferred, labelled, correct};
    for (size_t i = 0; i < 3; ++i) {
      if (k.has_out(outs[i])) *k.out<float>(outs[i]) = static_cast<float>(scores[i]);
      if (k.has_out(outs[i + 3])) *k.out<int64_t>(outs[i + 3]) = counts[i];
    }
  });
  kernel.scratch = static_cast<size_t>(3 * most) * sizeof(Chunk);
  return kernel;
}

}  // namespace

void register_sequence_measure(Registry& ops) {
  ops.op("edit_distance")
      .doc("How many words must be added, taken out or replaced to make the reference")
      .in("Hyps", "int64 [rows, 1] in sequences, or with lengths [batch, time]")
      .in("Refs", "int64, the same for the references")
      .in_optional("HypsLength", "int64 [batch]: how many words of each row of Hyps count")
      .in_optional("RefsLength", "int64 [batch]: the same for Refs")
      .out("SequenceNum", "int64 [1]: how many sequences there are")
      .out("Out", "float32 [sequences, 1]")
      .attr("normalized", false, "divide by the length of the reference")
      .shape(edit_distance_shape)
      .traits({.can_fail = true})
      .kernel(untyped(edit_distance));

  ops.op("chunk_eval")
      .doc("How well chunks were found: precision, recall, their harmonic mean, and the counts")
      .in("Inference", "int64: the label inferred for every row")
      .in("Label", "int64: the right one; type * tags of the scheme + tag")
      .in_optional("SeqLength", "int64 [batch]: how many labels of each padded row count")
      .out("Precision", "float32 [1]: correct of inferred")
      .out("Recall", "float32 [1]: correct of labelled")
      .out("F1-Score", "float32 [1]")
      .out("NumInferChunks", "int64 [1]")
      .out("NumLabelChunks", "int64 [1]")
      .out("NumCorrectChunks", "int64 [1]")
      .required_attr<int32_t>("num_chunk_types", "types of chunks; labels go up to types * tags")
      .at_least(1)
      .attr("chunk_scheme", "IOB", "how labels mark chunks")
      .one_of({"IOB", "IOE", "IOBES", "plain"})
      .attr("excluded_chunk_types", std::vector<int32_t>{}, "types that do not count")
      .shape(chunk_eval_shape)
      .traits({.can_fail = true})
      .kernel(untyped(chunk_eval));
}

}  // namespace trireme
