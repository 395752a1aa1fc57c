// Local memory: arrays indexed at run time (a stack frame without spills), local structs passed by pointer,
// and a stack frame sized at run time.
// Result: insertion_sort   each thread's 16 elements in ascending order
//         bucket_count     out[t * 8 + b] = how many of thread t's 32 elements are b modulo 8
//         sieve            out[t] = number of primes below t
//         variable_frame   out[t] = 0 + 1 + … + t
//@arch: 75+
//@launch: kernel=insertion_sort grid=1 block=32 arg=data:i32[512]=randint(-99,99,seed=0)
//@launch: kernel=bucket_count grid=1 block=32 arg=in:u32[1024]=randint(seed=1) arg=out:u32[256]
//@launch: kernel=sieve grid=1 block=96 arg=out:u32[96]
//@launch: kernel=variable_frame grid=1 block=32 arg=out:u32[32]

extern "C" __global__ void insertion_sort(int *data)
{
    int mine[16];
    data += threadIdx.x * 16;
    for (int i = 0; i < 16; i++)
        mine[i] = data[i];
#pragma unroll 1
    for (int i = 1; i < 16; i++) {
        int value = mine[i], j = i;
        while (j > 0 && mine[j - 1] > value) {
            mine[j] = mine[j - 1];
            j--;
        }
        mine[j] = value;
    }
    for (int i = 0; i < 16; i++)
        data[i] = mine[i];
}

struct Buckets {
    unsigned count[8];
};

__noinline__ __device__ void put(Buckets *buckets, unsigned value)
{
    buckets->count[value % 8]++;
}

extern "C" __global__ void bucket_count(const unsigned *in, unsigned *out)
{
    Buckets buckets = {};
    for (unsigned i = 0; i < 32; i++)
        put(&buckets, in[threadIdx.x * 32 + i]);
    for (unsigned b = 0; b < 8; b++)
        out[threadIdx.x * 8 + b] = buckets.count[b];
}

extern "C" __global__ void sieve(unsigned *out)
{
    bool composite[96] = {};
    unsigned n = threadIdx.x, count = 0;
    for (unsigned p = 2; p < n; p++) {
        if (composite[p])
            continue;
        count++;
        for (unsigned multiple = 2 * p; multiple < n; multiple += p)
            composite[multiple] = true;
    }
    out[n] = count;
}

// The frame's size depends on the thread.
extern "C" __global__ void variable_frame(unsigned *out)
{
    unsigned n = threadIdx.x + 1;
    unsigned long long frame;
    asm volatile("{ .reg .u64 here; alloca.u64 here, %1, 8; cvta.local.u64 %0, here; }"
                 : "=l"(frame)
                 : "l"(n * sizeof(unsigned) + 7 & ~7ull)
                 : "memory");
    unsigned *values = (unsigned *)frame;
    for (unsigned i = 0; i < n; i++)
        values[i] = i;
    unsigned sum = 0;
    for (unsigned i = n; i > 0; i--)
        sum += values[i - 1];
    out[threadIdx.x] = sum;
}
