extern "C" __global__ void bad_asm(int *out) {
    int r;
    asm("frobnicate.u32 %0;" : "=r"(r));
    *out = r;
}
