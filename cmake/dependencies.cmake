# What we build on. Each optional library says in one line whether it is there and what is lost.

find_package(Threads REQUIRED)

# Newer protobuf describes itself and the libraries under it in a package file; older ones, such as
# Debian's 3.21, are found by CMake's own module.
find_package(Protobuf CONFIG QUIET)
if(NOT TARGET protobuf::libprotobuf)
  find_package(Protobuf MODULE REQUIRED)
endif()
message(STATUS "protobuf: ${Protobuf_VERSION}${protobuf_VERSION}")

# trireme_onednn and trireme_blas always exist, so that nothing else asks whether they were found.
add_library(trireme_onednn INTERFACE)
find_path(ONEDNN_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
find_library(ONEDNN_LIBRARY dnnl)
# The OpenMP that the library was built on: the adaptor tells it to use one thread.
find_library(ONEDNN_OPENMP_LIBRARY NAMES gomp libgomp.so.1)
mark_as_advanced(ONEDNN_INCLUDE_DIR ONEDNN_LIBRARY ONEDNN_OPENMP_LIBRARY)
if(ONEDNN_INCLUDE_DIR AND ONEDNN_LIBRARY AND ONEDNN_OPENMP_LIBRARY)
  target_include_directories(trireme_onednn SYSTEM INTERFACE "${ONEDNN_INCLUDE_DIR}")
  target_link_libraries(trireme_onednn INTERFACE "${ONEDNN_LIBRARY}" "${ONEDNN_OPENMP_LIBRARY}")
  target_compile_definitions(trireme_onednn INTERFACE TRIREME_HAVE_ONEDNN)
  message(STATUS "oneDNN: on (${ONEDNN_LIBRARY})")
else()
  message(STATUS "oneDNN: off, convolutions run on the plain reference kernels (Debian: libdnnl-dev)")
endif()

add_library(trireme_blas INTERFACE)
find_path(CBLAS_INCLUDE_DIR cblas.h PATH_SUFFIXES openblas openblas-pthread)
find_library(OPENBLAS_LIBRARY openblas PATH_SUFFIXES openblas-pthread)
mark_as_advanced(CBLAS_INCLUDE_DIR OPENBLAS_LIBRARY)
if(CBLAS_INCLUDE_DIR AND OPENBLAS_LIBRARY)
  target_include_directories(trireme_blas SYSTEM INTERFACE "${CBLAS_INCLUDE_DIR}")
  target_link_libraries(trireme_blas INTERFACE "${OPENBLAS_LIBRARY}")
  target_compile_definitions(trireme_blas INTERFACE TRIREME_HAVE_CBLAS)
  message(STATUS "OpenBLAS: on (${OPENBLAS_LIBRARY})")
else()
  message(STATUS "OpenBLAS: off, matrix products run on the plain reference loop (Debian: libopenblas-dev)")
endif()

# Found without its package file: that one insists on libraries which only its own build needs.
find_path(GRPC_INCLUDE_DIR grpcpp/grpcpp.h)
find_library(GRPCPP_LIBRARY grpc++)
find_library(GPR_LIBRARY gpr)
find_program(GRPC_PLUGIN grpc_cpp_plugin)
mark_as_advanced(GRPC_INCLUDE_DIR GRPCPP_LIBRARY GPR_LIBRARY GRPC_PLUGIN)
if(GRPC_INCLUDE_DIR AND GRPCPP_LIBRARY AND GPR_LIBRARY AND GRPC_PLUGIN)
  set(TRIREME_HAVE_GRPC ON)
  message(STATUS "gRPC: on (${GRPCPP_LIBRARY})")
else()
  set(TRIREME_HAVE_GRPC OFF)
  message(STATUS "gRPC: off, no parameter servers (Debian: libgrpc++-dev protobuf-compiler-grpc)")
endif()
