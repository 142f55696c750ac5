// Variables by name: slots with stable addresses in a tree of scopes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/tensor.h"

namespace trireme {

// Things only host code understands (readers, queues, rank tables) derive from this.
class HostObject {
 public:
  virtual ~HostObject() = default;
  virtual std::string describe() const = 0;
};

enum class Kind : uint8_t { none, dense, rows, array, host };

// A slot: empty, or one of the things a program computes with.
class Variable {
 public:
  Variable() = default;
  Variable(const Variable&) = default;
  Variable(Variable&&) = default;
  Variable& operator=(const Variable& other);
  Variable& operator=(Variable&& other) noexcept;

  Kind kind() const { return static_cast<Kind>(value_.index()); }
  bool initialized() const;  // holds data, not merely a kind

  // These turn an empty slot into the wanted kind; a slot of another kind is an Error (clear() it).
  Tensor& tensor();
  SelectedRows& rows();
  TensorArray& array();
  const Tensor& tensor() const;
  const SelectedRows& rows() const;
  const TensorArray& array() const;
  template <class T>
  std::shared_ptr<T> host() const {
    const auto* object = std::get_if<std::shared_ptr<HostObject>>(&value_);
    return object ? std::dynamic_pointer_cast<T>(*object) : nullptr;
  }
  void set_host(std::shared_ptr<HostObject> object) { value_ = std::move(object); }
  void clear() { value_ = std::monostate{}; }
  // A deep copy, in the memory this slot has where it fits: views of it stay true. Host objects are
  // shared.
  void copy_from(const Variable& source);
  std::string describe() const;
  // From now on `epoch` rises when the memory, type or shape of its tensor or rows is replaced.
  void watch(std::atomic<uint64_t>* epoch);

 private:
  void keep_watch();

  std::variant<std::monostate, Tensor, SelectedRows, TensorArray, std::shared_ptr<HostObject>>
      value_;
  MemoryWatch watch_;
};

class Scope {
 public:
  Scope();
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  Variable& var(std::string_view name);         // here, made if absent; parents are not asked
  Variable* find(std::string_view name) const;  // here, then the parents; null if absent
  Variable* find_local(std::string_view name) const;
  Scope& new_scope();  // a child, owned by this one
  void drop_kids();
  void erase(const std::vector<std::string>& names);
  std::vector<std::string> names() const;  // of this scope alone, sorted
  size_t size() const;
  Scope* parent() const { return parent_; }
  const Scope& root() const;

  // Identity that is never reused, and a count that rises whenever a slot is made or erased in
  // this tree; together they tell a bound plan that its slots are still the right ones.
  uint64_t id() const { return id_; }
  uint64_t epoch() const { return root().epoch_.load(std::memory_order_acquire); }
  // It rises with epoch(), and when the memory, type or shape of a variable's tensor or selected
  // rows is replaced: while it stands still, so do their addresses. Arrays, host objects and LoD do
  // not count.
  uint64_t memory_epoch() const { return root().memory_epoch_.load(std::memory_order_acquire); }

  // It rises whenever somebody gets at a variable by its name, who may write into its memory, and
  // when a run writes variables: while it and memory_epoch() stand still, variables hold what they
  // held, unless a pointer that was kept is written through.
  uint64_t contents_epoch() const { return root().contents_epoch_.load(std::memory_order_acquire); }
  void count_contents_changed() const {
    root().contents_epoch_.fetch_add(1, std::memory_order_acq_rel);
  }

  // Runs that write persistables exclude each other, runs that only read share (root scope's lock).
  std::shared_mutex& run_lock() const { return root().run_mutex_; }
  // How many training steps ran in this tree; random ops under a program seed draw from it.
  std::atomic<uint64_t>& step() const { return root().step_; }

 private:
  explicit Scope(Scope* parent);
  void count_slots_changed() const;
  Scope* parent_ = nullptr;
  uint64_t id_;
  mutable std::atomic<uint64_t> epoch_{0};
  mutable std::atomic<uint64_t> memory_epoch_{0};  // variables below count in it to their end
  mutable std::atomic<uint64_t> contents_epoch_{0};
  mutable std::atomic<uint64_t> step_{0};
  mutable std::shared_mutex run_mutex_;
  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Variable>, std::less<>> vars_;
  std::vector<std::unique_ptr<Scope>> kids_;
};

}  // namespace trireme
