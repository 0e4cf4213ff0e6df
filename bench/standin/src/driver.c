/* CUDA driver, libcuda.so.1: what torch, NVRTC's users and Triton ask of it. */
#define _GNU_SOURCE
#include "standin.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef uintptr_t Pointer; /* CUdeviceptr */

int cudaSetDevice(int device);

static __thread int *context_now;
static int contexts[MAX_DEVICES]; /* a context is the address of its device's entry */

API int cuInit(unsigned flags) {
    standin_init();
    return device_count ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}
API int cuDriverGetVersion(int *version) {
    *version = STANDIN_CUDA;
    return CUDA_SUCCESS;
}

/* ---- devices ---- */
API int cuDeviceGetCount(int *count) {
    standin_init();
    *count = device_count;
    return CUDA_SUCCESS;
}
API int cuDeviceGet(int *device, int ordinal) {
    standin_init();
    if (ordinal < 0 || ordinal >= device_count) return CUDA_ERROR_INVALID_DEVICE;
    *device = ordinal;
    return CUDA_SUCCESS;
}
API int cuDeviceGetName(char *name, int length, int device) {
    snprintf(name, (size_t)length, "%s", gpu.name);
    return CUDA_SUCCESS;
}
API int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    *bytes = gpu.memory_bytes;
    return CUDA_SUCCESS;
}
API int cuDeviceGetUuid_v2(CUuuid *uuid, int device) {
    uuid_text(visible[device], (unsigned char *)uuid->bytes);
    return CUDA_SUCCESS;
}
API int cuDeviceGetAttribute(int *value, int attribute, int device) {
    standin_init();
    *value = device_attribute(attribute, device);
    return CUDA_SUCCESS;
}

/* ---- contexts: the primary one of each device ---- */
API int cuDevicePrimaryCtxRetain(int **context, int device) {
    lock();
    context_needed(device);
    unlock();
    *context = &contexts[device];
    return CUDA_SUCCESS;
}
API int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    lock();
    *flags = 0;
    *active = context_made(device); /* torch makes none where there is none yet */
    unlock();
    return CUDA_SUCCESS;
}
API int cuCtxGetCurrent(int **context) {
    *context = context_now ? context_now : &contexts[current_device()];
    return CUDA_SUCCESS;
}
API int cuCtxSetCurrent(int *context) {
    context_now = context;
    if (context) cudaSetDevice((int)(context - contexts));
    return CUDA_SUCCESS;
}
API int cuCtxPushCurrent_v2(int *context) { return cuCtxSetCurrent(context); }
API int cuCtxPopCurrent_v2(int **context) {
    if (context) *context = context_now;
    return CUDA_SUCCESS;
}
API int cuCtxGetDevice(int *device) {
    *device = current_device();
    return CUDA_SUCCESS;
}
API int cuCtxGetLimit(size_t *value, int limit) {
    *value = 8 << 20;
    return CUDA_SUCCESS;
}
API int cuStreamSynchronize(void *stream) { return stream_wait(stream); }
API int cuGetErrorName(int error, const char **text) {
    *text = error == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
            : error                           ? "CUDA_ERROR_UNKNOWN"
                                              : "CUDA_SUCCESS";
    return CUDA_SUCCESS;
}
API int cuGetErrorString(int error, const char **text) {
    *text = error_text(error);
    return CUDA_SUCCESS;
}
API int cuGetProcAddress_v2(const char *symbol, void **function, int version, uint64_t flags, int *status) {
    *function = driver_function(symbol);
    if (status) *status = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return *function ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
API int cuLogsRegisterCallback(void *call, void *data, void **handle) {
    if (handle) *handle = &contexts;
    return CUDA_SUCCESS;
}

/* ---- memory ---- */
API int cuMemAlloc_v2(Pointer *p, size_t size) {
    lock();
    *p = (Pointer)device_alloc(current_device(), size);
    unlock();
    return *p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
API int cuMemFree_v2(Pointer p) {
    size_t size;
    lock();
    int bad = device_free((void *)p, &size);
    unlock();
    return bad ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
API int cuMemGetAddressRange_v2(Pointer *base, size_t *size, Pointer p) {
    uintptr_t start;
    size_t length;
    lock();
    int device = range_find((void *)p, &start, &length);
    unlock();
    if (device < 0) return CUDA_ERROR_NOT_FOUND;
    if (base) *base = start;
    if (size) *size = length;
    return CUDA_SUCCESS;
}
API int cuMemsetD32Async(Pointer p, unsigned value, size_t n, void *stream) {
    if (!value) fill((void *)p, 0, n * 4);
    return CUDA_SUCCESS;
}
API int cuStreamWriteValue32_v2(void *stream, Pointer p, uint32_t value, unsigned flags) {
    *(uint32_t *)p = value;
    return CUDA_SUCCESS;
}
API int cuPointerGetAttribute(void *out, int attribute, Pointer p) {
    lock();
    int device = range_device((void *)p);
    unlock();
    if (device < 0 && attribute != CU_POINTER_ATTRIBUTE_DEVICE_POINTER) return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: *(int *)out = device; return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE: *(unsigned *)out = CU_MEMORYTYPE_DEVICE; return CUDA_SUCCESS;
        case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: *(Pointer *)out = p; return CUDA_SUCCESS;
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}

/* ---- memory by pages, for the allocator's expandable segments ---- */
#define GRAIN (2 * MIB)
typedef struct {
    size_t size;
    int device, users;
} Physical;
typedef struct Mapped {
    uintptr_t at;
    size_t size;
    Physical *physical;
    struct Mapped *next;
} Mapped;
static Mapped *mapped;

API int cuMemGetAllocationGranularity(size_t *size, const CUmemAllocationProp *properties, int option) {
    *size = GRAIN;
    return CUDA_SUCCESS;
}
API int cuMemAddressReserve(Pointer *out, size_t size, size_t alignment, Pointer wanted, unsigned long long flags) {
    int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *map = mmap((void *)wanted, size + GRAIN, PROT_READ | PROT_WRITE, kind, -1, 0);
    if (map == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
    madvise(map, size + GRAIN, MADV_NOHUGEPAGE);
    *out = ((uintptr_t)map + GRAIN - 1) / GRAIN * GRAIN;
    lock();
    range_add(*out, size, current_device());
    unlock();
    trace("address reserve %zu %p", size, (void *)*out);
    return CUDA_SUCCESS;
}
API int cuMemAddressFree(Pointer p, size_t size) { /* the range stays known: its addresses are never used again */
    madvise((void *)p, size, MADV_DONTNEED);
    return CUDA_SUCCESS;
}
API int cuMemCreate(Physical **out, size_t size, const CUmemAllocationProp *properties, unsigned long long flags) {
    lock();
    int full = account(properties->location.id, (int64_t)size);
    unlock();
    trace("mem create %zu%s", size, full ? " FULL" : "");
    if (full) return CUDA_ERROR_OUT_OF_MEMORY;
    *out = malloc(sizeof **out);
    **out = (Physical){size, properties->location.id, 1};
    return CUDA_SUCCESS;
}
static void drop(Physical *physical) {
    if (--physical->users) return;
    account(physical->device, -(int64_t)physical->size);
    free(physical);
}
API int cuMemRelease(Physical *physical) {
    lock();
    drop(physical);
    unlock();
    return CUDA_SUCCESS;
}
API int cuMemMap(Pointer p, size_t size, size_t offset, Physical *physical, unsigned long long flags) {
    Mapped *made = malloc(sizeof *made);
    lock();
    *made = (Mapped){p, size, physical, mapped};
    physical->users++;
    mapped = made;
    unlock();
    return CUDA_SUCCESS;
}
API int cuMemUnmap(Pointer p, size_t size) {
    lock();
    for (Mapped **link = &mapped; *link;) {
        Mapped *one = *link;
        if (one->at < p || one->at >= p + size) {
            link = &one->next;
            continue;
        }
        *link = one->next;
        drop(one->physical);
        free(one);
    }
    unlock();
    madvise((void *)p, size, MADV_DONTNEED);
    return CUDA_SUCCESS;
}

/* ---- modules, as NVRTC's and Triton's kernels are loaded ---- */
API int cuModuleLoadData(void **out, const void *image) {
    *out = calloc(1, 8);
    return CUDA_SUCCESS;
}
API int cuModuleLoadDataEx(void **out, const void *image, unsigned n, int *options, void **values) {
    return cuModuleLoadData(out, image);
}
API int cuModuleLoad(void **out, const char *path) { return cuModuleLoadData(out, path); }
API int cuModuleGetFunction(void **out, void *module, const char *name) {
    *out = strdup(name);
    return CUDA_SUCCESS;
}
API int cuModuleGetLoadingMode(int *mode) {
    *mode = 2; /* lazy */
    return CUDA_SUCCESS;
}
API int cuFuncGetAttribute(int *value, int attribute, void *function) {
    *value = attribute == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024
             : attribute == CU_FUNC_ATTRIBUTE_NUM_REGS            ? 32
                                                                  : 0;
    return CUDA_SUCCESS;
}
API int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *n, void *function, int threads, size_t shared) {
    *n = gpu.threads_per_sm / (threads ? threads : 1);
    return CUDA_SUCCESS;
}
API int cuOccupancyMaxActiveClusters(int *n, void *function, const CUlaunchConfig *c) {
    *n = 1;
    return CUDA_SUCCESS;
}
API int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                       unsigned shared, void *stream, void **arguments, void **extra) {
    dim3 grid = {gx, gy, gz}, block = {bx, by, bz};
    lock();
    int error = launch_node(function, grid, block, shared, stream);
    unlock();
    return error;
}
API int cuLaunchKernelEx(const CUlaunchConfig *c, void *function, void **arguments, void **extra) {
    return cuLaunchKernel(function, c->gridDimX, c->gridDimY, c->gridDimZ, c->blockDimX, c->blockDimY, c->blockDimZ,
                          c->sharedMemBytes, c->hStream, arguments, extra);
}
API int cuLaunchCooperativeKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                  unsigned bz, unsigned shared, void *stream, void **arguments) {
    return cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, arguments, NULL);
}
API int cuTensorMapEncodeTiled(CUtensorMap *map, int type, unsigned rank, void *address, const void *rest, ...) {
    memset(map, 0, sizeof *map);
    return CUDA_SUCCESS;
}
API int cuTensorMapEncodeIm2col(CUtensorMap *map, int type, unsigned rank, void *address, const void *rest, ...) {
    memset(map, 0, sizeof *map);
    return CUDA_SUCCESS;
}
