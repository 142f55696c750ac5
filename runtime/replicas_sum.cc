// What replicas add up: gradients, dense and by rows, and the values they exchange on the way.
#include <algorithm>
#include <cstring>

#include "core/text.h"
#include "cpu/vectorised.h"
#include "runtime/replicas.h"

namespace trireme {
namespace {

// ((g0 + g1) + g2) + ...: the order is the replicas', whoever adds which slice.
template <class T>
void add_slice(T* sum, const T* term, int64_t begin, int64_t end) {
  vectorised([=] {
    for (int64_t i = begin; i < end; ++i) sum[i] += term[i];
  });
}

void add_dense(const Tensor& sum, const Tensor& term, int part, int parts) {
  const int64_t n = sum.numel();
  const int64_t begin = n * part / parts, end = n * (part + 1) / parts;
  switch (sum.dtype()) {
    case DType::float32:
      return add_slice(sum.data<float>(), term.data<float>(), begin, end);
    case DType::float64:
      return add_slice(sum.data<double>(), term.data<double>(), begin, end);
    default:
      throw InternalError(cat("a gradient of type ", name_of(sum.dtype())));
  }
}

// ((g0 + g1) + (g2 + g3)) + ...: the sums of halves, quarters and so on are the same for any number
// of workers. The first term's memory takes the sum, the others' is written to on the way.
template <class Term>
void add_tree(size_t terms, Term term, int part, int parts) {
  for (size_t stride = 1; stride < terms; stride *= 2) {
    for (size_t i = 0; i + stride < terms; i += 2 * stride) {
      add_dense(term(i), term(i + stride), part, parts);
    }
  }
}

template <class T, class Term>
void sum_all(size_t terms, Term term, const Tensor& to) {
  std::memcpy(to.raw(), term(0).raw(), to.byte_size());
  for (size_t i = 1; i < terms; ++i) {
    add_slice(to.data<T>(), term(i).template data<T>(), 0, to.numel());
  }
}

}  // namespace

void Replicas::exchange(int instruction) {
  const auto offered = [&](size_t i) -> const Tensor& { return frames_[i]->offered(instruction); };
  const Tensor& sum = frames_[0]->received(instruction);
  switch (sum.dtype()) {
    case DType::float32:
      sum_all<float>(frames_.size(), offered, sum);
      break;
    case DType::float64:
      sum_all<double>(frames_.size(), offered, sum);
      break;
    case DType::int64:
      sum_all<int64_t>(frames_.size(), offered, sum);
      break;
    default:
      throw InternalError(cat("replicas exchange ", name_of(sum.dtype())));
  }
  for (size_t r = 1; r < frames_.size(); ++r) {
    std::memcpy(frames_[r]->received(instruction).raw(), sum.raw(), sum.byte_size());
  }
}

const Tensor& Replicas::dense_gradient(size_t device, int value) {
  return std::as_const(frames_[device]->value(value)).tensor();
}

// A parameter that was set to another shape than the program says has a gradient elsewhere.
void Replicas::find_filled_buckets() {
  for (size_t b = 0; b < replica_->buckets.size(); ++b) {
    bool filled = true;
    for (size_t i = 0; i < frames_.size(); ++i) {
      for (const auto& [value, first] : replica_->buckets[b].entries) {
        const Tensor& gradient = dense_gradient(i, value);
        filled &= gradient.buffer() == frames_[i]->bucket(b).buffer();
      }
    }
    filled_buckets_[b] = filled;
  }
}

// The rows of all replicas, each once, ascending; what they hold for one row is added up in the
// order of the replicas. It never becomes dense.
void Replicas::sum_rows(size_t number) {
  const auto term = [&](size_t device) -> const SelectedRows& {
    return frames_[device]->value(replica_->graph.kept[number]).rows();
  };
  Variable& taker = update_frame_->fed(number);
  if (taker.kind() != Kind::rows) taker.clear();
  SelectedRows& sum = taker.rows();
  named_.clear();
  for (size_t device = 0; device < frames_.size(); ++device) {
    const std::vector<int64_t>& rows = term(device).rows;
    for (size_t i = 0; i < rows.size(); ++i) named_.push_back({rows[i], device, i});
  }
  std::sort(named_.begin(), named_.end());
  sum.height = term(0).height;
  sum.rows.clear();
  for (const NamedRow& each : named_) {
    if (sum.rows.empty() || sum.rows.back() != each.row) sum.rows.push_back(each.row);
  }
  Shape shape = term(0).value.shape();
  shape[0] = static_cast<int64_t>(sum.rows.size());
  sum.value.resize(term(0).value.dtype(), shape);
  const int64_t width = shape.product(1, shape.rank()).value();
  const auto add = [&]<class T>(T* sums) {
    int64_t at = -1;  // among the sums
    for (const NamedRow& each : named_) {
      const T* from =
          term(each.device).value.template data<T>() + static_cast<int64_t>(each.position) * width;
      if (at < 0 || sum.rows[static_cast<size_t>(at)] != each.row) {
        std::copy_n(from, width, sums + ++at * width);
      } else {
        add_slice(sums + at * width, from, 0, width);
      }
    }
  };
  switch (sum.value.dtype()) {
    case DType::float32:
      return add(sum.value.data<float>());
    case DType::float64:
      return add(sum.value.data<double>());
    default:
      throw InternalError(cat("a gradient of type ", name_of(sum.value.dtype())));
  }
}

// Into what the update is fed: replica 0's memory takes the sums.
void Replicas::sum_gradients(const RunSettings& settings) {
  const auto dense = [&](int value) { return frames_[0]->value(value).kind() != Kind::rows; };
  for (size_t g = 0; g < graphs_.gradients; ++g) {
    if (dense(replica_->graph.kept[g])) {
      update_frame_->feed(g, dense_gradient(0, replica_->graph.kept[g]));
    } else {
      sum_rows(g);
    }
  }
  if (frames_.size() == 1) return;
  find_filled_buckets();
  const int parts = 8;
  const auto add_part = [&](int part) {
    const auto add = [&](const auto& term) {
      if (options_.tree) return add_tree(frames_.size(), term, part, parts);
      for (size_t i = 1; i < frames_.size(); ++i) add_dense(term(0), term(i), part, parts);
    };
    const auto add_value = [&](int value) {
      add([&](size_t i) -> const Tensor& { return dense_gradient(i, value); });
    };
    for (size_t b = 0; b < replica_->buckets.size(); ++b) {
      if (filled_buckets_[b]) {
        add([&](size_t i) -> const Tensor& { return frames_[i]->bucket(b); });
      } else {
        for (const auto& place : replica_->buckets[b].entries) add_value(place.value);
      }
    }
    for (int value : alone_) {
      if (dense(value)) add_value(value);
    }
  };
  if (Team* team = settings.team ? settings.team->team() : nullptr) {
    team->run(parts, std::ref(add_part));
  } else {
    for (int part = 0; part < parts; ++part) add_part(part);
  }
}

}  // namespace trireme
