/* CUDA runtime: kernels. They are known by name and return at once; what the host may read of a result is defined. */
#include "standin.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- which binary a GPU of this architecture would run; 0: none ---- */
static int binary_version(void) {
    static int found = -1;
    if (found >= 0) return found;
    const char *text = getenv("STANDIN_ARCHITECTURES"); /* of torch's build; unset: whatever the GPU is */
    int own = gpu.major * 10 + gpu.minor, best = text && *text ? 0 : own;
    char list[256], *rest = NULL;
    snprintf(list, sizeof list, "%s", text ? text : "");
    for (char *word = strtok_r(list, ",", &rest); word; word = strtok_r(NULL, ",", &rest))
        if (atoi(word) <= own && atoi(word) > best) best = atoi(word);
    return found = best;
}

/* ---- kernels by the address of their host function: an open hash ---- */
typedef struct {
    const void *host;
    const char *name;
    int shared_most;
} Kernel;
static Kernel *kernels;
static size_t kernel_count, kernel_capacity;

static Kernel *probe(Kernel *in, size_t capacity, const void *host) {
    size_t at = ((uintptr_t)host >> 2) * 0x9E3779B97F4A7C15ull >> 20 & (capacity - 1);
    while (in[at].host && in[at].host != host) at = (at + 1) & (capacity - 1);
    return &in[at];
}

static void kernel_add(const void *host, const char *name) {
    lock();
    if (kernel_count * 2 >= kernel_capacity) {
        size_t capacity = kernel_capacity ? kernel_capacity * 2 : 1 << 16;
        Kernel *bigger = calloc(capacity, sizeof *bigger);
        for (size_t i = 0; i < kernel_capacity; i++)
            if (kernels[i].host) *probe(bigger, capacity, kernels[i].host) = kernels[i];
        free(kernels);
        kernels = bigger;
        kernel_capacity = capacity;
    }
    Kernel *entry = probe(kernels, kernel_capacity, host);
    kernel_count += !entry->host;
    *entry = (Kernel){host, name, 48 << 10};
    unlock();
}

static Kernel *kernel_find(const void *host) {
    static Kernel unknown = {NULL, "?", 48 << 10};
    Kernel *entry = kernel_capacity ? probe(kernels, kernel_capacity, host) : &unknown;
    return entry->host ? entry : &unknown;
}

/* ---- what nvcc's code calls when a library is loaded and a kernel is launched ---- */
API void **__cudaRegisterFatBinary(void *fat) {
    standin_init();
    void **handle = malloc(sizeof *handle);
    *handle = fat;
    return handle;
}
API void __cudaRegisterFatBinaryEnd(void **handle) {}
API void __cudaUnregisterFatBinary(void **handle) {}
API char __cudaInitModule(void **handle) { return 1; }
API void __cudaRegisterVar(void **h, char *var, char *address, const char *name, int e, size_t n, int c, int g) {}
API void __cudaRegisterManagedVar(void **h, void **var, char *address, const char *name, int e, size_t n, int c,
                                  int g) {}
API void __cudaRegisterFunction(void **h, const char *host, char *device, const char *name, int limit, void *thread,
                                void *block, dim3 *block_dim, dim3 *grid_dim, int *warp) {
    kernel_add(host, name);
}
API int __cudaGetKernel(void **kernel, const void *host) {
    *kernel = (void *)host;
    return cudaSuccess;
}

static __thread struct {
    dim3 grid, block;
    size_t shared;
    void *stream;
} calls[16];
static __thread int call_count;

API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream) {
    if (call_count == 16) return 1;
    calls[call_count].grid = grid;
    calls[call_count].block = block;
    calls[call_count].shared = shared;
    calls[call_count++].stream = stream;
    return 0;
}
API int __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void **stream) {
    if (!call_count) return give(cudaErrorMissingConfiguration);
    *grid = calls[--call_count].grid;
    *block = calls[call_count].block;
    *shared = calls[call_count].shared;
    *stream = calls[call_count].stream;
    return cudaSuccess;
}

/* ---- values ---- */
static void zero(void *to) {
    if (to && range_device(to) >= 0) memset(to, 0, 8);
}

/* Width of the constant that a fill kernel carries, by its mangled type; 0: not known. */
static size_t fill_width(const char *name) {
    const char *type = strstr(name, "FillFunctorI");
    if (!type || !strstr(name, "vectorized_")) return 0;
    type += strlen("FillFunctorI");
    if (strchr("dlmxy", *type)) return 8;
    if (strchr("fij", *type)) return 4;
    if (strchr("bha", *type)) return 1;
    return *type == 's' || !strncmp(type, "N3c108BFloat16E", 15) || !strncmp(type, "N3c104HalfE", 11) ? 2 : 0;
}

/* A constant that fills a small tensor is carried out; the first element of any other elementwise or reduced result,
   and the counts that CUB gives, become 0. So .item() is defined. All else is left as it was. */
static void define_result(const char *name, void **arguments) {
    if (!arguments) return;
    if (strstr(name, "elementwise_kernel") && (strstr(name, "vectorized_") || strstr(name, "unrolled_"))) {
        char *to = *(char **)arguments[2];
        size_t width = fill_width(name), count = (size_t)*(int *)arguments[0];
        if (!width)
            zero(to);
        else if (count * width <= copy_limit && range_device(to) >= 0)
            for (size_t i = 0; i < count; i++) memcpy(to + i * width, arguments[1], width);
    } else if (strstr(name, "reduce_kernel")) { /* torch's ReduceOp holds its source next to its destination */
        void **words = arguments[0];
        for (int i = 0; i < 120; i++)
            if (range_device(words[i]) >= 0 && range_device(words[i + 1]) >= 0) {
                zero(words[i + 1]);
                return;
            }
    } else if (strstr(name, "DeviceReduceSingleTileKernel"))
        zero(*(void **)arguments[1]);
    else if (strstr(name, "DeviceSelectSweepKernel"))
        zero(*(void **)arguments[3]);
    else if (strstr(name, "DeviceUniqueByKeySweepKernel"))
        zero(*(void **)arguments[4]);
}

/* ---- launches ---- */
int launch_node(const char *name, dim3 grid, dim3 block, size_t shared, void *stream) {
    int error = count_launch();
    if (error) return error;
    context_needed(current_device());
    trace("launch %s grid %u,%u,%u block %u,%u,%u shared %zu", name, grid.x, grid.y, grid.z, block.x, block.y, block.z,
          shared);
    if (!binary_version()) return cudaErrorNoKernelImageForDevice;
    size_t threads = (size_t)block.x * block.y * block.z;
    if (!grid.x || !grid.y || !grid.z || !threads || threads > 1024) return cudaErrorInvalidConfiguration;
    if (grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) return cudaErrorInvalidConfiguration;
    if (shared > (size_t)gpu.shared_memory_per_block) return cudaErrorInvalidValue;
    stream_captures(stream);
    return cudaSuccess;
}

static int launch(const void *host, dim3 grid, dim3 block, void **arguments, size_t shared, void *stream) {
    lock();
    const char *name = kernel_find(host)->name;
    int error = launch_node(name, grid, block, shared, stream);
    if (!error && !device_hangs()) define_result(name, arguments);
    unlock();
    return give(error);
}

API int cudaLaunchKernel(const void *f, dim3 grid, dim3 block, void **arguments, size_t shared, void *stream) {
    return launch(f, grid, block, arguments, shared, stream);
}
API int __cudaLaunchKernel(void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared, void *stream) {
    return launch(kernel, grid, block, arguments, shared, stream);
}
API int cudaLaunchCooperativeKernel(const void *f, dim3 grid, dim3 block, void **arguments, size_t shared,
                                    void *stream) {
    return launch(f, grid, block, arguments, shared, stream);
}
API int cudaLaunchKernelExC(const cudaLaunchConfig_t *c, const void *f, void **arguments) {
    return launch(f, c->gridDim, c->blockDim, arguments, c->dynamicSmemBytes, c->stream);
}

/* ---- what a kernel's attributes are ---- */
API int cudaFuncGetAttributes(struct cudaFuncAttributes *out, const void *f) {
    memset(out, 0, sizeof *out);
    if (!binary_version()) return give(cudaErrorNoKernelImageForDevice);
    out->maxThreadsPerBlock = 1024;
    out->numRegs = 32;
    out->ptxVersion = out->binaryVersion = binary_version();
    out->maxDynamicSharedSizeBytes = kernel_find(f)->shared_most;
    out->preferredShmemCarveout = -1;
    return cudaSuccess;
}
API int cudaFuncSetAttribute(const void *f, int attribute, int value) {
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize) return cudaSuccess;
    if (value > gpu.shared_memory_per_block) return give(cudaErrorInvalidValue);
    Kernel *entry = kernel_find(f);
    if (entry->host) entry->shared_most = value;
    return cudaSuccess;
}
API int cudaKernelSetAttributeForDevice(void *kernel, int attribute, int value, int device) {
    return cudaFuncSetAttribute(kernel, attribute, value);
}
API int cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *n, const void *f, int threads, size_t shared,
                                                               unsigned flags) {
    int warps = (threads + 31) / 32, most = gpu.threads_per_sm / 32 / (warps ? warps : 1);
    int by_shared = shared ? (int)((size_t)gpu.shared_memory_per_sm / (shared + 1024)) : most;
    if (most > gpu.blocks_per_sm) most = gpu.blocks_per_sm;
    *n = by_shared < most ? by_shared : most; /* registers are not known: this is the most that the rest allows */
    return cudaSuccess;
}
API int cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *n, const void *f, int threads, size_t shared) {
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(n, f, threads, shared, 0);
}

/* ---- kernels from libraries loaded at run time ---- */
API int cudaLibraryLoadData(void **out, const void *code, void *o, void **ov, unsigned n, void *l, void **lv,
                            unsigned m) {
    *out = calloc(1, 8);
    return cudaSuccess;
}
API int cudaLibraryGetKernel(void **out, void *library, const char *name) {
    *out = calloc(1, 16);
    kernel_add(*out, strdup(name));
    return cudaSuccess;
}
API int cudaGetSymbolAddress(void **p, const void *symbol) {
    *p = (void *)symbol;
    return cudaSuccess;
}
API int cudaMemcpyFromSymbol(void *to, const void *symbol, size_t n, size_t offset, int kind) {
    memset(to, 0, n);
    return cudaSuccess;
}
