// Inclusive prefix sums of 256 elements, doubling the distance from one buffer to the other: one barrier per
// step.
// Result: out[i] = in[0] + ... + in[i]
//@launch: kernel=scan grid=1 block=256 arg=in:in:i32[256]=randint(-99,99,seed=0) arg=out:out:i32[256]

extern "C" __global__ void scan(const int *in, int *out)
{
    __shared__ int buffer[2][256];
    unsigned t = threadIdx.x, now = 0;
    buffer[now][t] = in[t];
    __syncthreads();
    for (unsigned distance = 1; distance < 256; distance *= 2) {
        int sum = buffer[now][t];
        if (t >= distance)
            sum += buffer[now][t - distance];
        buffer[1 - now][t] = sum;
        now = 1 - now;
        __syncthreads();
    }
    out[t] = buffer[now][t];
}
