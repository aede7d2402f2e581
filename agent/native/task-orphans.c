/*
 * The processes that an ended array task has left behind, before its GPUs go to the next one: daemons, in a session of their own or not.
 *
 * The supervisor is what orphans fall to. So whatever a task left behind is one of our children or below one, and where all children are ranks of
 * running tasks, nothing was left: one small read of `/proc`. Only otherwise all processes of the machine are looked at, as for a launch
 * (processes.c). A process that gets away here is found at the end of the batch.
 */
#define _GNU_SOURCE
#include "launch.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_CHILDREN_BYTES (1u << 20)
#define MARK "ORBWEAVER_LAUNCH_TASK="
#define TASK_SIZE 16

static bool is_rank(pid_t pid) {
  for (int slot = 0; slot < launch.group_count; slot += 1) {
    const struct group *group = &launch.groups[slot];
    for (int at = 0; at < group->rank_count; at += 1)
      if (group->identities[at].pid == pid && !group->ranks[at].end.is_known) return true;
  }
  return false;
}

/* The next pid of the list that is no running rank; 0 at its end. */
static pid_t next_stray(char **at) {
  for (;;) {
    char *end = NULL;
    long pid = strtol(*at, &end, 10);
    if (end == *at) return 0;
    *at = end;
    if (!is_rank((pid_t)pid)) return (pid_t)pid;
  }
}

/* NULL where the kernel does not tell. */
static char *children(void) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
  return read_whole(AT_FDCWD, path, MOST_CHILDREN_BYTES, NULL);
}

static bool is_of_task(pid_t pid, int task, const struct group *group) {
  static char prefix[4200];
  char rest[TASK_SIZE], number[TASK_SIZE];
  pid_t process_group = 0, session = 0;
  if (!kin_of(pid, &process_group, &session)) return false;
  for (int at = 0; at < group->rank_count; at += 1) {
    pid_t rank = group->identities[at].pid;
    if (rank != 0 && (process_group == rank || session == rank)) return true;
  }
  if (prefix[0] == '\0') snprintf(prefix, sizeof prefix, MARK "%s#", launch.path);
  snprintf(number, sizeof number, "%d", task);
  return marked_rest(pid, prefix, rest, sizeof rest) && strcmp(rest, number) == 0;
}

bool clear_task(int task, const struct group *group) {
  char *list = children();
  bool is_left = list == NULL;
  char *at = list;
  for (pid_t pid = list == NULL ? 0 : next_stray(&at); pid != 0 && !is_left; pid = next_stray(&at))
    is_left = is_of_task(pid, task, group);
  free(list);
  if (!is_left) return false;
  char *mark = NULL;
  if (asprintf(&mark, MARK "%s#%d", launch.path, task) < 0) return true;
  struct container none = {false, 0, {NULL}};
  struct identity own = launch.own;
  own.pid = 0;
  struct roots roots = {mark, &none, own, group->identities, group->rank_count, true};
  is_left = has_members(&roots, true);
  free(mark);
  return is_left;
}

bool has_strays(void) {
  char *list = children(), *at = list;
  bool is_any = list == NULL || next_stray(&at) != 0;
  free(list);
  return is_any;
}
