// Shares a batch out over devices, and puts fetched pieces together again.
#pragma once

#include <vector>

#include "runtime/executor.h"

namespace trireme {

// Device i of d gets samples [floor(i*n/d), floor((i+1)*n/d)): three over two are one and two. With
// LoD the samples are the sequences of the outermost level. Pieces share the batch's memory. Fewer
// samples than devices, or feeds that disagree on how many there are: an Error with the counts.
std::vector<Feeds> split_feeds(const Feeds& feeds, int devices);

// Samples of one tensor: sequences of the outermost LoD level, else rows.
int64_t sample_count(const Tensor& tensor);

// Joined along dimension 0 in device order, LoD too.
Tensor join_pieces(const std::string& name, const std::vector<Tensor>& pieces);

}  // namespace trireme
