// The kernels of the programs. `kernels.ptx` is what NVRTC 12.9 makes of them for compute_75.

__constant__ int table[4] = {2, 3, 5, 7};
__device__ int counter = 40;

extern "C" __global__ void empty() {}

extern "C" __global__ void add(const float *x, const float *y, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = x[i] + y[i];
}

extern "C" __global__ void scale(float *x, float by, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] *= by;
}

// One after another, in one thread: a mistake in the order of launches shows.
extern "C" __global__ void step(unsigned *x, unsigned by, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] = x[i] * 3 + by;
}

extern "C" __global__ void sum(const int *x, int *total, int n)
{
    extern __shared__ int partial[];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    partial[threadIdx.x] = i < n ? x[i] : 0;
    __syncthreads();
    for (int step = blockDim.x / 2; step > 0; step /= 2) {
        if (threadIdx.x < step)
            partial[threadIdx.x] += partial[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        atomicAdd(total, partial[0]);
}

extern "C" __global__ void __launch_bounds__(128) from_table(int *out)
{
    __shared__ int kept[128];
    kept[threadIdx.x] = table[threadIdx.x % 4];
    __syncthreads();
    out[threadIdx.x] = kept[127 - threadIdx.x];
    if (threadIdx.x == 0)
        counter += 2;
}

// Each block waits for all the others before it reads its neighbor's number.
extern "C" __global__ void neighbors(int *numbers, int *out, unsigned *arrived)
{
    numbers[blockIdx.x] = blockIdx.x * blockIdx.x;
    __threadfence();
    atomicAdd(arrived, 1);
    while (*(volatile unsigned *)arrived < gridDim.x)
        ;
    __threadfence();
    out[blockIdx.x] = *(volatile int *)&numbers[(blockIdx.x + 1) % gridDim.x];
}

extern "C" __global__ void store(int *place, int value)
{
    *place = value;
}

extern "C" __global__ void trap()
{
    __trap();
}

extern "C" __global__ void spin(volatile int *flag)
{
    while (*flag == 0)
        ;
}
