// Atomic functions of every operator, width and scope, on global and shared memory, used and unused results.
// Result: after 256 threads i = 0 … 255, see each kernel
//@arch: 75+
//@launch: kernel=atomics_32 grid=2 block=128 arg=cells:u32[12]=0 arg=seen:u32[256]
//@launch: kernel=atomics_64 grid=2 block=128 arg=cells:u64[8]=0
//@launch: kernel=atomics_float grid=2 block=128 arg=f:f32[1]=0 arg=d:f64[1]=0 arg=h:f16[2]=0
//@launch: kernel=atomics_shared grid=1 block=256 arg=out:u32[6]
//@launch: kernel=atomics_cas grid=2 block=128 arg=lock:u32[1]=0 arg=counter:u32[1]=0 arg=product:f32[1]=1 arg=halves:u16[2]=0
#include <cuda_fp16.h>

// cells: 0 add, 1 sub, 2 max, 3 min (starts 0), 4 and, 5 or, 6 xor, 7 inc modulo 100, 8 dec from 49, 9 signed max,
// 10 signed min, 11 exchange; seen[i] = what thread i found in cell 0, a permutation of 0 … 255.
extern "C" __global__ void atomics_32(unsigned *cells, unsigned *seen)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    seen[i] = atomicAdd(&cells[0], 1);
    atomicSub(&cells[1], i);
    atomicMax(&cells[2], i);
    atomicMin(&cells[3], i);
    atomicAnd(&cells[4], ~i);
    atomicOr(&cells[5], 1u << (i % 32));
    atomicXor(&cells[6], i);
    atomicInc(&cells[7], 99);
    atomicDec(&cells[8], 49);
    atomicMax((int *)&cells[9], (int)i - 128);
    atomicMin((int *)&cells[10], (int)i - 128);
    atomicExch(&cells[11], i);
    atomicAdd_system(&cells[0], 0);
}

// cells: 0 add of i², 1 max, 2 min, 3 or, 4 xor, 5 and, 6 exchange, 7 signed min.
extern "C" __global__ void atomics_64(unsigned long long *cells)
{
    unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&cells[0], i * i);
    atomicMax(&cells[1], i << 40);
    atomicMin(&cells[2], i);
    atomicOr(&cells[3], 1ull << (i % 64));
    atomicXor(&cells[4], i << 32);
    atomicAnd(&cells[5], ~i);
    atomicExch(&cells[6], i);
    atomicMin((long long *)&cells[7], (long long)i - 200);
}

// Sums of small integers, exact in any order.
extern "C" __global__ void atomics_float(float *f, double *d, __half2 *h)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(f, (float)i);
    atomicAdd(d, (double)i * 0.5);
    atomicAdd(h, __floats2half2_rn((float)(i % 4), (float)(i % 3)));
}

// out: sum, maximum, or, xor, last increment modulo 10, sum of the fetched values of cell 0.
extern "C" __global__ void atomics_shared(unsigned *out)
{
    __shared__ unsigned cells[6];
    if (threadIdx.x < 6)
        cells[threadIdx.x] = 0;
    __syncthreads();
    unsigned before = atomicAdd_block(&cells[0], threadIdx.x);
    atomicMax_block(&cells[1], threadIdx.x * 3);
    atomicOr_block(&cells[2], 1u << (threadIdx.x % 9));
    atomicXor(&cells[3], threadIdx.x * 7);
    atomicInc(&cells[4], 9);
    if (before == 0)
        atomicAdd(&cells[5], 1);
    __syncthreads();
    if (threadIdx.x < 6)
        out[threadIdx.x] = cells[threadIdx.x];
}

// A spin lock guards counter += 1; product is multiplied by 1.01 per thread through a CAS loop; halves count in 16 bits.
extern "C" __global__ void atomics_cas(unsigned *lock, unsigned *counter, float *product, unsigned short *halves)
{
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            __threadfence();
            *(volatile unsigned *)counter = *(volatile unsigned *)counter + 1;
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
    unsigned *bits = (unsigned *)product, old = *bits, assumed;
    do {
        assumed = old;
        old = atomicCAS(bits, assumed, __float_as_uint(__uint_as_float(assumed) * 1.01f));
    } while (old != assumed);

    unsigned short *half = &halves[threadIdx.x % 2], found = *half, expected;
    do {
        expected = found;
        found = atomicCAS(half, expected, (unsigned short)(expected + 1));
    } while (found != expected);
}
