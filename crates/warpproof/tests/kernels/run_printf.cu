//@launch: kernel=say grid=1 block=2 arg=x:f32=1.5
extern "C" __device__ int printf(const char *, ...);
extern "C" __global__ void say(float x)
{
    printf("thread %d of %s: %g\n", threadIdx.x, "two", x * threadIdx.x);
}
