// Loads a tile of 16 rows of 16 bytes with ldmatrix. Rows are padded to 48 bytes and stay 16-byte aligned.
// Corpus: t05
//@launch: kernel=load_rows grid=1 block=32 arg=a:in:u32[64]=randint(0,100,seed=0) arg=out:out:u32[64]

#define LDMATRIX_X2(r, row)                                                                                    \
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"                                    \
                 : "=r"(r[0]), "=r"(r[1])                                                                      \
                 : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory")

constexpr unsigned PITCH = 12;

extern "C" __global__ void load_rows(const unsigned *a, unsigned *out)
{
    __shared__ __align__(16) unsigned tile[16][PITCH];
    unsigned lane = threadIdx.x;
    for (unsigned i = lane; i < 64; i += 32)
        tile[i / 4][i % 4] = a[i];
    __syncwarp();
    unsigned r[2];
    LDMATRIX_X2(r, tile[lane % 16]);
    out[lane] = r[0];
    out[32 + lane] = r[1];
}
