/* Xids as the driver reports them to whoever asks, who needs no right to read the kernel log. */
#include "nvml.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LOOK_UP_MS = 2000 };

/* Whoever started this has closed the other end, or is gone. */
static int is_left(void) {
  struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
  char byte;
  return poll(&input, 1, 0) > 0 && read(STDIN_FILENO, &byte, 1) <= 0;
}

void say_xids(const struct nvml *nvml) {
  nvml_event_set events = NULL;
  unsigned count = gpu_count(nvml), asked = 0;
  if (nvml->new_events == NULL || nvml->ask_events == NULL || nvml->await_event == NULL) {
    fputs("this driver has no events\n", stderr);
    exit(DRIVER_FAILS);
  }
  int result = nvml->new_events(&events);
  if (result != NVML_SUCCESS) fail_nvml(nvml, "events cannot be asked for", result);
  /* One that is lost, or tells of none, silences no other. */
  for (unsigned at = 0; at < count; at += 1) {
    nvml_device gpu = NULL;
    result = nvml->by_index(at, &gpu);
    if (result == NVML_SUCCESS) result = nvml->ask_events(gpu, NVML_XID_EVENT, events);
    asked += result == NVML_SUCCESS;
  }
  if (asked == 0) fail_nvml(nvml, "no GPU tells of Xids", result);
  while (!is_left()) {
    nvml_event event;
    nvml_pci pci;
    result = nvml->await_event(events, &event, LOOK_UP_MS);
    if (result == NVML_TIMEOUT) continue;
    if (result != NVML_SUCCESS) fail_nvml(nvml, "events end", result);
    if (event.type != NVML_XID_EVENT || nvml->pci(event.device, &pci) != NVML_SUCCESS) continue;
    printf("NVRM: Xid (PCI:%04x:%02x:%02x): %llu\n", pci.domain, pci.bus, pci.device, event.data);
    fflush(stdout);
  }
}
