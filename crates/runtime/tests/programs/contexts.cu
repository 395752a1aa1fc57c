// Execution contexts and the log of errors, which are of CUDA 13.
#include "check.h"
#include <cstring>

__global__ void add(int *p, int by) { *p += by; }

static int heard;
static char last[512];
static void hear(void *data, cudaLogLevel level, char *message, size_t length) {
    heard += *(int *)data;
    IS(level == cudaLogLevelError && length == strlen(message));
    snprintf(last, sizeof last, "%s", message);
}

static void contexts() {
    cudaExecutionContext_t context, again;
    OK(cudaDeviceGetExecutionCtx(&context, 0));
    OK(cudaDeviceGetExecutionCtx(&again, 0));
    IS(context && context == again);
    IS(cudaDeviceGetExecutionCtx(&context, 99) == cudaErrorInvalidDevice);
    IS(cudaDeviceGetExecutionCtx(nullptr, 0) == cudaErrorInvalidValue);
    int device = 7, *p, value = 0;
    unsigned long long id = 0;
    OK(cudaExecutionCtxGetDevice(&device, again));
    IS(device == 0);
    OK(cudaExecutionCtxGetId(again, &id));
    IS(id != 0);
    IS(cudaExecutionCtxGetId(nullptr, &id) == cudaErrorInvalidValue);
    cudaStream_t stream;
    OK(cudaExecutionCtxStreamCreate(&stream, again, cudaStreamNonBlocking, 0));
    OK(cudaMalloc(&p, 4));
    OK(cudaMemsetAsync(p, 0, 4, stream));
    add<<<1, 1, 0, stream>>>(p, 5);
    OK(cudaExecutionCtxSynchronize(again));
    OK(cudaMemcpy(&value, p, 4, cudaMemcpyDeviceToHost));
    IS(value == 5);
    IS(cudaExecutionCtxSynchronize(nullptr) == cudaErrorInvalidValue);
    OK(cudaStreamDestroy(stream));
    OK(cudaFree(p));
    (void)cudaGetLastError();
}

static void logs(const char *program) {
    int one = 1;
    cudaLogsCallbackHandle callback;
    OK(cudaLogsRegisterCallback(hear, &one, &callback));
    IS(cudaLogsRegisterCallback(nullptr, &one, &callback) == cudaErrorInvalidValue);
    IS(heard == 1);
    cudaLogIterator place;
    OK(cudaLogsCurrent(&place, 0));
    IS(cudaSetDevice(99) == cudaErrorInvalidDevice);
    IS(heard == 2 && strstr(last, "cudaSetDevice") && strstr(last, "cudaErrorInvalidDevice"));
    char text[4096], small[4];
    size_t size = sizeof small;
    cudaLogIterator same = place;
    IS(cudaLogsDumpToMemory(&same, small, &size, 0) == cudaErrorInvalidValue && size == 0);
    size = sizeof text;
    OK(cudaLogsDumpToMemory(&place, text, &size, 0));
    IS(size == strlen(text) && strstr(text, "cudaSetDevice") && text[size - 1] == '\n');
    size = sizeof text;
    OK(cudaLogsDumpToMemory(&place, text, &size, 0));
    IS(size == 0);
    OK(cudaLogsUnregisterCallback(callback));
    IS(cudaLogsUnregisterCallback(callback) == cudaErrorInvalidValue);
    int before = heard;
    IS(cudaSetDevice(98) == cudaErrorInvalidDevice && heard == before);
    char path[4096];
    snprintf(path, sizeof path, "%s.log", program);
    OK(cudaLogsDumpToFile(&place, path, 0));
    FILE *file = fopen(path, "r");
    IS(file);
    size = fread(text, 1, sizeof text - 1, file);
    text[size] = 0;
    fclose(file);
    remove(path);
    IS(strstr(text, "cudaLogsUnregisterCallback") && strstr(text, "cudaSetDevice"));
    (void)cudaGetLastError();
}

int main(int, char **arguments) {
    contexts();
    logs(arguments[0]);
    puts("ok");
}
