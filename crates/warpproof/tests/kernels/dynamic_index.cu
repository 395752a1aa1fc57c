// A local array whose index is known at run time only: registers cannot hold it, and nothing spills.
__global__ void dynamic_index(int *out, const int *in, int n) {
    int table[32];
#pragma unroll
    for (int i = 0; i < 32; ++i) table[i] = in[i];
    for (int i = 0; i < n; ++i) table[in[i] & 31] += i;
    out[threadIdx.x] = table[in[threadIdx.x] & 31];
}
