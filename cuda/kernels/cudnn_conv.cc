// cuDNN's descriptors of one convolution, and the algorithm that its own rule of thumb puts first.
#include "cuda/kernels/cudnn_conv.h"

#include "core/text.h"
#include "cuda/cuda_device.h"

#ifdef TRIREME_HAVE_CUDNN

#include <algorithm>
#include <mutex>

#include "core/flags.h"
#include "cuda/cuda_error.h"

namespace trireme::cuda {
namespace {

// More than this is not worth the time it may save.
constexpr size_t kMostScratch = size_t{1} << 30;

// For choices, which need a card and no queue.
cudnnHandle_t choosing_handle() {
  static cudnnHandle_t handle = [] {
    cudnnHandle_t made = nullptr;
    check(cudnnCreate(&made), "cudnnCreate");
    return made;
  }();
  return handle;
}
std::mutex choosing;

// Integers as cuDNN wants them, of the axes that are not trivial: two at least.
struct AxisList {
  std::vector<int> all;
  int spatial;
  AxisList(const Window& window, std::vector<int64_t> first, int64_t WindowAxis::*member)
      : all(first.begin(), first.end()), spatial(flat(window) ? 2 : 3) {
    for (size_t i = static_cast<size_t>(3 - spatial); i < 3; ++i) {
      all.push_back(static_cast<int>(window[i].*member));
    }
  }
  static bool flat(const Window& window) { return window[0].in == 1 && window[0].trivial(); }
};

bool rounds_operands(DType dtype) {
  return dtype == DType::float16 || dtype == DType::bfloat16 ||
         (dtype == DType::float32 && std::get<bool>(get_flag("allow_tf32")));
}

std::string cudnn_declines(const ConvShape& shape, DType dtype) {
  if (shape.channel_last && (!rounds_operands(dtype) || !AxisList::flat(shape.window))) {
    return "cuDNN is used where channels come first";
  }
  if (shape.batch == 0) return "the batch is empty";
  for (const WindowAxis& axis : shape.window) {
    if (axis.pad_begin != axis.pad_end) return "the paddings of an axis differ";
  }
  return {};
}

class CudnnConvOf final : public CudnnConv {
 public:
  CudnnConvOf(ConvProduct product, const ConvShape& s, DType dtype)
      : product_(product), doubles_(dtype == DType::float64) {
    const cudnnDataType_t type = stored_as(dtype);
    check(cudnnCreateTensorDescriptor(&image_), "cudnnCreateTensorDescriptor");
    check(cudnnCreateTensorDescriptor(&map_), "cudnnCreateTensorDescriptor");
    check(cudnnCreateFilterDescriptor(&filter_), "cudnnCreateFilterDescriptor");
    check(cudnnCreateConvolutionDescriptor(&conv_), "cudnnCreateConvolutionDescriptor");
    const cudnnTensorFormat_t format = s.channel_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
    set_sizes(image_, type, format,
              AxisList(s.window, {s.batch, s.groups * s.image_channels}, &WindowAxis::in));
    set_sizes(map_, type, format,
              AxisList(s.window, {s.batch, s.groups * s.map_channels}, &WindowAxis::out));
    const AxisList filter(s.window, {s.groups * s.map_channels, s.image_channels},
                          &WindowAxis::size);
    check(cudnnSetFilterNdDescriptor(filter_, type, format, static_cast<int>(filter.all.size()),
                                     filter.all.data()),
          "cudnnSetFilterNdDescriptor");
    const AxisList pads(s.window, {}, &WindowAxis::pad_begin),
        strides(s.window, {}, &WindowAxis::stride), dilations(s.window, {}, &WindowAxis::dilation);
    // Halves are added up in float.
    check(cudnnSetConvolutionNdDescriptor(conv_, pads.spatial, pads.all.data(), strides.all.data(),
                                          dilations.all.data(), CUDNN_CROSS_CORRELATION,
                                          doubles_ ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT),
          "cudnnSetConvolutionNdDescriptor");
    check(cudnnSetConvolutionGroupCount(conv_, static_cast<int>(s.groups)),
          "cudnnSetConvolutionGroupCount");
    // Where few channels meet, turning the layout for the rounding products costs more than they
    // save.
    constexpr int64_t kFewChannels = 64;
    const bool wide = s.channel_last || std::min(s.image_channels, s.map_channels) >= kFewChannels;
    const bool tf32 = std::get<bool>(get_flag("allow_tf32")) && dtype == DType::float32 && wide;
    const bool half = dtype == DType::float16 || dtype == DType::bfloat16;
    check(cudnnSetConvolutionMathType(conv_, half   ? CUDNN_TENSOR_OP_MATH
                                             : tf32 ? CUDNN_DEFAULT_MATH
                                                    : CUDNN_FMA_MATH),
          "cudnnSetConvolutionMathType");
  }
  ~CudnnConvOf() override {
    cudnnDestroyConvolutionDescriptor(conv_);
    cudnnDestroyFilterDescriptor(filter_);
    cudnnDestroyTensorDescriptor(map_);
    cudnnDestroyTensorDescriptor(image_);
  }
  CudnnConvOf(const CudnnConvOf&) = delete;

  // Whether there is an algorithm.
  bool choose(cudnnHandle_t handle) {
    constexpr int kMost = 16;
    int found = 0;
    if (product_ == ConvProduct::map) {
      cudnnConvolutionFwdAlgoPerf_t all[kMost];
      check(cudnnGetConvolutionForwardAlgorithm_v7(handle, image_, filter_, conv_, map_, kMost,
                                                   &found, all),
            "cudnnGetConvolutionForwardAlgorithm_v7");
      return take(all, found);
    }
    if (product_ == ConvProduct::image) {
      cudnnConvolutionBwdDataAlgoPerf_t all[kMost];
      check(cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, filter_, map_, conv_, image_, kMost,
                                                        &found, all),
            "cudnnGetConvolutionBackwardDataAlgorithm_v7");
      return take(all, found);
    }
    cudnnConvolutionBwdFilterAlgoPerf_t all[kMost];
    check(cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, image_, map_, conv_, filter_, kMost,
                                                        &found, all),
          "cudnnGetConvolutionBackwardFilterAlgorithm_v7");
    return take(all, found);
  }

  size_t scratch() const override { return scratch_; }

  void run(const KernelArgs& k, void* to, const void* a, const void* b) const override {
    auto& queue = static_cast<CudaQueue&>(*k.queue);
    queue.device.use();
    cudnnHandle_t handle = queue.dnn();
    const float one = 1, zero = 0;
    const double one_double = 1, zero_double = 0;
    const void* alpha = doubles_ ? static_cast<const void*>(&one_double) : &one;
    const void* beta = doubles_ ? static_cast<const void*>(&zero_double) : &zero;
    switch (product_) {
      case ConvProduct::map:
        return check(cudnnConvolutionForward(handle, alpha, image_, a, filter_, b, conv_,
                                             static_cast<cudnnConvolutionFwdAlgo_t>(algorithm_),
                                             k.scratch, scratch_, beta, map_, to),
                     "cudnnConvolutionForward");
      case ConvProduct::image:
        return check(
            cudnnConvolutionBackwardData(handle, alpha, filter_, b, map_, a, conv_,
                                         static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm_),
                                         k.scratch, scratch_, beta, image_, to),
            "cudnnConvolutionBackwardData");
      case ConvProduct::filter:
        return check(
            cudnnConvolutionBackwardFilter(handle, alpha, image_, a, map_, b, conv_,
                                           static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm_),
                                           k.scratch, scratch_, beta, filter_, to),
            "cudnnConvolutionBackwardFilter");
    }
  }

 private:
  static cudnnDataType_t stored_as(DType dtype) {
    switch (dtype) {
      case DType::float64:
        return CUDNN_DATA_DOUBLE;
      case DType::float16:
        return CUDNN_DATA_HALF;
      case DType::bfloat16:
        return CUDNN_DATA_BFLOAT16;
      default:
        return CUDNN_DATA_FLOAT;
    }
  }
  static void set_sizes(cudnnTensorDescriptor_t tensor, cudnnDataType_t type,
                        cudnnTensorFormat_t format, const AxisList& sizes) {
    check(cudnnSetTensorNdDescriptorEx(tensor, format, type, static_cast<int>(sizes.all.size()),
                                       sizes.all.data()),
          "cudnnSetTensorNdDescriptorEx");
  }

  template <class Found>
  bool take(const Found* all, int count) {
    for (int i = 0; i < count; ++i) {
      const Found& one = all[i];
      if (one.status != CUDNN_STATUS_SUCCESS || one.determinism != CUDNN_DETERMINISTIC) continue;
      if (one.memory > kMostScratch) continue;
      check(cudnnSetConvolutionMathType(conv_, one.mathType), "cudnnSetConvolutionMathType");
      algorithm_ = static_cast<int>(one.algo);
      scratch_ = one.memory;
      return true;
    }
    return false;
  }

  ConvProduct product_;
  bool doubles_;
  cudnnTensorDescriptor_t image_ = nullptr, map_ = nullptr;
  cudnnFilterDescriptor_t filter_ = nullptr;
  cudnnConvolutionDescriptor_t conv_ = nullptr;
  int algorithm_ = 0;
  size_t scratch_ = 0;
};

}  // namespace

std::shared_ptr<const CudnnConv> cudnn_conv(ConvProduct product, const ConvShape& shape,
                                            DType dtype, std::string* why_not) {
  const std::string declines = cudnn_declines(shape, dtype);
  if (!declines.empty()) {
    if (why_not) *why_not = declines;
    return nullptr;
  }
  const auto made = std::make_shared<CudnnConvOf>(product, shape, dtype);
  const std::lock_guard lock(choosing);
  if (made->choose(choosing_handle())) return made;
  if (why_not) *why_not = "cuDNN has no deterministic algorithm for it";
  return nullptr;
}

}  // namespace trireme::cuda

#else

namespace trireme::cuda {

std::shared_ptr<const CudnnConv> cudnn_conv(ConvProduct, const ConvShape&, DType,
                                            std::string* why_not) {
  if (why_not) *why_not = "this build has no cuDNN";
  return nullptr;
}

}  // namespace trireme::cuda

#endif
