// Thread 2 takes element -2 of an array in local memory.
//@launch: kernel=previous grid=1 block=32 arg=in:in:i32[32]=iota arg=out:out:i32[32]

extern "C" __global__ void previous(const int *in, int *out)
{
    int row[8];
    int t = threadIdx.x;
    for (int i = 0; i < 8; i++)
        row[i] = in[(t + i) % 32];
    out[t] = row[t == 2 ? in[t] - 4 : in[t] % 8]; //~ bounds
}
