// The last two of four warps leave before a loop of barriers that the other two go on with.
// Result: out[i] = in[i] + in[(i + 1) % 64] + ... + in[(i + 4) % 64]
//@launch: kernel=ring_sum grid=1 block=128 arg=in:in:i32[64]=randint(-99,99,seed=0) arg=out:out:i32[64]

extern "C" __global__ void ring_sum(const int *in, int *out)
{
    __shared__ int ring[64];
    unsigned t = threadIdx.x;
    if (t >= 64)
        return;
    int mine = in[t], sum = mine;
    for (int round = 0; round < 4; round++) {
        ring[t] = mine;
        __syncthreads();
        mine = ring[(t + 1) % 64];
        sum += mine;
        __syncthreads();
    }
    out[t] = sum;
}
