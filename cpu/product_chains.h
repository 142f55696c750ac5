// How the products of one site are run: cut into chains by their sizes alone, with copies of
// operands that lie badly made before them.
#pragma once

#include <algorithm>
#include <bit>
#include <memory>
#include <vector>

#include "cpu/gemm_kernel.h"
#include "cpu/staging.h"
#include "ir/kernel.h"

namespace trireme::products {

// One product of a site: sizes, and where its matrices begin in the operands.
template <class T>
struct Term {
  Gemm<T> gemm;
  int64_t a = 0, b = 0, c = 0;

  void run(Product<T> product, const T* from_a, const T* from_b, T* to) const {
    Gemm<T> call = gemm;
    call.a = from_a + a;
    call.b = from_b + b;
    call.c = to + c;
    product(call);
  }
};

// A block of one matrix of a result: the terms that make it, in order. Chains are independent.
template <class T>
struct Chain {
  std::vector<Term<T>> terms;
  double parts = 0;  // how many it is worth
};

// Work below this many multiplications is not worth cutting.
inline constexpr double kWorkPerPart = 1 << 20;
// The same of products of few rows, by the bytes of B.
inline constexpr double kBytesPerPart = 256 << 10;
inline constexpr int64_t kFewRows = 4;

inline double work_of(int64_t m, int64_t n, int64_t k) {
  return static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

// How many parts a product is worth. Few rows take no longer than B takes to be read: cut by its
// columns, slices lie in the caches of several cores.
template <class T>
double parts_worth(const Gemm<T>& gemm) {
  return gemm.m <= kFewRows ? work_of(gemm.n, gemm.k, sizeof(T)) / kBytesPerPart
                            : work_of(gemm.m, gemm.n, gemm.k) / kWorkPerPart;
}

// Into how many slices of rows and of columns one product is cut, and whether those of the first
// columns come first or those of the first rows. Powers of two share out evenly over the usual
// numbers of cores.
struct Cut {
  int64_t rows = 1, columns = 1;
  bool by_columns = false;

  int64_t slices() const { return rows * columns; }
  int64_t row(int64_t slice) const { return by_columns ? slice % rows : slice / columns; }
  int64_t column(int64_t slice) const { return by_columns ? slice / rows : slice % columns; }
};

// Two cores share the slices out, and what comes before and after as well, by rows as stored: each
// has one half of A, B and C in its cache. What it has to fetch from the other: by rows of C, half
// of B; by columns, half of A, a quarter of C, and of B as it is stored. Narrow slices run a little
// slower, so the difference has to be worth it.
template <class T>
bool fetches_less_by_columns(const Gemm<T>& gemm) {
  const double a = work_of(gemm.m, gemm.k, 1), b = work_of(gemm.k, gemm.n, 1);
  const double c = work_of(gemm.m, gemm.n, 1);
  const double by_rows = b / 2 + (gemm.trans_a ? a / 4 : 0);
  return a / 2 + c / 4 + (gemm.trans_b ? 0 : b / 4) < 0.8 * by_rows;
}

template <class T>
Cut cut_of(const Gemm<T>& gemm, bool by_columns, const Product<T>& product) {
  constexpr int64_t kMostColumns = 4;
  const int64_t least_columns = by_columns ? 96 : 192;
  const auto power_of_two = [](int64_t n) {
    return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(n, 1))));
  };
  const int64_t wanted = power_of_two(
      static_cast<int64_t>(std::min(parts_worth(gemm), static_cast<double>(product.most_slices))));
  const int64_t rows = power_of_two(gemm.m / product.least_rows);
  const int64_t columns = power_of_two(gemm.n / least_columns);
  Cut cut{.by_columns = by_columns};
  if (by_columns) {
    cut.columns = std::min({wanted, columns, kMostColumns});
    cut.rows = std::min(wanted / cut.columns, rows);
  } else {
    cut.rows = std::min(wanted, rows);
    cut.columns = std::min(wanted / cut.rows, columns);
  }
  return cut;
}

// Where slice `index` of `count` begins: the library's inner loops take `block` at a time.
inline int64_t slice_begin(int64_t size, int64_t index, int64_t count, int64_t block) {
  const int64_t blocks = (size + block - 1) / block;
  return std::min(size, blocks * index / count * block);
}

// What a product's operands become, term by term: sizes with beta, and the beginnings in elements.
template <class T>
std::vector<Chain<T>> chains_of(const std::vector<std::vector<Term<T>>>& matrices, bool by_columns,
                                const Product<T>& product) {
  constexpr int64_t kRowBlock = 8, kColumnBlock = 48;
  std::vector<Chain<T>> chains;
  for (const std::vector<Term<T>>& terms : matrices) {
    const Gemm<T>& whole = terms.front().gemm;
    const Cut cut = cut_of(whole, by_columns, product);
    for (int64_t slice = 0; slice < cut.slices(); ++slice) {
      const int64_t r = cut.row(slice), c = cut.column(slice);
      const int64_t row = slice_begin(whole.m, r, cut.rows, kRowBlock);
      const int64_t column = slice_begin(whole.n, c, cut.columns, kColumnBlock);
      Chain<T> chain;
      for (Term<T> term : terms) {
        Gemm<T>& g = term.gemm;
        g.m = slice_begin(whole.m, r + 1, cut.rows, kRowBlock) - row;
        g.n = slice_begin(whole.n, c + 1, cut.columns, kColumnBlock) - column;
        term.a += g.trans_a ? row : row * g.lda;
        term.b += g.trans_b ? column * g.ldb : column;
        term.c += row * g.ldc + column;
        chain.parts += parts_worth(g);
        chain.terms.push_back(term);
      }
      chains.push_back(std::move(chain));
    }
  }
  return chains;
}

// An operand whose matrices are copied into scratch before the products read them there.
struct Staged {
  int at = 0;                                   // operand
  int64_t matrices = 0, rows = 0, columns = 0;  // as stored
  bool turned = false;
  int64_t first = 0;  // in scratch, in elements

  int64_t pitch() const { return staging_pitch(turned ? rows : columns); }
  int64_t matrix_size() const { return (turned ? columns : rows) * pitch(); }
  int64_t size() const { return matrices * matrix_size(); }
  int64_t strips() const { return (rows + kStrip - 1) / kStrip; }
  // Rows [strip * kStrip, ...) of one matrix.
  void run(int64_t piece, const float* from, float* to) const {
    const int64_t matrix = piece / strips(), row = piece % strips() * kStrip;
    const StoredRows source{from + (matrix * rows + row) * columns, std::min(kStrip, rows - row),
                            columns, columns};
    to += matrix * matrix_size();
    if (turned) {
      turn_rows(source, to + row, pitch());
    } else {
      copy_rows(source, to + row * pitch(), pitch());
    }
  }

  static constexpr int64_t kStrip = 64;
};

// One result of a site: its chains, and where its operands are: by position, or in scratch.
template <class T>
struct Result {
  struct Operand {
    int at = 0;
    int64_t staged = -1;  // elements from the beginning of scratch; -1: as it stands
    const T* in(const KernelArgs& k) const {
      return staged < 0 ? k.in<T>(at) : reinterpret_cast<const T*>(k.scratch) + staged;
    }
  };
  Operand a, b;
  int out_at = 0;
  std::vector<Chain<T>> chains;
};

// The products of one site, and the copies that are made before them.
template <class T>
class Products {
 public:
  explicit Products(Product<T> product) : product_(product) {}

  // `matrices`: the terms of each matrix of the result at `out_at`.
  void add(int a_at, int b_at, int out_at, std::vector<std::vector<Term<T>>> matrices) {
    Result<T> result{.a = {a_at}, .b = {b_at}, .out_at = out_at};
    // As the operands are stored, before some are copied.
    const bool by_columns =
        !matrices.empty() && fetches_less_by_columns(matrices.front().front().gemm);
    if (product_.staged && !matrices.empty()) {
      stage_a(result.a, matrices);
      stage_b(result.b, matrices);
    }
    result.chains = chains_of(matrices, by_columns, product_);
    results_.push_back(std::move(result));
  }

  BoundKernel kernel() &&;

 private:
  static constexpr int64_t kMostStaged = 16 << 20;  // elements: scratch is to stay moderate
  // A copy costs 0.1 ns an element. It pays where this many rows or columns are multiplied by it.
  static constexpr int64_t kTurnedPays = 32, kSpreadPays = 256;
  // Rows a multiple of a page apart: a block of a column has room in one set of the cache alone.
  static bool pages_apart(int64_t pitch) { return pitch % (4096 / sizeof(T)) == 0; }

  static int64_t term_count(const std::vector<std::vector<Term<T>>>& matrices) {
    int64_t count = 0;
    for (const auto& terms : matrices) count += std::ssize(terms);
    return count;
  }

  template <class Begin>
  int64_t stage(Staged staged, std::vector<std::vector<Term<T>>>& matrices, Begin begin) {
    const int64_t stored = staged.rows * staged.columns;
    for (auto& terms : matrices) {
      for (Term<T>& term : terms) {
        staged.matrices = std::max(staged.matrices, begin(term) / stored + 1);
        begin(term) = begin(term) / stored * staged.matrix_size();
      }
    }
    staged.first = scratch_;
    scratch_ += staged.size();
    staged_.push_back(staged);
    return staged.first;
  }

  void stage_a(typename Result<T>::Operand& a, std::vector<std::vector<Term<T>>>& matrices) {
    const Gemm<T> g = matrices[0][0].gemm;
    if (!g.trans_a || !pages_apart(g.lda) || g.n < kSpreadPays) return;
    if (g.m * g.k * term_count(matrices) > kMostStaged) return;
    const Staged staged{.at = a.at, .rows = g.k, .columns = g.m};
    a.staged = stage(staged, matrices, [](Term<T>& term) -> int64_t& { return term.a; });
    for (auto& terms : matrices) {
      for (Term<T>& term : terms) term.gemm.lda = staged.pitch();
    }
  }

  void stage_b(typename Result<T>::Operand& b, std::vector<std::vector<Term<T>>>& matrices) {
    const Gemm<T> g = matrices[0][0].gemm;
    const bool turned = g.trans_b;
    if (!turned && !pages_apart(g.ldb)) return;
    if (g.m < (turned ? kTurnedPays : kSpreadPays) || is_tiny(g)) return;
    if (g.k * g.n * term_count(matrices) > kMostStaged) return;
    const Staged staged{
        .at = b.at, .rows = turned ? g.n : g.k, .columns = turned ? g.k : g.n, .turned = turned};
    b.staged = stage(staged, matrices, [](Term<T>& term) -> int64_t& { return term.b; });
    for (auto& terms : matrices) {
      for (Term<T>& term : terms) {
        term.gemm.ldb = staged.pitch();
        term.gemm.trans_b = false;
      }
    }
  }

  Product<T> product_;
  std::vector<Result<T>> results_;
  std::vector<Staged> staged_;
  int64_t scratch_ = 0;  // elements
};

// Pieces of a copy, shared out over the parts.
inline BoundKernel run_staging(const Staged& copy) {
  constexpr int64_t kElementsPerPart = 32768, kMostParts = 16;
  const int64_t pieces = copy.matrices * copy.strips();
  const int64_t parts =
      std::clamp<int64_t>(copy.size() / kElementsPerPart, 1, std::min(pieces, kMostParts));
  BoundKernel made(
      [copy, pieces](const KernelArgs& k) {
        const auto [begin, end] = k.range(pieces);
        float* to = reinterpret_cast<float*>(k.scratch) + copy.first;
        for (int64_t piece = begin; piece < end; ++piece) {
          copy.run(piece, k.in<float>(copy.at), to);
        }
      },
      static_cast<int>(parts));
  made.packs = copy.at;
  return made;
}

// Chains in the order in which parts take them: the first quarter of every result, then the second,
// and so on. So whoever takes the first parts computes the beginning of every result, and finds it
// in the cache when the next kernel shares out the same rows.
template <class T>
struct ChainOrder {
  struct Entry {
    int result, chain;
  };
  explicit ChainOrder(const std::vector<Result<T>>& results) {
    constexpr int64_t kQuarters = 4;
    for (int64_t quarter = 0; quarter < kQuarters; ++quarter) {
      for (size_t r = 0; r < results.size(); ++r) {
        const int64_t size = std::ssize(results[r].chains);
        for (int64_t c = size * quarter / kQuarters; c < size * (quarter + 1) / kQuarters; ++c) {
          entries.push_back({static_cast<int>(r), static_cast<int>(c)});
        }
      }
    }
  }
  std::vector<Entry> entries;
};

// Parts take whole chains.
template <class T>
BoundKernel run_chains(std::vector<Result<T>> results, Product<T> product) {
  double worth = 0;
  for (const Result<T>& result : results) {
    for (const Chain<T>& chain : result.chains) worth += chain.parts;
  }
  struct Shared {
    std::vector<Result<T>> results;
    ChainOrder<T> order;
  };
  ChainOrder<T> order(results);
  const auto count = std::ssize(order.entries);
  const auto wanted = static_cast<int64_t>(std::min(worth, 64.0));
  const auto parts = static_cast<int>(std::clamp<int64_t>(wanted, 1, std::max<int64_t>(count, 1)));
  const auto shared = std::make_shared<const Shared>(Shared{std::move(results), std::move(order)});
  return BoundKernel(
      [shared, product, count](const KernelArgs& k) {
        const auto [begin, end] = k.range(count);
        for (int64_t i = begin; i < end; ++i) {
          const auto entry = shared->order.entries[static_cast<size_t>(i)];
          const Result<T>& result = shared->results[static_cast<size_t>(entry.result)];
          for (const Term<T>& term : result.chains[static_cast<size_t>(entry.chain)].terms) {
            term.run(product, result.a.in(k), result.b.in(k), k.out<T>(result.out_at));
          }
        }
      },
      product.most_slices > 1 ? parts : 1);
}

template <class T>
BoundKernel Products<T>::kernel() && {
  BoundKernel products = run_chains(std::move(results_), product_);
  if (staged_.empty()) return products;
  BoundKernel made = run_staging(staged_.front());
  for (size_t i = 1; i < staged_.size(); ++i) made.then.push_back(run_staging(staged_[i]));
  made.then.push_back(std::move(products));
  made.scratch = made.packed = static_cast<size_t>(scratch_) * sizeof(T);
  return made;
}

}  // namespace trireme::products
