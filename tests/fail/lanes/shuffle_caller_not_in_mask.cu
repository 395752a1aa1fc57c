// All 32 lanes take the first lane's value, with a mask that names the lower half only: lanes 16 … 31 call a shuffle
// they are not part of. The behavior is undefined.
//@launch: kernel=broadcast grid=1 block=32 arg=in:in:i32[32]=iota(5) arg=out:out:i32[32]

extern "C" __global__ void broadcast(const int *in, int *out)
{
    unsigned t = threadIdx.x;
    out[t] = __shfl_sync(0x0000ffff, in[t], 0); //~ lanes
}
