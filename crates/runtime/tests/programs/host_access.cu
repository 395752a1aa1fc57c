// Races of the host's own accesses, next to signal handlers and system calls of the program. The first argument selects what it does.
#include "check.h"
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <unistd.h>

static __global__ void add(int *data) { data[threadIdx.x] += 1; }

static sigjmp_buf back;
static volatile int calls;
static struct sigaction before;

static void leave(int, siginfo_t *, void *) {
    calls = calls + 1;
    siglongjmp(back, 1);
}

static void chain(int signal, siginfo_t *info, void *context) {
    calls = calls + 10;
    before.sa_sigaction(signal, info, context);
}

static void install(void (*handler)(int, siginfo_t *, void *)) {
    struct sigaction action = {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    IS(sigaction(SIGSEGV, &action, &before) == 0);
}

static int *volatile nowhere = nullptr;
static int ends[2];

/// A host function that passes its memory to a system call.
static void CUDART_CB send(void *data) { IS(write(ends[1], data, 2048) == 2048); }

/// Whether an access to address 0 ends in the program's handler.
static bool own_fault_is_handled() {
    if (sigsetjmp(back, 1) == 0) {
        *nowhere = 1;
        return false;
    }
    return true;
}

/// Reads the result of a kernel too early.
static int early(int *data) {
    memset(data, 0, 64);
    add<<<1, 16>>>(data);
    int first = data[0];
    OK(cudaDeviceSynchronize());
    return first;
}

int main(int, char **arguments) {
    int *data;
    OK(cudaMallocManaged(&data, 64));
    if (!strcmp(arguments[1], "handlers")) {
        // The program's handler is older than ours.
        install(leave);
        IS(early(data) == 1 && calls == 0);
        IS(own_fault_is_handled() && calls == 1);
        // It is newer, and calls ours.
        install(chain);
        IS(early(data) == 1 && calls == 1);
        IS(own_fault_is_handled() && calls == 12);
        IS(own_fault_is_handled() && calls == 23);
    } else if (!strcmp(arguments[1], "crash")) {
        early(data);
        *nowhere = 1;
    } else {
        // The copy uses one half of a page, and the program's system call the other half.
        char *pinned, *whole, *device;
        OK(cudaMallocHost(&pinned, 4096));
        OK(cudaMalloc(&device, 2048));
        OK(cudaMemset(device, 7, 2048));
        OK(cudaMemcpyAsync(pinned, device, 2048, cudaMemcpyDeviceToHost, 0));
        IS(pipe(ends) == 0 && write(ends[1], "words", 5) == 5 && read(ends[0], pinned + 2048, 5) == 5);
        // This copy uses all of its memory, and a host function after it passes the memory to a system call.
        OK(cudaMallocHost(&whole, 2048));
        OK(cudaMemcpyAsync(whole, device, 2048, cudaMemcpyDeviceToHost, 0));
        OK(cudaLaunchHostFunc(0, send, whole));
        OK(cudaDeviceSynchronize());
        IS(!memcmp(pinned + 2048, "words", 5) && write(ends[1], pinned, 4096) == 4096 && pinned[2047] == 7);
        OK(cudaFree(device));
        OK(cudaFreeHost(pinned));
        OK(cudaFreeHost(whole));
    }
    OK(cudaFree(data));
    puts("ok");
}
