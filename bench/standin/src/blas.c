/* cuBLAS: handles that remember their settings. The products themselves do nothing: they are among the quiet stubs. */
#include "standin.h"
#include <stdlib.h>

typedef struct {
    int pointer_mode, math_mode;
    void *stream;
} Handle;

API int cublasCreate_v2(void **out) {
    if (blas_refused()) return CUBLAS_STATUS_NOT_INITIALIZED;
    *out = calloc(1, sizeof(Handle));
    return CUBLAS_STATUS_SUCCESS;
}
API int cublasDestroy_v2(void *handle) {
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}
API int cublasGetVersion_v2(void *handle, int *version) {
    *version = STANDIN_CUDA * 10;
    return CUBLAS_STATUS_SUCCESS;
}
API int cublasSetStream_v2(Handle *handle, void *stream) {
    handle->stream = stream;
    return CUBLAS_STATUS_SUCCESS;
}
API int cublasGetStream_v2(Handle *handle, void **stream) {
    *stream = handle->stream;
    return CUBLAS_STATUS_SUCCESS;
}
API int cublasSetWorkspace_v2(Handle *handle, void *p, size_t size) {
    trace("cublas workspace %zu", size);
    return CUBLAS_STATUS_SUCCESS;
}
API int cublasSetMathMode(Handle *handle, int mode) {
    handle->math_mode = mode;
    return CUBLAS_STATUS_SUCCESS;
}
API int cublasGetMathMode(Handle *handle, int *mode) {
    *mode = handle->math_mode;
    return CUBLAS_STATUS_SUCCESS;
}
API int cublasSetPointerMode_v2(Handle *handle, int mode) {
    handle->pointer_mode = mode;
    return CUBLAS_STATUS_SUCCESS;
}
API int cublasGetPointerMode_v2(Handle *handle, int *mode) {
    *mode = handle->pointer_mode;
    return CUBLAS_STATUS_SUCCESS;
}
API const char *cublasGetStatusString(int status) {
    return status == CUBLAS_STATUS_NOT_INITIALIZED ? "the library was not initialized" : status ? "error" : "success";
}
API const char *cublasGetStatusName(int status) {
    if (status == CUBLAS_STATUS_NOT_INITIALIZED) return "CUBLAS_STATUS_NOT_INITIALIZED";
    return status ? "CUBLAS_STATUS_UNKNOWN" : "CUBLAS_STATUS_SUCCESS";
}

/* What every stub of a product does. Its stream is not known: it counts as the default one. */
int standin_product(const char *name) {
    dim3 one = {1, 1, 1};
    lock();
    int error = launch_node(name, one, one, 0, NULL);
    unlock();
    return error ? 13 : CUBLAS_STATUS_SUCCESS; /* CUBLAS_STATUS_EXECUTION_FAILED */
}
