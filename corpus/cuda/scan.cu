// Prefix sums: an inclusive scan by warp shuffles, an exclusive Blelloch scan in shared memory,
// and a single-pass scan over many blocks in which each block waits for its predecessor.
// Result: scan_inclusive  out[i] = in[0] + … + in[i]          within each block of 512
//         scan_exclusive  out[i] = in[0] + … + in[i-1]        within each block of 1024 (two elements per thread)
//         scan_chained    out[i] = in[0] + … + in[i]          over the whole array
//@arch: 75+
//@launch: kernel=scan_inclusive grid=4 block=512 arg=in:i32[2048]=randint(-9,9,seed=0) arg=out:i32[2048]
//@launch: kernel=scan_exclusive grid=2 block=512 arg=in:i32[2048]=randint(-9,9,seed=1) arg=out:i32[2048]
//@launch: kernel=scan_chained grid=4 block=256 arg=in:i32[1024]=randint(-9,9,seed=2) arg=out:i32[1024] arg=carry:i32[5]=0 arg=ready:u32[5]=0

__device__ int warp_scan(int value)
{
    int lane = threadIdx.x % 32;
    for (int distance = 1; distance < 32; distance *= 2) {
        int below = __shfl_up_sync(0xffffffff, value, distance);
        if (lane >= distance)
            value += below;
    }
    return value;
}

// Inclusive scan over a block of at most 1024 threads.
__device__ int block_scan(int value)
{
    __shared__ int total_of_warp[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    value = warp_scan(value);
    if (lane == 31)
        total_of_warp[warp] = value;
    __syncthreads();
    if (warp == 0) {
        int total = lane < blockDim.x / 32 ? total_of_warp[lane] : 0;
        total_of_warp[lane] = warp_scan(total);
    }
    __syncthreads();
    return warp > 0 ? value + total_of_warp[warp - 1] : value;
}

extern "C" __global__ void scan_inclusive(const int *in, int *out)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = block_scan(in[i]);
}

extern "C" __global__ void scan_exclusive(const int *in, int *out)
{
    __shared__ int tree[1024];
    const unsigned n = 1024, t = threadIdx.x, base = blockIdx.x * n;
    tree[2 * t] = in[base + 2 * t];
    tree[2 * t + 1] = in[base + 2 * t + 1];

    unsigned stride = 1;
    for (unsigned active = n / 2; active > 0; active /= 2, stride *= 2) {
        __syncthreads();
        if (t < active)
            tree[stride * (2 * t + 2) - 1] += tree[stride * (2 * t + 1) - 1];
    }
    if (t == 0)
        tree[n - 1] = 0;
    for (unsigned active = 1; active < n; active *= 2) {
        stride /= 2;
        __syncthreads();
        if (t < active) {
            unsigned left = stride * (2 * t + 1) - 1, right = stride * (2 * t + 2) - 1;
            int below = tree[left];
            tree[left] = tree[right];
            tree[right] += below;
        }
    }
    __syncthreads();
    out[base + 2 * t] = tree[2 * t];
    out[base + 2 * t + 1] = tree[2 * t + 1];
}

// carry[b] is the sum before block b, valid once ready[b] is 1; block 0 starts from 0.
// Blocks take their number from ready[gridDim.x], so a waiting block's predecessor has always started.
extern "C" __global__ void scan_chained(const int *in, int *out, int *carry, unsigned *ready)
{
    __shared__ unsigned block;
    __shared__ int before;
    if (threadIdx.x == 0)
        block = atomicAdd(&ready[gridDim.x], 1);
    __syncthreads();
    unsigned i = block * blockDim.x + threadIdx.x;
    int value = block_scan(in[i]);
    if (threadIdx.x == blockDim.x - 1) {
        int sum = 0;
        if (block > 0) {
            while (atomicAdd(&ready[block], 0) == 0) {
            }
            __threadfence();
            sum = *(volatile int *)&carry[block];
        }
        before = sum;
        if (block + 1 < gridDim.x) {
            *(volatile int *)&carry[block + 1] = sum + value;
            __threadfence();
            atomicExch(&ready[block + 1], 1);
        }
    }
    __syncthreads();
    out[i] = before + value;
}
