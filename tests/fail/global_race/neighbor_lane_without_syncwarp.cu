// Each thread of a warp writes an element of a scratch array and reads that of its neighbor. The lanes of a warp need not run
// in step: a __syncwarp() is missing, and no barrier of the block.
//@launch: kernel=rotate grid=1 block=64 arg=in:in:f32[64]=randn(seed=0) arg=scratch:scratch:f32[64] arg=out:out:f32[64]

extern "C" __global__ void rotate(const float *in, volatile float *scratch, float *out)
{
    unsigned t = threadIdx.x, neighbor = t / 32 * 32 + (t + 1) % 32;
    scratch[t] = in[t];            //~ global-race
    out[t] = scratch[neighbor];   //~ global-race
}
