/* Arrays, copies to and from them, texture and surface objects: what the host sees of them, with the ABI of each version. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int cudaError_t;
typedef struct {
    int x, y, z, w;
    int f;
} Channels;
typedef struct {
    size_t width, height, depth;
} Extent;
typedef struct {
    void *ptr;
    size_t pitch, xsize, ysize;
} Pitched;
typedef struct {
    size_t x, y, z;
} Position;
typedef struct {
    void *source_array;
    Position source_position;
    Pitched source;
    void *target_array;
    Position target_position;
    Pitched target;
    Extent extent;
    int kind;
} Copy;
typedef struct {
    int kind;
    void *pointer;
    Channels channels;
    size_t sizes[3];
#if MAJOR == 13
    char rest[72];
    unsigned flags;
#endif
} Resource;
typedef struct {
    int address[3], filter, reading, srgb;
    float border[4];
    int normalized;
    unsigned anisotropy;
    int level_filter;
    float bias, low, high;
    int no_optimization, seamless;
} Texture;
typedef struct {
    int format;
    size_t width, height, depth;
    unsigned first_level, last_level, first_layer, last_layer;
#if MAJOR == 13
    unsigned reserved[16];
#endif
} View;

extern Channels cudaCreateChannelDesc(int, int, int, int, int);
extern cudaError_t cudaMallocArray(void **, const Channels *, size_t, size_t, unsigned);
extern cudaError_t cudaMalloc3DArray(void **, const Channels *, Extent, unsigned);
extern cudaError_t cudaFreeArray(void *);
extern cudaError_t cudaArrayGetInfo(Channels *, Extent *, unsigned *, void *);
extern cudaError_t cudaGetChannelDesc(Channels *, void *);
extern cudaError_t cudaMallocMipmappedArray(void **, const Channels *, Extent, unsigned, unsigned);
extern cudaError_t cudaGetMipmappedArrayLevel(void **, void *, unsigned);
extern cudaError_t cudaFreeMipmappedArray(void *);
extern cudaError_t cudaMemcpy2DToArray(void *, size_t, size_t, const void *, size_t, size_t, size_t, int);
extern cudaError_t cudaMemcpy2DFromArray(void *, size_t, void *, size_t, size_t, size_t, size_t, int);
extern cudaError_t cudaMemcpy2DFromArrayAsync_ptsz(void *, size_t, void *, size_t, size_t, size_t, size_t, int, void *);
extern cudaError_t cudaStreamSynchronize_ptsz(void *);
extern cudaError_t cudaMemcpy2DArrayToArray(void *, size_t, size_t, void *, size_t, size_t, size_t, size_t, int);
extern cudaError_t cudaMemcpyToArray(void *, size_t, size_t, const void *, size_t, int);
extern cudaError_t cudaMemcpyFromArray(void *, void *, size_t, size_t, size_t, int);
extern cudaError_t cudaMemcpyFromArray_ptds(void *, void *, size_t, size_t, size_t, int);
extern cudaError_t cudaMemcpyArrayToArray(void *, size_t, size_t, void *, size_t, size_t, size_t, int);
extern cudaError_t cudaMemcpy3D(const Copy *);
extern cudaError_t cudaMalloc(void **, size_t);
extern cudaError_t cudaFree(void *);
extern cudaError_t cudaCreateTextureObject(unsigned long long *, const Resource *, const Texture *, const View *);
extern cudaError_t cudaDestroyTextureObject(unsigned long long);
extern cudaError_t cudaGetTextureObjectResourceDesc(Resource *, unsigned long long);
extern cudaError_t cudaGetTextureObjectTextureDesc(Texture *, unsigned long long);
extern cudaError_t cudaGetTextureObjectResourceViewDesc(View *, unsigned long long);
extern cudaError_t cudaCreateSurfaceObject(unsigned long long *, const Resource *);
extern cudaError_t cudaDestroySurfaceObject(unsigned long long);
extern cudaError_t cudaGetSurfaceObjectResourceDesc(Resource *, unsigned long long);

static void is(int condition, int line) {
    if (!condition) {
        fprintf(stderr, "line %d\n", line);
        exit(1);
    }
}
#define IS(condition) is((condition), __LINE__)
#define OK(call) is((call) == 0, __LINE__)

enum { UNSIGNED = 1, FLOAT = 2, TO_DEVICE = 1, TO_HOST = 2, IN_DEVICE = 3, DEFAULT = 4 };

static void rows(void) {
    Channels channels = cudaCreateChannelDesc(16, 16, 0, 0, UNSIGNED), found;
    void *array, *other;
    Extent extent;
    unsigned flags;
    OK(cudaMallocArray(&array, &channels, 10, 6, 2));
    OK(cudaMallocArray(&other, &channels, 5, 12, 0));
    OK(cudaArrayGetInfo(&found, &extent, &flags, array));
    IS(memcmp(&found, &channels, sizeof found) == 0 && flags == 2);
    IS(extent.width == 10 && extent.height == 6 && extent.depth == 0);
    OK(cudaGetChannelDesc(&found, array));
    IS(memcmp(&found, &channels, sizeof found) == 0);

    unsigned char bytes[240], back[300];
    for (int i = 0; i < 240; i++)
        bytes[i] = i;
    /* 6 rows of 40 bytes. */
    OK(cudaMemcpy2DToArray(array, 0, 0, bytes, 40, 40, 6, TO_DEVICE));
    memset(back, 0, sizeof back);
    OK(cudaMemcpy2DFromArray(back, 10, array, 4, 2, 8, 3, TO_HOST));
    for (int y = 0; y < 3; y++)
        IS(memcmp(back + 10 * y, bytes + 40 * (y + 2) + 4, 8) == 0 && back[10 * y + 8] == 0);
    memset(back, 0, sizeof back);
    OK(cudaMemcpy2DFromArrayAsync_ptsz(back, 8, array, 0, 5, 8, 1, DEFAULT, NULL));
    OK(cudaStreamSynchronize_ptsz(NULL));
    IS(memcmp(back, bytes + 200, 8) == 0 && back[8] == 0);

    /* Bytes that continue in the next row. */
    OK(cudaMemcpyToArray(array, 12, 1, bytes, 100, TO_DEVICE));
    OK(cudaMemcpyFromArray(back, array, 12, 1, 100, TO_HOST));
    IS(memcmp(back, bytes, 100) == 0);
    OK(cudaMemcpyFromArray_ptds(back, array, 0, 0, 240, TO_HOST));
    IS(memcmp(back, bytes, 52) == 0 && memcmp(back + 52, bytes, 100) == 0 && memcmp(back + 152, bytes + 152, 88) == 0);
    /* Rows of 40 bytes to rows of 20 bytes. */
    OK(cudaMemcpyArrayToArray(other, 8, 0, array, 12, 1, 100, IN_DEVICE));
    OK(cudaMemcpyFromArray(back, other, 8, 0, 100, TO_HOST));
    IS(memcmp(back, bytes, 100) == 0);
    OK(cudaMemcpy2DArrayToArray(array, 0, 0, other, 0, 1, 20, 2, IN_DEVICE));
    OK(cudaMemcpy2DFromArray(back, 20, array, 0, 0, 20, 2, TO_HOST));
    IS(memcmp(back, bytes + 12, 40) == 0);

    /* Errors: outside of the array, a direction that has no array, a pitch below the width. */
    IS(cudaMemcpy2DToArray(array, 4, 0, bytes, 40, 40, 1, TO_DEVICE) == 1);
    IS(cudaMemcpyFromArray(back, array, 4, 0, 240, TO_HOST) == 1);
    IS(cudaMemcpy2DToArray(array, 0, 0, bytes, 40, 40, 1, TO_HOST) == 21);
    IS(cudaMemcpy2DFromArray(back, 8, array, 0, 0, 12, 1, TO_HOST) == 12);
    OK(cudaFreeArray(other));
    IS(cudaFreeArray(other) == 400);
    OK(cudaFreeArray(NULL));
    channels.z = 16;
    IS(cudaMallocArray(&other, &channels, 5, 12, 0) == 20);
    OK(cudaFreeArray(array));
}

static void slices(void) {
    Channels channels = cudaCreateChannelDesc(32, 0, 0, 0, FLOAT);
    Extent extent = {4, 3, 5}, part = {2, 2, 3}, found;
    unsigned flags;
    void *array, *layered;
    OK(cudaMalloc3DArray(&array, &channels, extent, 0));
    OK(cudaMalloc3DArray(&layered, &channels, extent, 1));
    OK(cudaArrayGetInfo(NULL, &found, &flags, layered));
    IS(flags == 1 && memcmp(&found, &extent, sizeof found) == 0);
    float numbers[60], back[60];
    for (int i = 0; i < 60; i++)
        numbers[i] = i;
    Copy in = {.source = {numbers, 16, 16, 3}, .target_array = array, .extent = extent, .kind = TO_DEVICE};
    OK(cudaMemcpy3D(&in));
    /* Positions and widths count elements if an array takes part. */
    Copy across = {.source_array = array, .source_position = {1, 1, 2}, .target_array = layered, .extent = part, .kind = IN_DEVICE};
    OK(cudaMemcpy3D(&across));
    memset(back, 0, sizeof back);
    Copy out = {.source_array = layered, .target = {back, 8, 8, 2}, .extent = part, .kind = TO_HOST};
    OK(cudaMemcpy3D(&out));
    for (int z = 0, i = 0; z < 3; z++)
        for (int y = 0; y < 2; y++)
            for (int x = 0; x < 2; x++, i++)
                IS(back[i] == numbers[12 * (z + 2) + 4 * (y + 1) + x + 1]);
    /* The bytes of slices have no order. */
    IS(cudaMemcpyFromArray(back, array, 0, 0, 4, TO_HOST) == 1);
    OK(cudaFreeArray(array));
    OK(cudaFreeArray(layered));
}

static void mipmaps(void) {
    Channels channels = cudaCreateChannelDesc(8, 0, 0, 0, UNSIGNED);
    Extent extent = {16, 8, 0}, found;
    void *whole, *level;
    OK(cudaMallocMipmappedArray(&whole, &channels, extent, 3, 0));
    OK(cudaGetMipmappedArrayLevel(&level, whole, 2));
    OK(cudaArrayGetInfo(NULL, &found, NULL, level));
    IS(found.width == 4 && found.height == 2 && found.depth == 0);
    IS(cudaGetMipmappedArrayLevel(&level, whole, 3) == 1);
    Resource resource = {.kind = 1, .pointer = whole};
    Texture texture = {.normalized = 1, .low = 0, .high = 2};
    View view = {.format = 1, .width = 8, .height = 4, .first_level = 1, .last_level = 2}, seen;
    unsigned long long object;
    OK(cudaCreateTextureObject(&object, &resource, &texture, &view));
    memset(&seen, 0xff, sizeof seen);
    OK(cudaGetTextureObjectResourceViewDesc(&seen, object));
    IS(seen.format == 1 && seen.width == 8 && seen.height == 4 && seen.first_level == 1 && seen.last_level == 2 && seen.last_layer == 0);
    OK(cudaDestroyTextureObject(object));
    OK(cudaFreeMipmappedArray(whole));
    OK(cudaFreeMipmappedArray(NULL));
}

static void objects(void) {
    Channels channels = cudaCreateChannelDesc(32, 32, 0, 0, FLOAT);
    void *memory, *array;
    OK(cudaMalloc(&memory, 4096));
    /* What follows the structure stays as it is. */
    struct {
        Resource resource;
        unsigned guard[8];
    } seen;
    Resource resource = {.kind = 3, .pointer = memory, .channels = channels, .sizes = {16, 8, 256}};
    Texture texture = {.address = {1, 2, 3}, .filter = 1, .border = {1, 2, 3, 4}, .anisotropy = 2}, read;
    unsigned long long object;
    OK(cudaCreateTextureObject(&object, &resource, &texture, NULL));
    memset(&seen, 0xaa, sizeof seen);
    OK(cudaGetTextureObjectResourceDesc(&seen.resource, object));
    IS(seen.resource.kind == 3 && seen.resource.pointer == memory);
    IS(memcmp(&seen.resource.channels, &channels, sizeof channels) == 0);
    IS(memcmp(seen.resource.sizes, resource.sizes, sizeof resource.sizes) == 0);
    for (int i = 0; i < 8; i++)
        IS(seen.guard[i] == 0xaaaaaaaa);
    OK(cudaGetTextureObjectTextureDesc(&read, object));
    IS(memcmp(&read, &texture, sizeof read) == 0);
    OK(cudaDestroyTextureObject(object));
    IS(cudaGetTextureObjectTextureDesc(&read, object) == 1);
    OK(cudaFree(memory));

    OK(cudaMallocArray(&array, &channels, 8, 0, 2));
    Resource of_array = {.kind = 0, .pointer = array};
    OK(cudaCreateSurfaceObject(&object, &of_array));
    memset(&seen, 0xaa, sizeof seen);
    OK(cudaGetSurfaceObjectResourceDesc(&seen.resource, object));
    IS(seen.resource.kind == 0 && seen.resource.pointer == array && seen.guard[0] == 0xaaaaaaaa);
    OK(cudaDestroySurfaceObject(object));
    OK(cudaFreeArray(array));
    /* Surfaces need an array that allows them. */
    OK(cudaMallocArray(&array, &channels, 8, 0, 0));
    of_array.pointer = array;
    IS(cudaCreateSurfaceObject(&object, &of_array) == 1);
    OK(cudaFreeArray(array));
}

int main(void) {
    rows();
    slices();
    mipmaps();
    objects();
    puts("ok");
    return 0;
}
