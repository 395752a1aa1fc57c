// Reverses a block's numbers through global memory, with a barrier. But __ldg reads through a path that is only
// for data which no one writes during the kernel: it may return what its cache held before the stores.
// Corpus: g09
//@launch: kernel=reverse grid=1 block=128 arg=scratch:inout:f32[128]=zeros arg=out:out:f32[128]

extern "C" __global__ void reverse(float *scratch, float *out)
{
    unsigned t = threadIdx.x;
    scratch[t] = t; //~ global-race
    __syncthreads();
    out[t] = __ldg(&scratch[127 - t]); //~ global-race
}
