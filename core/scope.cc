// Variables and the tree of scopes.
#include "core/scope.h"

#include <type_traits>

#include "core/error.h"
#include "core/lookups.h"
#include "core/text.h"

namespace trireme {
namespace {

std::string_view name_of(Kind kind) {
  switch (kind) {
    case Kind::none:
      return "nothing";
    case Kind::dense:
      return "a tensor";
    case Kind::rows:
      return "selected rows";
    case Kind::array:
      return "a tensor array";
    case Kind::host:
      return "a host object";
  }
  return "something unknown";
}

[[noreturn]] void wrong_kind(Kind held, Kind wanted) {
  Error error(held == Kind::none ? ErrorKind::precondition : ErrorKind::invalid_argument,
              cat("the variable holds ", name_of(held), ", not ", name_of(wanted)));
  if (held == Kind::rows && wanted == Kind::dense) {
    error.fix(
        "build the embedding with is_sparse=False, or convert its gradient first with "
        "get_tensor_from_selected_rows");
  }
  throw error;
}

// Never reused, so a scope at a recycled address is not mistaken for the one before it.
uint64_t next_scope_id() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

// `value` is the variable's variant, const or not; `held` is its kind.
template <class T, class Value>
auto& held_as(Value& value, Kind held, Kind wanted) {
  auto* found = std::get_if<T>(&value);
  if (!found) wrong_kind(held, wanted);
  return *found;
}

// A deep copy, LoD included. Memory that fits stays even where others look at it.
void copy_in_place(const Tensor& from, Tensor& to) {
  const bool fits = from.initialized() && to.initialized() && to.dtype() == from.dtype() &&
                    to.shape() == from.shape();
  if (!fits) return to.copy_from(from);
  copy_contents(from, to);
  to.mutable_lod() = from.lod();
}

}  // namespace

// Frames keep variables in vectors.
static_assert(std::is_nothrow_move_constructible_v<Variable>);

Variable& Variable::operator=(const Variable& other) {
  value_ = other.value_;
  watch_.count();
  keep_watch();
  return *this;
}

Variable& Variable::operator=(Variable&& other) noexcept {
  value_ = std::move(other.value_);
  watch_.count();
  keep_watch();
  return *this;
}

void Variable::watch(std::atomic<uint64_t>* epoch) {
  watch_.begin(epoch);
  keep_watch();
}

// What was put into the slot anew is watched as what was there before.
void Variable::keep_watch() {
  std::atomic<uint64_t>* epoch = watch_.epoch();
  if (!epoch) return;
  if (auto* tensor = std::get_if<Tensor>(&value_)) tensor->watch(epoch);
  if (auto* rows = std::get_if<SelectedRows>(&value_)) {
    rows->rows.watch(epoch);
    rows->value.watch(epoch);
  }
}

bool Variable::initialized() const {
  switch (kind()) {
    case Kind::none:
      return false;
    case Kind::dense:
      return std::get<Tensor>(value_).initialized();
    case Kind::rows:
      return std::get<SelectedRows>(value_).value.initialized();
    case Kind::array:
      return !std::get<TensorArray>(value_).empty();
    case Kind::host:
      return std::get<std::shared_ptr<HostObject>>(value_) != nullptr;
  }
  return false;
}

Tensor& Variable::tensor() {
  if (kind() == Kind::none) {
    value_.emplace<Tensor>();
    keep_watch();
  }
  return held_as<Tensor>(value_, kind(), Kind::dense);
}

SelectedRows& Variable::rows() {
  if (kind() == Kind::none) {
    value_.emplace<SelectedRows>();
    keep_watch();
  }
  return held_as<SelectedRows>(value_, kind(), Kind::rows);
}

TensorArray& Variable::array() {
  if (kind() == Kind::none) value_.emplace<TensorArray>();
  return held_as<TensorArray>(value_, kind(), Kind::array);
}

const Tensor& Variable::tensor() const { return held_as<Tensor>(value_, kind(), Kind::dense); }

const SelectedRows& Variable::rows() const {
  return held_as<SelectedRows>(value_, kind(), Kind::rows);
}

const TensorArray& Variable::array() const {
  return held_as<TensorArray>(value_, kind(), Kind::array);
}

void Variable::copy_from(const Variable& source) {
  if (&source == this) return;
  if (kind() != source.kind()) clear();
  switch (source.kind()) {
    case Kind::dense:
      return copy_in_place(source.tensor(), tensor());
    case Kind::rows: {
      const SelectedRows& from = source.rows();
      SelectedRows& to = rows();
      to.rows.copy_from(from.rows);
      to.height = from.height;
      return copy_in_place(from.value, to.value);
    }
    case Kind::array: {
      const TensorArray& from = source.array();
      TensorArray& to = array();
      to.resize(from.size());
      for (size_t i = 0; i < from.size(); ++i) {
        if (from[i].initialized()) {
          copy_in_place(from[i], to.renew(i));
        } else {
          to.drop(i);
        }
      }
      return;
    }
    case Kind::none:
    case Kind::host:
      value_ = source.value_;
      return;
  }
}

std::string Variable::describe() const {
  switch (kind()) {
    case Kind::none:
      return "empty";
    case Kind::dense:
      return tensor().describe();
    case Kind::rows:
      return cat("selected rows: ", rows().rows.size(), " of ", rows().height, ", ",
                 rows().value.describe());
    case Kind::array:
      return cat("array of ", array().size(), " tensors");
    case Kind::host: {
      const auto& object = std::get<std::shared_ptr<HostObject>>(value_);
      return object ? object->describe() : "empty";
    }
  }
  return "empty";
}

Scope::Scope() : Scope(nullptr) {}

Scope::Scope(Scope* parent) : parent_(parent), id_(next_scope_id()) {}

Scope::~Scope() = default;

Variable& Scope::var(std::string_view name) {
  count_name_lookup();
  count_contents_changed();
  const std::lock_guard lock(mutex_);
  auto found = vars_.find(name);
  if (found == vars_.end()) {
    found = vars_.emplace(std::string(name), std::make_unique<Variable>()).first;
    found->second->watch(&root().memory_epoch_);
    count_slots_changed();
  }
  return *found->second;
}

Variable* Scope::find(std::string_view name) const {
  for (const Scope* scope = this; scope; scope = scope->parent_) {
    if (Variable* found = scope->find_local(name)) return found;
  }
  return nullptr;
}

Variable* Scope::find_local(std::string_view name) const {
  count_name_lookup();
  count_contents_changed();
  const std::lock_guard lock(mutex_);
  const auto found = vars_.find(name);
  return found == vars_.end() ? nullptr : found->second.get();
}

Scope& Scope::new_scope() {
  std::unique_ptr<Scope> kid(new Scope(this));  // the constructor is private
  const std::lock_guard lock(mutex_);
  kids_.push_back(std::move(kid));
  return *kids_.back();
}

void Scope::drop_kids() {
  std::vector<std::unique_ptr<Scope>> dropped;  // destroyed after the lock is let go
  const std::lock_guard lock(mutex_);
  if (kids_.empty()) return;
  dropped.swap(kids_);
  count_slots_changed();
}

void Scope::erase(const std::vector<std::string>& names) {
  std::vector<std::unique_ptr<Variable>> erased;  // destroyed after the lock is let go
  const std::lock_guard lock(mutex_);
  for (const std::string& name : names) {
    const auto found = vars_.find(name);
    if (found == vars_.end()) continue;
    erased.push_back(std::move(found->second));
    vars_.erase(found);
  }
  if (!erased.empty()) count_slots_changed();
}

std::vector<std::string> Scope::names() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> result;
  result.reserve(vars_.size());
  for (const auto& [name, variable] : vars_) result.push_back(name);
  return result;
}

size_t Scope::size() const {
  const std::lock_guard lock(mutex_);
  return vars_.size();
}

void Scope::count_slots_changed() const {
  root().epoch_.fetch_add(1, std::memory_order_acq_rel);
  root().memory_epoch_.fetch_add(1, std::memory_order_acq_rel);
}

const Scope& Scope::root() const {
  const Scope* scope = this;
  while (scope->parent_) scope = scope->parent_;
  return *scope;
}

}  // namespace trireme
