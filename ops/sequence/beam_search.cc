// Beam search: beam_search (one step), beam_search_decode (the sentences found) and gather_tree
// (paths read back through parents). LoD says which rows are whose: level 0 groups the prefixes of
// a source sentence, level 1 the candidates of a prefix.
#include <algorithm>
#include <cmath>

#include "ops/rules.h"
#include "ops/sequence/sequence_rules.h"
#include "ops/sequence/sequence_spans.h"

namespace trireme {
namespace {

// Offsets of level `level` counted in rows, not in groups of the next level.
std::vector<int64_t> row_offsets(const Lod& lod, size_t level) {
  std::vector<int64_t> offsets = lod[level];
  for (size_t inner = level + 1; inner < lod.size(); ++inner) {
    for (int64_t& at : offsets) at = lod[inner][static_cast<size_t>(at)];
  }
  return offsets;
}

struct Candidate {
  int64_t prefix, id;
  double score;
};

// Of equal scores the one of the later prefix is better.
bool better(const Candidate& a, const Candidate& b) {
  return a.score > b.score || (a.score == b.score && a.prefix > b.prefix);
}

// Keeps the `width` best, best first. Of equals the one found earlier comes first, but the last
// place of a full beam goes to the one found later, as in the original.
void keep(std::vector<Candidate>& beam, size_t width, const Candidate& found) {
  if (beam.size() == width) {
    if (better(beam.back(), found)) return;
    beam.pop_back();
  }
  beam.insert(std::upper_bound(beam.begin(), beam.end(), found, better), found);
}

struct Beam {
  std::vector<int64_t> sources;               // offsets in prefixes
  std::vector<std::vector<Candidate>> taken;  // by prefix
};

struct BeamStep {
  int pre_ids, pre_scores, ids, scores, selected_ids, selected_scores, parents;
  size_t level, width;
  int64_t end_id;
  bool accumulated;

  explicit BeamStep(const KernelSite& site)
      : pre_ids(site.position("pre_ids")),
        pre_scores(site.position("pre_scores")),
        ids(site.position("ids")),
        scores(site.position("scores")),
        selected_ids(site.out_position("selected_ids")),
        selected_scores(site.out_position("selected_scores")),
        parents(site.out_position("parent_idx")),
        level(static_cast<size_t>(site.attr<int32_t>("level"))),
        width(static_cast<size_t>(site.attr<int32_t>("beam_size"))),
        end_id(site.attr<int32_t>("end_id")),
        accumulated(site.attr<bool>("is_accumulated")) {}

  // A prefix that has ended stays as it is; any other offers every candidate in its row.
  void offer(const KernelArgs& k, int64_t prefix, std::vector<Candidate>& beam) const {
    const double before = element_as_double(k.in(pre_scores), prefix);
    if (int_at(k.in(pre_ids), prefix) == end_id) {
      keep(beam, width, {prefix, end_id, before});
      return;
    }
    const Tensor& all = k.in(scores);
    const int64_t columns = row_width(all.shape());
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t at = prefix * columns + j;
      const double score = element_as_double(all, at);
      keep(beam, width,
           {prefix, k.has_in(ids) ? int_at(k.in(ids), at) : j,
            accumulated ? score : before + std::log(score)});
    }
  }

  // The best of a source sentence. One whose beams had all ended a step before is dropped: its end
  // tokens are written already.
  Beam choose(const KernelArgs& k) const {
    const Lod& lod = k.in(scores).lod();
    if (lod.size() <= level) {
      throw Error(cat("scores has ", lod.size(), " LoD levels but level is ", level))
          .fix("feed the first ids and scores with two LoD levels: sources, then prefixes");
    }
    Beam beam{row_offsets(lod, level), {}};
    beam.taken.resize(static_cast<size_t>(beam.sources.back()));
    for (size_t s = 0; s + 1 < beam.sources.size(); ++s) {
      std::vector<Candidate> found;
      for (int64_t p = beam.sources[s]; p < beam.sources[s + 1]; ++p) offer(k, p, found);
      const bool ended = std::all_of(found.begin(), found.end(), [&](const Candidate& c) {
        return c.id == end_id && int_at(k.in(pre_ids), c.prefix) == end_id;
      });
      if (ended) continue;
      for (const Candidate& c : found) beam.taken[static_cast<size_t>(c.prefix)].push_back(c);
    }
    return beam;
  }

  void write(const KernelArgs& k, const Beam& beam) const {
    Lod lod = {beam.sources, {0}};
    std::vector<Candidate> rows;
    for (const std::vector<Candidate>& taken : beam.taken) {
      rows.insert(rows.end(), taken.begin(), taken.end());
      lod[1].push_back(static_cast<int64_t>(rows.size()));
    }
    const auto count = static_cast<int64_t>(rows.size());
    const DType score_type = k.in(pre_scores).dtype();
    k.out(selected_ids) = Tensor(DType::int64, {count, 1});
    Tensor wide(DType::float64, {count, 1});
    Tensor parent(DType::int32, {count});
    for (int64_t i = 0; i < count; ++i) {
      const Candidate& row = rows[static_cast<size_t>(i)];
      k.out<int64_t>(selected_ids)[i] = row.id;
      wide.data<double>()[i] = row.score;
      parent.data<int32_t>()[i] = static_cast<int32_t>(row.prefix);
    }
    k.out(selected_scores) = cast(wide, score_type);
    k.out(selected_ids).set_lod(lod);
    k.out(selected_scores).set_lod(lod);
    if (k.has_out(parents)) k.out(parents) = parent;
  }
};

void beam_search_shape(OpView& op) {
  const Shape& pre = op.in("pre_ids").shape;
  const Shape& scores = op.in("scores").shape;
  if (scores.rank() != 2 || (op.has("ids") && !op.in("ids").shape.may_equal(scores))) {
    throw op
        .error(cat("scores has shape ", scores,
                   op.has("ids") ? cat(" and ids ", op.in("ids").shape) : std::string()))
        .fix("give both [prefixes, candidates]");
  }
  if (!pre.numel().may_equal(scores[0])) {
    throw op.error(cat("pre_ids has shape ", pre, " but scores has ", scores[0], " rows"))
        .fix("give pre_ids and pre_scores one row for every prefix: [prefixes, 1]");
  }
  op.set_out("selected_ids", DType::int64, {Dim(), 1});
  op.set_out("selected_scores", op.in("pre_scores").dtype, {Dim(), 1});
  op.set_out("parent_idx", DType::int32, {Dim()});
  set_lod(op, "selected_ids", {}, 2);
  set_lod(op, "selected_scores", {}, 2);
}

// ---- decoding

struct Sentence {
  std::vector<int64_t> ids;  // last word first
  std::vector<double> scores;
};

// Walks one source sentence's beams back from the last step. `rows` names, for every sentence, its
// row at the step being looked at; a sentence begins at the last step that still has rows of it.
class Backtrace {
 public:
  Backtrace(int64_t source, int64_t end_id) : source_(static_cast<size_t>(source)), end_(end_id) {}

  void step(const Tensor& ids, const Tensor& scores) {
    const Lod& lod = ids.lod();
    const auto first = static_cast<size_t>(lod[0][source_]);
    const auto last = static_cast<size_t>(lod[0][source_ + 1]);
    const auto begin = lod[1].begin() + static_cast<int64_t>(first);
    if (rows_.empty()) {
      for (int64_t row = lod[1][first]; row < lod[1][last]; ++row) rows_.push_back(row);
      sentences_.resize(rows_.size());
    }
    for (size_t i = 0; i < rows_.size(); ++i) {
      const int64_t row = rows_[i], id = int_at(ids, row);
      Sentence& sentence = sentences_[i];
      // Of several end tokens in a row only the first is a word.
      if (id != end_ || sentence.ids.empty()) {
        sentence.ids.push_back(id);
        sentence.scores.push_back(element_as_double(scores, row));
      }
      // The prefix that made this row is the row of the step before.
      const auto after = std::upper_bound(begin, lod[1].begin() + static_cast<int64_t>(last), row);
      rows_[i] = after - lod[1].begin() - 1;
    }
  }

  // Best first.
  std::vector<Sentence> take() {
    std::stable_sort(
        sentences_.begin(), sentences_.end(),
        [](const Sentence& a, const Sentence& b) { return a.scores.front() > b.scores.front(); });
    return std::move(sentences_);
  }

 private:
  size_t source_;
  int64_t end_;
  std::vector<int64_t> rows_;
  std::vector<Sentence> sentences_;
};

void check_steps(const TensorArray& ids, const TensorArray& scores) {
  if (ids.empty() || ids.size() != scores.size()) {
    throw Error(cat("Ids has ", ids.size(), " steps and Scores ", scores.size()))
        .fix("write ids and scores of every step to their arrays with array_write");
  }
  for (size_t t = 0; t < ids.size(); ++t) {
    if (ids[t].lod().size() != 2 || ids[t].numel() != scores[t].numel() ||
        ids[t].lod()[0].size() != ids[0].lod()[0].size()) {
      throw Error(cat("step ", t, " of Ids is ", ids[t].describe(), " and of Scores ",
                      scores[t].describe(), "; both need two LoD levels and equal rows"))
          .fix("write what beam_search selects, and feed the first ids with two LoD levels");
    }
  }
}

KernelFn beam_search_decode(const KernelSite& site) {
  const int ids_at = site.position("Ids"), scores_at = site.position("Scores");
  const int out_ids = site.out_position("SentenceIds"),
            out_scores = site.out_position("SentenceScores");
  const auto beam = static_cast<size_t>(site.attr<int32_t>("beam_size"));
  const int64_t end_id = site.attr<int32_t>("end_id");
  return [=](const KernelArgs& k) {
    const TensorArray& ids = std::as_const(*k.ins[ids_at]).array();
    const TensorArray& scores = std::as_const(*k.ins[scores_at]).array();
    check_steps(ids, scores);
    Lod lod = {{0}, {0}};
    std::vector<int64_t> words;
    std::vector<double> word_scores;
    for (int64_t s = 0; s + 1 < static_cast<int64_t>(ids[0].lod()[0].size()); ++s) {
      Backtrace walk(s, end_id);
      for (size_t t = ids.size(); t-- > 0;) walk.step(ids[t], scores[t]);
      std::vector<Sentence> sentences = walk.take();
      sentences.resize(std::max(sentences.size(), beam));  // beams that found nothing are empty
      for (const Sentence& sentence : sentences) {
        words.insert(words.end(), sentence.ids.rbegin(), sentence.ids.rend());
        word_scores.insert(word_scores.end(), sentence.scores.rbegin(), sentence.scores.rend());
        lod[1].push_back(static_cast<int64_t>(words.size()));
      }
      lod[0].push_back(static_cast<int64_t>(lod[1].size()) - 1);
    }
    const auto count = static_cast<int64_t>(words.size());
    k.out(out_ids) = make_tensor<int64_t>({count}, std::span<const int64_t>(words));
    k.out(out_scores) =
        cast(make_tensor<double>({count}, std::span<const double>(word_scores)), scores[0].dtype());
    k.out(out_ids).set_lod(lod);
    k.out(out_scores).set_lod(lod);
  };
}

// ---- gather_tree

void gather_tree_shape(OpView& op) {
  const ValueInfo& ids = op.in("Ids");
  const ValueInfo& parents = op.in("Parents");
  if (ids.shape.rank() != 3 || !ids.shape.may_equal(parents.shape) ||
      (ids.known && parents.known && ids.dtype != parents.dtype)) {
    throw op
        .error(cat("Ids is ", name_of(ids.dtype), " ", ids.shape, " and Parents ",
                   name_of(parents.dtype), " ", parents.shape))
        .fix("give both as [time, batch, beams], int64 or int32");
  }
  op.set_out("Out", ids.dtype, ids.shape);
}

template <class T>
BoundKernel gather_tree(const KernelSite& site) {
  const Shape shape = site.in("Ids").shape;
  const int ids_at = site.position("Ids"), parents_at = site.position("Parents");
  return BoundKernel([=](const KernelArgs& k) {
    const T* ids = k.in<T>(ids_at);
    const T* parents = k.in<T>(parents_at);
    const int64_t time = shape.at(0), beams = shape.at(2), row = shape.at(1) * beams;
    for (int64_t at = 0; at < row; ++at) {
      const int64_t batch = at / beams * beams;
      int64_t beam = at % beams;
      for (int64_t t = time - 1; t >= 0; --t) {
        k.out<T>(0)[t * row + at] = ids[t * row + batch + beam];
        beam = static_cast<int64_t>(parents[t * row + batch + beam]);
        if (t > 0 && (beam < 0 || beam >= beams)) {
          throw Error(ErrorKind::out_of_range, cat("Parents names beam ", beam, " at step ", t,
                                                   " but there are ", beams, " beams"))
              .fix(cat("give parents from 0 to ", beams - 1));
        }
      }
    }
  });
}

}  // namespace

void register_beam_search(Registry& ops) {
  ops.op("beam_search")
      .doc(
          "One step of beam search: of every source sentence's candidates the beam_size best. A "
          "sentence whose beams have all ended in an earlier step gets no more rows")
      .in("pre_ids", "int64 [prefixes, 1]: the word each prefix ends in")
      .in("pre_scores", "[prefixes, 1]: the score of each prefix")
      .in_optional("ids", "int64 [prefixes, candidates]; absent: the column is the word")
      .in("scores", "[prefixes, candidates]; its LoD says which prefixes are whose")
      .out("selected_ids", "int64 [selected, 1]; LoD: sources, prefixes")
      .out("selected_scores", "[selected, 1], the same LoD")
      .out_optional("parent_idx", "int32 [selected]: the prefix each row came from")
      .required_attr<int32_t>("level", "the LoD level of the source sentences")
      .at_least(0)
      .required_attr<int32_t>("beam_size", "how many candidates a sentence keeps")
      .at_least(1)
      .required_attr<int32_t>("end_id", "the word that ends a sentence")
      .attr("is_accumulated", true,
            "scores are those of whole prefixes; False: probabilities of the candidate alone")
      .shape(beam_search_shape)
      .traits({.host = true})
      .kernel(untyped([](const KernelSite& site) {
        return [step = BeamStep(site)](const KernelArgs& k) { step.write(k, step.choose(k)); };
      }));

  ops.op("beam_search_decode")
      .doc("The sentences that a beam search found, best first, read back from its steps")
      .in("Ids", "array of int64 [selected, 1], what beam_search selected at every step")
      .in("Scores", "array of their scores")
      .out("SentenceIds", "int64 [words]; LoD: sources, sentences")
      .out("SentenceScores", "[words], the same LoD")
      .required_attr<int32_t>("beam_size", "sentences of each source")
      .at_least(1)
      .required_attr<int32_t>("end_id", "the word that ends a sentence")
      .shape([](OpView& op) {
        require_array(op, "Ids");
        require_array(op, "Scores");
        op.set_out("SentenceIds", DType::int64, {Dim()});
        op.set_out("SentenceScores", op.in("Scores").dtype, {Dim()});
        set_lod(op, "SentenceIds", {}, 2);
        set_lod(op, "SentenceScores", {}, 2);
      })
      .traits({.host = true})
      .kernel(untyped(beam_search_decode));

  ops.op("gather_tree")
      .doc("Whole paths of a beam search: every beam is followed back through its parents")
      .in("Ids", "[time, batch, beams]: the word each beam chose")
      .in("Parents", "[time, batch, beams]: the beam of the step before that it extends")
      .out("Out", "[time, batch, beams]: the words on the way to each last beam")
      .shape(gather_tree_shape)
      .kernel(
          typed<int64_t, int32_t>([]<class T>(const KernelSite& s) { return gather_tree<T>(s); }))
      .traits({.can_fail = true});
}

}  // namespace trireme
