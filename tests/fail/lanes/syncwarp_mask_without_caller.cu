// The first 17 lanes step together, but the mask of __syncwarp() names 16 of them: lane 16 calls it without being in
// the mask. The behavior is undefined; hardware lets lane 16 pass without waiting.
// Corpus: s03
//@launch: kernel=two_steps grid=1 block=32 arg=out:inout:i32[32]=zeros arg=n:u32=17

extern "C" __global__ void two_steps(int *out, unsigned n)
{
    unsigned t = threadIdx.x;
    if (t < n) {
        out[t] = t;
        __syncwarp(0xffff); //~ lanes
        out[t] += 1;
    }
}
