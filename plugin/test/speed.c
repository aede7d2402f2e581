/**
 * @file Measures the time of a decision, and proves that it allocates no memory and makes no system call:
 * `speed PLUGIN.so [DECISIONS [NANOS]]`; with NANOS it ends with 1 when the median is above.
 *
 * The policy is the largest that the format allows, and the calls are those of its last row after its whole schedule: the most expensive
 * decision. Allocations are counted in functions that this program puts in front of the C library's. System calls are left to the kernel: a
 * child process makes the decisions under a filter that ends it at any call but reads and writes of open files, and it has no open file
 * that the plugin could know.
 */

#include <dlfcn.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"

static volatile int is_deciding;
static volatile unsigned long allocations;

#ifdef __GLIBC__
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
void *malloc(size_t size) {
  allocations += (unsigned long)is_deciding;
  return __libc_malloc(size);
}
void *calloc(size_t count, size_t size) {
  allocations += (unsigned long)is_deciding;
  return __libc_calloc(count, size);
}
void *realloc(void *old, size_t size) {
  allocations += (unsigned long)is_deciding;
  return __libc_realloc(old, size);
}
#endif

static const struct nccl_tuner_v6 *tuner;
static void *context;

static int decide(void) {
  float costs[21];
  int channels = 0;
  for (int cell = 0; cell < 21; cell += 1) costs[cell] = 5.0f;
  return tuner->choose(context, NCCL_ALL_REDUCE, (size_t)1 << 40, 1, (float **)(void *)costs, 7, 3,
                       0, &channels) +
         (costs[0] == 0.0f);
}

static double nanos_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static void largest_policy(struct policy *policy) {
  memset(policy, 0, sizeof *policy);
  policy->version = 1;
  policy->sections = 1;
  policy->rows = POLICY_ROWS;
  policy->section[0] = (struct section){.nodes = 2, .ranks = 8, .rows = POLICY_ROWS, .topology = "largest"};
  for (int at = 0; at < POLICY_ROWS; at += 1) {
    struct row *row = &policy->row[at];
    row->collective = NCCL_ALL_REDUCE;
    row->min_bytes = (uint64_t)at * 1000;
    row->max_bytes = at == POLICY_ROWS - 1 ? (UINT64_C(1) << 50) : row->min_bytes + 999;
    row->stride = 1;
    row->arm = 1;
    // As many as fit a file: its last row has all.
    row->runs = at == POLICY_ROWS - 1 ? POLICY_RUNS : 4;
    for (int run = 0; run < row->runs; run += 1) {
      row->run_arm[run] = (uint8_t)(run % 3);
      row->count[run] = 1;
    }
  }
}

/** In a child that may only compute. */
static int is_quiet(unsigned long decisions) {
  pid_t child = fork();
  if (child == 0) {
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) _exit(3);
    for (unsigned long at = 0; at < decisions; at += 1) decide();
    syscall(SYS_exit, 0);
  }
  int status;
  if (child < 0 || waitpid(child, &status, 0) != child) return -1;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 3) return -1;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: %s PLUGIN.so [DECISIONS [NANOS]]\n", argv[0]);
    return 2;
  }
  unsigned long decisions = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000000;
  double most = argc > 3 ? strtod(argv[3], NULL) : 1e18;
  static struct policy policy;
  static char text[POLICY_BYTES + 1];
  largest_policy(&policy);
  text[write_policy(&policy, text)] = '\0';
  for (char *c = text; *c != '\0'; c += 1)
    if (*c == '\n') *c = ';';
  setenv("ORBWEAVER_COLLECTIVES_SEALED", text, 1);
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  tuner = library == NULL ? NULL : dlsym(library, "ncclTunerPlugin_v6");
  if (tuner == NULL || tuner->init(&context, 1, 8, 2, NULL, NULL, NULL) != NCCL_SUCCESS) {
    fprintf(stderr, "%s cannot be loaded\n", argv[1]);
    return 2;
  }
  // Past the schedule, so that every decision looks at all of it.
  for (int at = 0; at < 10000; at += 1) decide();
  double *nanos = malloc(decisions * sizeof *nanos);
  if (nanos == NULL) return 2;
  is_deciding = 1;
  double start = nanos_now();
  for (unsigned long at = 0; at < decisions; at += 1) decide();
  double mean = (nanos_now() - start) / (double)decisions;
  for (unsigned long at = 0; at < decisions; at += 1) {
    double begin = nanos_now();
    decide();
    nanos[at] = nanos_now() - begin;
  }
  is_deciding = 0;
  qsort(nanos, decisions, sizeof *nanos, by_value);
  double median = nanos[decisions / 2], p99 = nanos[decisions / 100 * 99];
  int quiet = is_quiet(decisions < 100000 ? decisions : 100000);
  tuner->end(context);
  printf("a decision                %.0f ns mean, %.0f ns median, %.0f ns 99th percentile (the clock's own time in the last two)\n",
         mean, median, p99);
  printf("allocations               %lu in %lu decisions\n", allocations, 2 * decisions);
  printf("system calls              %s\n",
         quiet == 1 ? "none" : quiet == 0 ? "SOME: the kernel ended the process" : "not tried: seccomp is not to be had here");
  return median < most && allocations == 0 && quiet != 0 ? 0 : 1;
}
