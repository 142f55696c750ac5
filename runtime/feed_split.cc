// Cuts batches by samples or by sequences, and joins what devices fetched.
#include "runtime/feed_split.h"

#include <algorithm>
#include <cstring>

#include "core/text.h"

namespace trireme {
namespace {

// Samples [begin, end): rows, or sequences of the outermost level with offsets counted from the
// first. The piece's own LoD gives its memory.
void take_samples(const Tensor& tensor, int64_t begin, int64_t end, Tensor& piece) {
  Lod lod = std::move(piece.mutable_lod());
  lod.resize(tensor.lod().size());
  for (size_t l = 0; l < lod.size(); ++l) {
    const std::vector<int64_t>& level = tensor.lod()[l];
    lod[l].clear();
    for (int64_t i = begin; i <= end; ++i) {
      lod[l].push_back(level[static_cast<size_t>(i)] - level[static_cast<size_t>(begin)]);
    }
    // What this level's sequences hold are the next level's sequences, at last the rows.
    const int64_t first = begin;
    begin = level[static_cast<size_t>(first)];
    end = level[static_cast<size_t>(end)];
  }
  piece = tensor.slice_rows(begin, end);
  piece.set_lod(std::move(lod));
}

}  // namespace

int64_t sample_count(const Tensor& tensor) {
  if (!tensor.lod().empty()) return static_cast<int64_t>(tensor.lod().front().size()) - 1;
  return tensor.shape().rank() == 0 ? 1 : tensor.shape().at(0);
}

namespace {

// Where device i's samples begin; those of the one after it are where they end.
int64_t share_begin(int64_t device, int64_t samples, int64_t devices, SplitRule rule) {
  if (rule == SplitRule::even) return device * samples / devices;
  return std::min(samples, device * ((samples + devices - 1) / devices));
}

}  // namespace

int devices_reached(int64_t samples, int devices, SplitRule rule) {
  int reached = 0;
  for (int64_t i = 0; i < devices; ++i) {
    reached += share_begin(i, samples, devices, rule) < share_begin(i + 1, samples, devices, rule);
  }
  return reached;
}

bool same_names(const Feeds& a, const Feeds& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& one, const auto& other) { return one.first == other.first; });
}

std::vector<Fed> kinds_of(const Feeds& feeds, const std::set<std::string>& whole) {
  std::vector<Fed> kinds;
  for (const auto& [name, tensor] : feeds) {
    const bool gradient = name.ends_with(kGradSuffix);
    kinds.push_back(whole.contains(name) ? Fed::whole : gradient ? Fed::gradient : Fed::samples);
  }
  return kinds;
}

std::vector<Feeds> split_feeds(const Feeds& feeds, int devices, const std::set<std::string>& whole,
                               SplitRule rule) {
  std::vector<Feeds> pieces;
  split_feeds(feeds, devices, kinds_of(feeds, whole), rule, pieces);
  return pieces;
}

namespace {

void check_reaches_all(const std::string& name, int64_t count, int devices, SplitRule rule) {
  if (count < devices) {
    throw Error(cat("feed of ", name, " has ", count, " samples for ", devices, " devices"))
        .fix("drop a last batch that is smaller than the number of devices (drop_last=True)");
  }
  if (devices_reached(count, devices, rule) < devices) {
    throw Error(cat("feed of ", name, " has ", count, " samples: in chunks of ",
                    share_begin(1, count, devices, rule), " they reach ",
                    devices_reached(count, devices, rule), " of ", devices, " devices"))
        .fix("set FLAGS_split_by_chunks to False, or drop the batch");
  }
}

// The pieces have the feeds' names, so that a feed has one number in all of them.
void take_names(const Feeds& feeds, int devices, std::vector<Feeds>& pieces) {
  pieces.resize(static_cast<size_t>(devices));
  for (Feeds& piece : pieces) {
    if (same_names(piece, feeds)) continue;
    std::vector<Feeds::Entry> entries;
    for (const auto& [name, tensor] : feeds) entries.emplace_back(name, Tensor());
    piece = Feeds(std::move(entries));
  }
}

}  // namespace

void split_feeds(const Feeds& feeds, int devices, const std::vector<Fed>& kinds, SplitRule rule,
                 std::vector<Feeds>& pieces) {
  take_names(feeds, devices, pieces);
  if (devices == 1) {
    for (size_t f = 0; f < feeds.size(); ++f) pieces[0].number(f) = feeds.number(f);
    return;
  }
  size_t fewest = feeds.size();  // the number of the feed that has the fewest; the size: none has
  size_t f = 0;
  for (const auto& [name, tensor] : feeds) {
    if (kinds[f] != Fed::whole) check_reaches_all(name, sample_count(tensor), devices, rule);
    const bool less =
        fewest == feeds.size() || sample_count(tensor) < sample_count(feeds.number(fewest));
    if (kinds[f] == Fed::samples && less) fewest = f;
    ++f;
  }
  f = 0;
  for (const auto& [name, tensor] : feeds) {
    const size_t number = f++;
    if (kinds[number] == Fed::whole) {
      for (Feeds& piece : pieces) piece.number(number) = tensor;
      continue;
    }
    const int64_t count = sample_count(tensor);
    const bool batch = kinds[number] == Fed::samples;
    const int64_t samples = batch ? sample_count(feeds.number(fewest)) : count;
    if (count % samples != 0) {
      throw Error(cat("feed of ", name, " has ", count, " samples and feed of ",
                      (feeds.begin() + static_cast<std::ptrdiff_t>(fewest))->first, " has ",
                      samples, ": they cannot be shared out over ", devices, " devices alike"))
          .fix("feed equal numbers of samples, or a list with one dict per device");
    }
    const int64_t rows = count / samples;  // of one sample
    for (int64_t i = 0; i < devices; ++i) {
      take_samples(tensor, share_begin(i, samples, devices, rule) * rows,
                   share_begin(i + 1, samples, devices, rule) * rows,
                   pieces[static_cast<size_t>(i)].number(number));
    }
  }
}

Tensor join_pieces(const std::string& name, const std::vector<Tensor>& pieces) {
  if (pieces.size() == 1) return pieces.front();
  Shape shape = pieces.front().shape();
  if (shape.rank() == 0) shape.push_back(1);
  int64_t rows = 0;
  for (const Tensor& piece : pieces) {
    Shape other = piece.shape();
    if (other.rank() == 0) other.push_back(1);
    bool agree = other.rank() == shape.rank() && piece.dtype() == pieces.front().dtype() &&
                 piece.lod().size() == pieces.front().lod().size();
    for (int i = 1; agree && i < shape.rank(); ++i) agree = other[i] == shape[i];
    if (!agree) {
      std::vector<std::string> all;
      for (const Tensor& each : pieces) all.push_back(each.describe());
      throw Error(cat("the devices' results of ", name, " cannot be joined: ", join(all, "; ")))
          .fix("fetch with return_merged=False");
    }
    rows += other.at(0);
  }
  shape[0] = rows;
  Tensor joined(pieces.front().dtype(), shape);
  size_t at = 0;
  Lod lod = pieces.front().lod();
  for (size_t p = 0; p < pieces.size(); ++p) {
    const auto bytes = pieces[p].bytes();
    if (!bytes.empty()) std::memcpy(joined.bytes().data() + at, bytes.data(), bytes.size());
    at += bytes.size();
    if (p == 0) continue;
    for (size_t level = 0; level < lod.size(); ++level) {
      const int64_t base = lod[level].back();
      const auto& offsets = pieces[p].lod()[level];
      for (size_t i = 1; i < offsets.size(); ++i) lod[level].push_back(base + offsets[i]);
    }
  }
  joined.set_lod(std::move(lod));
  return joined;
}

Tensor join_pieces(const std::string& name, const Replicas::Result& result) {
  std::vector<Tensor> pieces;
  for (const Variable& piece : result.by_device) pieces.push_back(piece.tensor());
  return join_pieces(name, pieces);
}

TensorArray join_arrays(const std::string& name, const std::vector<Variable>& pieces) {
  TensorArray joined;
  for (size_t i = 0; i < pieces.front().array().size(); ++i) {
    std::vector<Tensor> elements;
    for (const Variable& piece : pieces) {
      if (piece.array().size() != pieces.front().array().size()) {
        throw Error(cat("the devices' results of ", name, " cannot be joined: arrays of ",
                        pieces.front().array().size(), " and ", piece.array().size(), " tensors"))
            .fix("fetch with return_merged=False");
      }
      elements.push_back(piece.array()[i]);
    }
    joined.push_back(join_pieces(cat(name, "[", i, "]"), elements));
  }
  return joined;
}

Tensor mean_of_pieces(const std::string& name, const std::vector<Tensor>& pieces,
                      const std::vector<double>& shares) {
  if (pieces.size() == 1) return pieces.front();
  const Tensor& first = pieces.front();
  const bool alike = std::all_of(pieces.begin(), pieces.end(), [&](const Tensor& piece) {
    return piece.dtype() == first.dtype() && piece.shape() == first.shape();
  });
  if (!alike || (first.dtype() != DType::float32 && first.dtype() != DType::float64)) {
    std::vector<std::string> all;
    for (const Tensor& each : pieces) all.push_back(each.describe());
    throw Error(cat("the devices' results of ", name, " have no mean: ", join(all, "; ")))
        .fix("fetch what has one shape on every device, such as a loss or a parameter");
  }
  const auto mean_as = [&]<class T>(T*) {
    Tensor mean(first.dtype(), first.shape());
    for (int64_t i = 0; i < first.numel(); ++i) {
      double sum = 0;
      for (size_t p = 0; p < pieces.size(); ++p)
        sum += shares[p] * static_cast<double>(pieces[p].data<T>()[i]);
      mean.data<T>()[i] = static_cast<T>(sum);
    }
    return mean;
  };
  return first.dtype() == DType::float32 ? mean_as(static_cast<float*>(nullptr))
                                         : mean_as(static_cast<double*>(nullptr));
}

std::set<std::string> persistable_feeds(const Program& program, const Feeds& feeds) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : feeds) {
    const Var* var = program.global_block().find_var(name);
    if (var && var->persistable()) names.insert(name);
  }
  return names;
}

}  // namespace trireme
