// Sum of 64 elements in the style of old reduction samples: "the last warp needs no synchronization". It did
// not on GPUs whose warps ran in lockstep; since Volta a lane may add a neighbor's slot before or after its
// update.
// Corpus: r08
//@launch: kernel=sum grid=1 block=64 arg=in:in:f32[64]=randn(seed=0) arg=out:out:f32[1]

extern "C" __global__ void sum(const float *in, float *out)
{
    __shared__ volatile float partial[64];
    unsigned t = threadIdx.x;
    partial[t] = in[t];
    __syncthreads();
    if (t < 32) {
        for (int distance = 32; distance > 0; distance /= 2)
            partial[t] += partial[t + distance]; //~ shared-race
    }
    if (t == 0)
        out[0] = partial[0];
}
