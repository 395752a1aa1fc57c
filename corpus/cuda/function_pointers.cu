// Function pointers: a table in constant memory, a table in global memory, a pointer to a member, a callback argument.
// Result: dispatch  out[i] = in[i] ⊕ in[i] + 1 with ⊕ = add, subtract, multiply, minimum by i % 4
//         callback  out[0] = in[0] folded with the operation number `op` over all 64 elements
//         members   out[i] = in[i] + 5 for even i, in[i] * 5 for odd i
//@arch: 75+
//@launch: kernel=dispatch grid=1 block=64 arg=in:i32[64]=iota arg=out:i32[64]
//@launch: kernel=callback grid=1 block=1 arg=in:i32[64]=iota arg=out:i32[1] arg=op:u32=0
//@launch: kernel=members grid=1 block=64 arg=in:i32[64]=iota arg=out:i32[64]

typedef int (*Operation)(int, int);

__device__ int add(int a, int b) { return a + b; }
__device__ int subtract(int a, int b) { return a - b; }
__device__ int multiply(int a, int b) { return a * b; }
__device__ int minimum(int a, int b) { return min(a, b); }

__device__ Operation operations[4] = {add, subtract, multiply, minimum};
__constant__ Operation fixed_operations[4] = {add, subtract, multiply, minimum};

extern "C" __global__ void dispatch(const int *in, int *out)
{
    int x = in[threadIdx.x];
    out[threadIdx.x] = operations[threadIdx.x % 4](x, x + 1);
}

__noinline__ __device__ int fold(const int *in, int n, Operation op)
{
    int result = in[0];
    for (int i = 1; i < n; i++)
        result = op(result, in[i]);
    return result;
}

extern "C" __global__ void callback(const int *in, int *out, unsigned op)
{
    out[0] = fold(in, 64, fixed_operations[op % 4]);
}

struct Five {
    int five;
    __device__ int plus(int x) const { return x + five; }
    __device__ int times(int x) const { return x * five; }
};

extern "C" __global__ void members(const int *in, int *out)
{
    int (Five::*member)(int) const = threadIdx.x % 2 == 0 ? &Five::plus : &Five::times;
    Five object = {5};
    out[threadIdx.x] = (object.*member)(in[threadIdx.x]);
}
