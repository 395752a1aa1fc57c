// A list from the kernel's heap is freed once, at the end.
//@launch: kernel=sum_list grid=1 block=32 arg=out:out:i32[32] arg=n:i32=8

extern "C" __global__ void sum_list(int *out, int n)
{
    volatile int *list = (int *)malloc(n * sizeof(int));
    for (int i = 0; i < n; i++)
        list[i] = i + threadIdx.x;
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += list[i];
    if (sum > 100) {
        sum = 100;
    }
    out[threadIdx.x] = sum;
    free((void *)list);
}
