// Reverses a block's numbers through global memory, with a barrier and ordinary loads.
// Result: out[i] = 127 - i
// Corpus: g09
//@launch: kernel=reverse grid=1 block=128 arg=scratch:out:f32[128] arg=out:out:f32[128]

extern "C" __global__ void reverse(float *scratch, float *out)
{
    unsigned t = threadIdx.x;
    scratch[t] = t;
    __syncthreads();
    out[t] = scratch[127 - t];
}
