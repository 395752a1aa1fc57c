// Block-wide algorithms of CUB on tiles of `Block * Items` elements, the last of which is partial. nvcc compiles this file;
// `files.py` checks its launches. No finding is expected.

#include <cub/block/block_shuffle.cuh>
#include <cub/cub.cuh>

constexpr int Items = 3;

/// One sum per block, of a tile whose last threads have no element.
template <typename T, int Block, int Algorithm>
__global__ void reduce(const T *in, T *out, int n)
{
    using Reduce = cub::BlockReduce<T, Block, static_cast<cub::BlockReduceAlgorithm>(Algorithm)>;
    __shared__ typename Reduce::TempStorage temp;
    int first = blockIdx.x * Block;
    int valid = min(Block, n - first);
    T x = threadIdx.x < valid ? in[first + threadIdx.x] : T();
    T sum = Reduce(temp).Sum(x, valid);
    __syncthreads();
    T largest = Reduce(temp).Reduce(x, cuda::maximum<>{}, valid);
    if (threadIdx.x == 0) {
        out[2 * blockIdx.x] = sum;
        out[2 * blockIdx.x + 1] = largest;
    }
}

/// The same with several elements per thread and a block of two dimensions.
template <typename T, int X, int Y, int Algorithm>
__global__ void reduce_2d(const T *in, T *out)
{
    using Reduce = cub::BlockReduce<T, X, static_cast<cub::BlockReduceAlgorithm>(Algorithm), Y>;
    __shared__ typename Reduce::TempStorage temp;
    int thread = threadIdx.y * X + threadIdx.x;
    T x[Items];
    cub::LoadDirectStriped<X * Y>(thread, in + blockIdx.x * X * Y * Items, x);
    T sum = Reduce(temp).Sum(x);
    if (thread == 0)
        out[blockIdx.x] = sum;
}

/// Prefix sums of a row, tile after tile, with the sum so far in a prefix callback.
template <typename T, int Block, int Algorithm>
__global__ void scan(const T *in, T *out, int n)
{
    struct Prefix {
        T sum;
        __device__ T operator()(T tile)
        {
            T before = sum;
            sum += tile;
            return before;
        }
    };
    using Scan = cub::BlockScan<T, Block, static_cast<cub::BlockScanAlgorithm>(Algorithm)>;
    using Load = cub::BlockLoad<T, Block, Items, cub::BLOCK_LOAD_TRANSPOSE>;
    using Store = cub::BlockStore<T, Block, Items, cub::BLOCK_STORE_TRANSPOSE>;
    __shared__ union {
        typename Scan::TempStorage scan;
        typename Load::TempStorage load;
        typename Store::TempStorage store;
    } temp;
    Prefix prefix{T()};
    for (int first = 0; first < n; first += Block * Items) {
        int valid = min(Block * Items, n - first);
        T x[Items];
        Load(temp.load).Load(in + first, x, valid, T());
        __syncthreads();
        Scan(temp.scan).InclusiveSum(x, x, prefix);
        __syncthreads();
        Store(temp.store).Store(out + first, x, valid);
        __syncthreads();
    }
}

template <typename T, int Block, int Algorithm>
__global__ void scan_one(const T *in, T *out, T *total, int n)
{
    using Scan = cub::BlockScan<T, Block, static_cast<cub::BlockScanAlgorithm>(Algorithm)>;
    __shared__ typename Scan::TempStorage temp;
    int i = blockIdx.x * Block + threadIdx.x;
    T x = i < n ? in[i] : T(), sum, all;
    Scan(temp).ExclusiveSum(x, sum, all);
    if (i < n)
        out[i] = sum;
    if (threadIdx.x == 0)
        total[blockIdx.x] = all;
}

/// Load with one algorithm, store with another, of a tile that may be partial.
template <typename T, int Block, int Loading, int Storing>
__global__ void copy(const T *in, T *out, int n)
{
    using Load = cub::BlockLoad<T, Block, Items, static_cast<cub::BlockLoadAlgorithm>(Loading)>;
    using Store = cub::BlockStore<T, Block, Items, static_cast<cub::BlockStoreAlgorithm>(Storing)>;
    __shared__ union {
        typename Load::TempStorage load;
        typename Store::TempStorage store;
    } temp;
    int first = blockIdx.x * Block * Items;
    int valid = min(Block * Items, n - first);
    T x[Items];
    if (valid == Block * Items)
        Load(temp.load).Load(in + first, x);
    else
        Load(temp.load).Load(in + first, x, valid);
    __syncthreads();
    if (valid == Block * Items)
        Store(temp.store).Store(out + first, x);
    else
        Store(temp.store).Store(out + first, x, valid);
}

template <typename Key, int Block>
__global__ void radix_sort(const Key *in, Key *keys, int *values)
{
    using Sort = cub::BlockRadixSort<Key, Block, Items, int>;
    __shared__ typename Sort::TempStorage temp;
    int first = blockIdx.x * Block * Items;
    Key key[Items];
    int value[Items];
    cub::LoadDirectBlocked(threadIdx.x, in + first, key);
    for (int i = 0; i < Items; i++)
        value[i] = threadIdx.x * Items + i;
    Sort(temp).Sort(key, value);
    __syncthreads();
    Sort(temp).SortDescendingBlockedToStriped(key, value);
    cub::StoreDirectStriped<Block>(threadIdx.x, keys + first, key);
    cub::StoreDirectStriped<Block>(threadIdx.x, values + first, value);
}

struct Less {
    template <typename T>
    __device__ bool operator()(const T &a, const T &b) const { return a < b; }
};

template <typename Key, int Block>
__global__ void merge_sort(const Key *in, Key *keys, int *values, int n)
{
    using Sort = cub::BlockMergeSort<Key, Block, Items, int>;
    __shared__ typename Sort::TempStorage temp;
    int first = blockIdx.x * Block * Items;
    int valid = min(Block * Items, n - first);
    Key key[Items];
    int value[Items];
    cub::LoadDirectBlocked(threadIdx.x, in + first, key, valid, Key(99));
    for (int i = 0; i < Items; i++)
        value[i] = threadIdx.x * Items + i;
    Sort(temp).StableSort(key, value, Less{}, valid, Key(99));
    cub::StoreDirectBlocked(threadIdx.x, keys + first, key, valid);
    cub::StoreDirectBlocked(threadIdx.x, values + first, value, valid);
}

template <typename T, int Block, bool Timesliced>
__global__ void exchange(const T *in, T *out)
{
    using Exchange = cub::BlockExchange<T, Block, Items, Timesliced>;
    __shared__ typename Exchange::TempStorage temp;
    int first = blockIdx.x * Block * Items;
    T x[Items];
    int rank[Items];
    cub::LoadDirectStriped<Block>(threadIdx.x, in + first, x);
    Exchange(temp).StripedToBlocked(x, x);
    __syncthreads();
    Exchange(temp).BlockedToWarpStriped(x, x);
    __syncthreads();
    Exchange(temp).WarpStripedToBlocked(x, x);
    __syncthreads();
    for (int i = 0; i < Items; i++)
        rank[i] = Block * Items - 1 - (threadIdx.x * Items + i);
    Exchange(temp).ScatterToStriped(x, x, rank);
    __syncthreads();
    Exchange(temp).StripedToBlocked(x, x);
    __syncthreads();
    Exchange(temp).BlockedToStriped(x, x);
    __syncthreads();
    Exchange(temp).ScatterToBlocked(x, x, rank);
    cub::StoreDirectBlocked(threadIdx.x, out + first, x);
}

template <typename T, int Block, int Bins, int Algorithm>
__global__ void histogram(const T *in, unsigned *out)
{
    using Histogram = cub::BlockHistogram<T, Block, Items, Bins, static_cast<cub::BlockHistogramAlgorithm>(Algorithm)>;
    __shared__ typename Histogram::TempStorage temp;
    __shared__ unsigned bins[Bins];
    T x[Items];
    cub::LoadDirectBlocked(threadIdx.x, in + blockIdx.x * Block * Items, x);
    Histogram(temp).InitHistogram(bins);
    __syncthreads();
    Histogram(temp).Composite(x, bins);
    __syncthreads();
    Histogram(temp).Composite(x, bins);
    __syncthreads();
    for (int i = threadIdx.x; i < Bins; i += Block)
        out[blockIdx.x * Bins + i] = bins[i];
}

template <typename T, int Block>
__global__ void flags(const T *in, int *heads, int *tails)
{
    using Discontinuity = cub::BlockDiscontinuity<T, Block>;
    __shared__ typename Discontinuity::TempStorage temp;
    int first = blockIdx.x * Block * Items;
    T x[Items];
    int head[Items], tail[Items];
    cub::LoadDirectBlocked(threadIdx.x, in + first, x);
    Discontinuity(temp).FlagHeadsAndTails(head, tail, x, cuda::std::not_equal_to<>{});
    cub::StoreDirectBlocked(threadIdx.x, heads + first, head);
    cub::StoreDirectBlocked(threadIdx.x, tails + first, tail);
}

template <typename T, int Block>
__global__ void differences(const T *in, T *left, T *right, int n)
{
    using Difference = cub::BlockAdjacentDifference<T, Block>;
    __shared__ typename Difference::TempStorage temp;
    int first = blockIdx.x * Block * Items;
    int valid = min(Block * Items, n - first);
    T x[Items], l[Items], r[Items];
    cub::LoadDirectBlocked(threadIdx.x, in + first, x, valid);
    Difference(temp).SubtractLeftPartialTile(x, l, cuda::std::minus<>{}, valid);
    __syncthreads();
    Difference(temp).SubtractRightPartialTile(x, r, cuda::std::minus<>{}, valid);
    cub::StoreDirectBlocked(threadIdx.x, left + first, l, valid);
    cub::StoreDirectBlocked(threadIdx.x, right + first, r, valid);
}

template <typename T, int Block>
__global__ void shuffle(const T *in, T *out)
{
    using Shuffle = cub::BlockShuffle<T, Block>;
    __shared__ typename Shuffle::TempStorage temp;
    int first = blockIdx.x * Block * Items;
    T x[Items], up[Items], down[Items], before, after = in[first];
    cub::LoadDirectBlocked(threadIdx.x, in + first, x);
    Shuffle(temp).Up(x, up);
    __syncthreads();
    Shuffle(temp).Down(x, down);
    __syncthreads();
    Shuffle(temp).Rotate(x[0], before, 5);
    __syncthreads();
    Shuffle(temp).Offset(x[0], after, 1);
    if (threadIdx.x == 0)
        up[0] = x[0]; // nothing precedes the tile
    if (threadIdx.x == Block - 1)
        down[Items - 1] = x[Items - 1]; // nothing follows it
    for (int i = 0; i < Items; i++)
        out[first + threadIdx.x * Items + i] = x[i] + up[i] + down[i] + before + after;
}

template <typename T, int Block>
__global__ void run_lengths(const T *values, const unsigned *lengths, T *out, unsigned *offsets, unsigned *total)
{
    constexpr int Decoded = 4;
    using Decode = cub::BlockRunLengthDecode<T, Block, Items, Decoded>;
    __shared__ typename Decode::TempStorage temp;
    T value[Items];
    unsigned length[Items], size;
    cub::LoadDirectBlocked(threadIdx.x, values, value);
    cub::LoadDirectBlocked(threadIdx.x, lengths, length);
    Decode decode(temp, value, length, size);
    for (unsigned first = 0; first < size; first += Block * Decoded) {
        T x[Decoded];
        unsigned at[Decoded];
        decode.RunLengthDecode(x, at, first);
        int valid = min(size - first, Block * Decoded);
        cub::StoreDirectBlocked(threadIdx.x, out + first, x, valid);
        cub::StoreDirectBlocked(threadIdx.x, offsets + first, at, valid);
    }
    if (threadIdx.x == 0)
        *total = size;
}

template __global__ void reduce<int, 32, 0>(const int *, int *, int);
//@launch: kernel=reduce<int, 32, 0> grid=3 block=32 arg=in:in:i32[83]=randint(-9,9) arg=out:out:i32[6] arg=n:i32=83
template __global__ void reduce<int, 96, 1>(const int *, int *, int);
//@launch: kernel=reduce<int, 96, 1> grid=3 block=96 arg=in:in:i32[243]=randint(-9,9) arg=out:out:i32[6] arg=n:i32=243
template __global__ void reduce<float, 128, 2>(const float *, float *, int);
//@launch: kernel=reduce<float, 128, 2> grid=3 block=128 arg=in:in:f32[323]=randint(-9,9) arg=out:out:f32[6] arg=n:i32=323
template __global__ void reduce<double, 256, 0>(const double *, double *, int);
//@launch: kernel=reduce<double, 256, 0> grid=3 block=256 arg=in:in:f64[643]=randint(-9,9) arg=out:out:f64[6] arg=n:i32=643
template __global__ void reduce<float, 96, 1>(const float *, float *, int);
//@launch: kernel=reduce<float, 96, 1> grid=3 block=96 arg=in:in:f32[243]=randint(-9,9) arg=out:out:f32[6] arg=n:i32=243
template __global__ void reduce<int, 256, 2>(const int *, int *, int);
//@launch: kernel=reduce<int, 256, 2> grid=3 block=256 arg=in:in:i32[643]=randint(-9,9) arg=out:out:i32[6] arg=n:i32=643
template __global__ void reduce_2d<int, 16, 6, 0>(const int *, int *);
//@launch: kernel=reduce_2d<int, 16, 6, 0> grid=2 block=16,6 arg=in:in:i32[576]=randint(-9,9) arg=out:out:i32[2]
template __global__ void reduce_2d<double, 8, 16, 1>(const double *, double *);
//@launch: kernel=reduce_2d<double, 8, 16, 1> grid=2 block=8,16 arg=in:in:f64[768]=randint(-9,9) arg=out:out:f64[2]
template __global__ void reduce_2d<float, 32, 4, 2>(const float *, float *);
//@launch: kernel=reduce_2d<float, 32, 4, 2> grid=2 block=32,4 arg=in:in:f32[768]=randint(-9,9) arg=out:out:f32[2]
template __global__ void scan<int, 32, 0>(const int *, int *, int);
//@launch: kernel=scan<int, 32, 0> grid=1 block=32 arg=in:in:i32[231]=randint(-9,9) arg=out:out:i32[231] arg=n:i32=231
template __global__ void scan<float, 96, 0>(const float *, float *, int);
//@launch: kernel=scan<float, 96, 0> grid=1 block=96 arg=in:in:f32[679]=randint(-9,9) arg=out:out:f32[679] arg=n:i32=679
template __global__ void scan<int, 128, 1>(const int *, int *, int);
//@launch: kernel=scan<int, 128, 1> grid=1 block=128 arg=in:in:i32[903]=randint(-9,9) arg=out:out:i32[903] arg=n:i32=903
template __global__ void scan<double, 256, 1>(const double *, double *, int);
//@launch: kernel=scan<double, 256, 1> grid=1 block=256 arg=in:in:f64[1799]=randint(-9,9) arg=out:out:f64[1799] arg=n:i32=1799
template __global__ void scan<int, 96, 2>(const int *, int *, int);
//@launch: kernel=scan<int, 96, 2> grid=1 block=96 arg=in:in:i32[679]=randint(-9,9) arg=out:out:i32[679] arg=n:i32=679
template __global__ void scan<double, 128, 2>(const double *, double *, int);
//@launch: kernel=scan<double, 128, 2> grid=1 block=128 arg=in:in:f64[903]=randint(-9,9) arg=out:out:f64[903] arg=n:i32=903
template __global__ void scan<float, 256, 2>(const float *, float *, int);
//@launch: kernel=scan<float, 256, 2> grid=1 block=256 arg=in:in:f32[1799]=randint(-9,9) arg=out:out:f32[1799] arg=n:i32=1799
template __global__ void scan_one<int, 96, 0>(const int *, int *, int *, int);
//@launch: kernel=scan_one<int, 96, 0> grid=2 block=96 arg=in:in:i32[187]=randint(-9,9) arg=out:out:i32[187] arg=total:out:i32[2] arg=n:i32=187
template __global__ void scan_one<float, 128, 1>(const float *, float *, float *, int);
//@launch: kernel=scan_one<float, 128, 1> grid=2 block=128 arg=in:in:f32[251]=randint(-9,9) arg=out:out:f32[251] arg=total:out:f32[2] arg=n:i32=251
template __global__ void scan_one<double, 64, 2>(const double *, double *, double *, int);
//@launch: kernel=scan_one<double, 64, 2> grid=2 block=64 arg=in:in:f64[123]=randint(-9,9) arg=out:out:f64[123] arg=total:out:f64[2] arg=n:i32=123
template __global__ void copy<int, 96, 0, 0>(const int *, int *, int);
//@launch: kernel=copy<int, 96, 0, 0> grid=3 block=96 arg=in:in:i32[677]=randint(0,9) arg=out:out:i32[677] arg=n:i32=677
template __global__ void copy<float, 128, 1, 1>(const float *, float *, int);
//@launch: kernel=copy<float, 128, 1, 1> grid=3 block=128 arg=in:in:f32[901]=randint(0,9) arg=out:out:f32[901] arg=n:i32=901
template __global__ void copy<double, 32, 2, 2>(const double *, double *, int);
//@launch: kernel=copy<double, 32, 2, 2> grid=3 block=32 arg=in:in:f64[229]=randint(0,9) arg=out:out:f64[229] arg=n:i32=229
template __global__ void copy<int, 128, 3, 3>(const int *, int *, int);
//@launch: kernel=copy<int, 128, 3, 3> grid=3 block=128 arg=in:in:i32[901]=randint(0,9) arg=out:out:i32[901] arg=n:i32=901
template __global__ void copy<float, 96, 4, 4>(const float *, float *, int);
//@launch: kernel=copy<float, 96, 4, 4> grid=3 block=96 arg=in:in:f32[677]=randint(0,9) arg=out:out:f32[677] arg=n:i32=677
template __global__ void copy<double, 128, 5, 5>(const double *, double *, int);
//@launch: kernel=copy<double, 128, 5, 5> grid=3 block=128 arg=in:in:f64[901]=randint(0,9) arg=out:out:f64[901] arg=n:i32=901
template __global__ void copy<int, 96, 3, 5>(const int *, int *, int);
//@launch: kernel=copy<int, 96, 3, 5> grid=3 block=96 arg=in:in:i32[677]=randint(0,9) arg=out:out:i32[677] arg=n:i32=677
template __global__ void copy<unsigned char, 128, 4, 3>(const unsigned char *, unsigned char *, int);
//@launch: kernel=copy<unsigned char, 128, 4, 3> grid=3 block=128 arg=in:in:u8[901]=randint(0,9) arg=out:out:u8[901] arg=n:i32=901
template __global__ void copy<int, 256, 5, 4>(const int *, int *, int);
//@launch: kernel=copy<int, 256, 5, 4> grid=3 block=256 arg=in:in:i32[1797]=randint(0,9) arg=out:out:i32[1797] arg=n:i32=1797
template __global__ void radix_sort<int, 32>(const int *, int *, int *);
//@launch: kernel=radix_sort<int, 32> grid=2 block=32 arg=in:in:i32[192]=randint(0,900) arg=keys:out:i32[192] arg=values:out:i32[192]
template __global__ void radix_sort<float, 96>(const float *, float *, int *);
//@launch: kernel=radix_sort<float, 96> grid=2 block=96 arg=in:in:f32[576]=randint(0,900) arg=keys:out:f32[576] arg=values:out:i32[576]
template __global__ void radix_sort<double, 128>(const double *, double *, int *);
//@launch: kernel=radix_sort<double, 128> grid=2 block=128 arg=in:in:f64[768]=randint(0,900) arg=keys:out:f64[768] arg=values:out:i32[768]
template __global__ void radix_sort<unsigned int, 256>(const unsigned int *, unsigned int *, int *);
//@launch: kernel=radix_sort<unsigned int, 256> grid=2 block=256 arg=in:in:u32[1536]=randint(0,900) arg=keys:out:u32[1536] arg=values:out:i32[1536]
template __global__ void merge_sort<int, 32>(const int *, int *, int *, int);
//@launch: kernel=merge_sort<int, 32> grid=2 block=32 arg=in:in:i32[133]=randint(0,90) arg=keys:out:i32[133] arg=values:out:i32[133] arg=n:i32=133
template __global__ void merge_sort<float, 64>(const float *, float *, int *, int);
//@launch: kernel=merge_sort<float, 64> grid=2 block=64 arg=in:in:f32[261]=randint(0,90) arg=keys:out:f32[261] arg=values:out:i32[261] arg=n:i32=261
template __global__ void merge_sort<double, 128>(const double *, double *, int *, int);
//@launch: kernel=merge_sort<double, 128> grid=2 block=128 arg=in:in:f64[517]=randint(0,90) arg=keys:out:f64[517] arg=values:out:i32[517] arg=n:i32=517
template __global__ void merge_sort<int, 256>(const int *, int *, int *, int);
//@launch: kernel=merge_sort<int, 256> grid=2 block=256 arg=in:in:i32[1029]=randint(0,90) arg=keys:out:i32[1029] arg=values:out:i32[1029] arg=n:i32=1029
template __global__ void exchange<int, 96, false>(const int *, int *);
//@launch: kernel=exchange<int, 96, false> grid=2 block=96 arg=in:in:i32[576]=iota arg=out:out:i32[576]
template __global__ void exchange<double, 128, true>(const double *, double *);
//@launch: kernel=exchange<double, 128, true> grid=2 block=128 arg=in:in:f64[768]=iota arg=out:out:f64[768]
template __global__ void exchange<float, 32, false>(const float *, float *);
//@launch: kernel=exchange<float, 32, false> grid=2 block=32 arg=in:in:f32[192]=iota arg=out:out:f32[192]
template __global__ void exchange<int, 256, true>(const int *, int *);
//@launch: kernel=exchange<int, 256, true> grid=2 block=256 arg=in:in:i32[1536]=iota arg=out:out:i32[1536]
template __global__ void histogram<unsigned char, 96, 64, 0>(const unsigned char *, unsigned *);
//@launch: kernel=histogram<unsigned char, 96, 64, 0> grid=2 block=96 arg=in:in:u8[576]=randint(0,63) arg=out:out:u32[128]
template __global__ void histogram<unsigned char, 128, 256, 1>(const unsigned char *, unsigned *);
//@launch: kernel=histogram<unsigned char, 128, 256, 1> grid=2 block=128 arg=in:in:u8[768]=randint(0,255) arg=out:out:u32[512]
template __global__ void histogram<unsigned int, 256, 100, 0>(const unsigned int *, unsigned *);
//@launch: kernel=histogram<unsigned int, 256, 100, 0> grid=2 block=256 arg=in:in:u32[1536]=randint(0,99) arg=out:out:u32[200]
template __global__ void histogram<unsigned int, 32, 40, 1>(const unsigned int *, unsigned *);
//@launch: kernel=histogram<unsigned int, 32, 40, 1> grid=2 block=32 arg=in:in:u32[192]=randint(0,39) arg=out:out:u32[80]
template __global__ void flags<int, 96>(const int *, int *, int *);
//@launch: kernel=flags<int, 96> grid=2 block=96 arg=in:in:i32[576]=randint(0,2) arg=heads:out:i32[576] arg=tails:out:i32[576]
template __global__ void flags<double, 128>(const double *, int *, int *);
//@launch: kernel=flags<double, 128> grid=2 block=128 arg=in:in:f64[768]=randint(0,2) arg=heads:out:i32[768] arg=tails:out:i32[768]
template __global__ void differences<int, 96>(const int *, int *, int *, int);
//@launch: kernel=differences<int, 96> grid=2 block=96 arg=in:in:i32[388]=randint(0,9) arg=left:out:i32[388] arg=right:out:i32[388] arg=n:i32=388
template __global__ void differences<float, 128>(const float *, float *, float *, int);
//@launch: kernel=differences<float, 128> grid=2 block=128 arg=in:in:f32[516]=randint(0,9) arg=left:out:f32[516] arg=right:out:f32[516] arg=n:i32=516
template __global__ void differences<double, 256>(const double *, double *, double *, int);
//@launch: kernel=differences<double, 256> grid=2 block=256 arg=in:in:f64[1028]=randint(0,9) arg=left:out:f64[1028] arg=right:out:f64[1028] arg=n:i32=1028
template __global__ void shuffle<int, 96>(const int *, int *);
//@launch: kernel=shuffle<int, 96> grid=2 block=96 arg=in:in:i32[576]=iota arg=out:out:i32[576]
template __global__ void shuffle<float, 256>(const float *, float *);
//@launch: kernel=shuffle<float, 256> grid=2 block=256 arg=in:in:f32[1536]=iota arg=out:out:f32[1536]
template __global__ void run_lengths<int, 96>(const int *, const unsigned *, int *, unsigned *, unsigned *);
//@launch: kernel=run_lengths<int, 96> grid=1 block=96 arg=values:in:i32[288]=iota arg=lengths:in:u32[288]=3 arg=out:out:i32[864] arg=offsets:out:u32[864] arg=total:out:u32[1]
template __global__ void run_lengths<float, 128>(const float *, const unsigned *, float *, unsigned *, unsigned *);
//@launch: kernel=run_lengths<float, 128> grid=1 block=128 arg=values:in:f32[384]=iota arg=lengths:in:u32[384]=3 arg=out:out:f32[1152] arg=offsets:out:u32[1152] arg=total:out:u32[1]
