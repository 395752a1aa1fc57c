// Each thread of a warp writes an element of a scratch array, and reads that of its neighbor when the warp has met.
// Result: out[i] = in of the next lane
//@launch: kernel=rotate grid=1 block=64 arg=in:in:f32[64]=randn(seed=0) arg=scratch:scratch:f32[64] arg=out:out:f32[64]

extern "C" __global__ void rotate(const float *in, volatile float *scratch, float *out)
{
    unsigned t = threadIdx.x, neighbor = t / 32 * 32 + (t + 1) % 32;
    scratch[t] = in[t];
    __syncwarp();
    out[t] = scratch[neighbor];
}
