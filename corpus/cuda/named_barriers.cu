// Barriers beyond __syncthreads: the counting and voting forms, numbered barriers between a producer and a consumer
// warp (bar.sync, bar.arrive), barrier reductions, __syncwarp on a part of a warp.
// Result: votes     out[0] = how many inputs are positive, out[1] = 1 if all are, out[2] = 1 if any is
//         producer  out[t] = 2 * in[t], handed over in 4 tiles of 32 by warp 0 to warp 1
//         half_warp out[t] = sum of the t-th half warp's sixteen inputs
//@arch: 75+
//@launch: kernel=votes grid=1 block=128 arg=in:i32[128]=randint(-9,9,seed=0) arg=out:u32[3]
//@launch: kernel=producer grid=1 block=64 arg=in:i32[128]=iota arg=out:i32[128]
//@launch: kernel=half_warp grid=1 block=64 arg=in:i32[64]=iota arg=out:i32[4]

extern "C" __global__ void votes(const int *in, unsigned *out)
{
    int positive = in[threadIdx.x] > 0;
    unsigned count = __syncthreads_count(positive);
    unsigned all = __syncthreads_and(positive), any = __syncthreads_or(positive);
    if (threadIdx.x == 0) {
        out[0] = count;
        out[1] = all != 0;
        out[2] = any != 0;
    }
}

// Barrier 1: the tile is full; barrier 2: the tile is free again. 64 threads take part in each.
extern "C" __global__ void producer(const int *in, int *out)
{
    __shared__ int tile[32];
    unsigned lane = threadIdx.x % 32;
    if (threadIdx.x < 32) {
        for (int turn = 0; turn < 4; turn++) {
            if (turn > 0)
                asm volatile("bar.sync 2, 64;" ::: "memory");
            tile[lane] = 2 * in[turn * 32 + lane];
            asm volatile("bar.arrive 1, 64;" ::: "memory");
        }
    } else {
        for (int turn = 0; turn < 4; turn++) {
            asm volatile("bar.sync 1, 64;" ::: "memory");
            out[turn * 32 + lane] = tile[lane];
            if (turn < 3)
                asm volatile("bar.arrive 2, 64;" ::: "memory");
        }
    }
}

extern "C" __global__ void half_warp(const int *in, int *out)
{
    __shared__ int values[64];
    unsigned lane = threadIdx.x % 32, mask = lane < 16 ? 0x0000ffff : 0xffff0000;
    values[threadIdx.x] = in[threadIdx.x];
    for (unsigned stride = 8; stride > 0; stride /= 2) {
        __syncwarp(mask);
        int other = threadIdx.x % 16 < stride ? values[threadIdx.x + stride] : 0;
        __syncwarp(mask);
        values[threadIdx.x] += other;
    }
    if (threadIdx.x % 16 == 0)
        out[threadIdx.x / 16] = values[threadIdx.x];
}
