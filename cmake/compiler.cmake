# How our own code is compiled: warnings, sanitizers, the compiler cache.

find_program(TRIREME_CCACHE ccache)
if(TRIREME_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${TRIREME_CCACHE}")
  if(TRIREME_GROUPED)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_CURRENT_LIST_DIR}/cached.sh")
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      add_compile_options(-fpch-preprocess)
    endif()
  endif()
endif()

if(TRIREME_GROUPED AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # It gathers garbage once a group takes 1 GB: a tenth of the time for a quarter more memory.
  add_compile_options("SHELL:--param ggc-min-heapsize=1000000")
endif()

if(TRIREME_SANITIZE)
  add_compile_options(-fsanitize=${TRIREME_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${TRIREME_SANITIZE})
endif()

# Linked privately by every target we wrote; generated code does not link it.
add_library(trireme_own_code INTERFACE)
target_compile_options(trireme_own_code INTERFACE
  # An op's result is rounded before the next op reads it, on every machine: a * b + c stays two steps.
  -ffp-contract=off
  -Wall -Wextra -Wnon-virtual-dtor -Woverloaded-virtual -Wextra-semi -Wpointer-arith -Wvla
  # Designated initialisers leave fields at their defaults on purpose.
  -Wno-missing-field-initializers)
if(TRIREME_WERROR)
  target_compile_options(trireme_own_code INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # At -O2 it leaves loops of unknown length alone otherwise; clang does not.
  target_compile_options(trireme_own_code INTERFACE -ftree-vectorize -fvect-cost-model=dynamic)
  # These guess from optimised code and are often wrong about the standard library
  # (g++ 12 on "text" + std::string, g++ 13 on references returned by functions).
  target_compile_options(trireme_own_code INTERFACE
    -Wno-restrict -Wno-maybe-uninitialized -Wno-array-bounds -Wno-stringop-overflow
    -Wno-stringop-overread -Wno-dangling-reference)
else()
  # TRIREME_INDEPENDENT allows vectors; a loop that does not become one is no fault.
  target_compile_options(trireme_own_code INTERFACE -Wno-pass-failed)
endif()
