/* CUDA runtime: devices, their properties, errors, and the driver's functions by name. */
#define _GNU_SOURCE
#include "standin.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static __thread int last_error, device_now;

int give(int error) {
    if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
    return error;
}

int current_device(void) { return device_now; }

/* ---- errors ---- */
API int cudaGetLastError(void) {
    int error = last_error;
    if (error != device_error()) last_error = cudaSuccess; /* a sticky error stays */
    return error;
}
API int cudaPeekAtLastError(void) { return last_error; }

static const struct {
    int code;
    const char *name, *text;
} ERRORS[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorMissingConfiguration, "cudaErrorMissingConfiguration", "missing configuration argument"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
     "no kernel image is available for execution on the device"},
    {cudaErrorECCUncorrectable, "cudaErrorECCUncorrectable", "uncorrectable ECC error encountered"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorIllegalState, "cudaErrorIllegalState", "the operation cannot be performed in the present state"},
    {cudaErrorSymbolNotFound, "cudaErrorSymbolNotFound", "named symbol not found"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered"},
    {cudaErrorHostMemoryNotRegistered, "cudaErrorHostMemoryNotRegistered",
     "pointer does not correspond to a registered memory region"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
     "operation not permitted on an event last recorded in a capturing stream"},
};

const char *error_name(int error) {
    for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
        if (ERRORS[i].code == error) return ERRORS[i].name;
    return "cudaErrorUnknown";
}
const char *error_text(int error) {
    for (size_t i = 0; i < sizeof ERRORS / sizeof *ERRORS; i++)
        if (ERRORS[i].code == error) return ERRORS[i].text;
    return "unknown error";
}
API const char *cudaGetErrorName(int error) { return error_name(error); }
API const char *cudaGetErrorString(int error) { return error_text(error); }

/* ---- devices ---- */
API int cudaGetDeviceCount(int *count) {
    standin_init();
    *count = device_count;
    return device_count ? cudaSuccess : give(cudaErrorNoDevice);
}
API int cudaGetDevice(int *device) {
    standin_init();
    *device = device_now;
    return device_count ? cudaSuccess : give(cudaErrorNoDevice);
}
API int cudaSetDevice(int device) {
    standin_init();
    if (device < 0 || device >= device_count) return give(device_count ? cudaErrorInvalidDevice : cudaErrorNoDevice);
    device_now = device;
    lock();
    context_needed(device);
    unlock();
    return give(device_error());
}
API int cudaInitDevice(int device, unsigned device_flags, unsigned flags) { return cudaSetDevice(device); }
API int cudaDriverGetVersion(int *version) {
    *version = STANDIN_CUDA;
    return cudaSuccess;
}
API int cudaRuntimeGetVersion(int *version) {
    *version = STANDIN_CUDA;
    return cudaSuccess;
}
API int cudaDeviceCanAccessPeer(int *can, int device, int peer) {
    *can = device != peer;
    return cudaSuccess;
}
API int cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return cudaSuccess;
}
API int cudaDeviceGetPCIBusId(char *id, int length, int device) {
    snprintf(id, (size_t)length, "0000:%02X:00.0", visible[device] + 1);
    return cudaSuccess;
}
API int cudaDeviceGetLimit(size_t *value, int limit) {
    *value = limit == cudaLimitMallocHeapSize ? 8 << 20 : 1024;
    return cudaSuccess;
}

static int has_ability(int attribute) { /* streams, mapping, managed memory, memory by pages (102) and the like */
    static const int abilities[] = {15, 19, 31, 32, 41, 78, 79, 80, 83, 89, 90, 91, 95, 99, 102, 103, 115};
    for (size_t i = 0; i < sizeof abilities / sizeof *abilities; i++)
        if (abilities[i] == attribute) return 1;
    return 0;
}

int device_attribute(int attribute, int device) { /* by number; the driver's are the same */
    switch (attribute) {
        case 1:
        case 2:
        case 3: return 1024; /* threads of a block; its x, y */
        case 4: return 64; /* its z */
        case 5:
        case 11: return 2147483647; /* grid x; pitch */
        case 6:
        case 7: return 65535; /* grid y, z */
        case 8: return 49152; /* shared memory of a block unasked */
        case 9:
        case 12:
        case 82: return 65536; /* constant memory; registers */
        case 10: return 32; /* warp */
        case 13: return gpu.sm_clock_mhz * 1000;
        case 14:
        case 30: return 512; /* alignments */
        case 16: return gpu.sms;
        case 33: return visible[device] + 1; /* PCI bus */
        case 36: return gpu.memory_clock_mhz * 1000;
        case 37: return gpu.memory_bus_bits;
        case 38: return gpu.l2_bytes;
        case 39: return gpu.threads_per_sm;
        case 40: return 3; /* copy engines */
        case 51: return 32;
        case 75: return gpu.major;
        case 76: return gpu.minor;
        case 81: return gpu.shared_memory_per_sm;
        case 87: return gpu.major == 8 && gpu.minor ? 64 : 2; /* fp32 to fp64 */
        case 97: return gpu.shared_memory_per_block;
        case 106: return gpu.blocks_per_sm;
        case 108: return gpu.l2_bytes / 4 * 3;
        case 109: return 134213632;
        case 111: return gpu.major >= 8 ? 1024 : 0;
        case 120: return gpu.major >= 9; /* clusters */
        default: return has_ability(attribute);
    }
}
API int cudaDeviceGetAttribute(int *value, int attribute, int device) {
    standin_init();
    if (device < 0 || device >= device_count) return give(cudaErrorInvalidDevice);
    *value = device_attribute(attribute, device);
    return cudaSuccess;
}

API int cudaGetDeviceProperties(struct cudaDeviceProp *p, int device) {
    standin_init();
    if (device < 0 || device >= device_count) return give(cudaErrorInvalidDevice);
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "%s", gpu.name);
    uuid_text(visible[device], (unsigned char *)p->uuid.bytes);
    p->totalGlobalMem = gpu.memory_bytes;
    p->major = gpu.major;
    p->minor = gpu.minor;
    p->multiProcessorCount = gpu.sms;
    p->sharedMemPerBlock = 49152;
    p->sharedMemPerBlockOptin = (size_t)gpu.shared_memory_per_block;
    p->sharedMemPerMultiprocessor = (size_t)gpu.shared_memory_per_sm;
    p->reservedSharedMemPerBlock = gpu.major >= 8 ? 1024 : 0;
    p->regsPerBlock = p->regsPerMultiprocessor = 65536;
    p->warpSize = 32;
    p->memPitch = 2147483647;
    p->maxThreadsPerBlock = p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
    p->maxThreadsDim[2] = 64;
    p->maxGridSize[0] = 2147483647;
    p->maxGridSize[1] = p->maxGridSize[2] = 65535;
    p->maxThreadsPerMultiProcessor = gpu.threads_per_sm;
    p->maxBlocksPerMultiProcessor = gpu.blocks_per_sm;
    p->totalConstMem = 65536;
    p->textureAlignment = p->surfaceAlignment = 512;
    p->texturePitchAlignment = 32;
    p->maxTexture1D = p->maxTexture2D[0] = 131072;
    p->maxTexture2D[1] = 65536;
    p->memoryBusWidth = gpu.memory_bus_bits;
    p->l2CacheSize = gpu.l2_bytes;
    p->persistingL2CacheMaxSize = gpu.l2_bytes / 4 * 3;
    p->accessPolicyMaxWindowSize = 134213632;
    p->pciBusID = visible[device] + 1;
    p->asyncEngineCount = 3;
    p->canMapHostMemory = p->concurrentKernels = p->ECCEnabled = p->unifiedAddressing = 1;
    p->streamPrioritiesSupported = p->globalL1CacheSupported = p->localL1CacheSupported = 1;
    p->managedMemory = p->concurrentManagedAccess = p->computePreemptionSupported = 1;
    p->canUseHostPointerForRegisteredMem = p->cooperativeLaunch = p->hostRegisterSupported = 1;
    p->memoryPoolsSupported = 1;
    p->clusterLaunch = gpu.major >= 9;
#if STANDIN_CUDA >= 13000
    p->hostNumaId = -1;
#else
    p->clockRate = gpu.sm_clock_mhz * 1000;
    p->memoryClockRate = gpu.memory_clock_mhz * 1000;
#endif
    return cudaSuccess;
}
API int cudaGetDeviceProperties_v2(struct cudaDeviceProp *p, int device) { return cudaGetDeviceProperties(p, device); }

/* ---- the driver's functions by name: the newest kind that the stand-in has ---- */
void *driver_function(const char *name) {
    static const char *const endings[] = {"_v3", "_v2", ""};
    static void *self;
    Dl_info info;
    char text[128];
    if (!self && dladdr((void *)driver_function, &info)) self = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    for (int i = 0; self && i < 3; i++) {
        snprintf(text, sizeof text, "%s%s", name, endings[i]);
        void *found = dlsym(self, text);
        if (found) return found;
    }
    return NULL;
}
API int cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version,
                                         unsigned long long flags, int *status) {
    *function = driver_function(symbol);
    trace("entry point %s %s", symbol, *function ? "found" : "NOT FOUND");
    if (status) *status = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}
API int cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags, int *status) {
    return cudaGetDriverEntryPointByVersion(symbol, function, STANDIN_CUDA, flags, status);
}
