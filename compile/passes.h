// Every pass: a free function on the graph that says whether it changed something. What it may know
// about the machine is in the target.
#pragma once

#include "compile/graph.h"
#include "compile/target.h"

namespace trireme {

// The gradient of a weight that every iteration of a loop multiplies by is one product behind the
// loop, of the rows of all iterations. Sums go in another order.
bool sum_after_loops(Graph& graph, const Target& target);

// Arithmetic on float32 constants alone becomes a constant.
bool fold_constants(Graph& graph, const Target& target);

// Drops nodes whose results nobody can see. What can be noticed stays: fetches, states, effects,
// host ops, and ops that complain about their data.
bool prune_unobservable(Graph& graph, const Target& target);

// Two nodes that compute the same from the same operands become one. Gradients written from forward
// bodies repeat the forward; this takes the repetition out again.
bool merge_equal(Graph& graph, const Target& target);

// A convolution adds its bias, and takes a relu behind it, before its images leave the cache. No
// bit changes.
bool fuse_conv_bias(Graph& graph, const Target& target);

// A program for inference: batch_norm goes into the filter of the convolution before it, which
// takes over what is added to its result and relu as well. Sums round otherwise.
bool fold_for_inference(Graph& graph, const Target& target);

// Images between convolutions stay in the layout that the convolution library works in.
bool assign_layout(Graph& graph, const Target& target);

// batch_norm, a sum and relu become one node, and their gradients another. Every step rounds by
// itself: no bit changes.
bool fuse_batch_norm(Graph& graph, const Target& target);

// Elementwise nodes that feed each other become one p.fused node, which runs tile by tile. Every
// step rounds by itself: no bit changes.
bool fuse_elementwise(Graph& graph, const Target& target);

// Steps of parameters and of optimizer state that have the same name and do not need each other
// become one p.group node: one instruction whose parts cover all of them. No bit changes.
bool group_updates(Graph& graph, const Target& target);

// Where replicas share memory, the first of them runs what stands behind the sums of gradients, for
// all. No bit changes.
bool update_once(Graph& graph, const Target& target);

// Gradients that replicas sum stand one behind the other in memory. No bit changes.
bool bucket_gradients(Graph& graph, const Target& target);

}  // namespace trireme
