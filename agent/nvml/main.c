/*
 * Asks NVML what `nvidia-smi` would be asked, and answers in the same form, so that one reader serves both: only the elements that Orbweaver reads, in the forms
 * that it has read for years, whatever the release of the driver. And tells of each Xid as it comes.
 *
 * A program of its own, so that a driver that hangs or crashes takes no agent with it. Status 0: answered. 3: no NVML here, or no such words; nvidia-smi may be
 * asked. 4: the driver fails, and says why.
 */
#include "nvml.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIBRARY "libnvidia-ml.so.1"

_Noreturn void fail_nvml(const struct nvml *nvml, const char *what, int result) {
  const char *text = nvml->error_text == NULL ? NULL : nvml->error_text(result);
  fprintf(stderr, "%s: %s (NVML %d)\n", what, text == NULL ? "error" : text, result);
  exit(result == NVML_NO_DRIVER || result == NVML_NO_LIBRARY ? NOT_HERE : DRIVER_FAILS);
}

/* ISO C has no cast from an object's pointer to a function's; POSIX promises that the bytes are the same. */
static void find(void *library, const char *name, void *to) {
  void *found = dlsym(library, name);
  memcpy(to, &found, sizeof found);
}

struct nvml open_nvml(void) {
  struct nvml nvml;
  void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(NOT_HERE);
  }
#define FIND(here, name, takes) find(library, name, &nvml.here);
  NVML_NEEDED(FIND)
  NVML_OPTIONAL(FIND)
#undef FIND
  find(library, "nvmlErrorString", &nvml.error_text);
#define CHECK(here, name, takes) \
  if (nvml.here == NULL) { \
    fputs(LIBRARY " has no " name "\n", stderr); \
    exit(NOT_HERE); \
  }
  NVML_NEEDED(CHECK)
#undef CHECK
  int result = nvml.init();
  if (result != NVML_SUCCESS) fail_nvml(&nvml, "NVML does not start", result);
  return nvml;
}

unsigned gpu_count(const struct nvml *nvml) {
  unsigned count = 0;
  int result = nvml->count(&count);
  if (result != NVML_SUCCESS) fail_nvml(nvml, "GPUs cannot be counted", result);
  return count;
}

static nvml_device found(const struct nvml *nvml, unsigned index, int may_be_lost) {
  nvml_device gpu = NULL;
  int result = nvml->by_index(index, &gpu);
  if (result == NVML_SUCCESS) return gpu;
  if (may_be_lost && result == NVML_GPU_IS_LOST) return NULL;
  char what[40];
  snprintf(what, sizeof what, "GPU %u does not answer", index);
  fail_nvml(nvml, what, result);
}

nvml_device gpu_at(const struct nvml *nvml, unsigned index) { return found(nvml, index, 0); }

nvml_device gpu_unless_lost(const struct nvml *nvml, unsigned index) { return found(nvml, index, 1); }

static const struct {
  const char *words;
  void (*say)(const struct nvml *);
} ANSWERS[] = {
    {"-q -x", say_gpus},
    {"-L", say_list},
    {"--query-gpu=utilization.gpu,memory.used,memory.total,power.draw,uuid --format=csv,noheader,nounits", say_use},
    {"--query-compute-apps=gpu_uuid,pid --format=csv,noheader", say_computing},
    {"nvlink --status", say_links},
    {"nvlink --errorcounters", say_link_errors},
    {"xids", say_xids},
};

int main(int count, char **words) {
  char asked[256] = "";
  for (int at = 1; at < count; at += 1) {
    if (strlen(asked) + strlen(words[at]) + 2 > sizeof asked) return NOT_HERE;
    if (at > 1) strcat(asked, " ");
    strcat(asked, words[at]);
  }
  for (size_t at = 0; at < sizeof ANSWERS / sizeof *ANSWERS; at += 1) {
    if (strcmp(asked, ANSWERS[at].words) != 0) continue;
    struct nvml nvml = open_nvml();
    ANSWERS[at].say(&nvml);
    nvml.shutdown();
    return fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
  }
  return NOT_HERE;
}
