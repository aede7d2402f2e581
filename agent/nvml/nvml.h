/*
 * NVML as this program uses it: NVIDIA's library `libnvidia-ml.so.1`, which comes with the driver and is loaded when the program runs, so that nothing of NVIDIA's
 * is needed to build it. Types and numbers are those of NVML's interface, which NVIDIA keeps; a function that a driver lacks is a null pointer here.
 */
#ifndef ORBWEAVER_NVML_H
#define ORBWEAVER_NVML_H

enum { NVML_SUCCESS = 0, NVML_NOT_FOUND = 6, NVML_NO_DRIVER = 9, NVML_TIMEOUT = 10, NVML_NO_LIBRARY = 12, NVML_GPU_IS_LOST = 15 };
enum { NVML_TEXT = 96, NVML_MOST_LINKS = 36 };

/* nvmlMemoryErrorType_t, nvmlEccCounterType_t: what counts is uncorrected, since the driver was loaded. */
enum { NVML_UNCORRECTED = 1, NVML_VOLATILE = 0 };
/* Bits of nvmlDeviceGetCurrentClocksThrottleReasons. */
enum { NVML_HW_THERMAL = 0x40, NVML_HW_POWER_BRAKE = 0x80 };
/* nvmlNvLinkErrorCounter_t. */
enum { NVML_LINK_REPLAY = 0, NVML_LINK_RECOVERY = 1, NVML_LINK_CRC = 3 };
enum { NVML_FIELD_RECOVERY_ACTION = 230 };
enum { NVML_FABRIC_COMPLETED = 3 };
#define NVML_XID_EVENT 8ULL

typedef struct nvmlDevice *nvml_device;
typedef struct nvmlEventSet *nvml_event_set;

typedef struct {
  char former_bus_id[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
} nvml_pci;

/* In bytes; `used` without what the driver keeps. */
typedef struct {
  unsigned version;
  unsigned long long total, reserved, free, used;
} nvml_memory;
#define NVML_MEMORY_VERSION (unsigned)(sizeof(nvml_memory) | 2U << 24)

typedef struct {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
} nvml_process;

/* Percent. */
typedef struct {
  unsigned gpu, memory;
} nvml_use;

typedef struct {
  unsigned field, scope;
  long long at_us, took_us;
  int type, result;
  union {
    double number;
    unsigned word;
    unsigned long long long_word;
  } value;
} nvml_field;

typedef struct {
  unsigned char cluster[16];
  int status;
  unsigned clique;
  unsigned char state;
} nvml_fabric;

typedef struct {
  nvml_device device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
} nvml_event;

/* Name here, name in the library, and what it takes. Those of the first list are in every driver since 2012, those of the second need not be there. */
#define NVML_NEEDED(F) \
  F(init, "nvmlInit_v2", (void)) \
  F(shutdown, "nvmlShutdown", (void)) \
  F(count, "nvmlDeviceGetCount_v2", (unsigned *)) \
  F(by_index, "nvmlDeviceGetHandleByIndex_v2", (unsigned, nvml_device *)) \
  F(name, "nvmlDeviceGetName", (nvml_device, char *, unsigned)) \
  F(uuid, "nvmlDeviceGetUUID", (nvml_device, char *, unsigned)) \
  F(pci, "nvmlDeviceGetPciInfo_v3", (nvml_device, nvml_pci *))
#define NVML_OPTIONAL(F) \
  F(memory, "nvmlDeviceGetMemoryInfo_v2", (nvml_device, nvml_memory *)) \
  F(use, "nvmlDeviceGetUtilizationRates", (nvml_device, nvml_use *)) \
  F(computing, "nvmlDeviceGetComputeRunningProcesses_v3", (nvml_device, unsigned *, nvml_process *)) \
  F(power, "nvmlDeviceGetPowerUsage", (nvml_device, unsigned *)) \
  F(power_limit, "nvmlDeviceGetPowerManagementDefaultLimit", (nvml_device, unsigned *)) \
  F(ecc_errors, "nvmlDeviceGetTotalEccErrors", (nvml_device, int, int, unsigned long long *)) \
  F(remapped_rows, "nvmlDeviceGetRemappedRows", (nvml_device, unsigned *, unsigned *, unsigned *, unsigned *)) \
  F(retirement, "nvmlDeviceGetRetiredPagesPendingStatus", (nvml_device, int *)) \
  F(clock_reasons, "nvmlDeviceGetCurrentClocksThrottleReasons", (nvml_device, unsigned long long *)) \
  F(fields, "nvmlDeviceGetFieldValues", (nvml_device, int, nvml_field *)) \
  F(fabric, "nvmlDeviceGetGpuFabricInfo", (nvml_device, nvml_fabric *)) \
  F(link_state, "nvmlDeviceGetNvLinkState", (nvml_device, unsigned, int *)) \
  F(link_errors, "nvmlDeviceGetNvLinkErrorCounter", (nvml_device, unsigned, int, unsigned long long *)) \
  F(mig_mode, "nvmlDeviceGetMigMode", (nvml_device, unsigned *, unsigned *)) \
  F(mig_most, "nvmlDeviceGetMaxMigDeviceCount", (nvml_device, unsigned *)) \
  F(mig_at, "nvmlDeviceGetMigDeviceHandleByIndex", (nvml_device, unsigned, nvml_device *)) \
  F(gpu_instance, "nvmlDeviceGetGpuInstanceId", (nvml_device, unsigned *)) \
  F(compute_instance, "nvmlDeviceGetComputeInstanceId", (nvml_device, unsigned *)) \
  F(new_events, "nvmlEventSetCreate", (nvml_event_set *)) \
  F(ask_events, "nvmlDeviceRegisterEvents", (nvml_device, unsigned long long, nvml_event_set)) \
  F(await_event, "nvmlEventSetWait_v2", (nvml_event_set, nvml_event *, unsigned))

struct nvml {
#define FIELD(here, name, takes) int(*here) takes;
  NVML_NEEDED(FIELD)
  NVML_OPTIONAL(FIELD)
#undef FIELD
  const char *(*error_text)(int);
};

/* Loads the library and opens the driver; leaves the program where there is none, or where it fails. */
struct nvml open_nvml(void);

/* How the program ends, beside 0. The loader of programs and the kernel have other ways, so what they say is no word of the driver's. */
enum { NOT_HERE = 3, DRIVER_FAILS = 4 };

/* The one way out without an answer: a line on standard error. */
_Noreturn void fail_nvml(const struct nvml *nvml, const char *what, int result);

/* The GPUs in the driver's order. */
unsigned gpu_count(const struct nvml *nvml);
nvml_device gpu_at(const struct nvml *nvml, unsigned index);
/* NULL for one that has fallen off the bus, which the driver still counts: it is shown by nobody. */
nvml_device gpu_unless_lost(const struct nvml *nvml, unsigned index);

/* The answer of `nvidia-smi` to the same words. */
void say_gpus(const struct nvml *nvml);
void say_list(const struct nvml *nvml);
void say_use(const struct nvml *nvml);
void say_computing(const struct nvml *nvml);
void say_links(const struct nvml *nvml);
void say_link_errors(const struct nvml *nvml);

/* A line for each Xid, as the driver writes it to the kernel log, until standard input is closed. */
void say_xids(const struct nvml *nvml);

#endif
