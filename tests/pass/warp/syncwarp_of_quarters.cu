// Each group of eight lanes exchanges values within itself and synchronizes with its own mask only.
// Result: out[i] = in[i ^ 7] + in[i ^ 3]
//@launch: kernel=exchange grid=1 block=64 arg=in:in:i32[64]=randint(-99,99,seed=0) arg=out:out:i32[64]

extern "C" __global__ void exchange(const int *in, int *out)
{
    __shared__ int tile[64];
    unsigned t = threadIdx.x, mask = 0xffu << t % 32 / 8 * 8;
    tile[t] = in[t];
    __syncwarp(mask);
    int sum = tile[t ^ 7];
    __syncwarp(mask);
    tile[t ^ 1] = in[t ^ 1];
    __syncwarp(mask);
    out[t] = sum + tile[t ^ 3];
}
