// Textures and surfaces, as in NVIDIA's simpleTexture, simpleLayeredTexture, simplePitchLinearTexture and simpleSurfaceWrite.
#include <cmath>
#include <cstring>
#include <vector>

#include "check.h"

__global__ void rotate(float *out, int width, int height, float angle, cudaTextureObject_t texture) {
    unsigned x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    float u = x / (float)width - 0.5f, v = y / (float)height - 0.5f;
    float across = u * cosf(angle) - v * sinf(angle) + 0.5f, down = v * cosf(angle) + u * sinf(angle) + 0.5f;
    out[y * width + x] = tex2D<float>(texture, across, down);
}

// Linear filtering with wrapped, normalized coordinates and 8 bits of fraction.
static float sample(const std::vector<float> &image, int width, int height, float u, float v) {
    float x = u * width - 0.5f, y = v * height - 0.5f;
    float left = floorf(x), top = floorf(y);
    float a = roundf((x - left) * 256) / 256, b = roundf((y - top) * 256) / 256;
    auto at = [&](int column, int row) {
        column = (column % width + width) % width;
        row = (row % height + height) % height;
        return image[row * width + column];
    };
    int i = (int)left, j = (int)top;
    return (1 - a) * (1 - b) * at(i, j) + a * (1 - b) * at(i + 1, j) + (1 - a) * b * at(i, j + 1) + a * b * at(i + 1, j + 1);
}

static void rotated() {
    const int width = 32, height = 16;
    std::vector<float> image(width * height), result(width * height);
    for (int i = 0; i < width * height; i++)
        image[i] = (i * 37 % 101) / 101.0f;
    cudaChannelFormatDesc channels = cudaCreateChannelDesc<float>();
    cudaArray_t array;
    OK(cudaMallocArray(&array, &channels, width, height));
    OK(cudaMemcpy2DToArray(array, 0, 0, image.data(), width * 4, width * 4, height, cudaMemcpyHostToDevice));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc how = {};
    how.normalizedCoords = true;
    how.filterMode = cudaFilterModeLinear;
    how.addressMode[0] = how.addressMode[1] = cudaAddressModeWrap;
    how.readMode = cudaReadModeElementType;
    cudaTextureObject_t texture;
    OK(cudaCreateTextureObject(&texture, &resource, &how, nullptr));
    float *out;
    OK(cudaMalloc(&out, width * height * 4));
    float angle = 0.5f;
    rotate<<<dim3(width / 8, height / 8), dim3(8, 8)>>>(out, width, height, angle, texture);
    OK(cudaMemcpy(result.data(), out, width * height * 4, cudaMemcpyDeviceToHost));
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            float u = x / (float)width - 0.5f, v = y / (float)height - 0.5f;
            float across = u * cosf(angle) - v * sinf(angle) + 0.5f, down = v * cosf(angle) + u * sinf(angle) + 0.5f;
            // A step of the fraction is 1/256 of the difference of neighbors.
            IS(fabsf(result[y * width + x] - sample(image, width, height, across, down)) < 0.02f);
        }
    OK(cudaDestroyTextureObject(texture));
    OK(cudaFree(out));
    OK(cudaFreeArray(array));
}

__global__ void layers(float *out, int width, int layer, cudaTextureObject_t texture) {
    unsigned x = threadIdx.x, y = threadIdx.y;
    float u = (x + 0.5f) / width, v = (y + 0.5f) / width;
    out[layer * width * width + y * width + x] = -tex2DLayered<float>(texture, u, v, layer) + layer;
}

static void layered() {
    const int width = 16, count = 3;
    std::vector<float> image(width * width * count), result(image.size());
    for (size_t i = 0; i < image.size(); i++)
        image[i] = (float)i;
    cudaChannelFormatDesc channels = cudaCreateChannelDesc(32, 0, 0, 0, cudaChannelFormatKindFloat);
    cudaArray_t array;
    OK(cudaMalloc3DArray(&array, &channels, make_cudaExtent(width, width, count), cudaArrayLayered));
    cudaMemcpy3DParms copy = {};
    copy.srcPtr = make_cudaPitchedPtr(image.data(), width * 4, width, width);
    copy.dstArray = array;
    copy.extent = make_cudaExtent(width, width, count);
    copy.kind = cudaMemcpyHostToDevice;
    OK(cudaMemcpy3D(&copy));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc how = {};
    how.normalizedCoords = true;
    how.filterMode = cudaFilterModeLinear;
    cudaTextureObject_t texture;
    OK(cudaCreateTextureObject(&texture, &resource, &how, nullptr));
    float *out;
    OK(cudaMalloc(&out, image.size() * 4));
    for (int layer = 0; layer < count; layer++)
        layers<<<1, dim3(width, width)>>>(out, width, layer, texture);
    OK(cudaMemcpy(result.data(), out, image.size() * 4, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < image.size(); i++)
        IS(result[i] == -image[i] + i / (width * width));
    OK(cudaDestroyTextureObject(texture));
    OK(cudaFree(out));
    OK(cudaFreeArray(array));
}

__global__ void shift(float *out, int width, cudaTextureObject_t rows, cudaTextureObject_t linear) {
    unsigned x = threadIdx.x, y = blockIdx.x;
    out[y * width + x] = tex2D<float>(rows, x + 3, y + 1) + tex1Dfetch<int>(linear, y * width + x);
}

static void memory() {
    const int width = 40, height = 6;
    std::vector<float> image(width * height), result(width * height);
    std::vector<int> numbers(width * height);
    for (int i = 0; i < width * height; i++) {
        image[i] = (float)i;
        numbers[i] = 1000 * i;
    }
    float *pitched, *out;
    int *line;
    size_t pitch;
    OK(cudaMallocPitch(&pitched, &pitch, width * 4, height));
    OK(cudaMemcpy2D(pitched, pitch, image.data(), width * 4, width * 4, height, cudaMemcpyHostToDevice));
    OK(cudaMalloc(&line, width * height * 4));
    OK(cudaMemcpy(line, numbers.data(), width * height * 4, cudaMemcpyHostToDevice));
    OK(cudaMalloc(&out, width * height * 4));
    cudaTextureObject_t rows, linear;
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypePitch2D;
    resource.res.pitch2D.devPtr = pitched;
    resource.res.pitch2D.desc = cudaCreateChannelDesc<float>();
    resource.res.pitch2D.width = width;
    resource.res.pitch2D.height = height;
    resource.res.pitch2D.pitchInBytes = pitch;
    cudaTextureDesc how = {};
    how.addressMode[0] = how.addressMode[1] = cudaAddressModeClamp;
    OK(cudaCreateTextureObject(&rows, &resource, &how, nullptr));
    memset(&resource, 0, sizeof resource);
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear.devPtr = line;
    resource.res.linear.desc = cudaCreateChannelDesc<int>();
    resource.res.linear.sizeInBytes = width * height * 4;
    memset(&how, 0, sizeof how);
    OK(cudaCreateTextureObject(&linear, &resource, &how, nullptr));
    shift<<<height, width>>>(out, width, rows, linear);
    OK(cudaMemcpy(result.data(), out, width * height * 4, cudaMemcpyDeviceToHost));
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            int column = x + 3 < width ? x + 3 : width - 1, row = y + 1 < height ? y + 1 : height - 1;
            IS(result[y * width + x] == image[row * width + column] + numbers[y * width + x]);
        }
    OK(cudaDestroyTextureObject(rows));
    OK(cudaDestroyTextureObject(linear));
    OK(cudaFree(pitched));
    OK(cudaFree(line));
    OK(cudaFree(out));
}

__global__ void write(const uchar4 *in, int width, cudaSurfaceObject_t surface) {
    uchar4 texel = in[threadIdx.y * width + threadIdx.x];
    surf2Dwrite(texel, surface, threadIdx.x * sizeof(uchar4), threadIdx.y);
}

__global__ void read(float4 *out, int width, cudaTextureObject_t texture, cudaSurfaceObject_t surface) {
    uchar4 raw;
    surf2Dread(&raw, surface, threadIdx.x * sizeof(uchar4), threadIdx.y);
    float4 texel = tex2D<float4>(texture, threadIdx.x, threadIdx.y);
    texel.w = raw.w;
    out[threadIdx.y * width + threadIdx.x] = texel;
}

static void surfaces() {
    const int width = 16, height = 8;
    std::vector<uchar4> image(width * height);
    std::vector<float4> result(width * height);
    for (int i = 0; i < width * height; i++)
        image[i] = make_uchar4(i, 255 - i, i / 2, 7 + i);
    cudaChannelFormatDesc channels = cudaCreateChannelDesc<uchar4>();
    cudaArray_t array;
    OK(cudaMallocArray(&array, &channels, width, height, cudaArraySurfaceLoadStore));
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaSurfaceObject_t surface;
    OK(cudaCreateSurfaceObject(&surface, &resource));
    cudaTextureDesc how = {};
    how.readMode = cudaReadModeNormalizedFloat;
    cudaTextureObject_t texture;
    OK(cudaCreateTextureObject(&texture, &resource, &how, nullptr));
    uchar4 *in;
    float4 *out;
    OK(cudaMalloc(&in, width * height * 4));
    OK(cudaMalloc(&out, width * height * 16));
    OK(cudaMemcpy(in, image.data(), width * height * 4, cudaMemcpyHostToDevice));
    write<<<1, dim3(width, height)>>>(in, width, surface);
    read<<<1, dim3(width, height)>>>(out, width, texture, surface);
    OK(cudaMemcpy(result.data(), out, width * height * 16, cudaMemcpyDeviceToHost));
    for (int i = 0; i < width * height; i++) {
        IS(fabsf(result[i].x - image[i].x / 255.0f) < 1e-6f && fabsf(result[i].y - image[i].y / 255.0f) < 1e-6f);
        IS(fabsf(result[i].z - image[i].z / 255.0f) < 1e-6f && result[i].w == image[i].w);
    }
    std::vector<uchar4> back(width * height);
    OK(cudaMemcpy2DFromArray(back.data(), width * 4, array, 0, 0, width * 4, height, cudaMemcpyDeviceToHost));
    IS(memcmp(back.data(), image.data(), width * height * 4) == 0);
    OK(cudaDestroyTextureObject(texture));
    OK(cudaDestroySurfaceObject(surface));
    OK(cudaFree(in));
    OK(cudaFree(out));
    OK(cudaFreeArray(array));
}

int main() {
    rotated();
    layered();
    memory();
    surfaces();
    puts("ok");
}
