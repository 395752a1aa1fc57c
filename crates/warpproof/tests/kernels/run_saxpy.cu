// y = a·x + y
//@launch: kernel=saxpy grid=4 block=256 arg=n:i32=1000 arg=a:f32=2 arg=x:f32[1000]=iota arg=y:f32[1000]=1
__global__ void saxpy(int n, float a, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}
