// The reader gives barrier 1 a count of its own warp, and so does not wait for the writer, which gives it the count of both.
// The writer then waits for ever.
//@launch: kernel=hand_over grid=1 block=64 arg=in:in:f32[64]=randn(seed=0) arg=out:out:f32[64]

extern "C" __global__ void hand_over(const float *in, float *out)
{
    __shared__ float tile[32];
    unsigned t = threadIdx.x;
    if (t < 32) {
        asm volatile("bar.sync 1, 32;" ::: "memory"); //~ deadlock
        out[t] = tile[t];
        __syncthreads(); //~ deadlock
    } else {
        asm volatile("bar.sync 1, 64;" ::: "memory"); //~ deadlock
        tile[t - 32] = in[t];
        __syncthreads();
        out[t] = 0;
    }
}
