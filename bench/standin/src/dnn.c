/* cuDNN: descriptors that remember what was set, heuristics that name one engine, plans that need no workspace. */
#include "standin.h"
#include <stdlib.h>
#include <string.h>

enum { ATTRIBUTES = 48, INTERNAL_ERROR = 4000 };

typedef struct {
    int name, type;
    int64_t count;
    void *data;
} Attribute;
typedef struct {
    int type, count;
    Attribute attributes[ATTRIBUTES];
} Descriptor;
typedef struct {
    void *stream;
} Handle;

API size_t cudnnGetVersion(void) { return STANDIN_CUDNN; }
API size_t cudnnGetCudartVersion(void) { return STANDIN_CUDA; }
API int cudnnGetProperty(int part, int *value) {
    *value = part == 0 ? STANDIN_CUDNN / 10000 : part == 1 ? STANDIN_CUDNN / 100 % 100 : STANDIN_CUDNN % 100;
    return CUDNN_STATUS_SUCCESS;
}
API const char *cudnnGetErrorString(int status) { return status ? "CUDNN_STATUS_ERROR" : "CUDNN_STATUS_SUCCESS"; }
API void cudnnGetLastErrorString(char *text, size_t n) {
    if (n) *text = 0;
}
API int cudnnCreate(void **out) {
    *out = calloc(1, sizeof(Handle));
    return CUDNN_STATUS_SUCCESS;
}
API int cudnnDestroy(void *handle) {
    free(handle);
    return CUDNN_STATUS_SUCCESS;
}
API int cudnnSetStream(Handle *handle, void *stream) {
    handle->stream = stream;
    return CUDNN_STATUS_SUCCESS;
}
API int cudnnGetStream(Handle *handle, void **stream) {
    *stream = handle->stream;
    return CUDNN_STATUS_SUCCESS;
}

/* ---- the graph interface ---- */
static size_t width(int type) {
    switch (type) {
        case CUDNN_TYPE_HANDLE:
        case CUDNN_TYPE_VOID_PTR:
        case CUDNN_TYPE_BACKEND_DESCRIPTOR:
        case CUDNN_TYPE_INT64:
        case CUDNN_TYPE_DOUBLE: return 8;
        case CUDNN_TYPE_CHAR:
        case CUDNN_TYPE_BOOLEAN: return 1;
        case CUDNN_TYPE_FRACTION: return 16;
        default: return 4;
    }
}

static Attribute *find(Descriptor *in, int name) {
    for (int i = 0; i < in->count; i++)
        if (in->attributes[i].name == name) return &in->attributes[i];
    return NULL;
}

API int cudnnBackendCreateDescriptor(int type, void **out) {
    Descriptor *made = calloc(1, sizeof *made);
    made->type = type;
    *out = made;
    return CUDNN_STATUS_SUCCESS;
}
API int cudnnBackendDestroyDescriptor(Descriptor *in) {
    for (int i = 0; in && i < in->count; i++) free(in->attributes[i].data);
    free(in);
    return CUDNN_STATUS_SUCCESS;
}
API int cudnnBackendSetAttribute(Descriptor *in, int name, int type, int64_t count, const void *data) {
    Attribute *at = find(in, name);
    if (!at && in->count == ATTRIBUTES) return INTERNAL_ERROR;
    if (at)
        free(at->data);
    else
        at = &in->attributes[in->count++];
    size_t bytes = (size_t)count * width(type);
    *at = (Attribute){name, type, count, malloc(bytes ? bytes : 1)};
    if (data) memcpy(at->data, data, bytes);
    return CUDNN_STATUS_SUCCESS;
}
API int cudnnBackendFinalize(Descriptor *in) { return CUDNN_STATUS_SUCCESS; }
API int cudnnBackendGetAttribute(Descriptor *in, int name, int type, int64_t wanted, int64_t *count, void *data) {
    Attribute *at = find(in, name);
    int64_t unasked;
    if (!count) count = &unasked;
    if (at) {
        *count = at->count;
        if (data && wanted) memcpy(data, at->data, (size_t)(wanted < at->count ? wanted : at->count) * width(type));
        return CUDNN_STATUS_SUCCESS;
    }
    *count = 0;
    switch (name) {
        case CUDNN_ATTR_ENGINEHEUR_RESULTS: *count = 1; break; /* the caller's first descriptor is the one engine */
        case CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT:
        case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
        case CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE:
            *count = 1;
            if (data) *(int64_t *)data = name == CUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT;
            break;
        default:
            if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) /* the caller brings a descriptor to be filled */
                *count = 1;
            else if (data && wanted == 1) {
                memset(data, 0, width(type));
                *count = type == CUDNN_TYPE_INT64;
            }
    }
    return CUDNN_STATUS_SUCCESS;
}
API int cudnnBackendExecute(Handle *handle, Descriptor *plan, Descriptor *pack) {
    dim3 one = {1, 1, 1};
    lock();
    int error = launch_node("cudnn graph", one, one, 0, handle->stream);
    unlock();
    return error ? INTERNAL_ERROR : CUDNN_STATUS_SUCCESS;
}

/* ---- batch normalisation: how much scratch the real library would ask for is not known here, so none ---- */
API int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(void *h, int mode, int ops, void *x, void *z, void *y,
                                                                 void *scale, void *activation, size_t *size) {
    *size = 0;
    return CUDNN_STATUS_SUCCESS;
}
API int cudnnGetBatchNormalizationBackwardExWorkspaceSize(void *h, int mode, int ops, void *x, void *y, void *dy,
                                                          void *dz, void *dx, void *scale, void *activation,
                                                          size_t *size) {
    *size = 0;
    return CUDNN_STATUS_SUCCESS;
}
API int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void *h, int mode, int ops, void *activation, void *x,
                                                             size_t *size) {
    *size = 0;
    return CUDNN_STATUS_SUCCESS;
}
