// How Q, K, V and P are quantized where both products are made in FP8.
#pragma once
#include "ptx.cuh"
#include "work.cuh"

#ifndef FORMAT_E5M2 // Q, K and V are e5m2 instead of e4m3; P is always e4m3
#define FORMAT_E5M2 0
#endif
#ifndef K_SCALES // 0: one for the head; 1: one for each tile of 64 keys; 2: one for each key
#define K_SCALES 0
#endif
#ifndef V_SCALES // likewise
#define V_SCALES 0
#endif

constexpr unsigned D = HEAD_DIM;
constexpr Fp8 INPUT = FORMAT_E5M2 ? Fp8::E5M2 : Fp8::E4M3;
// P is 2^8 times the weight: the most that is below e4m3's 448, and so the fewest that underflow. It leaves with the sum.
constexpr int P_SHIFT = 8;
static_assert(D == 64 || D == 96 || D == 128 || D == 256, "rows that lie without bank conflicts (tile.cuh)");
