// A pointer goes into a static array or into dynamic shared memory, whichever the caller asks for: it belongs to both.
//@launch: kernel=either grid=1 block=32 shared=4096 arg=in:in:i32[32]=iota arg=out:out:i32[32] arg=wide:i32=1
//@launch: kernel=either grid=1 block=32 shared=4096 arg=in:in:i32[32]=iota arg=out:out:i32[32] arg=wide:i32=0

extern "C" __global__ void either(const int *in, int *out, int wide)
{
    extern __shared__ int large[];
    __shared__ int small[64];
    int *tile = wide ? large : small;
    unsigned t = threadIdx.x, step = wide ? 32 : 2;
    tile[t * step] = in[t];
    __syncwarp();
    out[t] = tile[(31 - t) * step];
}
