// Inclusive scan of one warp in shared memory: every lane reads its neighbor's sum, all meet, every lane adds to its own,
// all meet again. An element is read by two lanes in different steps, and the second read does not revive the first.
//@launch: kernel=scan grid=1 block=32 arg=in:in:i32[32]=ones arg=out:out:i32[32]

extern "C" __global__ void scan(const int *in, int *out)
{
    __shared__ int sum[32];
    unsigned lane = threadIdx.x;
    sum[lane] = in[lane];
    __syncwarp();
    for (unsigned d = 1; d < 32; d *= 2) {
        int left = lane >= d ? sum[lane - d] : 0;
        __syncwarp();
        sum[lane] += left;
        __syncwarp();
    }
    out[lane] = sum[lane];
}
