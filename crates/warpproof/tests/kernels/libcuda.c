// A stand-in for NVIDIA's driver: memory of the host, a clock that counts, and kernels that give one known answer.
//
// STAND_IN_ANSWER names the file that every launch stores to the block of its size. A kernel on FP8 takes 6 microseconds, any
// other 10; event timers tick at half a microsecond.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct { uint64_t at; size_t size; } blocks[4096];
static int used;
static uint64_t now_ns;

struct module { int fp8; };

int cuInit(unsigned flags) { return flags != 0; }
int cuDeviceGet(int* device, int index) { *device = index; return 0; }
int cuDevicePrimaryCtxRetain(void** context, int device) { *context = blocks; return device; }
int cuCtxSetCurrent(void* context) { return context != blocks; }
int cuDeviceGetName(char* name, int size, int device) { snprintf(name, size, "Stand-in"); return device; }
int cuDriverGetVersion(int* version) { *version = 12080; return 0; }
int cuDeviceGetUuid(unsigned char* id, int device) { memset(id, 0x5a, 16); return device; }
int cuGetErrorString(int code, const char** text) { *text = "the stand-in refuses"; return 0; }

int cuModuleLoadDataEx(void** module, const char* ptx, unsigned count, int* options, void** values) {
    struct module* own = malloc(sizeof *own);
    own->fp8 = strstr(ptx, "e4m3.e4m3") != 0;
    *module = own;
    return strncmp(ptx, "//", 2) != 0 && strstr(ptx, ".version") == 0;
}
int cuModuleGetFunction(void** function, void* module, const char* name) { *function = module; return name[0] == 0; }
int cuFuncSetAttribute(void* function, int what, int value) { return what != 8 || value <= 48 << 10; }

int cuMemAlloc_v2(uint64_t* address, size_t size) {
    // What a CUDA device gives is aligned to 256 bytes.
    void* at = aligned_alloc(256, (size + 255) / 256 * 256);
    if (!at || used == 4096) return 2;
    *address = (uint64_t)at;
    blocks[used].at = (uint64_t)at;
    blocks[used++].size = size;
    return 0;
}
int cuMemFree_v2(uint64_t address) {
    for (int i = 0; i < used; ++i)
        if (blocks[i].at == address) {
            blocks[i] = blocks[--used];
            free((void*)address);
            return 0;
        }
    return 1;
}
int cuMemcpyHtoD_v2(uint64_t to, const void* from, size_t size) { memcpy((void*)to, from, size); return 0; }
int cuMemcpyDtoH_v2(void* to, uint64_t from, size_t size) { memcpy(to, (void*)from, size); return 0; }
int cuMemsetD8_v2(uint64_t to, unsigned char value, size_t size) { (void)to, (void)value, (void)size; return 0; }
int cuCtxSynchronize(void) { return 0; }

int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
                   void* stream, void** params, void** extra) {
    if (gx * gy * gz * bx * by * bz == 0 || stream || extra || shared > 101376) return 1;
    static char answer[1 << 22];
    static size_t size;
    if (!size) {
        FILE* file = fopen(getenv("STAND_IN_ANSWER"), "rb");
        if (!file) return 3;
        size = fread(answer, 1, sizeof answer, file);
        fclose(file);
    }
    // The output is the block of the answer's size.
    const uint64_t* words = params[0];
    for (int word = 0; word < 24; ++word)
        for (int i = 0; i < used; ++i)
            if (words[word] == blocks[i].at && blocks[i].size == size) memcpy((void*)blocks[i].at, answer, size);
    now_ns += ((struct module*)function)->fp8 ? 6000 : 10000;
    return 0;
}

int cuEventCreate(void** event, unsigned flags) { *event = calloc(1, 8); return flags != 0; }
int cuEventRecord(void* event, void* stream) { *(uint64_t*)event = now_ns += 700; return stream != 0; }
int cuEventSynchronize(void* event) { return event == 0; }
int cuEventElapsedTime(float* ms, void* begin, void* end) {
    const uint64_t ns = *(uint64_t*)end - *(uint64_t*)begin;
    *ms = (float)(ns / 512 * 512) / 1e6f;
    return 0;
}
