/* Faults that a test plants: each surfaces where and how a real GPU's would. Kernels are counted from 1, by process. */
#include "standin.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static _Atomic size_t launches;
static _Atomic int broken; /* the sticky error; set by the kernel that fails, met by the call after it */

static size_t planted(const char *variable) { return number_of(variable, 0); }

int count_launch(void) {
    static _Atomic size_t illegal_at = SIZE_MAX, ecc_at;
    if (illegal_at == SIZE_MAX) {
        ecc_at = planted("STANDIN_ECC_AT_LAUNCH");
        illegal_at = planted("STANDIN_ILLEGAL_ACCESS_AT_LAUNCH");
    }
    if (broken) return broken;
    size_t launch = ++launches;
    if (illegal_at && launch >= illegal_at) broken = cudaErrorIllegalAddress;
    if (ecc_at && launch >= ecc_at) broken = cudaErrorECCUncorrectable;
    return cudaSuccess; /* the launch itself succeeds: a GPU fails later than its host */
}

int device_error(void) { return broken; }

int device_hangs(void) {
    static _Atomic size_t hang_at = SIZE_MAX;
    if (hang_at == SIZE_MAX) hang_at = planted("STANDIN_HANG_AT_LAUNCH");
    return hang_at && launches >= hang_at;
}

void hang(void) {
    trace("the host waits for a GPU that hangs");
    trace_flush();
    for (;;) pause();
}

size_t refuse_at_byte(void) { return planted("STANDIN_REFUSE_AT_BYTE"); }
int blas_refused(void) {
    size_t needed = planted("STANDIN_BLAS_NEEDS_BYTES");
    lock();
    size_t used = used_total(current_device());
    unlock();
    return planted("STANDIN_BLAS_REFUSED") != 0 || (needed && used + needed > gpu.memory_bytes);
}
int persistence_off(void) { return planted("STANDIN_PERSISTENCE_OFF") != 0; }
