// Rows of three floats are padded to four and read as vectors. The padding is never written; it is loaded with
// the rest, but nothing is computed from it.
// Result: out[i] = sum of the three elements of row 63 - i
//@launch: kernel=row_sums grid=1 block=64 arg=in:in:f32[64x3]=randn(seed=0) arg=out:out:f32[64]

extern "C" __global__ void row_sums(const float *in, float *out)
{
    __shared__ __align__(16) float rows[64][4];
    unsigned t = threadIdx.x;
    for (unsigned i = t; i < 192; i += 64)
        rows[i / 3][i % 3] = in[i];
    __syncthreads();
    float x, y, z, padding;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x), "=f"(y), "=f"(z), "=f"(padding)
                 : "r"((unsigned)__cvta_generic_to_shared(rows[63 - t]))
                 : "memory");
    out[t] = x + y + z;
}
