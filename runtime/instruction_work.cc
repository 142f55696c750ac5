// Counts products by the shapes of what goes into an instruction and comes out of it.
#include "runtime/instruction_work.h"

#include <cmath>
#include <optional>

#include "ir/schema.h"

namespace trireme {
namespace {

enum class Work { none, product, convolution };

Work kind_of(const OpSchema& row) {
  if (row.trait().product) return Work::product;
  return row.trait().images == BlockedImages::makes ? Work::convolution : Work::none;
}

// One product of m x k with k x n touches mk, kn and mn numbers: the root of their product is mkn.
// A batch of b of them has that root b^1.5 times: b are the extents before the last two.
double of_product(const Shape& x, const Shape& y, const Shape& out) {
  const double root = std::sqrt(static_cast<double>(x.count()) * static_cast<double>(y.count()) *
                                static_cast<double>(out.count()));
  double batch = 1;
  for (int i = 0; i + 2 < y.rank() && y.rank() == out.rank(); ++i) {
    batch *= static_cast<double>(out.at(i));
  }
  return batch > 0 ? root / std::sqrt(batch) : 0;
}

// Every number of the result takes one filter: all of them but the first extent. A transposed
// convolution hands every number of its operand to one.
double of_convolution(const Shape& image, const Shape& filter, const Shape& out, bool transposed) {
  if (filter.rank() < 1 || filter.at(0) == 0) return 0;
  const double one = static_cast<double>(filter.count()) / static_cast<double>(filter.at(0));
  return one * static_cast<double>((transposed ? image : out).count());
}

bool has_rank(const ValueInfo* info) {
  return info && info->type == VarType::lod_tensor && info->shape.known();
}

}  // namespace

double products_of(const Node& node, const std::vector<ValueInfo*>& facts) {
  const std::string& type = node.schema->type();
  constexpr std::string_view kGrad = "_grad";
  const bool is_grad = type.ends_with(kGrad);
  const OpSchema* row =
      is_grad ? op_table().find(type.substr(0, type.size() - kGrad.size())) : node.schema;
  const Work kind = row ? kind_of(*row) : Work::none;
  if (kind == Work::none) return 0;
  const auto operand = [&](const std::string& slot) -> const ValueInfo* {
    int at = operand_position(node, slot);
    if (at >= 0 && node.ins[at] >= 0) return facts[node.ins[at]];
    at = result_position(node, slot);
    return at >= 0 && node.outs[at] >= 0 ? facts[node.outs[at]] : nullptr;
  };
  const bool product = kind == Work::product;
  const std::string out_slot = product ? "Out" : "Output";
  const ValueInfo* x = operand(product ? "X" : "Input");
  const ValueInfo* y = operand(product ? "Y" : "Filter");
  const ValueInfo* out = operand(is_grad ? out_slot + "@GRAD" : out_slot);
  if (!has_rank(x) || !has_rank(y) || !has_rank(out)) return 0;
  const double one =
      product ? of_product(x->shape, y->shape, out->shape)
              : of_convolution(x->shape, y->shape, out->shape, type.find("transpose") != type.npos);
  if (!is_grad) return one;
  double gradients = 0;  // each is a product as large as the forward one
  for (const char* slot : {"X@GRAD", "Y@GRAD", "Input@GRAD", "Filter@GRAD"}) {
    const auto& outs = node.schema->outputs();
    for (size_t i = 0; i < outs.size(); ++i) {
      if (outs[i].name == slot) gradients += result_position(node, slot) >= 0 && operand(slot);
    }
  }
  return one * gradients;
}

}  // namespace trireme
