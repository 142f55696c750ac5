# The plugin for NVIDIA GPUs, beside Trireme's own library, where CUDA is installed.

# What else a machine's devices need: asked for where a driver is.
add_custom_target(device_libraries)
find_package(CUDAToolkit QUIET)
if(NOT CUDAToolkit_FOUND OR NOT TARGET CUDA::nvrtc OR NOT TARGET CUDA::cublas)
  message(STATUS "CUDA: off, GPU places are refused (NVIDIA's CUDA 13 with cuBLAS and NVRTC)")
  return()
endif()
message(STATUS "CUDA: on (${CUDAToolkit_VERSION})")

file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/cuda/*.cc")
add_library(trireme_cuda SHARED ${cuda_sources})
target_link_libraries(trireme_cuda
  PRIVATE trireme trireme_own_code CUDA::cudart CUDA::cublas CUDA::nvrtc)
# The toolkit's targets name the driver's library too, which is not there where no card is.
target_link_options(trireme_cuda PRIVATE -Wl,--as-needed)
find_path(cudnn_headers cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
find_library(cudnn_library cudnn HINTS ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_LIBRARY_ROOT}/lib)
if(cudnn_headers AND cudnn_library)
  target_include_directories(trireme_cuda SYSTEM PRIVATE ${cudnn_headers})
  target_link_libraries(trireme_cuda PRIVATE ${cudnn_library})
  target_compile_definitions(trireme_cuda PRIVATE TRIREME_HAVE_CUDNN)
  message(STATUS "cuDNN: on")
else()
  message(STATUS "cuDNN: off, convolutions on GPUs are slow")
endif()
set_target_properties(trireme_cuda PROPERTIES UNITY_BUILD ${TRIREME_GROUPED})
add_dependencies(device_libraries trireme_cuda)
install(TARGETS trireme_cuda)
