#pragma once
#ifndef NULL
#define NULL 0
#endif
#ifndef offsetof
#define offsetof(type, member) ((size_t) & ((type *)0)->member)
#endif
namespace std {
using ::ptrdiff_t;
using ::size_t;
}  // namespace std
