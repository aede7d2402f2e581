/*
 * A stand-in for NVIDIA's libnvidia-ml.so.1, after the declarations of NVIDIA's nvml.h. What its GPUs say stands in the file `gpus` beside the library, a line
 * `name value` for each fact, and a line `gpu` before those of each; what is not there is not supported. Xids are lines `gpu xid` of the file `xids`.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_GPUS = 16, MOST_FACTS = 40, LENGTH = 128 };
enum { SUCCESS = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, TIMEOUT = 10 };

typedef struct gpu {
  int count;
  char names[MOST_FACTS][LENGTH], values[MOST_FACTS][LENGTH];
} gpu;
/* An instance of MIG is a handle of its own. */
typedef struct {
  const gpu *parent;
  unsigned index;
} instance;

static gpu gpus[MOST_GPUS];
static instance instances[MOST_GPUS][8];
static int gpu_count, start;
static char folder[1024];

static void in_folder(const char *name, char *path, size_t size) {
  snprintf(path, size, "%s/%s", folder, name);
}

static const char *fact(const gpu *of, const char *name) {
  for (int at = 0; at < of->count; at += 1)
    if (strcmp(of->names[at], name) == 0) return of->values[at];
  return NULL;
}

static int number(const gpu *of, const char *name, unsigned long long *value) {
  const char *text = fact(of, name);
  if (text == NULL) return NOT_SUPPORTED;
  *value = strtoull(text, NULL, 0);
  return SUCCESS;
}

static int word(const gpu *of, const char *name, unsigned *value) {
  unsigned long long wide = 0;
  int result = number(of, name, &wide);
  *value = (unsigned)wide;
  return result;
}

static const instance *as_instance(const void *handle) {
  const char *at = handle, *from = (const char *)instances;
  return at >= from && at < from + sizeof instances ? handle : NULL;
}

int nvmlInit_v2(void) {
  Dl_info here;
  char path[1100], line[2 * LENGTH];
  dladdr((void *)&gpu_count, &here);
  snprintf(folder, sizeof folder, "%s", here.dli_fname);
  *strrchr(folder, '/') = '\0';
  in_folder("gpus", path, sizeof path);
  FILE *file = fopen(path, "r");
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    char name[LENGTH] = "", value[LENGTH] = "";
    sscanf(line, "%127s %127[^\n]", name, value);
    if (strcmp(name, "start") == 0) start = atoi(value);
    else if (strcmp(name, "hang") == 0) sleep(1000);
    else if (strcmp(name, "crash") == 0) abort();
    else if (strcmp(name, "gpu") == 0) gpu_count += 1;
    else if (gpu_count > 0) {
      gpu *last = &gpus[gpu_count - 1];
      strcpy(last->names[last->count], name);
      strcpy(last->values[last->count++], value);
    }
  }
  if (file != NULL) fclose(file);
  return start;
}
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int result) { return result == 18 ? "Driver/library version mismatch" : result == 15 ? "GPU is lost" : "Unknown Error"; }

int nvmlDeviceGetCount_v2(unsigned *count) {
  *count = (unsigned)gpu_count;
  return SUCCESS;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
  if (fact(&gpus[index], "lost") != NULL) return 15;
  *device = &gpus[index];
  return SUCCESS;
}
static int text(const gpu *of, const char *name, char *to, unsigned size) {
  const char *value = fact(of, name);
  if (value == NULL) return NOT_SUPPORTED;
  snprintf(to, size, "%s", value);
  return SUCCESS;
}
int nvmlDeviceGetName(const void *device, char *name, unsigned size) {
  const instance *part = as_instance(device);
  if (part == NULL) return text(device, "name", name, size);
  snprintf(name, size, "%s MIG %s", fact(part->parent, "name"), fact(part->parent, "profile"));
  return SUCCESS;
}
int nvmlDeviceGetUUID(const void *device, char *uuid, unsigned size) {
  const instance *part = as_instance(device);
  if (part == NULL) return text(device, "uuid", uuid, size);
  snprintf(uuid, size, "MIG-0000000%d-aaaa-bbbb-cccc-00000000000%u", (int)(part->parent - gpus), part->index);
  return SUCCESS;
}
struct pci {
  char legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char bus_id[32];
};
int nvmlDeviceGetPciInfo_v3(const gpu *device, struct pci *pci) {
  sscanf(fact(device, "bus"), "%x:%x:%x", &pci->domain, &pci->bus, &pci->device);
  return text(device, "bus", pci->bus_id, sizeof pci->bus_id);
}
struct memory {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
int nvmlDeviceGetMemoryInfo_v2(const gpu *device, struct memory *memory) {
  if (memory->version != (sizeof *memory | 2 << 24)) return 25;
  if (number(device, "memory", &memory->total) != SUCCESS) return NOT_SUPPORTED;
  number(device, "used", &memory->used);
  memory->total <<= 20, memory->used <<= 20;
  return SUCCESS;
}
int nvmlDeviceGetUtilizationRates(const gpu *device, unsigned use[2]) { return word(device, "use", use); }
struct process {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
};
/* The fact `computing` is one pid or several, with spaces. */
int nvmlDeviceGetComputeRunningProcesses_v3(const gpu *device, unsigned *count, struct process *found) {
  const char *pids = fact(device, "computing");
  char *end = NULL;
  unsigned most = *count;
  *count = 0;
  for (; pids != NULL && *pids != '\0' && *count < most; pids = end) found[(*count)++].pid = (unsigned)strtoul(pids, &end, 10);
  return SUCCESS;
}
int nvmlDeviceGetPowerUsage(const gpu *device, unsigned *power) { return word(device, "power", power); }
int nvmlDeviceGetPowerManagementDefaultLimit(const gpu *device, unsigned *limit) { return word(device, "limit", limit); }
int nvmlDeviceGetTotalEccErrors(const gpu *device, int kind, int counter, unsigned long long *errors) {
  return kind == 1 && counter == 0 ? number(device, "ecc", errors) : NOT_SUPPORTED;
}
int nvmlDeviceGetRemappedRows(const gpu *device, unsigned *corrected, unsigned *uncorrected, unsigned *pending, unsigned *failed) {
  *corrected = *uncorrected = *failed = 0;
  word(device, "rows_failed", failed);
  return word(device, "rows_pending", pending);
}
int nvmlDeviceGetRetiredPagesPendingStatus(const gpu *device, unsigned *pending) { return word(device, "retires", pending); }
int nvmlDeviceGetCurrentClocksThrottleReasons(const gpu *device, unsigned long long *reasons) { return number(device, "reasons", reasons); }
struct field {
  unsigned id, scope;
  long long at, took;
  int type, result;
  union {
    double number;
    unsigned word;
  } value;
};
int nvmlDeviceGetFieldValues(const gpu *device, int count, struct field *fields) {
  for (int at = 0; at < count; at += 1)
    fields[at].result = fields[at].id == 230 ? word(device, "recovery", &fields[at].value.word) : NOT_SUPPORTED;
  return SUCCESS;
}
struct fabric {
  unsigned char cluster[16];
  int status;
  unsigned clique;
  unsigned char state;
};
int nvmlDeviceGetGpuFabricInfo(const gpu *device, struct fabric *fabric) {
  unsigned state = 0, status = 0;
  if (word(device, "fabric", &state) != SUCCESS) return NOT_SUPPORTED;
  word(device, "fabric_status", &status);
  fabric->state = (unsigned char)state, fabric->status = (int)status;
  return SUCCESS;
}
int nvmlDeviceGetNvLinkState(const gpu *device, unsigned link, unsigned *is_up) {
  unsigned links = 0, up = 0;
  if (word(device, "links", &links) != SUCCESS || link >= links) return NOT_SUPPORTED;
  word(device, "links_up", &up);
  *is_up = link < up;
  return SUCCESS;
}
int nvmlDeviceGetNvLinkErrorCounter(const gpu *device, unsigned link, int counter, unsigned long long *errors) {
  unsigned links = 0;
  *errors = 0;
  if (word(device, "links", &links) != SUCCESS || link >= links) return NOT_SUPPORTED;
  return link == 0 && counter == 1 ? number(device, "recoveries", errors) : SUCCESS;
}
int nvmlDeviceGetMigMode(const gpu *device, unsigned *mode, unsigned *pending) {
  *pending = *mode = fact(device, "instances") != NULL;
  return fact(device, "no_mig") == NULL ? SUCCESS : NOT_SUPPORTED;
}
int nvmlDeviceGetMaxMigDeviceCount(const gpu *device, unsigned *count) {
  (void)device;
  *count = 7;
  return SUCCESS;
}
int nvmlDeviceGetMigDeviceHandleByIndex(const gpu *device, unsigned index, void **part) {
  unsigned count = 0;
  if (word(device, "instances", &count) != SUCCESS || index >= count) return NOT_FOUND;
  instance *found = &instances[device - gpus][index];
  *found = (instance){.parent = device, .index = index};
  *part = found;
  return SUCCESS;
}
int nvmlDeviceGetGpuInstanceId(const instance *part, unsigned *id) {
  *id = part->index + 7;
  return SUCCESS;
}
int nvmlDeviceGetComputeInstanceId(const instance *part, unsigned *id) {
  (void)part;
  *id = 0;
  return SUCCESS;
}

int nvmlEventSetCreate(void **set) {
  *set = &start;
  return SUCCESS;
}
int nvmlDeviceRegisterEvents(const gpu *device, unsigned long long types, void *set) {
  return set == &start && types == 8 && fact(device, "no_events") == NULL ? SUCCESS : NOT_SUPPORTED;
}
struct event {
  const gpu *device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};
int nvmlEventSetWait_v2(void *set, struct event *event, unsigned timeout_ms) {
  static long at;
  char path[1100];
  (void)set;
  in_folder("xids", path, sizeof path);
  for (unsigned waited = 0; waited <= timeout_ms; waited += 20, usleep(20000)) {
    int index = 0, xid = 0;
    FILE *file = fopen(path, "r");
    if (file == NULL) continue;
    fseek(file, at, SEEK_SET);
    int read = fscanf(file, "%d %d", &index, &xid);
    if (read == 2) at = ftell(file);
    fclose(file);
    if (read != 2) continue;
    if (xid < 0) return -xid;
    *event = (struct event){.device = &gpus[index], .type = 8, .data = (unsigned)xid};
    return SUCCESS;
  }
  return TIMEOUT;
}
