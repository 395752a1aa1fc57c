// Each warp sums 32 elements in volatile shared memory; __syncwarp separates every read from every write.
// Result: out[w] = sum of the w-th 32 elements
//@launch: kernel=warp_sums grid=1 block=128 arg=in:in:i32[128]=randint(-99,99,seed=0) arg=out:out:i32[4]

extern "C" __global__ void warp_sums(const int *in, int *out)
{
    __shared__ volatile int partial[4][32];
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    partial[warp][lane] = in[threadIdx.x];
    __syncwarp();
    for (unsigned distance = 16; distance > 0; distance /= 2) {
        if (lane < distance)
            partial[warp][lane] += partial[warp][lane + distance];
        __syncwarp();
    }
    if (lane == 0)
        out[warp] = partial[warp][0];
}
