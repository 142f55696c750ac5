// A promise to the compiler, before a loop: its elements do not depend on one another, though
// operands and results may be the same memory.
#pragma once

#if defined(__clang__)
#define TRIREME_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define TRIREME_INDEPENDENT _Pragma("GCC ivdep")
#else
#define TRIREME_INDEPENDENT
#endif
