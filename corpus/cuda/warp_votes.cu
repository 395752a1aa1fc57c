// Warp-level operations: votes, matches, shuffles of every kind and width; masks of a part of the warp.
// Result: see each kernel
//@arch: 75+
//@launch: kernel=vote_and_match grid=1 block=32 arg=in:i32[32]=randint(0,3,seed=0) arg=out:u32[192]
//@launch: kernel=shuffles grid=1 block=32 arg=in:i32[32]=iota arg=out:i32[192]
//@launch: kernel=shuffle_wide grid=1 block=32 arg=in:f64[32]=randn(seed=1) arg=out:f64[32]
//@launch: kernel=compact grid=1 block=64 arg=in:i32[64]=randint(-9,9,seed=2) arg=out:i32[64]=0 arg=count:u32[2]

// ballot of in > 1, all, any, match of equal values, match_all's mask, active mask of the lanes with in == 2
extern "C" __global__ void vote_and_match(const int *in, unsigned *out)
{
    unsigned lane = threadIdx.x;
    int x = in[lane], agree;
    out[lane] = __ballot_sync(0xffffffff, x > 1);
    out[32 + lane] = __all_sync(0xffffffff, x >= 0);
    out[64 + lane] = __any_sync(0xffffffff, x == 3);
    out[96 + lane] = __match_any_sync(0xffffffff, x);
    out[128 + lane] = __match_all_sync(0xffffffff, 5ull, &agree) + agree;
    unsigned twos = __ballot_sync(0xffffffff, x == 2);
    out[160 + lane] = x == 2 ? __ballot_sync(twos, lane % 2) : 0;
}

// broadcast of lane 5, up by 3, down by 3, butterfly 8, rotation within widths of 8, up by 1 within widths of 16
extern "C" __global__ void shuffles(const int *in, int *out)
{
    unsigned lane = threadIdx.x;
    int x = in[lane];
    out[lane] = __shfl_sync(0xffffffff, x, 5);
    out[32 + lane] = __shfl_up_sync(0xffffffff, x, 3);
    out[64 + lane] = __shfl_down_sync(0xffffffff, x, 3);
    out[96 + lane] = __shfl_xor_sync(0xffffffff, x, 8);
    out[128 + lane] = __shfl_sync(0xffffffff, x, lane + 1, 8);
    out[160 + lane] = __shfl_up_sync(0xffffffff, x, 1, 16);
}

// out[i] = in[31 - i], each a shuffle of two words
extern "C" __global__ void shuffle_wide(const double *in, double *out)
{
    out[threadIdx.x] = __shfl_sync(0xffffffff, in[threadIdx.x], 31 - (int)threadIdx.x);
}

// Each warp writes its positive inputs, in order, to the start of its half of out.
extern "C" __global__ void compact(const int *in, int *out, unsigned *count)
{
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int x = in[threadIdx.x];
    unsigned keep = __ballot_sync(0xffffffff, x > 0);
    if (x > 0)
        out[warp * 32 + __popc(keep & ((1u << lane) - 1))] = x;
    if (lane == 0)
        count[warp] = __popc(keep);
}
