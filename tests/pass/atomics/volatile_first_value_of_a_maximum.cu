// A maximum of floats in shared memory, as numba writes it: a volatile read, an early exit, then compare-and-swap. The
// read may be concurrent with the swaps of other threads: volatile is relaxed at system scope.
// Result: out[0] = maximum of in
//@launch: kernel=maximum grid=1 block=256 arg=in:in:i32[256]=randint(-999,999,seed=0) arg=out:out:i32[1]

extern "C" __global__ void maximum(const int *in, int *out)
{
    __shared__ int most;
    if (threadIdx.x == 0)
        most = -1000;
    __syncthreads();
    int mine = in[threadIdx.x];
    int seen = *(volatile int *)&most;
    if (mine != 0) {
        // The first expected value is not the value read, but one derived from it.
        int expected = seen < mine ? seen : mine - 1;
        while (expected < mine) {
            int found = atomicCAS(&most, expected, mine);
            if (found == expected)
                break;
            expected = found;
        }
    }
    __syncthreads();
    if (threadIdx.x == 0)
        out[0] = most;
}
