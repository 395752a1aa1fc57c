/* The tiled matrix product and the copy of `bench kernels` on PoCL, on one thread. Prints `sgemm <seconds>` and `copy <seconds>`:
   processor time of the best of `times` launches, after one that compiles. Ends with 2 if there is no PoCL. */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *SOURCE =
    "#define TILE 16\n"
    "__kernel __attribute__((reqd_work_group_size(TILE, TILE, 1)))\n"
    "void sgemm(__global const float *a, __global const float *b, __global float *c, uint n) {\n"
    "    __local float tile_a[TILE][TILE], tile_b[TILE][TILE];\n"
    "    uint x = get_local_id(0), y = get_local_id(1), row = get_global_id(1), column = get_global_id(0);\n"
    "    float sum = 0;\n"
    "    for (uint k = 0; k < n; k += TILE) {\n"
    "        tile_a[y][x] = a[row * n + k + x];\n"
    "        tile_b[y][x] = b[(k + y) * n + column];\n"
    "        barrier(CLK_LOCAL_MEM_FENCE);\n"
    "        for (uint i = 0; i < TILE; i++) sum = fma(tile_a[y][i], tile_b[i][x], sum);\n"
    "        barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    }\n"
    "    c[row * n + column] = sum;\n"
    "}\n"
    "__kernel void copy(__global const float4 *from, __global float4 *to, uint n) {\n"
    "    for (uint i = get_global_id(0); i < n; i += get_global_size(0)) to[i] = from[i];\n"
    "}\n";

static void require(cl_int status, const char *what)
{
    if (status != CL_SUCCESS) {
        fprintf(stderr, "%s failed: %d\n", what, status);
        exit(1);
    }
}

static double processor_time(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static double best(cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *global, const size_t *local, int times)
{
    double best = 1e30;
    for (int i = 0; i <= times; i++) {
        double start = processor_time();
        require(clEnqueueNDRangeKernel(queue, kernel, dims, NULL, global, local, 0, NULL, NULL), "clEnqueueNDRangeKernel");
        require(clFinish(queue), "clFinish");
        double seconds = processor_time() - start;
        if (i > 0 && seconds < best)
            best = seconds;
    }
    return best;
}

int main(int count, char **arguments)
{
    if (count != 4)
        return 1;
    cl_uint n = (cl_uint)atoi(arguments[1]), vectors = (cl_uint)atoi(arguments[2]);
    int times = atoi(arguments[3]);
    cl_platform_id platforms[8], platform = NULL;
    cl_uint found = 0;
    if (clGetPlatformIDs(8, platforms, &found) != CL_SUCCESS)
        return 2;
    for (cl_uint i = 0; i < found && i < 8; i++) {
        char name[256] = "";
        clGetPlatformInfo(platforms[i], CL_PLATFORM_NAME, sizeof name - 1, name, NULL);
        if (strstr(name, "Portable Computing Language"))
            platform = platforms[i];
    }
    cl_device_id device;
    if (!platform || clGetDeviceIDs(platform, CL_DEVICE_TYPE_CPU, 1, &device, NULL) != CL_SUCCESS)
        return 2;
    cl_int status;
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    require(status, "clCreateContext");
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &status);
    require(status, "clCreateCommandQueue");
    cl_program program = clCreateProgramWithSource(context, 1, &SOURCE, NULL, &status);
    require(status, "clCreateProgramWithSource");
    require(clBuildProgram(program, 1, &device, "", NULL, NULL), "clBuildProgram");

    size_t bytes = sizeof(float) * n * n;
    float *a = malloc(bytes), *b = malloc(bytes), *c = calloc(1, bytes);
    for (cl_uint i = 0; i < n * n; i++)
        a[i] = 0.5f, b[i] = 0.25f;
    cl_mem_flags flags = CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR;
    cl_mem on_a = clCreateBuffer(context, flags, bytes, a, &status);
    require(status, "clCreateBuffer");
    cl_mem on_b = clCreateBuffer(context, flags, bytes, b, &status);
    require(status, "clCreateBuffer");
    cl_mem on_c = clCreateBuffer(context, flags, bytes, c, &status);
    require(status, "clCreateBuffer");
    cl_kernel sgemm = clCreateKernel(program, "sgemm", &status);
    require(status, "clCreateKernel");
    require(clSetKernelArg(sgemm, 0, sizeof on_a, &on_a), "clSetKernelArg");
    require(clSetKernelArg(sgemm, 1, sizeof on_b, &on_b), "clSetKernelArg");
    require(clSetKernelArg(sgemm, 2, sizeof on_c, &on_c), "clSetKernelArg");
    require(clSetKernelArg(sgemm, 3, sizeof n, &n), "clSetKernelArg");
    size_t global[2] = {n, n}, local[2] = {16, 16};
    double seconds = best(queue, sgemm, 2, global, local, times);
    require(clEnqueueReadBuffer(queue, on_c, CL_TRUE, 0, bytes, c, 0, NULL, NULL), "clEnqueueReadBuffer");
    for (cl_uint i = 0; i < n * n; i++)
        if (c[i] != 0.125f * (float)n) {
            fprintf(stderr, "the product is wrong: %g\n", (double)c[i]);
            return 1;
        }
    printf("sgemm %.9f\n", seconds);

    cl_mem from = clCreateBuffer(context, CL_MEM_READ_WRITE, 16ul * vectors, NULL, &status);
    require(status, "clCreateBuffer");
    cl_mem to = clCreateBuffer(context, CL_MEM_READ_WRITE, 16ul * vectors, NULL, &status);
    require(status, "clCreateBuffer");
    cl_uint pattern = 0x01020304;
    require(clEnqueueFillBuffer(queue, from, &pattern, sizeof pattern, 0, 16ul * vectors, 0, NULL, NULL), "clEnqueueFillBuffer");
    cl_kernel copy = clCreateKernel(program, "copy", &status);
    require(status, "clCreateKernel");
    require(clSetKernelArg(copy, 0, sizeof from, &from), "clSetKernelArg");
    require(clSetKernelArg(copy, 1, sizeof to, &to), "clSetKernelArg");
    require(clSetKernelArg(copy, 2, sizeof vectors, &vectors), "clSetKernelArg");
    size_t threads = vectors / 4, group = 256;
    seconds = best(queue, copy, 1, &threads, &group, times);
    cl_uint last = 0;
    require(clEnqueueReadBuffer(queue, to, CL_TRUE, 16ul * vectors - 4, 4, &last, 0, NULL, NULL), "clEnqueueReadBuffer");
    if (last != pattern) {
        fprintf(stderr, "the copy is wrong\n");
        return 1;
    }
    printf("copy %.9f\n", seconds);
    return 0;
}
