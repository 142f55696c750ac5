// lstm and its gradient: a matrix product and one kernel a step, over sequences that run side by
// side; the weight's gradient is one product over all rows.
#include "core/flags.h"
#include "core/text.h"
#include "cuda/cuda_error.h"
#include "cuda/emit.h"
#include "cuda/kernels/blas.h"
#include "cuda/kernels/device_table.h"
#include "cuda/kernels/register.h"
#include "ops/recurrent/recurrent_rules.h"
#include "ops/scratch.h"
#include "ops/sequence/sequence_rules.h"

namespace trireme::cuda {
namespace {

constexpr int kCellThreads = 256;
constexpr int64_t kCellChunks = 32;  // of rows whose sums are added up beside each other

// What the texts of both directions begin with: a thread for unit j of the sequence at place s,
// whose row at step t is `row`, and whose row before that is `old` (t > 0).
//   d.v: elements of the step, D, t, direction; p.at[0]: first row and number of every sequence
constexpr const char* kUnit =
    "const int64 at = (int64)blockIdx.x * blockDim.x + threadIdx.x;\nif (at >= d.v[0]) return;\n"
    "const int64 D = d.v[1], t = d.v[2], s = at / D, j = at % D;\n"
    "const int64* places = (const int64*)p.at[0];\n"
    "const int64 row = places[2 * s] + t * d.v[3], number = places[2 * s + 1];\n"
    "const int64 old = row - d.v[3];\n";

std::string activated(Activation kind, const std::string& x) {
  switch (kind) {
    case Activation::sigmoid:
      return cat("e_sigmoid<T>(", x, ")");
    case Activation::tanh:
      return cat("e_tanh(", x, ")");
    case Activation::relu:
      return cat("((", x, ") > 0 ? (", x, ") : (T)0)");
    case Activation::identity:
      break;
  }
  return cat("(", x, ")");
}

// The derivative where the result is y.
std::string slope_text(Activation kind, const std::string& y) {
  switch (kind) {
    case Activation::sigmoid:
      return cat("(", y, " * ((T)1 - ", y, "))");
    case Activation::tanh:
      return cat("((T)1 - ", y, " * ", y, ")");
    case Activation::relu:
      return cat("(", y, " > 0 ? (T)1 : (T)0)");
    case Activation::identity:
      break;
  }
  return "(T)1";
}

// Of every sequence, by place: the row of its first step, and its number.
std::vector<int64_t> places_of(const Steps& steps) {
  std::vector<int64_t> numbers;
  for (int64_t slot = 0; slot < steps.sequences(); ++slot) {
    numbers.push_back(steps.row(slot, 0));
    numbers.push_back(steps.sequence(slot));
  }
  return numbers;
}

struct LstmOnCard {
  Steps steps;
  int64_t width, direction;
  bool peephole, tf32;
  Activation gate, cell, candidate;
  std::string type;
  DeviceTable places;

  LstmOnCard(const KernelSite& site, std::string_view rows)
      : steps(bound_offsets(site, rows), site.attr<bool>("is_reverse")),
        width(site.in("Weight").shape.at(0)),
        direction(site.attr<bool>("is_reverse") ? -1 : 1),
        peephole(site.attr<bool>("use_peepholes")),
        tf32(std::get<bool>(get_flag("allow_tf32"))),
        gate(activation_of(site.attr<std::string>("gate_activation"))),
        cell(activation_of(site.attr<std::string>("cell_activation"))),
        candidate(activation_of(site.attr<std::string>("candidate_activation"))),
        type(type_text(site.in("Weight").dtype)),
        places(places_of(steps)) {}

  // One launch for every step, of as many sequences as still run at it.
  std::vector<Launch> each_step(const std::string& body, int addresses) const {
    const auto kernel = generated({.body = cat("typedef ", type, " T;\n", kUnit, body),
                                   .addresses = addresses,
                                   .numbers = 4});
    std::vector<Launch> all;
    for (int64_t t = 0; t < steps.count(); ++t) {
      const int64_t elements = steps.active(t) * width;
      all.push_back({.kernel = kernel,
                     .blocks = (elements + kCellThreads - 1) / kCellThreads,
                     .threads = kCellThreads,
                     .numbers = {elements, width, t, direction}});
    }
    return all;
  }
};

const void* in_address(const KernelArgs& k, int at) {
  return k.has_in(at) ? k.in(at).address() : nullptr;
}
void* out_address(const KernelArgs& k, int at) {
  return k.has_out(at) ? k.out(at).address() : nullptr;
}

// p.at: places, input, bias, sums, gates, active, cell, hidden, state by place, C0.
std::string forward_text(const LstmOnCard& lstm) {
  std::string text =
      "const T* x = (const T*)p.at[1] + row * 4 * D + j; const T* b = (const T*)p.at[2] + j;\n"
      "const T* sum = (const T*)p.at[3] + s * 4 * D + j; T* cells = (T*)p.at[6] + j;\n"
      "T c = t > 0 ? cells[old * D] : p.at[9] ? ((const T*)p.at[9])[number * D + j] : (T)0;\n"
      "T g = x[0] + b[0] + sum[0], i = x[D] + b[D] + sum[D];\n"
      "T f = x[2 * D] + b[2 * D] + sum[2 * D], o = x[3 * D] + b[3 * D] + sum[3 * D];\n";
  if (lstm.peephole) text += "i += b[4 * D] * c; f += b[5 * D] * c;\n";
  text += cat("g = ", activated(lstm.candidate, "g"), "; i = ", activated(lstm.gate, "i"),
              "; f = ", activated(lstm.gate, "f"), ";\nc = f * c + i * g;\n");
  if (lstm.peephole) text += "o += b[6 * D] * c;\n";
  text += cat("o = ", activated(lstm.gate, "o"), ";\nconst T a = ", activated(lstm.cell, "c"),
              ", h = o * a;\nT* gates = (T*)p.at[4] + row * 4 * D + j;\n"
              "gates[0] = g; gates[D] = i; gates[2 * D] = f; gates[3 * D] = o;\n"
              "((T*)p.at[5])[row * D + j] = a; cells[row * D] = c;\n"
              "((T*)p.at[7])[row * D + j] = h; ((T*)p.at[8])[at] = h;\n");
  return text;
}

// The first states by place: what is given by number, or zeros.
Launch first_states_launch(const LstmOnCard& lstm) {
  const int64_t elements = lstm.steps.sequences() * lstm.width;
  return {.kernel = generated({.body = cat("typedef ", lstm.type, " T;\n", kUnit,
                                           "((T*)p.at[2])[at] = p.at[1] ? ((const T*)p.at[1])"
                                           "[number * D + j] : (T)0;\n"),
                               .addresses = 3,
                               .numbers = 4}),
          .blocks = (elements + kCellThreads - 1) / kCellThreads,
          .threads = kCellThreads,
          .numbers = {elements, lstm.width, 0, 0}};
}

template <class T>
BoundKernel lstm_forward(const KernelSite& site) {
  const LstmOnCard lstm(site, "Input");
  const int input = site.position("Input"), weight = site.position("Weight");
  const int bias = site.position("Bias"), h0 = site.position("H0"), c0 = site.position("C0");
  const int hidden = site.out_position("Hidden"), cell = site.out_position("Cell");
  const int gate = site.out_position("BatchGate"), active = site.out_position("BatchCellPreAct");
  const std::vector<Launch> steps = lstm.each_step(forward_text(lstm), 10);
  const Launch first = first_states_launch(lstm);
  const int64_t n = lstm.steps.sequences(), d = lstm.width;
  const auto room = [n, d](std::byte* memory) {
    Scratch scratch(memory);
    T* state = scratch.take<T>(n * d);
    T* sums = scratch.take<T>(n * 4 * d);
    return std::tuple(state, sums, scratch.bytes());
  };
  BoundKernel kernel = on_queue([=](const KernelArgs& k) {
    auto& queue = static_cast<CudaQueue&>(*k.queue);
    const auto [state, sums, bytes] = room(k.scratch);
    const void* places = lstm.places.on(queue);
    launch(first, {places, in_address(k, h0), state}, queue);
    const AddressList operands{places,
                               k.in(input).address(),
                               k.in(bias).address(),
                               sums,
                               k.out(gate).address(),
                               k.out(active).address(),
                               k.out(cell).address(),
                               k.out(hidden).address(),
                               state,
                               in_address(k, c0)};
    for (size_t t = 0; t < steps.size(); ++t) {
      multiply<T>(queue, {.m = lstm.steps.active(static_cast<int64_t>(t)),
                          .n = 4 * d,
                          .k = d,
                          .a = state,
                          .lda = d,
                          .b = static_cast<const T*>(k.in(weight).address()),
                          .ldb = 4 * d,
                          .c = sums,
                          .ldc = 4 * d,
                          .tf32 = lstm.tf32});
      launch(steps[t], operands, queue);
    }
  });
  kernel.scratch = std::get<2>(room(nullptr));
  return kernel;
}

// p.at: places, bias, gates, active, cell, hidden, C0, H0, dHidden, dCell,
//       dr, dc, sums by place, sums by row, the state before by row, the cell before by row.
std::string backward_text(const LstmOnCard& lstm) {
  const std::string peep = lstm.peephole ? "const T* b = (const T*)p.at[1] + j;\n"
                                           "const T pi = b[4 * D], pf = b[5 * D], po = b[6 * D];\n"
                                         : "const T pi = 0, pf = 0, po = 0;\n";
  return cat(
      peep,
      "const T* gates = (const T*)p.at[2] + row * 4 * D + j;\n"
      "const T g = gates[0], i = gates[D], f = gates[2 * D], o = gates[3 * D];\n"
      "const T a = ((const T*)p.at[3])[row * D + j];\n"
      "const T c_old = t > 0 ? ((const T*)p.at[4])[old * D + j]\n"
      "  : p.at[6] ? ((const T*)p.at[6])[number * D + j] : (T)0;\n"
      "((T*)p.at[14])[row * D + j] = t > 0 ? ((const T*)p.at[5])[old * D + j]\n"
      "  : p.at[7] ? ((const T*)p.at[7])[number * D + j] : (T)0;\n"
      "if (p.at[15]) ((T*)p.at[15])[row * D + j] = c_old;\n"
      "T dh = ((const T*)p.at[10])[at]; if (p.at[8]) dh += ((const T*)p.at[8])[row * D + j];\n"
      "T dc = ((const T*)p.at[11])[at]; if (p.at[9]) dc += ((const T*)p.at[9])[row * D + j];\n"
      "const T d_o = dh * a * ",
      slope_text(lstm.gate, "o"), ";\nconst T all = dc + dh * o * ", slope_text(lstm.cell, "a"),
      " + d_o * po;\nconst T d_i = all * g * ", slope_text(lstm.gate, "i"),
      ", d_f = all * c_old * ", slope_text(lstm.gate, "f"), ", d_g = all * i * ",
      slope_text(lstm.candidate, "g"),
      ";\n((T*)p.at[11])[at] = all * f + d_i * pi + d_f * pf;\n"
      "T* own = (T*)p.at[12] + s * 4 * D + j; T* kept = (T*)p.at[13] + row * 4 * D + j;\n"
      "own[0] = kept[0] = d_g; own[D] = kept[D] = d_i;\n"
      "own[2 * D] = kept[2 * D] = d_f; own[3 * D] = kept[3 * D] = d_o;\n");
}

// Adds up columns of rows in two steps, in an order that is always the same. d.v: rows, columns.
// With `other`, rows are multiplied with those of another array, which is `per` columns wide.
struct ColumnSums {
  Launch parts, all;

  ColumnSums(const std::string& type, int64_t rows, int64_t from_width, int64_t columns,
             bool multiplied) {
    const int64_t blocks = (columns + kCellThreads - 1) / kCellThreads;
    parts = {.kernel = generated(
                 {.body = cat("typedef ", type,
                              " T; const int64 c = (int64)(blockIdx.x % d.v[4]) * blockDim.x + "
                              "threadIdx.x, chunk = blockIdx.x / d.v[4];\nif (c >= d.v[1]) return;"
                              "\nconst int64 begin = d.v[0] * chunk / d.v[3], "
                              "end = d.v[0] * (chunk + 1) / d.v[3];\nT sum = 0;\n"
                              "for (int64 r = begin; r < end; ++r) sum += ((const T*)p.at[0])"
                              "[r * d.v[2] + c]",
                              multiplied ? " * ((const T*)p.at[2])[r * d.v[1] + c]" : "",
                              ";\n((T*)p.at[1])[chunk * d.v[1] + c] = sum;\n"),
                  .addresses = 3,
                  .numbers = 5}),
             .blocks = blocks * kCellChunks,
             .threads = kCellThreads,
             .numbers = {rows, columns, from_width, kCellChunks, blocks}};
    all = {.kernel = generated(
               {.body = cat("typedef ", type,
                            " T; const int64 c = (int64)blockIdx.x * blockDim.x + threadIdx.x;\n"
                            "if (c >= d.v[0]) return;\nT sum = 0;\n"
                            "for (int64 r = 0; r < d.v[1]; ++r) sum += ((const T*)p.at[0])"
                            "[r * d.v[0] + c];\n((T*)p.at[1])[c] = sum;\n"),
                .addresses = 2,
                .numbers = 2}),
           .blocks = blocks,
           .threads = kCellThreads,
           .numbers = {columns, kCellChunks}};
  }
  void run(const void* rows, const void* other, void* partial, void* to, Queue& queue) const {
    launch(parts, {rows, partial, other}, queue);
    launch(all, {partial, to}, queue);
  }
};

template <class T>
struct LstmBackwardRoom {
  T *dr, *dc, *sums, *row_sums, *before, *cell_before, *partial;
  size_t bytes;

  LstmBackwardRoom(std::byte* memory, int64_t sequences, int64_t rows, int64_t d, bool peephole) {
    Scratch scratch(memory);
    dr = scratch.take<T>(2 * sequences * d);  // and dc behind it: cleared together
    dc = memory ? dr + sequences * d : nullptr;
    sums = scratch.take<T>(sequences * 4 * d);
    row_sums = scratch.take<T>(rows * 4 * d);
    before = scratch.take<T>(rows * d);
    cell_before = peephole ? scratch.take<T>(rows * d) : nullptr;
    partial = scratch.take<T>(kCellChunks * 4 * d);
    bytes = scratch.bytes();
  }
};

// What the first states get: from places back to numbers.
Launch last_states_launch(const LstmOnCard& lstm) {
  const int64_t elements = lstm.steps.sequences() * lstm.width;
  return {.kernel = generated({.body = cat("typedef ", lstm.type, " T;\n", kUnit,
                                           "((T*)p.at[2])[number * D + j] = ((const T*)p.at[1])"
                                           "[at];\n"),
                               .addresses = 3,
                               .numbers = 4}),
          .blocks = (elements + kCellThreads - 1) / kCellThreads,
          .threads = kCellThreads,
          .numbers = {elements, lstm.width, 0, 0}};
}

template <class T>
struct LstmBackward {
  LstmOnCard lstm;
  int weight, bias, h0, c0, gate, active, cell, hidden, dhidden, dcell;
  int dinput, dweight, dbias, dh0, dc0;
  std::vector<Launch> steps;
  Launch last;
  ColumnSums bias_sums, input_peep, output_peep;

  explicit LstmBackward(const KernelSite& site)
      : lstm(site, "Hidden"),
        weight(site.position("Weight")),
        bias(site.position("Bias")),
        h0(site.position("H0")),
        c0(site.position("C0")),
        gate(site.position("BatchGate")),
        active(site.position("BatchCellPreAct")),
        cell(site.position("Cell")),
        hidden(site.position("Hidden")),
        dhidden(site.position("Hidden@GRAD")),
        dcell(site.position("Cell@GRAD")),
        dinput(site.out_position("Input@GRAD")),
        dweight(site.out_position("Weight@GRAD")),
        dbias(site.out_position("Bias@GRAD")),
        dh0(site.out_position("H0@GRAD")),
        dc0(site.out_position("C0@GRAD")),
        steps(lstm.each_step(backward_text(lstm), 16)),
        last(last_states_launch(lstm)),
        bias_sums(lstm.type, lstm.steps.rows(), 4 * lstm.width, 4 * lstm.width, false),
        input_peep(lstm.type, lstm.steps.rows(), 4 * lstm.width, lstm.width, true),
        output_peep(input_peep) {}

  LstmBackwardRoom<T> room(std::byte* memory) const {
    return {memory, lstm.steps.sequences(), lstm.steps.rows(), lstm.width, lstm.peephole};
  }

  void run(const KernelArgs& k) const {
    auto& queue = static_cast<CudaQueue&>(*k.queue);
    const int64_t d = lstm.width, n = lstm.steps.sequences();
    const LstmBackwardRoom<T> own = room(k.scratch);
    queue.device.use();
    if (n * d > 0) {
      check(
          cudaMemsetAsync(own.dr, 0, static_cast<size_t>(2 * n * d) * sizeof(T), queue.in_order()),
          "cudaMemsetAsync");
    }
    // The input's gradient is what the sums of every row get.
    T* const row_sums = k.has_out(dinput) ? static_cast<T*>(k.out(dinput).address()) : own.row_sums;
    const void* places = lstm.places.on(queue);
    const AddressList operands{places,
                               k.in(bias).address(),
                               k.in(gate).address(),
                               k.in(active).address(),
                               k.in(cell).address(),
                               k.in(hidden).address(),
                               in_address(k, c0),
                               in_address(k, h0),
                               in_address(k, dhidden),
                               in_address(k, dcell),
                               own.dr,
                               own.dc,
                               own.sums,
                               row_sums,
                               own.before,
                               own.cell_before};
    for (size_t t = steps.size(); t-- > 0;) {
      launch(steps[t], operands, queue);
      multiply<T>(queue, {.m = lstm.steps.active(static_cast<int64_t>(t)),
                          .n = d,
                          .k = 4 * d,
                          .a = own.sums,
                          .lda = 4 * d,
                          .b = static_cast<const T*>(k.in(weight).address()),
                          .ldb = 4 * d,
                          .trans_b = true,
                          .c = own.dr,
                          .ldc = d,
                          .tf32 = lstm.tf32});
    }
    if (k.has_out(dh0)) launch(last, {places, own.dr, out_address(k, dh0)}, queue);
    if (k.has_out(dc0)) launch(last, {places, own.dc, out_address(k, dc0)}, queue);
    if (k.has_out(dweight)) {
      multiply<T>(queue, {.m = d,
                          .n = 4 * d,
                          .k = lstm.steps.rows(),
                          .a = own.before,
                          .lda = d,
                          .trans_a = true,
                          .b = row_sums,
                          .ldb = 4 * d,
                          .c = static_cast<T*>(k.out(dweight).address()),
                          .ldc = 4 * d,
                          .tf32 = lstm.tf32});
    }
    if (k.has_out(dbias)) add_biases(k, own, row_sums, queue);
  }

  void add_biases(const KernelArgs& k, const LstmBackwardRoom<T>& own, const T* row_sums,
                  Queue& queue) const {
    const int64_t d = lstm.width;
    T* const to = static_cast<T*>(k.out(dbias).address());
    bias_sums.run(row_sums, nullptr, own.partial, to, queue);
    if (!lstm.peephole) return;
    const void* cells = k.in(cell).address();
    input_peep.run(row_sums + d, own.cell_before, own.partial, to + 4 * d, queue);
    input_peep.run(row_sums + 2 * d, own.cell_before, own.partial, to + 5 * d, queue);
    output_peep.run(row_sums + 3 * d, cells, own.partial, to + 6 * d, queue);
  }
};

template <class T>
BoundKernel lstm_backward(const KernelSite& site) {
  const LstmBackward<T> work(site);
  BoundKernel kernel = on_queue([work](const KernelArgs& k) { work.run(k); });
  kernel.scratch = work.room(nullptr).bytes;
  return kernel;
}

}  // namespace

void add_lstm(DeviceKernels& kernels) {
  add_to(kernels, "lstm", "cublas", typed<float, double>([]<class T>(const KernelSite& site) {
           return lstm_forward<T>(site);
         }));
  add_to(kernels, "lstm_grad", "cublas", typed<float, double>([]<class T>(const KernelSite& site) {
           return lstm_backward<T>(site);
         }));
}

}  // namespace trireme::cuda
