// The first 17 lanes step together, and all of them are in the mask of __syncwarp().
// Corpus: s03
//@launch: kernel=two_steps grid=1 block=32 arg=out:inout:i32[32]=zeros arg=n:u32=17

extern "C" __global__ void two_steps(int *out, unsigned n)
{
    unsigned t = threadIdx.x;
    if (t < n) {
        out[t] = t;
        __syncwarp(0x1ffff);
        out[t] += 1;
    }
}
