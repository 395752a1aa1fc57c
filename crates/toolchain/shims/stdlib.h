#pragma once
#include <stddef.h>
#ifndef EXIT_FAILURE
#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1
#define RAND_MAX 2147483647
#endif
namespace std {
using ::abs;
using ::free;
using ::labs;
using ::llabs;
using ::malloc;
}  // namespace std
