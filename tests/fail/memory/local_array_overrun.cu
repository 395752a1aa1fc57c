// Looks up a table of 8 in a local array by an index from memory, which reaches 11. The read goes past the array on
// the thread's stack; hardware gives what lies there.
// Corpus: m07
//@launch: kernel=look_up grid=1 block=32 arg=index:in:i32[32]=randint(0,11,seed=0) arg=out:out:i32[32]

extern "C" __global__ void look_up(const int *index, int *out)
{
    int squares[8];
    for (int i = 0; i < 8; i++)
        squares[i] = i * i + index[0];
    out[threadIdx.x] = squares[index[threadIdx.x]]; //~ bounds
}
