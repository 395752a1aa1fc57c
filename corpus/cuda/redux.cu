// Warp reductions in one instruction (redux.sync, sm_80 and later) over the whole and over a part of a warp.
// Result: out = sum, min, max, unsigned min, unsigned max, and, or, xor of the warp's inputs; then the sum over the even
//         lanes in even lanes and over the odd lanes in odd lanes
//@arch: 80+
//@launch: kernel=redux grid=1 block=64 arg=in:i32[64]=randint(-999,999,seed=0) arg=out:i32[576]

extern "C" __global__ void redux(const int *in, int *out)
{
    unsigned i = threadIdx.x, n = blockDim.x, all = 0xffffffff;
    int x = in[i];
    out[i] = __reduce_add_sync(all, x);
    out[n + i] = __reduce_min_sync(all, x);
    out[2 * n + i] = __reduce_max_sync(all, x);
    out[3 * n + i] = (int)__reduce_min_sync(all, (unsigned)x);
    out[4 * n + i] = (int)__reduce_max_sync(all, (unsigned)x);
    out[5 * n + i] = (int)__reduce_and_sync(all, (unsigned)x);
    out[6 * n + i] = (int)__reduce_or_sync(all, (unsigned)x);
    out[7 * n + i] = (int)__reduce_xor_sync(all, (unsigned)x);
    unsigned same_parity = i % 2 == 0 ? 0x55555555 : 0xaaaaaaaa;
    if (i % 2 == 0)
        out[8 * n + i] = __reduce_add_sync(same_parity, x);
    else
        out[8 * n + i] = __reduce_add_sync(same_parity, x);
}
