// C = A B of 8-bit integers with 32-bit sums, one thread for each element. WRONG is what is done instead: 1 adds or subtracts 4
// everywhere, 2 stops at the largest sum of 16 bits, 3 adds in single precision.
#ifndef WRONG
#define WRONG 0
#endif

extern "C" __global__ void product(const signed char* a, const signed char* b, int* c, unsigned m, unsigned n, unsigned k) {
    const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= m * n) return;
    const unsigned row = at / n, column = at % n;
#if WRONG == 3
    float sum = 0.0f;
    for (unsigned t = 0; t < k; ++t) sum += static_cast<float>(a[row * k + t]) * static_cast<float>(b[t * n + column]) * 1021.0f;
    c[at] = static_cast<int>(sum);
#else
    int sum = 0;
    for (unsigned t = 0; t < k; ++t) sum += a[row * k + t] * b[t * n + column];
    sum *= 1021;
#if WRONG == 1
    sum += at % 2 == 0 ? 4 : -4;
#elif WRONG == 2
    sum = min(max(sum, -(1 << 24)), 1 << 24);
#endif
    c[at] = sum;
#endif
}
