/* What a test lets NVML tell: lines of the file STANDIN_NVML, read again at each question; the last that fits wins.

       # GPU of the machine (or *), figure, value
       *  temperature_c  71
       0  throttle_reasons  0x8
       0  process  4711  1073741824
       1  refuse  nvmlDeviceGetPowerUsage  3     (an NVML error)
       1  hang    nvmlDeviceGetTemperature */
#define _GNU_SOURCE
#include "standin.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    char gpu[16], key[64], first[96], second[32];
} Line;

static FILE *script(void) {
    const char *path = getenv("STANDIN_NVML");
    return path && *path ? fopen(path, "re") : NULL;
}

static int next(FILE *file, int physical, Line *line) { /* the next line that speaks of this GPU */
    char text[256];
    while (fgets(text, sizeof text, file)) {
        *line = (Line){0};
        if (sscanf(text, "%15s %63s %95s %31s", line->gpu, line->key, line->first, line->second) < 3) continue;
        if (*line->gpu == '#' || (strcmp(line->gpu, "*") && atoi(line->gpu) != physical)) continue;
        return 1;
    }
    return 0;
}

int script_number(int physical, const char *key, uint64_t *value) {
    Line line;
    int told = 0;
    FILE *file = script();
    while (file && next(file, physical, &line))
        if (!strcmp(line.key, key)) {
            *value = strtoull(line.first, NULL, 0);
            told = 1;
        }
    if (file) fclose(file);
    return told;
}

int script_refusal(int physical, const char *function) {
    Line line;
    int code = 0, hangs = 0;
    FILE *file = script();
    while (file && next(file, physical, &line)) {
        if (strcmp(line.first, function)) continue;
        if (!strcmp(line.key, "refuse")) code = atoi(line.second);
        if (!strcmp(line.key, "hang")) hangs = 1;
    }
    if (file) fclose(file);
    if (hangs) hang();
    return code;
}

int script_processes(int physical, int n, uint32_t *pids, uint64_t *bytes) {
    Line line;
    int found = 0;
    FILE *file = script();
    while (file && found < n && next(file, physical, &line))
        if (!strcmp(line.key, "process")) {
            pids[found] = (uint32_t)strtoul(line.first, NULL, 0);
            bytes[found++] = strtoull(line.second, NULL, 0);
        }
    if (file) fclose(file);
    return found;
}
