// A ballot with a full mask after some lanes have returned. It is legal: a vote waits for the lanes of its mask that
// have not exited, and those that have count as false.
//@launch: kernel=count_odd grid=1 block=32 arg=in:in:i32[32]=iota arg=out:inout:i32[32]=zeros arg=n:u32=20

extern "C" __global__ void count_odd(const int *in, int *out, unsigned n)
{
    unsigned t = threadIdx.x;
    if (t >= n)
        return;
    out[t] = __popc(__ballot_sync(0xffffffff, in[t] & 1));
}
