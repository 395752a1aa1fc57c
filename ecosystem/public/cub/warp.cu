// Warp-wide algorithms of CUB, with whole warps and with logical warps of 8 and 16 lanes. nvcc compiles this file;
// `files.py` checks its launches. No finding is expected.

#include <cub/cub.cuh>

constexpr int Items = 4;

template <typename T, int Block, int Lanes>
__global__ void reduce(const T *in, T *out, int valid)
{
    using Reduce = cub::WarpReduce<T, Lanes>;
    __shared__ typename Reduce::TempStorage temp[Block / Lanes];
    int warp = threadIdx.x / Lanes, lane = threadIdx.x % Lanes;
    T x = lane < valid ? in[threadIdx.x] : T();
    T sum = Reduce(temp[warp]).Sum(x);
    __syncwarp();
    T partial = Reduce(temp[warp]).Reduce(x, cuda::maximum<>{}, valid);
    __syncwarp();
    T segment = Reduce(temp[warp]).HeadSegmentedSum(x, lane % 3 == 0);
    if (lane == 0) {
        out[3 * warp] = sum;
        out[3 * warp + 1] = partial;
        out[3 * warp + 2] = segment;
    }
}

template <typename T, int Block, int Lanes>
__global__ void scan(const T *in, T *sums, T *largest)
{
    using Scan = cub::WarpScan<T, Lanes>;
    __shared__ typename Scan::TempStorage temp[Block / Lanes];
    int warp = threadIdx.x / Lanes;
    T x = in[threadIdx.x], sum, before, total;
    Scan(temp[warp]).InclusiveSum(x, sum, total);
    __syncwarp();
    Scan(temp[warp]).ExclusiveScan(x, before, T(), cuda::maximum<>{});
    __syncwarp();
    sums[threadIdx.x] = sum + total + Scan(temp[warp]).Broadcast(x, 3);
    largest[threadIdx.x] = before;
}

/// Only the first warp of the block works: the others have left.
template <typename T, int Block>
__global__ void first_warp(const T *in, T *out)
{
    using Scan = cub::WarpScan<T>;
    __shared__ typename Scan::TempStorage temp;
    if (threadIdx.x >= 32)
        return;
    T x = in[threadIdx.x];
    Scan(temp).InclusiveSum(x, x);
    out[threadIdx.x] = x;
}

template <typename T, int Block, int Lanes, int Algorithm>
__global__ void exchange(const T *in, T *out)
{
    using Exchange = cub::WarpExchange<T, Items, Lanes, static_cast<cub::WarpExchangeAlgorithm>(Algorithm)>;
    __shared__ typename Exchange::TempStorage temp[Block / Lanes];
    int warp = threadIdx.x / Lanes;
    T x[Items];
    cub::LoadDirectBlocked(threadIdx.x, in, x);
    Exchange(temp[warp]).BlockedToStriped(x, x);
    __syncwarp();
    Exchange(temp[warp]).StripedToBlocked(x, x);
    cub::StoreDirectBlocked(threadIdx.x, out, x);
}

template <typename T, int Block, int Lanes>
__global__ void scatter(const T *in, T *out)
{
    using Exchange = cub::WarpExchange<T, Items, Lanes>;
    __shared__ typename Exchange::TempStorage temp[Block / Lanes];
    int warp = threadIdx.x / Lanes, lane = threadIdx.x % Lanes;
    T x[Items];
    int rank[Items];
    for (int i = 0; i < Items; i++)
        rank[i] = Lanes * Items - 1 - (lane * Items + i);
    cub::LoadDirectBlocked(threadIdx.x, in, x);
    Exchange(temp[warp]).ScatterToStriped(x, rank);
    cub::StoreDirectBlocked(threadIdx.x, out, x);
}

struct Less {
    template <typename T>
    __device__ bool operator()(const T &a, const T &b) const { return a < b; }
};

template <typename T, int Block, int Lanes>
__global__ void merge_sort(const T *in, T *keys, int *values)
{
    using Sort = cub::WarpMergeSort<T, Items, Lanes, int>;
    __shared__ typename Sort::TempStorage temp[Block / Lanes];
    int warp = threadIdx.x / Lanes;
    T key[Items];
    int value[Items];
    cub::LoadDirectBlocked(threadIdx.x, in, key);
    for (int i = 0; i < Items; i++)
        value[i] = threadIdx.x * Items + i;
    Sort(temp[warp]).Sort(key, value, Less{});
    cub::StoreDirectBlocked(threadIdx.x, keys, key);
    cub::StoreDirectBlocked(threadIdx.x, values, value);
}

template <typename T, int Block, int Lanes, int Loading, int Storing>
__global__ void copy(const T *in, T *out, int n)
{
    using Load = cub::WarpLoad<T, Items, static_cast<cub::WarpLoadAlgorithm>(Loading), Lanes>;
    using Store = cub::WarpStore<T, Items, static_cast<cub::WarpStoreAlgorithm>(Storing), Lanes>;
    __shared__ union {
        typename Load::TempStorage load;
        typename Store::TempStorage store;
    } temp[Block / Lanes];
    int warp = threadIdx.x / Lanes, first = warp * Lanes * Items;
    int valid = max(0, min(Lanes * Items, n - first));
    T x[Items];
    Load(temp[warp].load).Load(in + first, x, valid, T());
    __syncwarp();
    Store(temp[warp].store).Store(out + first, x, valid);
}

template __global__ void reduce<int, 96, 32>(const int *, int *, int);
//@launch: kernel=reduce<int, 96, 32> grid=1 block=96 arg=in:in:i32[96]=randint(-9,9) arg=out:out:i32[9] arg=valid:i32=29
template __global__ void reduce<float, 128, 16>(const float *, float *, int);
//@launch: kernel=reduce<float, 128, 16> grid=1 block=128 arg=in:in:f32[128]=randint(-9,9) arg=out:out:f32[24] arg=valid:i32=11
template __global__ void reduce<double, 64, 8>(const double *, double *, int);
//@launch: kernel=reduce<double, 64, 8> grid=1 block=64 arg=in:in:f64[64]=randint(-9,9) arg=out:out:f64[24] arg=valid:i32=8
template __global__ void reduce<double, 32, 32>(const double *, double *, int);
//@launch: kernel=reduce<double, 32, 32> grid=1 block=32 arg=in:in:f64[32]=randint(-9,9) arg=out:out:f64[3] arg=valid:i32=32
template __global__ void scan<int, 96, 32>(const int *, int *, int *);
//@launch: kernel=scan<int, 96, 32> grid=1 block=96 arg=in:in:i32[96]=randint(-9,9) arg=sums:out:i32[96] arg=largest:out:i32[96]
template __global__ void scan<float, 128, 16>(const float *, float *, float *);
//@launch: kernel=scan<float, 128, 16> grid=1 block=128 arg=in:in:f32[128]=randint(-9,9) arg=sums:out:f32[128] arg=largest:out:f32[128]
template __global__ void scan<double, 64, 8>(const double *, double *, double *);
//@launch: kernel=scan<double, 64, 8> grid=1 block=64 arg=in:in:f64[64]=randint(-9,9) arg=sums:out:f64[64] arg=largest:out:f64[64]
template __global__ void first_warp<int, 128>(const int *, int *);
//@launch: kernel=first_warp<int, 128> grid=1 block=128 arg=in:in:i32[32]=iota arg=out:out:i32[32]
template __global__ void exchange<int, 96, 32, 0>(const int *, int *);
//@launch: kernel=exchange<int, 96, 32, 0> grid=1 block=96 arg=in:in:i32[384]=iota arg=out:out:i32[384]
template __global__ void exchange<float, 128, 16, 0>(const float *, float *);
//@launch: kernel=exchange<float, 128, 16, 0> grid=1 block=128 arg=in:in:f32[512]=iota arg=out:out:f32[512]
template __global__ void exchange<double, 64, 4, 1>(const double *, double *);
//@launch: kernel=exchange<double, 64, 4, 1> grid=1 block=64 arg=in:in:f64[256]=iota arg=out:out:f64[256]
template __global__ void exchange<int, 128, 4, 1>(const int *, int *);
//@launch: kernel=exchange<int, 128, 4, 1> grid=1 block=128 arg=in:in:i32[512]=iota arg=out:out:i32[512]
template __global__ void scatter<int, 96, 32>(const int *, int *);
//@launch: kernel=scatter<int, 96, 32> grid=1 block=96 arg=in:in:i32[384]=iota arg=out:out:i32[384]
template __global__ void scatter<double, 64, 8>(const double *, double *);
//@launch: kernel=scatter<double, 64, 8> grid=1 block=64 arg=in:in:f64[256]=iota arg=out:out:f64[256]
template __global__ void merge_sort<int, 96, 32>(const int *, int *, int *);
//@launch: kernel=merge_sort<int, 96, 32> grid=1 block=96 arg=in:in:i32[384]=randint(0,99) arg=keys:out:i32[384] arg=values:out:i32[384]
template __global__ void merge_sort<float, 128, 16>(const float *, float *, int *);
//@launch: kernel=merge_sort<float, 128, 16> grid=1 block=128 arg=in:in:f32[512]=randint(0,99) arg=keys:out:f32[512] arg=values:out:i32[512]
template __global__ void merge_sort<double, 64, 8>(const double *, double *, int *);
//@launch: kernel=merge_sort<double, 64, 8> grid=1 block=64 arg=in:in:f64[256]=randint(0,99) arg=keys:out:f64[256] arg=values:out:i32[256]
template __global__ void copy<int, 96, 32, 0, 0>(const int *, int *, int);
//@launch: kernel=copy<int, 96, 32, 0, 0> grid=1 block=96 arg=in:in:i32[377]=iota arg=out:out:i32[377] arg=n:i32=377
template __global__ void copy<float, 128, 16, 1, 1>(const float *, float *, int);
//@launch: kernel=copy<float, 128, 16, 1, 1> grid=1 block=128 arg=in:in:f32[505]=iota arg=out:out:f32[505] arg=n:i32=505
template __global__ void copy<double, 64, 8, 3, 3>(const double *, double *, int);
//@launch: kernel=copy<double, 64, 8, 3, 3> grid=1 block=64 arg=in:in:f64[249]=iota arg=out:out:f64[249] arg=n:i32=249
template __global__ void copy<int, 96, 32, 3, 3>(const int *, int *, int);
//@launch: kernel=copy<int, 96, 32, 3, 3> grid=1 block=96 arg=in:in:i32[377]=iota arg=out:out:i32[377] arg=n:i32=377
template __global__ void copy<float, 64, 32, 2, 2>(const float *, float *, int);
//@launch: kernel=copy<float, 64, 32, 2, 2> grid=1 block=64 arg=in:in:f32[256]=iota arg=out:out:f32[256] arg=n:i32=256
