/* Reductions over the ranks' slots, in the order of the ranks. Half precision is summed in float and rounded once. */
#include "nccl_room.h"
#include <string.h>

size_t type_width(int type) {
    static const size_t widths[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    return type >= 0 && type < 12 ? widths[type] : 0;
}

static float from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
static uint32_t to_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float bf16_read(uint16_t half) { return from_bits((uint32_t)half << 16); }
static uint16_t bf16_write(float value) {
    uint32_t bits = to_bits(value);
    if (value != value) return 0x7fc0;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static float fp16_read(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 1023;
    if (exponent == 31) return from_bits(sign | 0x7f800000 | fraction << 13);
    if (exponent) return from_bits(sign | (exponent + 112) << 23 | fraction << 13);
    float small = (float)fraction * 0x1p-24f;
    return sign ? -small : small;
}
static uint16_t fp16_write(float value) { /* to the nearest, ties to even */
    uint32_t bits = to_bits(value), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    if (size > 0x7f800000) return (uint16_t)(sign | 0x7e00);
    if (size >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* 65520 and more: infinite */
    if (size < 0x38800000) { /* below 2^-14: the float adder rounds to steps of 2^-24 */
        float rounded = from_bits(size) + 0.5f;
        return (uint16_t)(sign | (to_bits(rounded) - 0x3f000000));
    }
    return (uint16_t)(sign | (size - 0x38000000 + 0xfff + (size >> 13 & 1)) >> 13);
}

#define SAME(x) (x)
#define COMBINE(T, WIDE, READ, WRITE)                                                                                  \
    for (size_t i = 0; i < count; i++) {                                                                               \
        WIDE all = READ(((const T *)slots)[i]);                                                                        \
        for (int rank = 1; rank < ranks; rank++) {                                                                     \
            WIDE one = READ(((const T *)(slots + (size_t)rank * SLOT_BYTES))[i]);                                      \
            switch (reduction) {                                                                                       \
                case ncclProd: all *= one; break;                                                                      \
                case ncclMax: all = one > all ? one : all; break;                                                      \
                case ncclMin: all = one < all ? one : all; break;                                                      \
                default: all += one;                                                                                   \
            }                                                                                                          \
        }                                                                                                              \
        ((T *)to)[i] = (T)WRITE(reduction == ncclAvg ? (WIDE)(all / (WIDE)ranks) : all);                               \
    }                                                                                                                  \
    return 0

int reduce_slots(void *to, const char *slots, int ranks, size_t count, int type, int reduction) {
    if (reduction < ncclSum || reduction > ncclAvg) return 1;
    switch (type) {
        case ncclInt8: COMBINE(int8_t, int64_t, SAME, SAME);
        case ncclUint8: COMBINE(uint8_t, uint64_t, SAME, SAME);
        case ncclInt32: COMBINE(int32_t, int64_t, SAME, SAME);
        case ncclUint32: COMBINE(uint32_t, uint64_t, SAME, SAME);
        case ncclInt64: COMBINE(int64_t, int64_t, SAME, SAME);
        case ncclUint64: COMBINE(uint64_t, uint64_t, SAME, SAME);
        case ncclFloat16: COMBINE(uint16_t, float, fp16_read, fp16_write);
        case ncclFloat32: COMBINE(float, float, SAME, SAME);
        case ncclFloat64: COMBINE(double, double, SAME, SAME);
        case ncclBfloat16: COMBINE(uint16_t, float, bf16_read, bf16_write);
        default: return 1; /* 8-bit floats */
    }
}
