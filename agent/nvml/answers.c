/* The answers of nvidia-smi, of what NVML says. What a driver does not say, or a GPU does not have, is `N/A` or left out, as nvidia-smi does. */
#include "nvml.h"

#include <stdio.h>
#include <string.h>

#define HAS(nvml, function, ...) ((nvml)->function != NULL && (nvml)->function(__VA_ARGS__) == NVML_SUCCESS)
#define MIB (1024ULL * 1024)

static void text_of(int (*ask)(nvml_device, char *, unsigned), nvml_device device, char *text) {
  if (ask(device, text, NVML_TEXT) != NVML_SUCCESS) strcpy(text, "N/A");
  text[NVML_TEXT - 1] = '\0';
}

/* Names are the driver's, but they stand in XML. */
static void say_escaped(const char *text) {
  for (; *text != '\0'; text += 1) {
    if (*text == '<') fputs("&lt;", stdout);
    else if (*text == '&') fputs("&amp;", stdout);
    else putchar(*text);
  }
}

static const char *yes_or_no(unsigned is_so) {
  return is_so ? "Yes" : "No";
}

static int has_memory(const struct nvml *nvml, nvml_device gpu, nvml_memory *memory) {
  *memory = (nvml_memory){.version = NVML_MEMORY_VERSION};
  return HAS(nvml, memory, gpu, memory);
}

/* The next instance of MIG at the index or after it; null after the last. Indices may have gaps. */
static nvml_device next_instance(const struct nvml *nvml, nvml_device gpu, unsigned *index) {
  unsigned is_divided = 0, will_be = 0, most = 0;
  if (!HAS(nvml, mig_mode, gpu, &is_divided, &will_be) || !is_divided || !HAS(nvml, mig_most, gpu, &most)) return NULL;
  for (; *index < most; *index += 1) {
    nvml_device instance = NULL;
    if (HAS(nvml, mig_at, gpu, *index, &instance)) return instance;
  }
  return NULL;
}

static void say_instances(const struct nvml *nvml, nvml_device gpu) {
  unsigned index = 0;
  puts("<mig_devices>");
  for (nvml_device instance; (instance = next_instance(nvml, gpu, &index)) != NULL; index += 1) {
    unsigned of_gpu = 0, of_compute = 0;
    if (!HAS(nvml, gpu_instance, instance, &of_gpu) || !HAS(nvml, compute_instance, instance, &of_compute)) continue;
    printf("<mig_device><index>%u</index><gpu_instance_id>%u</gpu_instance_id>", index, of_gpu);
    printf("<compute_instance_id>%u</compute_instance_id></mig_device>\n", of_compute);
  }
  puts("</mig_devices>");
}

static void say_memory_state(const struct nvml *nvml, nvml_device gpu) {
  unsigned long long errors = 0;
  if (HAS(nvml, ecc_errors, gpu, NVML_UNCORRECTED, NVML_VOLATILE, &errors))
    printf("<ecc_errors><volatile><double_bit><total>%llu</total></double_bit></volatile></ecc_errors>\n", errors);
  unsigned corrected = 0, uncorrected = 0, is_pending = 0, has_failed = 0;
  if (HAS(nvml, remapped_rows, gpu, &corrected, &uncorrected, &is_pending, &has_failed)) {
    printf("<remapped_rows><remapped_row_pending>%s</remapped_row_pending>", yes_or_no(is_pending));
    printf("<remapped_row_failure>%s</remapped_row_failure></remapped_rows>\n", yes_or_no(has_failed));
  }
  int retires = 0;
  if (HAS(nvml, retirement, gpu, &retires))
    printf("<retired_pages><pending_retirement>%s</pending_retirement></retired_pages>\n", yes_or_no(retires != 0));
}

static void say_slowdowns(const struct nvml *nvml, nvml_device gpu) {
  unsigned long long reasons = 0;
  if (!HAS(nvml, clock_reasons, gpu, &reasons)) return;
  if (reasons & NVML_HW_THERMAL)
    puts("<clocks_event_reason_hw_thermal_slowdown>Active</clocks_event_reason_hw_thermal_slowdown>");
  if (reasons & NVML_HW_POWER_BRAKE)
    puts("<clocks_event_reason_hw_power_brake_slowdown>Active</clocks_event_reason_hw_power_brake_slowdown>");
}

/* By the numbers of nvmlDeviceGpuRecoveryAction_t. */
static void say_recovery(const struct nvml *nvml, nvml_device gpu) {
  static const char *const ACTIONS[] = {"None", "Reset", "Reboot", "Drain P2P", "Drain and Reset", "Recover IMEX Domain"};
  nvml_field field = {.field = NVML_FIELD_RECOVERY_ACTION};
  if (!HAS(nvml, fields, gpu, 1, &field) || field.result != NVML_SUCCESS) return;
  unsigned action = field.value.word;
  const char *name = action < sizeof ACTIONS / sizeof *ACTIONS ? ACTIONS[action] : "of a number that is not known";
  printf("<gpu_recovery_action>%s</gpu_recovery_action>\n", name);
}

/* State 0 is a GPU without such a fabric. */
static void say_fabric(const struct nvml *nvml, nvml_device gpu) {
  static const char *const STATES[] = {"N/A", "Not Started", "In Progress", "Completed"};
  nvml_fabric fabric = {.state = 0};
  if (!HAS(nvml, fabric, gpu, &fabric) || fabric.state >= sizeof STATES / sizeof *STATES) return;
  printf("<fabric><state>%s</state>", STATES[fabric.state]);
  if (fabric.state == NVML_FABRIC_COMPLETED) {
    const char *error = nvml->error_text == NULL ? "Failure" : nvml->error_text(fabric.status);
    printf("<status>%s</status>", fabric.status == NVML_SUCCESS ? "Success" : error);
  }
  puts("</fabric>");
}

void say_gpus(const struct nvml *nvml) {
  unsigned count = gpu_count(nvml);
  puts("<nvidia_smi_log>");
  for (unsigned at = 0; at < count; at += 1) {
    nvml_device gpu = gpu_unless_lost(nvml, at);
    if (gpu == NULL) continue;
    char name[NVML_TEXT], uuid[NVML_TEXT];
    nvml_pci pci = {.bus_id = ""};
    nvml_memory memory;
    unsigned milliwatts = 0;
    int result = nvml->pci(gpu, &pci);
    if (result != NVML_SUCCESS) fail_nvml(nvml, "a GPU does not say where it is", result);
    text_of(nvml->name, gpu, name);
    text_of(nvml->uuid, gpu, uuid);
    printf("<gpu id=\"%s\">\n<product_name>", pci.bus_id);
    say_escaped(name);
    puts("</product_name>");
    say_instances(nvml, gpu);
    printf("<uuid>%s</uuid>\n", uuid);
    if (has_memory(nvml, gpu, &memory))
      printf("<fb_memory_usage><total>%llu MiB</total></fb_memory_usage>\n", memory.total / MIB);
    if (HAS(nvml, power_limit, gpu, &milliwatts))
      printf("<default_power_limit>%.2f W</default_power_limit>\n", milliwatts / 1000.0);
    say_memory_state(nvml, gpu);
    say_slowdowns(nvml, gpu);
    say_recovery(nvml, gpu);
    say_fabric(nvml, gpu);
    puts("</gpu>");
  }
  puts("</nvidia_smi_log>");
}

/* The line by which both lists begin a GPU; NULL, and no line, for one that is lost. */
static nvml_device say_head(const struct nvml *nvml, unsigned at) {
  nvml_device gpu = gpu_unless_lost(nvml, at);
  if (gpu == NULL) return NULL;
  char name[NVML_TEXT], uuid[NVML_TEXT];
  text_of(nvml->name, gpu, name);
  text_of(nvml->uuid, gpu, uuid);
  printf("GPU %u: %s (UUID: %s)\n", at, name, uuid);
  return gpu;
}

/* An instance is named after its GPU: `NVIDIA H100 80GB HBM3 MIG 1g.10gb`. */
void say_list(const struct nvml *nvml) {
  unsigned count = gpu_count(nvml);
  for (unsigned at = 0; at < count; at += 1) {
    nvml_device gpu = say_head(nvml, at);
    if (gpu == NULL) continue;
    unsigned index = 0;
    for (nvml_device instance; (instance = next_instance(nvml, gpu, &index)) != NULL; index += 1) {
      char name[NVML_TEXT], uuid[NVML_TEXT];
      text_of(nvml->name, instance, name);
      text_of(nvml->uuid, instance, uuid);
      const char *profile = strstr(name, " MIG ");
      if (profile != NULL) printf("  MIG %-12s Device %2u: (UUID: %s)\n", profile + strlen(" MIG "), index, uuid);
    }
  }
}

void say_use(const struct nvml *nvml) {
  unsigned count = gpu_count(nvml);
  for (unsigned at = 0; at < count; at += 1) {
    nvml_device gpu = gpu_unless_lost(nvml, at);
    if (gpu == NULL) continue;
    nvml_use use;
    nvml_memory memory;
    unsigned milliwatts = 0;
    if (HAS(nvml, use, gpu, &use)) printf("%u, ", use.gpu);
    else fputs("[N/A], ", stdout);
    if (has_memory(nvml, gpu, &memory)) printf("%llu, %llu, ", memory.used / MIB, memory.total / MIB);
    else fputs("[N/A], [N/A], ", stdout);
    if (HAS(nvml, power, gpu, &milliwatts)) printf("%.2f", milliwatts / 1000.0);
    else fputs("[N/A]", stdout);
    char uuid[NVML_TEXT];
    text_of(nvml->uuid, gpu, uuid);
    printf(", %s\n", uuid);
  }
}

/* Without the function nvidia-smi is asked: who computes must not be answered by nobody. */
void say_computing(const struct nvml *nvml) {
  static nvml_process found[4096];
  if (nvml->computing == NULL) fail_nvml(nvml, "it does not say who computes", NVML_NO_LIBRARY);
  unsigned count = gpu_count(nvml);
  for (unsigned at = 0; at < count; at += 1) {
    nvml_device gpu = gpu_at(nvml, at);
    char uuid[NVML_TEXT];
    unsigned processes = sizeof found / sizeof *found;
    int result = nvml->computing(gpu, &processes, found);
    if (result != NVML_SUCCESS) fail_nvml(nvml, "a GPU does not say who computes on it", result);
    text_of(nvml->uuid, gpu, uuid);
    for (unsigned each = 0; each < processes; each += 1) printf("%s, %u\n", uuid, found[each].pid);
  }
}

/* NVML says whether a link is up; its speed is not read, so the line has none. */
void say_links(const struct nvml *nvml) {
  unsigned count = gpu_count(nvml);
  for (unsigned at = 0; at < count; at += 1) {
    nvml_device gpu = say_head(nvml, at);
    if (gpu == NULL) continue;
    for (unsigned link = 0; link < NVML_MOST_LINKS; link += 1) {
      int is_up = 0;
      if (HAS(nvml, link_state, gpu, link, &is_up)) printf("\t Link %u: %s\n", link, is_up ? "<active>" : "<inactive>");
    }
  }
}

void say_link_errors(const struct nvml *nvml) {
  static const struct {
    int counter;
    const char *name;
  } COUNTERS[] = {{NVML_LINK_REPLAY, "Replay"}, {NVML_LINK_RECOVERY, "Recovery"}, {NVML_LINK_CRC, "CRC"}};
  unsigned count = gpu_count(nvml);
  for (unsigned at = 0; at < count; at += 1) {
    nvml_device gpu = say_head(nvml, at);
    if (gpu == NULL) continue;
    for (unsigned link = 0; link < NVML_MOST_LINKS; link += 1)
      for (size_t each = 0; each < sizeof COUNTERS / sizeof *COUNTERS; each += 1) {
        unsigned long long errors = 0;
        if (HAS(nvml, link_errors, gpu, link, COUNTERS[each].counter, &errors))
          printf("\t Link %u: %s Errors: %llu\n", link, COUNTERS[each].name, errors);
      }
  }
}
