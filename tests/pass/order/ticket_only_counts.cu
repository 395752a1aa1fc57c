// Every warp takes a ticket from a counter, but stores its sum at its own place: any order gives the same result.
//@launch: kernel=warp_sums grid=1 block=256 arg=in:in:i32[256]=iota arg=out:out:i32[8] arg=arrived:out:i32[1]
//@schedules: 4
extern "C" __global__ void warp_sums(const int *in, int *out, int *arrived)
{
    __shared__ unsigned next;
    unsigned t = threadIdx.x;
    if (t == 0)
        next = 0;
    __syncthreads();
    int sum = __reduce_add_sync(0xffffffff, in[t]);
    if (t % 32 == 0) {
        unsigned ticket = atomicAdd(&next, 1);
        out[t / 32] = sum;
        if (ticket == 7)
            *arrived = 8;
    }
}
