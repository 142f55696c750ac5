// Shares a batch out over devices, and puts fetched pieces together again.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "runtime/executor.h"

namespace trireme {

// How n samples go to d devices.
enum class SplitRule {
  even,    // device i gets [floor(i*n/d), floor((i+1)*n/d)): three over two are one and two
  chunks,  // ceil(n/d) each from the front, the last one what is left: three over two are two and
           // one
};

// With LoD the samples are the sequences of the outermost level. Pieces share the batch's memory. A
// feed may have several rows per sample: its count is then a multiple of the smallest count. Feeds
// named in `whole` go to every device as they are, and so do all feeds where there is one device;
// gradients are split by their own count. A device left without samples, or feeds that disagree on
// how many there are: an Error with the counts.
std::vector<Feeds> split_feeds(const Feeds& feeds, int devices,
                               const std::set<std::string>& whole = {},
                               SplitRule rule = SplitRule::even);
// What feeds are to the split, by their numbers.
enum class Fed : unsigned char { samples, gradient, whole };
std::vector<Fed> kinds_of(const Feeds& feeds, const std::set<std::string>& whole);
// The same into pieces of an earlier batch: where names, and lengths of LoD levels, are as they
// were, no name is looked up and no memory asked for.
void split_feeds(const Feeds& feeds, int devices, const std::vector<Fed>& kinds, SplitRule rule,
                 std::vector<Feeds>& pieces);
bool same_names(const Feeds& a, const Feeds& b);

// What the user feeds into a variable that outlives the step is not part of a batch.
std::set<std::string> persistable_feeds(const Program& program, const Feeds& feeds);

// How many of the devices a batch of so many samples reaches.
int devices_reached(int64_t samples, int devices, SplitRule rule);

// Samples of one tensor: sequences of the outermost LoD level, else rows.
int64_t sample_count(const Tensor& tensor);

// Joined along dimension 0 in device order, LoD too.
Tensor join_pieces(const std::string& name, const std::vector<Tensor>& pieces);

Tensor join_pieces(const std::string& name, const Replicas::Result& result);

// Arrays of tensors, element by element.
TensorArray join_arrays(const std::string& name, const std::vector<Variable>& pieces);

// Their mean, each weighted by its device's share: of a loss, what one device would have computed
// on the whole batch. Only floating-point values of one shape have a mean.
Tensor mean_of_pieces(const std::string& name, const std::vector<Tensor>& pieces,
                      const std::vector<double>& shares);

}  // namespace trireme
