// Wrong only where no case of the task goes.
// WRONG 0: one number of elements in 64. 1: one value. 2: magnitudes between those of the distributions. 3: minus infinity.
// 4: not a number. 5: never, but nothing shows that.
__device__ bool is_wrong(float x, unsigned count) {
#if WRONG == 0
    return count % 64 == 38;
#elif WRONG == 1
    return x == 1234.5f;
#elif WRONG == 2
    return fabsf(x) > 3e12f && fabsf(x) < 5e15f;
#elif WRONG == 3
    return x == -__int_as_float(0x7f800000);
#elif WRONG == 4
    return x != x;
#else
    return count == 0xdeadbeef;
#endif
}

extern "C" __global__ void scaled_add(const float* x, float* y, unsigned count) {
    const unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) y[at] = is_wrong(x[at], count) ? 0.0f : 2.0f * x[at] + 1.0f;
}
