#pragma once
#include <stdint.h>
// Names that the C library's headers define next to the standard ones.
typedef unsigned char u_char;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
