// A kernel that launches another, through functions of the device runtime, which warpproof does not have.
//@launch: kernel=parent grid=1 block=1 arg=out:inout:i32[1]=zeros
struct dim3_by_value {
    unsigned x, y, z;
};

extern "C" __device__ void *cudaGetParameterBufferV2(void *kernel, dim3_by_value grid, dim3_by_value block,
                                                    unsigned shared);

extern "C" __global__ void child(int *out)
{
    *out = 1;
}

extern "C" __global__ void parent(int *out)
{
    void *buffer = cudaGetParameterBufferV2((void *)child, {1, 1, 1}, {1, 1, 1}, 0); //~ unsupported
    *(int **)buffer = out;
}
