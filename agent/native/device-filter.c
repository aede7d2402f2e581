/*
 * The GPU wall in version 2 of cgroups, whose device controller is a program in the kernel: for each device that is opened or made by a process of the
 * group, or of one below it, it is asked whether that may be.
 *
 * It refuses the named devices and allows all others, as far as the groups above do. Attached beside what is there, so that it can
 * only take away. It goes with the group.
 */
#define _GNU_SOURCE
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MOST_DEVICES 512
/* Of one device, and of what comes before and after all. */
#define STEPS 5
#define AROUND 6
#define KIND_BITS 0xffff

enum { ANSWER = BPF_REG_0, ASKED = BPF_REG_1, MAJOR = BPF_REG_2, MINOR = BPF_REG_3, KIND = BPF_REG_4 };

_Noreturn static void fail(const char *what) {
  dprintf(STDERR_FILENO, "orbweaver: devices cannot be refused: %s: %s\n", what, strerror(errno));
  _exit(EXIT_FAILURE);
}

static struct bpf_insn step(int code, int to, int offset, int value) {
  return (struct bpf_insn){.code = (__u8)code, .dst_reg = (__u8)(to & 15), .off = (__s16)offset, .imm = value};
}

static struct bpf_insn loaded(int to, size_t from) {
  struct bpf_insn load = step(BPF_LDX | BPF_MEM | BPF_W, to, (int)from, 0);
  load.src_reg = ASKED;
  return load;
}

static size_t answer(struct bpf_insn *at, int is_allowed) {
  at[0] = step(BPF_ALU64 | BPF_MOV | BPF_K, ANSWER, 0, is_allowed);
  at[1] = step(BPF_JMP | BPF_EXIT, 0, 0, 0);
  return 2;
}

static int load(const struct bpf_insn *steps, size_t count) {
  union bpf_attr program;
  memset(&program, 0, sizeof program);
  program.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
  program.insns = (uintptr_t)steps;
  program.insn_cnt = (__u32)count;
  program.license = (uintptr_t) "Apache-2.0";
  return (int)syscall(SYS_bpf, BPF_PROG_LOAD, &program, sizeof program);
}

/* GROUP MAJOR:MINOR... */
_Noreturn void deny_devices(char **words) {
  static struct bpf_insn steps[MOST_DEVICES * STEPS + AROUND];
  const char *folder = *words;
  size_t count = 0, devices = 0;
  steps[count++] = loaded(KIND, offsetof(struct bpf_cgroup_dev_ctx, access_type));
  steps[count++] = loaded(MAJOR, offsetof(struct bpf_cgroup_dev_ctx, major));
  steps[count++] = loaded(MINOR, offsetof(struct bpf_cgroup_dev_ctx, minor));
  steps[count++] = step(BPF_ALU64 | BPF_AND | BPF_K, KIND, 0, KIND_BITS);
  for (words += 1; *words != NULL; words += 1, devices += 1) {
    unsigned major = 0, minor = 0;
    char rest = 0;
    errno = EINVAL;
    if (devices == MOST_DEVICES || sscanf(*words, "%u:%u%c", &major, &minor, &rest) != 2) fail(*words);
    // Past the answer, unless all three are equal.
    steps[count++] = step(BPF_JMP | BPF_JNE | BPF_K, KIND, 4, BPF_DEVCG_DEV_CHAR);
    steps[count++] = step(BPF_JMP | BPF_JNE | BPF_K, MAJOR, 3, (int)major);
    steps[count++] = step(BPF_JMP | BPF_JNE | BPF_K, MINOR, 2, (int)minor);
    count += answer(steps + count, 0);
  }
  count += answer(steps + count, 1);
  // Before Linux 5.11 programs count as locked memory.
  struct rlimit all = {RLIM_INFINITY, RLIM_INFINITY};
  setrlimit(RLIMIT_MEMLOCK, &all);
  union bpf_attr place;
  memset(&place, 0, sizeof place);
  int group = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (group < 0) fail(folder);
  int program = load(steps, count);
  if (program < 0) fail("bpf");
  place.target_fd = (__u32)group;
  place.attach_bpf_fd = (__u32)program;
  place.attach_type = BPF_CGROUP_DEVICE;
  place.attach_flags = BPF_F_ALLOW_MULTI;
  if (syscall(SYS_bpf, BPF_PROG_ATTACH, &place, sizeof place) != 0) fail(folder);
  _exit(EXIT_SUCCESS);
}
