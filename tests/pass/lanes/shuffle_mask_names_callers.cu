// All 32 lanes take the first lane's value, with a mask that names all of them.
//@launch: kernel=broadcast grid=1 block=32 arg=in:in:i32[32]=iota(5) arg=out:out:i32[32]

extern "C" __global__ void broadcast(const int *in, int *out)
{
    unsigned t = threadIdx.x;
    out[t] = __shfl_sync(0xffffffff, in[t], 0);
}
