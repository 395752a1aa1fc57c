// Calls: noinline functions with scalar, struct, array and pointer parameters, mutual and deep recursion, local frames.
// Result: see each kernel
//@arch: 75+
//@launch: kernel=call_structs grid=1 block=64 arg=in:f32[192]=randn(seed=0) arg=out:f32[192]
//@launch: kernel=recursive_fibonacci grid=1 block=16 arg=out:u32[16]
//@launch: kernel=mutual_recursion grid=1 block=64 arg=out:u32[64]
//@launch: kernel=recursive_ackermann grid=1 block=12 arg=out:u32[12]
//@launch: kernel=recursive_quicksort grid=1 block=4 arg=data:i32[256]=randint(-999,999,seed=1)

struct Vector {
    float x, y, z;
};

__noinline__ __device__ Vector cross(Vector a, Vector b)
{
    return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

__noinline__ __device__ void scale(Vector *v, float factor)
{
    v->x *= factor;
    v->y *= factor;
    v->z *= factor;
}

// out = cross((1, 2, 3), in) * 2
extern "C" __global__ void call_structs(const Vector *in, Vector *out)
{
    Vector v = cross({1.0f, 2.0f, 3.0f}, in[threadIdx.x]);
    scale(&v, 2.0f);
    out[threadIdx.x] = v;
}

__noinline__ __device__ unsigned fibonacci(unsigned n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

// out[i] = the i-th Fibonacci number; every lane recurses to its own depth.
extern "C" __global__ void recursive_fibonacci(unsigned *out)
{
    out[threadIdx.x] = fibonacci(threadIdx.x);
}

__device__ bool is_odd(unsigned n);
__noinline__ __device__ bool is_even(unsigned n) { return n == 0 ? true : is_odd(n - 1); }
__noinline__ __device__ bool is_odd(unsigned n) { return n == 0 ? false : is_even(n - 1); }

// out[i] = 1 if i is even
extern "C" __global__ void mutual_recursion(unsigned *out)
{
    out[threadIdx.x] = is_even(threadIdx.x);
}

__noinline__ __device__ unsigned ackermann(unsigned m, unsigned n)
{
    if (m == 0)
        return n + 1;
    return ackermann(m - 1, n == 0 ? 1 : ackermann(m, n - 1));
}

// out[i] = A(i / 4, i % 4)
extern "C" __global__ void recursive_ackermann(unsigned *out)
{
    out[threadIdx.x] = ackermann(threadIdx.x / 4, threadIdx.x % 4);
}

__noinline__ __device__ void quicksort(int *data, int low, int high)
{
    if (low >= high)
        return;
    int pivot = data[(low + high) / 2], i = low, j = high;
    while (i <= j) {
        while (data[i] < pivot)
            i++;
        while (data[j] > pivot)
            j--;
        if (i <= j) {
            int t = data[i];
            data[i++] = data[j];
            data[j--] = t;
        }
    }
    quicksort(data, low, j);
    quicksort(data, i, high);
}

// Each thread sorts its own 64 elements, in local memory.
extern "C" __global__ void recursive_quicksort(int *data)
{
    int mine[64];
    for (int i = 0; i < 64; i++)
        mine[i] = data[threadIdx.x * 64 + i];
    quicksort(mine, 0, 63);
    for (int i = 0; i < 64; i++)
        data[threadIdx.x * 64 + i] = mine[i];
}
