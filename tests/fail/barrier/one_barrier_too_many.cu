// The writing warp comes to one barrier more before it writes. Barriers have no names in __syncthreads(): the reader's first
// meets the writer's first, its second the writer's second, and the tile is written behind both.
//@launch: kernel=hand_over grid=1 block=64 arg=in:in:f32[64]=randn(seed=0) arg=out:out:f32[64]

extern "C" __global__ void hand_over(const float *in, float *out)
{
    __shared__ float tile[32];
    unsigned t = threadIdx.x;
    if (t < 32) {
        __syncthreads();  //~ barrier
        out[t] = tile[t]; //~ barrier
        __syncthreads();
        __syncthreads();
    } else {
        __syncthreads();
        __syncthreads();      //~ barrier
        tile[t - 32] = in[t]; //~ barrier
        __syncthreads();
        out[t] = 0;
    }
}
