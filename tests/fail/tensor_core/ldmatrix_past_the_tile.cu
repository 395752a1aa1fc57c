// Loads a tile of 16 rows of 16 bytes with ldmatrix.x4, which reads 32 rows: lanes 16–31 point past the tile, and past
// all shared memory of the block. Hardware reads whatever lies there, or stops with "out of range shared address".
// Corpus: t06
//@launch: kernel=load_tile grid=1 block=32 arg=a:in:u32[64]=randint(0,100,seed=0) arg=out:out:u32[64]

#define LDMATRIX_X4(r, row)                                                                                    \
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"                            \
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                                              \
                 : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory")

extern "C" __global__ void load_tile(const unsigned *a, unsigned *out)
{
    __shared__ __align__(16) unsigned tile[16][4];
    unsigned lane = threadIdx.x;
    for (unsigned i = lane; i < 64; i += 32)
        tile[i / 4][i % 4] = a[i];
    __syncwarp();
    unsigned r[4];
    LDMATRIX_X4(r, &tile[0][0] + lane * 4); //~ bounds
    out[lane] = r[0];
    out[32 + lane] = r[1];
}
