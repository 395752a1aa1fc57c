/* What nvcc's host code does, by hand: registers a kernel and variables of a PTX text, launches it, and checks results. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    unsigned x, y, z;
} dim3;
typedef int cudaError_t;
typedef void *cudaStream_t;

extern void **__cudaRegisterFatBinary(void *);
extern void __cudaRegisterFatBinaryEnd(void **);
extern void __cudaUnregisterFatBinary(void **);
extern void __cudaRegisterFunction(void **, const char *, char *, const char *, int, void *, void *, dim3 *, dim3 *, int *);
extern void __cudaRegisterVar(void **, char *, char *, const char *, int, size_t, int, int);
extern unsigned __cudaPushCallConfiguration(dim3, dim3, size_t, cudaStream_t);
extern cudaError_t __cudaPopCallConfiguration(dim3 *, dim3 *, size_t *, void *);
extern cudaError_t cudaLaunchKernel(const void *, dim3, dim3, void **, size_t, cudaStream_t);
extern cudaError_t cudaLaunchKernel_ptsz(const void *, dim3, dim3, void **, size_t, cudaStream_t);
extern cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t);
extern cudaError_t cudaMalloc(void **, size_t);
extern cudaError_t cudaFree(void *);
extern cudaError_t cudaMemcpy(void *, const void *, size_t, int);
extern cudaError_t cudaMemcpyToSymbol(const void *, const void *, size_t, size_t, int);
extern cudaError_t cudaMemset(void *, int, size_t);
extern cudaError_t cudaGetLastError(void);
extern cudaError_t cudaRuntimeGetVersion(int *);
extern cudaError_t cudaDeviceReset(void);
extern cudaError_t cudaDeviceGetAttribute(int *, int, int);
extern const char *cudaGetErrorName(cudaError_t);
#if MAJOR == 12
#define cudaGetDeviceProperties cudaGetDeviceProperties_v2
#endif
extern cudaError_t cudaGetDeviceProperties(void *, int);

static const char text[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n"
    ".visible .const .align 4 .u32 step;\n"
    ".visible .entry fill(.param .u64 out, .param .u32 base)\n{\n"
    ".reg .b64 %rd<4>; .reg .b32 %r<8>;\n"
    "ld.param.u64 %rd1, [out];\nld.param.u32 %r1, [base];\n"
    "mov.u32 %r2, %tid.x;\nmov.u32 %r3, %ctaid.x;\nmov.u32 %r4, %ntid.x;\nmad.lo.u32 %r2, %r3, %r4, %r2;\n"
    "ld.const.u32 %r5, [step];\nmad.lo.u32 %r6, %r2, %r5, %r1;\n"
    "mul.wide.u32 %rd2, %r2, 4;\nadd.u64 %rd3, %rd1, %rd2;\nst.global.u32 [%rd3], %r6;\nret;\n}\n";

static struct {
    int magic, version;
    const void *data;
    void *unused;
} wrapper = {0x466243b1, 1, text, NULL};

/* The host function and variable that stand for those of the device. */
static void fill(void) {}
static int step;

static void is(int condition, int line) {
    if (!condition) {
        fprintf(stderr, "line %d\n", line);
        exit(1);
    }
}
#define IS(condition) is((condition), __LINE__)

static void launch(unsigned *out, unsigned base, dim3 grid, dim3 block) {
    dim3 g, b;
    size_t shared;
    cudaStream_t stream;
    void *arguments[] = {&out, &base};
    IS(__cudaPushCallConfiguration(grid, block, 0, NULL) == 0);
    IS(__cudaPopCallConfiguration(&g, &b, &shared, &stream) == 0);
    IS(g.x == grid.x && b.z == block.z && shared == 0 && stream == NULL);
    cudaLaunchKernel((const void *)fill, g, b, arguments, shared, stream);
}

int main(void) {
    void **binary = __cudaRegisterFatBinary(&wrapper);
    IS(binary != NULL);
    __cudaRegisterFunction(binary, (const char *)fill, "fill", "fill", -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterVar(binary, (char *)&step, "step", "step", 0, 4, 1, 0);
    __cudaRegisterFatBinaryEnd(binary);
    int version = 0;
    IS(cudaRuntimeGetVersion(&version) == 0 && version / 1000 == MAJOR);

    unsigned *out, host[64];
    int three = 3;
    IS(cudaMalloc((void **)&out, sizeof host) == 0);
    IS(cudaMemcpyToSymbol(&step, &three, 4, 0, 1) == 0);
    dim3 two = {2, 1, 1}, many = {32, 1, 1}, none = {0, 1, 1};
    for (int round = 0; round < 2; round++) {
        launch(out, 100, two, many);
        IS(cudaGetLastError() == 0);
        IS(cudaMemcpy(host, out, sizeof host, 2) == 0);
        for (unsigned i = 0; i < 64; i++) IS(host[i] == 100 + 3 * i);
        IS(cudaMemset(out, 0, sizeof host) == 0);
    }
    /* In the default stream of this thread. */
    unsigned base = 7;
    void *arguments[] = {&out, &base};
    IS(cudaLaunchKernel_ptsz((const void *)fill, two, many, arguments, 0, NULL) == 0);
    IS(cudaStreamSynchronize_ptsz(NULL) == 0);
    IS(cudaMemcpy(host, out, sizeof host, 2) == 0 && host[1] == 10);

    launch(out, 0, none, many);
    IS(cudaGetLastError() == 9);
    IS(cudaGetLastError() == 0);
    dim3 g;
    IS(__cudaPopCallConfiguration(&g, &g, (size_t *)host, &g) == 52);
    IS(cudaGetLastError() == 52);
    IS(cudaMemcpyToSymbol(&version, &three, 4, 0, 1) == 13);
    IS(cudaMemcpyToSymbol(&step, &three, 4, 1, 1) == 1);

    static struct {
        char name[256];
        char rest[4096];
    } properties;
    for (size_t i = 0; i < sizeof properties; i++) ((char *)&properties)[i] = 0x55;
    IS(cudaGetDeviceProperties(&properties, 0) == 0);
    size_t size = MAJOR == 12 ? 1032 : 1008, written = 0;
    for (size_t i = 0; i < sizeof properties; i++)
        if (((char *)&properties)[i] != 0x55) written = i + 1;
    IS(properties.name[0] != 0 && written == size);

    IS(cudaFree(out) == 0);
    IS(cudaFree(out) != 0);
    IS(cudaDeviceReset() == 0);
    __cudaUnregisterFatBinary(binary);
    IS(cudaLaunchKernel((const void *)fill, two, many, arguments, 0, NULL) == 98);
    puts("ok");
    return 0;
}
