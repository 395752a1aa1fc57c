#pragma once
#include <stddef.h>
namespace std {
using ::memcpy;
using ::memset;
}  // namespace std
