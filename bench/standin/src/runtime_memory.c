/* CUDA runtime: memory. Allocations are exact; copies to the host, and small ones to a device, are real. */
#define _GNU_SOURCE
#include "standin.h"
#include <string.h>
#include <sys/mman.h>

API int cudaMalloc(void **p, size_t size) {
    if (device_error()) return give(device_error());
    lock();
    *p = size ? device_alloc(current_device(), size) : NULL;
    trace("malloc %zu %p", size, *p);
    unlock();
    return size && !*p ? give(cudaErrorMemoryAllocation) : cudaSuccess;
}
API int cudaFree(void *p) {
    size_t size = 0;
    if (device_error()) return give(device_error());
    if (p && device_hangs()) hang(); /* freeing waits for the device */
    lock();
    context_needed(current_device());
    int bad = p && device_free(p, &size);
    trace("free %zu %p", size, p);
    unlock();
    return bad ? give(cudaErrorInvalidValue) : cudaSuccess;
}
API int cudaMallocAsync(void **p, size_t size, void *stream) { return cudaMalloc(p, size); }
API int cudaFreeAsync(void *p, void *stream) { return cudaFree(p); }
API int cudaMallocManaged(void **p, size_t size, unsigned flags) { return cudaMalloc(p, size); }
API int cudaMemGetInfo(size_t *left, size_t *total) {
    if (device_error()) return give(device_error());
    lock();
    context_needed(current_device());
    size_t used = used_total(current_device());
    unlock();
    *total = gpu.memory_bytes;
    *left = used > gpu.memory_bytes ? 0 : gpu.memory_bytes - used;
    return cudaSuccess;
}

/* ---- page-locked memory ---- */
API int cudaMallocHost(void **p, size_t size) {
    if (device_error()) return give(device_error());
    *p = mmap(NULL, size ? size : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (*p == MAP_FAILED) {
        *p = NULL;
        return give(cudaErrorMemoryAllocation);
    }
    lock();
    host_add(*p, size);
    unlock();
    return cudaSuccess;
}
API int cudaHostAlloc(void **p, size_t size, unsigned flags) {
    trace("host alloc %zu", size);
    return cudaMallocHost(p, size);
}
API int cudaFreeHost(void *p) {
    size_t size = 0;
    lock();
    int bad = p && host_remove(p, &size);
    unlock();
    if (bad) return give(cudaErrorInvalidValue);
    if (p) munmap(p, size ? size : 1);
    return cudaSuccess;
}
API int cudaHostRegister(void *p, size_t size, unsigned flags) {
    lock();
    host_add(p, size);
    unlock();
    return cudaSuccess;
}
API int cudaHostUnregister(void *p) {
    size_t size;
    lock();
    int bad = host_remove(p, &size);
    unlock();
    return bad ? give(cudaErrorHostMemoryNotRegistered) : cudaSuccess;
}
API int cudaHostGetDevicePointer(void **out, void *p, unsigned flags) {
    *out = p;
    return cudaSuccess;
}
API int cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *p) {
    memset(out, 0, sizeof *out);
    lock();
    int device = range_device(p), host = device < 0 && host_is(p);
    unlock();
    out->type = device >= 0 ? cudaMemoryTypeDevice : host ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
    out->device = device >= 0 ? device : host ? current_device() : -2;
    out->devicePointer = device >= 0 || host ? (void *)p : NULL;
    out->hostPointer = device >= 0 ? NULL : (void *)p;
    return cudaSuccess;
}

/* ---- copies ---- */
static int copied(void *to, const void *from, size_t n, void *stream, int host_waits) {
    if (stream_captures(stream)) return cudaSuccess;
    int device = range_device(to) >= 0;
    if (device_error()) return give(device_error());
    if (device_hangs() && !host_waits) return cudaSuccess; /* queued for ever */
    if (!device || n <= copy_limit) { /* one that moves values comes after what the stream waits for */
        int error = stream_wait(stream);
        if (error) return error;
    }
    copy(to, from, n);
    return cudaSuccess;
}

API int cudaMemcpyAsync(void *to, const void *from, size_t n, int kind, void *stream) {
    trace("memcpy %zu kind %d", n, kind);
    return copied(to, from, n, stream, 0);
}
API int cudaMemcpy(void *to, const void *from, size_t n, int kind) {
    trace("memcpy %zu kind %d", n, kind);
    return copied(to, from, n, NULL, 1);
}
API int cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t n, void *stream) {
    return copied(to, from, n, stream, 0);
}
API int cudaMemcpyPeer(void *to, int to_device, const void *from, int from_device, size_t n) {
    return copied(to, from, n, NULL, 1);
}
API int cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t height,
                          int kind, void *stream) {
    if (width * height > copy_limit && range_device(to) >= 0) {
        stream_captures(stream);
        return give(device_error());
    }
    for (size_t i = 0; i < height; i++) {
        int error = copied((char *)to + i * to_pitch, (const char *)from + i * from_pitch, width, stream, 0);
        if (error) return error;
    }
    return cudaSuccess;
}
API int cudaMemsetAsync(void *p, int value, size_t n, void *stream) {
    trace("memset %zu", n);
    if (device_error()) return give(device_error());
    if (n && !stream_captures(stream) && !device_hangs()) fill(p, value, n);
    return cudaSuccess;
}
API int cudaMemset(void *p, int value, size_t n) { return cudaMemsetAsync(p, value, n, NULL); }

API int cudaDeviceGetDefaultMemPool(void **pool, int device) {
    static int pools[MAX_DEVICES];
    *pool = &pools[device];
    return cudaSuccess;
}
API int cudaMemPoolGetAttribute(void *pool, int attribute, void *value) {
    *(uint64_t *)value = 0;
    return cudaSuccess;
}
API int cudaDeviceGetGraphMemAttribute(int device, int attribute, void *value) {
    *(uint64_t *)value = 0;
    return cudaSuccess;
}
