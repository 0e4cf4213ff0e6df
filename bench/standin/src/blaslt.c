/* cuBLASLt: one algorithm, which needs no workspace (torch passes its own anyway), and a product that does nothing. */
#include "standin.h"
#include <stdlib.h>
#include <string.h>

static int make(void **out) {
    *out = calloc(1, 512);
    return CUBLAS_STATUS_SUCCESS;
}
static int end(void *made) {
    free(made);
    return CUBLAS_STATUS_SUCCESS;
}

API int cublasLtCreate(void **out) { return blas_refused() ? CUBLAS_STATUS_NOT_INITIALIZED : make(out); }
API int cublasLtDestroy(void *handle) { return end(handle); }
API size_t cublasLtGetVersion(void) { return STANDIN_CUDA * 10; }
API size_t cublasLtGetCudartVersion(void) { return STANDIN_CUDA; }
API int cublasLtMatmulDescCreate(void **out, int compute, int scale) { return make(out); }
API int cublasLtMatmulDescDestroy(void *description) { return end(description); }
API int cublasLtMatrixLayoutCreate(void **out, int type, uint64_t rows, uint64_t columns, int64_t leading) {
    return make(out);
}
API int cublasLtMatrixLayoutDestroy(void *layout) { return end(layout); }
API int cublasLtMatmulPreferenceCreate(void **out) { return make(out); }
API int cublasLtMatmulPreferenceDestroy(void *preference) { return end(preference); }
API int cublasLtMatmulAlgoGetHeuristic(void *handle, void *description, void *a, void *b, void *c, void *d,
                                       void *preference, int wanted, cublasLtMatmulHeuristicResult_t *out, int *found) {
    memset(out, 0, sizeof *out);
    out->wavesCount = 1;
    *found = wanted > 0;
    return CUBLAS_STATUS_SUCCESS;
}
API int cublasLtMatmulAlgoInit(void *h, int compute, int scale, int a, int b, int c, int d, int id,
                               cublasLtMatmulAlgo_t *out) {
    memset(out, 0, sizeof *out);
    return CUBLAS_STATUS_SUCCESS;
}
API int cublasLtMatmulAlgoCheck(void *h, void *description, void *a, void *b, void *c, void *d,
                                const cublasLtMatmulAlgo_t *algorithm, cublasLtMatmulHeuristicResult_t *out) {
    memset(out, 0, sizeof *out);
    return CUBLAS_STATUS_SUCCESS;
}
API int cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *a, int attribute, void *out, size_t n,
                                             size_t *written) {
    memset(out, 0, n);
    if (written) *written = n;
    return CUBLAS_STATUS_SUCCESS;
}
API int cublasLtMatmul(void *handle, void *description, const void *alpha, const void *a, void *a_layout, const void *b,
                       void *b_layout, const void *beta, const void *c, void *c_layout, void *d, void *d_layout,
                       const void *algorithm, void *workspace, size_t workspace_bytes, void *stream) {
    dim3 one = {1, 1, 1};
    lock();
    int error = launch_node("cublasLtMatmul", one, one, 0, stream);
    unlock();
    return error ? 13 : CUBLAS_STATUS_SUCCESS; /* CUBLAS_STATUS_EXECUTION_FAILED */
}
