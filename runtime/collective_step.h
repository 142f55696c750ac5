// One instruction that a frame runs together with the other members of its group.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/group.h"
#include "compile/plan.h"
#include "runtime/binding.h"

namespace trireme {

class CollectiveStep {
 public:
  CollectiveStep(const Plan& plan, int instruction);
  ~CollectiveStep();
  // The name of the ring whose ranks are the members; empty: the frame's group.
  const std::string& ring() const { return ring_; }
  // Before a run, where the members are others than they were. The group outlives the step.
  void join(Group& group);
  void join(const std::shared_ptr<Group>& group);  // the same, and keeps it
  // Takes part, or goes on where it stopped; true: it has ended and the results are there.
  bool run(const BoundInstruction& bound);

 private:
  void check_members(const Attrs& attrs) const;
  bool exchange(const BoundInstruction& bound);
  bool sum_rows(const BoundInstruction& bound);
  void gather_rows(const SelectedRows& mine);
  void merge_rows(const SelectedRows& mine, SelectedRows& sum);
  bool takes_result() const { return !to_first_ || group_->rank() == 0; }

  const Node& node_;
  const Exchange kind_;
  const bool to_first_;
  std::string ring_;
  Collective what_;  // of all operands
  Group* group_ = nullptr;
  std::shared_ptr<Group> kept_group_;
  bool started_ = false;
  std::unique_ptr<Ticket> ticket_;  // of all operands, or of the values of rows
  std::vector<Piece> pieces_;       // kept: a steady step asks for no memory
  std::vector<bool> follows_;       // by operand: it stands behind the one before, in a bucket

  // Of rows: first how many each member has, then which, and their values.
  std::unique_ptr<Ticket> count_ticket_, row_ticket_;
  enum class Stage { counts, rows } stage_ = Stage::counts;
  bool rows_done_ = false;
  int64_t count_ = 0;
  std::vector<int64_t> counts_, value_counts_;  // by member: rows, and elements of their values
  Piece count_piece_, row_piece_;
  SelectedRows gathered_;
  std::vector<std::pair<int64_t, size_t>> order_;  // row, position among the gathered
};

}  // namespace trireme
