// One half of what the linker joins. `outer.ptx` is what NVRTC 12.9 makes of it for compute_75 with --relocatable-device-code=true.

extern "C" __device__ int inner(int x);

extern "C" __global__ void outer(const int *x, int *out, int n)
{
    int i = threadIdx.x;
    if (i < n)
        out[i] = inner(x[i]) + 1;
}
