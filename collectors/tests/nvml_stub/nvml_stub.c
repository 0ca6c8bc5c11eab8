/*
 * A STUB of NVIDIA's management library, for tests only. The real one comes with the driver and works only beside a
 * GPU; this one answers the calls that the `gpu` collector makes with made-up figures.
 *
 * What it pretends is read, at every call, from the file `<this library>.conf`: a `word number` a line.
 *   devices N      how many devices there are (0)
 *   init CODE      opening the library gives this code
 *   epoch N        when it changes, handles from before are no longer initialized, as after a reload of the driver
 *   lost I         device I is gone: it has no handle any more
 *   dying I        device I has a handle and a name, and is gone for everything else
 *   broken I       device I answers everything with an unknown error
 *   bare I         device I supports nothing but its handle
 *   mig I          device I is cut into two instances, with a hole between them
 *   throttle BITS  the reasons why every device is slowed down
 *   compute PID, graphics PID   a process on device 0
 * Each opening adds a line to `<this library>.calls`.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef unsigned int u32;
typedef unsigned long long u64;
typedef int code;
typedef struct device { int index; int instance; } *handle;

enum { OK = 0, UNINITIALIZED = 1, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, TOO_SMALL = 7, LOST = 15, UNKNOWN = 999 };

static int initialized, epoch;
static struct device devices[64], instances[64][4];

static FILE *beside(const char *ending, const char *how) {
    Dl_info info;
    char path[4096];
    if (!dladdr((void *)beside, &info)) return NULL;
    snprintf(path, sizeof path, "%s%s", info.dli_fname, ending);
    return fopen(path, how);
}

/* Collects the numbers of a word; gives how many there are. */
static int numbers(const char *word, long *out, int most) {
    FILE *file = beside(".conf", "r");
    char name[64];
    long number;
    int count = 0;
    if (!file) return 0;
    while (fscanf(file, "%63s %ld", name, &number) == 2)
        if (!strcmp(name, word) && count < most) out[count++] = number;
    fclose(file);
    return count;
}

static long number(const char *word, long otherwise) {
    long all[1];
    return numbers(word, all, 1) ? all[0] : otherwise;
}

static int has(const char *word, long wanted) {
    long all[256];
    int count = numbers(word, all, 256);
    while (count > 0)
        if (all[--count] == wanted) return 1;
    return 0;
}

static code ready(void) {
    return initialized && epoch == number("epoch", 0) ? OK : UNINITIALIZED;
}

static code named(handle device) {
    if (ready()) return UNINITIALIZED;
    if (has("lost", device->index)) return LOST;
    if (has("broken", device->index)) return UNKNOWN;
    return has("bare", device->index) ? NOT_SUPPORTED : OK;
}

static code usable(handle device) {
    return has("dying", device->index) ? LOST : named(device);
}

#define FIGURE(device) do { code why = usable(device); if (why) return why; } while (0)
#define WHOLE(device) do { FIGURE(device); if ((device)->instance >= 0) return NOT_SUPPORTED; } while (0)

code nvmlInit_v2(void) {
    FILE *calls = beside(".calls", "a");
    if (calls) { fputs("init\n", calls); fclose(calls); }
    code why = (code)number("init", OK);
    initialized = why == OK;
    epoch = (int)number("epoch", 0);
    return why;
}

code nvmlShutdown(void) { initialized = 0; return OK; }

code nvmlSystemGetDriverVersion(char *out, u32 size) {
    if (ready()) return UNINITIALIZED;
    snprintf(out, size, "570.86.15");
    return OK;
}

code nvmlSystemGetCudaDriverVersion_v2(int *out) { *out = 12080; return ready(); }

code nvmlDeviceGetCount_v2(u32 *out) { *out = (u32)number("devices", 0); return ready(); }

code nvmlDeviceGetHandleByIndex_v2(u32 index, handle *out) {
    if (ready()) return UNINITIALIZED;
    if (index >= (u32)number("devices", 0)) return INVALID;
    if (has("lost", index)) return LOST;
    devices[index].index = (int)index;
    devices[index].instance = -1;
    *out = &devices[index];
    return OK;
}

code nvmlDeviceGetName(handle d, char *out, u32 size) {
    code why = named(d);
    snprintf(out, size, d->instance < 0 ? "Stub GPU" : "Stub GPU MIG 1g.10gb");
    return why;
}

code nvmlDeviceGetUUID(handle d, char *out, u32 size) {
    code why = named(d);
    if (d->instance < 0) snprintf(out, size, "GPU-stub-%d", d->index);
    else snprintf(out, size, "MIG-stub-%d-%d", d->index, d->instance);
    return why;
}

code nvmlDeviceGetComputeMode(handle d, u32 *out) { WHOLE(d); *out = 3; return OK; }
code nvmlDeviceGetPersistenceMode(handle d, u32 *out) { WHOLE(d); *out = 1; return OK; }

code nvmlDeviceGetUtilizationRates(handle d, u32 *out) {
    WHOLE(d);
    if (has("mig", d->index)) return NOT_SUPPORTED;
    out[0] = 37 + (u32)d->index;
    out[1] = 12;
    return OK;
}

#ifndef OLD_DRIVER
struct memory { u32 version; u64 total, reserved, available, used; };
code nvmlDeviceGetMemoryInfo_v2(handle d, struct memory *out) {
    FIGURE(d);
    u64 gib = 1ull << 30, total = d->instance < 0 ? 80 : 10;
    out->total = total * gib, out->reserved = 0, out->used = 3 * gib, out->available = (total - 3) * gib;
    return OK;
}
#endif

code nvmlDeviceGetTemperature(handle d, u32 sensor, u32 *out) { (void)sensor; WHOLE(d); *out = 61; return OK; }
code nvmlDeviceGetTemperatureThreshold(handle d, u32 which, u32 *out) {
    WHOLE(d);
    if (which > 1) return INVALID;
    *out = which == 0 ? 95 : 90;
    return OK;
}
code nvmlDeviceGetPowerUsage(handle d, u32 *out) { WHOLE(d); *out = 123456; return OK; }
code nvmlDeviceGetEnforcedPowerLimit(handle d, u32 *out) { WHOLE(d); *out = 700000; return OK; }
code nvmlDeviceGetNumFans(handle d, u32 *out) { WHOLE(d); *out = 2; return OK; }
code nvmlDeviceGetFanSpeed_v2(handle d, u32 fan, u32 *out) { WHOLE(d); *out = 30 + fan; return OK; }
code nvmlDeviceGetClockInfo(handle d, u32 clock, u32 *out) { WHOLE(d); *out = 1000 + clock; return OK; }
code nvmlDeviceGetMaxClockInfo(handle d, u32 clock, u32 *out) { WHOLE(d); *out = 2000 + clock; return OK; }
code nvmlDeviceGetCurrentClocksThrottleReasons(handle d, u64 *out) {
    WHOLE(d);
    *out = (u64)number("throttle", 0);
    return OK;
}

code nvmlDeviceGetEccMode(handle d, u32 *now, u32 *pending) { WHOLE(d); *now = 1, *pending = 0; return OK; }
code nvmlDeviceGetTotalEccErrors(handle d, u32 kind, u32 span, u64 *out) {
    WHOLE(d);
    *out = 100 * (span + 1) + kind;
    return OK;
}

#ifndef OLD_DRIVER
struct process { u32 pid; u64 bytes; u32 gpu_instance, compute_instance; };
static code processes(const char *word, handle d, u32 *count, struct process *out) {
    FIGURE(d);
    long pids[256];
    u32 there = d->index == 0 ? (u32)numbers(word, pids, 256) : 0, room = *count;
    *count = there;
    if (there > room) return TOO_SMALL;
    for (u32 i = 0; i < there; i++) {
        struct process one = { (u32)pids[i], (i + 1) * 1000ull, 0xffffffffu, 0xffffffffu };
        out[i] = one;
    }
    return OK;
}
code nvmlDeviceGetComputeRunningProcesses_v3(handle d, u32 *count, struct process *out) {
    return processes("compute", d, count, out);
}
code nvmlDeviceGetGraphicsRunningProcesses_v3(handle d, u32 *count, struct process *out) {
    return processes("graphics", d, count, out);
}
#endif

code nvmlDeviceGetMigMode(handle d, u32 *now, u32 *pending) {
    WHOLE(d);
    *now = *pending = (u32)has("mig", d->index);
    return OK;
}
code nvmlDeviceGetMaxMigDeviceCount(handle d, u32 *out) { WHOLE(d); *out = 4; return OK; }
code nvmlDeviceGetMigDeviceHandleByIndex(handle d, u32 index, handle *out) {
    WHOLE(d);
    if (index != 0 && index != 2) return NOT_FOUND;
    instances[d->index][index].index = d->index;
    instances[d->index][index].instance = (int)index;
    *out = &instances[d->index][index];
    return OK;
}
struct attributes { u32 multiprocessors, copiers, decoders, encoders, jpeg, ofa, gpu_slices, compute_slices; u64 mib; };
code nvmlDeviceGetAttributes_v2(handle d, struct attributes *out) {
    FIGURE(d);
    if (d->instance < 0) return NOT_SUPPORTED;
    struct attributes has_these = { 14, 1, 0, 0, 0, 0, 1, 1, 9856 };
    *out = has_these;
    return OK;
}

/* Two links, of which the second is down. */
code nvmlDeviceGetNvLinkState(handle d, u32 link, u32 *out) {
    WHOLE(d);
    if (link > 1) return INVALID;
    *out = link == 0;
    return OK;
}
code nvmlDeviceGetNvLinkVersion(handle d, u32 link, u32 *out) { (void)link; WHOLE(d); *out = 4; return OK; }
code nvmlDeviceGetNvLinkErrorCounter(handle d, u32 link, u32 which, u64 *out) {
    (void)link;
    WHOLE(d);
    *out = 10 + which;
    return OK;
}

code nvmlDeviceGetCurrPcieLinkGeneration(handle d, u32 *out) { WHOLE(d); *out = 4; return OK; }
code nvmlDeviceGetMaxPcieLinkGeneration(handle d, u32 *out) { WHOLE(d); *out = 5; return OK; }
code nvmlDeviceGetCurrPcieLinkWidth(handle d, u32 *out) { WHOLE(d); *out = 8; return OK; }
code nvmlDeviceGetMaxPcieLinkWidth(handle d, u32 *out) { WHOLE(d); *out = 16; return OK; }
code nvmlDeviceGetPcieReplayCounter(handle d, u32 *out) { WHOLE(d); *out = 5; return OK; }
code nvmlDeviceGetPcieThroughput(handle d, u32 which, u32 *out) { WHOLE(d); *out = 700 + which; return OK; }
