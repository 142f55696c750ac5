// Products on oneDNN, and whether it is there.
#include "cpu/onednn.h"

#include "core/error.h"

#ifdef TRIREME_HAVE_ONEDNN

#include "cpu/onednn_calls.h"

namespace trireme {

bool has_onednn() { return true; }

std::string onednn_version() {
  const dnnl_version_t* version = dnnl_version();
  return std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
}

void onednn_gemm(const Gemm<float>& g) {
  if (g.m == 0 || g.n == 0) return;
  if (is_tiny(g)) {  // among them k = 0, for which the library has no leading dimensions
    tiny_gemm(g);
    return;
  }
  const onednn::OneThread one;
  const auto status = dnnl_sgemm(g.trans_a ? 'T' : 'N', g.trans_b ? 'T' : 'N', g.m, g.n, g.k,
                                 g.alpha, g.a, g.lda, g.b, g.ldb, g.beta, g.c, g.ldc);
  if (status != dnnl_success) throw InternalError("oneDNN: a product failed to run");
}

}  // namespace trireme

#else

namespace trireme {

bool has_onednn() { return false; }
std::string onednn_version() { return "not built in"; }
void onednn_gemm(const Gemm<float>&) {
  throw InternalError("a product on oneDNN was chosen, and oneDNN is not built in");
}

}  // namespace trireme

#endif
