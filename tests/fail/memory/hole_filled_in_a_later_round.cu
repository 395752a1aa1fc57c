// A writing and a reading warp meet at barriers of their own, as they should. The writer leaves out the last element in the first
// round and fills it in the second: the barriers pair, and the element was never written.
//@launch: kernel=rounds grid=1 block=64 arg=in:in:f32[64]=randn(seed=0) arg=out:out:f32[64]

extern "C" __global__ void rounds(const float *in, float *out)
{
    __shared__ float tile[32];
    unsigned t = threadIdx.x, lane = t % 32;
    for (int round = 0; round < 2; round++) {
        if (t >= 32) {
            if (lane < 31 + round)
                tile[lane] = in[t];
            asm volatile("bar.sync 1, 64;" ::: "memory");
            asm volatile("bar.sync 2, 64;" ::: "memory");
        } else {
            asm volatile("bar.sync 1, 64;" ::: "memory");
            out[32 * round + t] = tile[t]; //~ uninitialized
            asm volatile("bar.sync 2, 64;" ::: "memory");
        }
    }
}
