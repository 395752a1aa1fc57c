// Exclusive prefix sums of 512 elements by a tree that is swept up and down, two elements per thread.
// Result: out[i] = in[0] + ... + in[i - 1]
//@launch: kernel=scan grid=1 block=256 arg=in:in:i32[512]=randint(-99,99,seed=0) arg=out:out:i32[512]

extern "C" __global__ void scan(const int *in, int *out)
{
    __shared__ int tree[512];
    unsigned t = threadIdx.x, stride = 1;
    tree[t] = in[t];
    tree[t + 256] = in[t + 256];
    for (unsigned active = 256; active > 0; active /= 2, stride *= 2) {
        __syncthreads();
        if (t < active)
            tree[stride * (2 * t + 2) - 1] += tree[stride * (2 * t + 1) - 1];
    }
    if (t == 0)
        tree[511] = 0;
    for (unsigned active = 1; active < 512; active *= 2) {
        stride /= 2;
        __syncthreads();
        if (t < active) {
            unsigned left = stride * (2 * t + 1) - 1, right = stride * (2 * t + 2) - 1;
            int below = tree[left];
            tree[left] = tree[right];
            tree[right] += below;
        }
    }
    __syncthreads();
    out[t] = tree[t];
    out[t + 256] = tree[t + 256];
}
