// Every thread builds a list in memory from the kernel's heap, frees it, and then reads it. Hardware mostly still finds
// the values, until another thread is given the same memory.
//@launch: kernel=sum_list grid=1 block=32 arg=out:out:i32[32] arg=n:i32=8

extern "C" __global__ void sum_list(int *out, int n)
{
    volatile int *list = (int *)malloc(n * sizeof(int));
    for (int i = 0; i < n; i++)
        list[i] = i + threadIdx.x;
    free((void *)list);
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += list[i]; //~ bounds
    out[threadIdx.x] = sum;
}
