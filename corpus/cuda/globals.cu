// Module globals: initialized arrays, structs with padding, strings, pointers to other globals (with offsets, into
// constant memory, to a struct's member), zero-initialized and managed variables, statics in functions.
// Result: see each kernel
//@arch: 75+
//@launch: kernel=read_globals grid=1 block=32 arg=out:i32[32]
//@launch: kernel=walk_list grid=1 block=1 arg=out:i32[2]
//@launch: kernel=polynomial grid=1 block=64 arg=x:f32[64]=randn(seed=0) arg=out:f32[64]
//@launch: kernel=copy_text grid=1 block=1 arg=which:u32=2 arg=out:u8[16]=0
//@launch: kernel=count_up grid=4 block=64 arg=out:u32[2]

__device__ int squares[8] = {0, 1, 4, 9, 16, 25, 36, 49};
__device__ int *fourth = &squares[4];
__constant__ short cubes[4] = {0, 1, 8, 27};
__constant__ const int *tables[2] = {squares, squares + 4};
__device__ unsigned char bytes[5] = {1, 2, 3};
__device__ long long wide[2] = {-1, 0x123456789abcdefll};
__device__ double ratio = 0.1;
__device__ float specials[4] = {-0.0f, 1e-40f, 3.4e38f, 1.0f / 3.0f};
static __device__ unsigned total;
__managed__ unsigned managed_total = 7;

// out[i]: squares, then *fourth, tables[1][1], cubes[3], bytes, wide's low words, ratio·1000, specials as bits, zeros
extern "C" __global__ void read_globals(int *out)
{
    int i = threadIdx.x, value = 0;
    if (i < 8)
        value = squares[i];
    else if (i == 8)
        value = fourth[0];
    else if (i == 9)
        value = tables[1][1];
    else if (i == 10)
        value = cubes[3];
    else if (i < 16)
        value = bytes[i - 11];
    else if (i < 18)
        value = (int)wide[i - 16];
    else if (i == 18)
        value = (int)(ratio * 1000.0);
    else if (i < 23)
        value = __float_as_int(specials[i - 19]);
    out[i] = value;
}

struct Node {
    char tag;
    const Node *next;
    int value;
};
__device__ Node last = {'b', nullptr, 30};
__device__ Node rest[2] = {{'x', nullptr, 0}, {'c', &last, 20}};
__device__ Node head = {'a', &rest[1], 10};
__device__ const int *inner = &rest[1].value;

// out[0] = 10 * 100 + 20 * 10 + 30: the list in the order a, c, b; out[1] = 20
extern "C" __global__ void walk_list(int *out)
{
    int sum = 0;
    for (const Node *node = &head; node; node = node->next)
        sum = sum * 10 + node->value;
    out[0] = sum;
    out[1] = *inner;
}

__constant__ float coefficients[4] = {1.0f, -0.5f, 0.25f, -0.125f};

// out = 1 - x/2 + x²/4 - x³/8
extern "C" __global__ void polynomial(const float *x, float *out)
{
    float sum = 0.0f;
    for (int k = 3; k >= 0; k--)
        sum = sum * x[threadIdx.x] + coefficients[k];
    out[threadIdx.x] = sum;
}

__device__ const char *const words[3] = {"alpha", "beta", "gamma \"quoted\""};

// out = the bytes of words[which], without the final zero
extern "C" __global__ void copy_text(unsigned which, char *out)
{
    const char *word = words[which];
    for (int i = 0; word[i] != 0; i++)
        out[i] = word[i];
}

__device__ unsigned next_ticket()
{
    static __device__ unsigned tickets = 100;
    return atomicAdd(&tickets, 1);
}

// The thread that finishes last sets out[0] = 256 and out[1] = 7 + 256.
extern "C" __global__ void count_up(unsigned *out)
{
    next_ticket();
    atomicAdd(&managed_total, 1);
    __threadfence();
    if (atomicAdd(&total, 1) == gridDim.x * blockDim.x - 1) {
        out[0] = total;
        out[1] = *(volatile unsigned *)&managed_total;
    }
}
