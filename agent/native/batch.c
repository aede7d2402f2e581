/*
 * Runs a batch of array tasks in the slots of one lease: a slot that is free takes the next task at once, as agent/shim/task-batch.ts and
 * task-run.ts do.
 *
 * A task is a small launch of its own: its ranks stop each other, its time limit is its own, and its failure fails no other task. It is over when
 * no process of it is left (task-orphans.c). No task starts once `stop.json` is there, or before the journal says so on the disk.
 */
#define _GNU_SOURCE
#include "launch.h"

#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* Between two looks for tasks that are to stop, when no notification comes. */
#define LOOK_MS 1000
/* Between two looks for what was killed, growing: a process in the middle of a disk's work may take its time. */
#define KILLED_LOOK_MS 10
#define KILLED_LOOK_MAX_MS 500
#define MOST_STOP_BYTES (64u << 20)
#define NO_PORT 0
#define PORT_ATTEMPTS 32

enum phase { FREE, DUE, RUNNING, CLEARING };

struct slot {
  enum phase phase;
  /* Of its present task. */
  int task;
  int port;
  int64_t look_at_ms;
  int64_t pause_ms;
};

/* Of each task, in the order of the plan. */
struct turn {
  bool is_started;
  /* The order to stop it: its reason, a JSON string, and its time. NULL where there is none. */
  char *reason;
  int64_t stopped_at_ms;
};

static struct batch_plan *batch;
static struct slot *slots;
static struct turn *turns;
static struct journal journal;
static int lease_dir = -1;
static int watch = -1;
static int next_task;
static int64_t look_due = OFF;
/* Stop notes only grow. */
static off_t note_size;
static int noted;

bool open_batch(void) {
  batch = &launch.plan.batch;
  slots = calloc((size_t)batch->slot_count, sizeof *slots);
  turns = calloc((size_t)batch->task_count + 1, sizeof *turns);
  lease_dir = open(batch->lease_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  open_journal(&journal);
  return slots != NULL && turns != NULL && lease_dir >= 0;
}

int batch_watch(void) { return watch; }

static bool is_halted(void) {
  return launch.is_cut_off || faccessat(launch.dir, "stop.json", F_OK, 0) == 0;
}

static void print_stop(FILE *to, const struct turn *turn) {
  if (turn->reason != NULL) fprintf(to, ",\"stop\":{\"reason\":%s,\"atMs\":%" PRId64 "}", turn->reason, turn->stopped_at_ms);
}

static void skip(int at) {
  FILE *to = begin_line();
  fprintf(to, "{\"kind\":\"skip\",\"task\":%d", batch->tasks[at].number);
  print_stop(to, &turns[at]);
  fputs("}", to);
  end_line(&journal);
}

static int task_at(int number) {
  for (int at = 0; at < batch->task_count; at += 1)
    if (batch->tasks[at].number == number) return at;
  return -1;
}

/* A JSON string as it stands there. */
static char *raw_string(const char *at) {
  if (at == NULL || *at != '"') return NULL;
  const char *end = at + 1;
  while (*end != '"' && *end != '\0') end += *end == '\\' && end[1] != '\0' ? 2 : 1;
  return *end == '"' ? strndup(at, (size_t)(end + 1 - at)) : NULL;
}

static void stop_task(int number, const char *note) {
  int at = task_at(number);
  if (at < 0 || turns[at].reason != NULL) return;
  char *reason = raw_string(json_after(note, "reason"));
  const char *at_ms = json_after(note, "atMs");
  if (reason == NULL || at_ms == NULL) {
    free(reason);
    return;
  }
  turns[at].reason = reason;
  turns[at].stopped_at_ms = strtoll(at_ms, NULL, 10);
  if (!turns[at].is_started) skip(at);
  for (int slot = 0; slot < batch->slot_count; slot += 1)
    if (slots[slot].phase == RUNNING && slots[slot].task == at) end_group(&launch.groups[slot]);
}

/* Of `stop-tasks.json`, see agent/shim/task-stop.ts; the bytes of a key cannot stand inside a string (`json_after`). */
static void take_stops(void) {
  struct stat found;
  look_due = elapsed_ms() + LOOK_MS;
  if (fstatat(launch.dir, "stop-tasks.json", &found, AT_SYMLINK_NOFOLLOW) < 0 || found.st_size == note_size) return;
  char *text = read_whole(launch.dir, "stop-tasks.json", MOST_STOP_BYTES, NULL);
  if (text == NULL) return;
  note_size = found.st_size;
  int seen = 0;
  for (const char *at = json_after(text, "task"); at != NULL; at = json_after(at, "task")) {
    seen += 1;
    if (seen > noted) stop_task((int)strtol(at, NULL, 10), at);
  }
  noted = seen;
  free(text);
}

static int free_port(void) {
  int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0), off = 0;
  struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = in6addr_any};
  struct sockaddr_in four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
  struct sockaddr_storage bound;
  socklen_t size = sizeof bound;
  bool is_bound = fd >= 0 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) == 0 &&
                  bind(fd, (struct sockaddr *)&six, sizeof six) == 0;
  if (!is_bound) {
    if (fd >= 0) close(fd);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    is_bound = fd >= 0 && bind(fd, (struct sockaddr *)&four, sizeof four) == 0;
  }
  int port = NO_PORT;
  if (is_bound && getsockname(fd, (struct sockaddr *)&bound, &size) == 0)
    port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                             : ((struct sockaddr_in *)&bound)->sin_port);
  if (fd >= 0) close(fd);
  return port;
}

/* A port that no other running task was given; none on a machine without a free one. */
static int own_port(void) {
  for (int attempt = 0; attempt < PORT_ATTEMPTS; attempt += 1) {
    int port = free_port();
    bool is_taken = false;
    for (int slot = 0; slot < batch->slot_count; slot += 1)
      if (slots[slot].phase != FREE && slots[slot].port == port) is_taken = true;
    if (port == NO_PORT || !is_taken) return port;
  }
  return NO_PORT;
}

enum { MOST_OWN = 9 };

/* The variables of the task in the place of those that its slot has under the same names; `own` ends with a NULL. */
static char **task_env(char **slot_env, char *const *own) {
  size_t count = 0, filled = 0;
  while (slot_env[count] != NULL) count += 1;
  char **env = calloc(count + MOST_OWN + 1, sizeof *env);
  if (env == NULL) abort();
  for (size_t at = 0; at < count; at += 1) {
    bool is_own = false;
    size_t name = strcspn(slot_env[at], "=") + 1;
    for (int each = 0; own[each] != NULL && !is_own; each += 1) is_own = strncmp(own[each], slot_env[at], name) == 0;
    if (!is_own) env[filled++] = slot_env[at];
  }
  for (int each = 0; own[each] != NULL; each += 1) env[filled++] = own[each];
  return env;
}

static bool has_name(char *const *env, const char *name) {
  size_t size = strlen(name);
  for (; *env != NULL; env += 1)
    if (strncmp(*env, name, size) == 0 && (*env)[size] == '=') return true;
  return false;
}

static void put(char **own, int *count, const char *format, const char *text, int64_t number) {
  int done = text != NULL ? asprintf(&own[*count], format, text, number) : asprintf(&own[*count], format, number);
  if (done < 0) abort();
  *count += 1;
}

/* As agent/shim/task-environment.ts. */
static void run_ranks(int slot, int at) {
  const struct task_plan *task = &batch->tasks[at];
  const struct slot_plan *of = &batch->slots[slot];
  char *own[MOST_OWN + 1] = {NULL}, folder[FOLDER_SIZE];
  int count = 0;
  put(own, &count, "ARRAY_INDEX=%" PRId64, NULL, task->number);
  put(own, &count, "ARRAY_COUNT=%" PRId64, NULL, batch->count);
  put(own, &count, "ORBWEAVER_ARRAY_INDEX=%" PRId64, NULL, task->number);
  put(own, &count, "ORBWEAVER_ARRAY_COUNT=%" PRId64, NULL, batch->count);
  put(own, &count, "ORBWEAVER_CHECKPOINT_DIR=%s", task->checkpoint_dir, 0);
  if (task->checkpoint[0] != '\0') put(own, &count, "ORBWEAVER_CHECKPOINT=%s", task->checkpoint, 0);
  put(own, &count, "ORBWEAVER_LAUNCH_TASK=%s#%" PRId64, launch.path, task->number);
  int common = count;
  if (slots[slot].port != NO_PORT) put(own, &count, "MASTER_PORT=%" PRId64, NULL, slots[slot].port);
  // torchrun's own variable, where the slot has it.
  bool has_pet = count > common && of->rank_count > 0 && has_name(of->ranks[0].env, "PET_MASTER_PORT");
  if (has_pet) put(own, &count, "PET_MASTER_PORT=%" PRId64, NULL, slots[slot].port);
  struct rank_plan *ranks = calloc((size_t)of->rank_count + 1, sizeof *ranks);
  if (ranks == NULL) abort();
  for (int each = 0; each < of->rank_count; each += 1)
    ranks[each] = (struct rank_plan){of->ranks[each].number, task_env(of->ranks[each].env, own)};
  snprintf(folder, sizeof folder, "tasks/%d/", task->number);
  start_group(&launch.groups[slot], &(struct group_start){ranks, of->rank_count, lease_dir, folder});
  for (int each = 0; each < of->rank_count; each += 1) free(ranks[each].env);
  for (int each = 0; each < count; each += 1) free(own[each]);
  free(ranks);
}

/* Its start is on the disk. */
static void start_task(int slot) {
  int at = slots[slot].task;
  slots[slot].phase = RUNNING;
  run_ranks(slot, at);
  FILE *to = begin_line();
  fprintf(to, "{\"kind\":\"ranks\",\"task\":%d,", batch->tasks[at].number);
  print_ranks(to, &launch.groups[slot], true);
  fputs("}", to);
  end_line(&journal);
  // Named while its start was on its way to the disk.
  if (turns[at].reason != NULL) end_group(&launch.groups[slot]);
}

/* The task is over. */
static void end_task(int slot) {
  int at = slots[slot].task;
  struct group *group = &launch.groups[slot];
  int64_t ended_at_ms = last_end_ms(group);
  close_group(group);
  FILE *to = begin_line();
  fprintf(to, "{\"kind\":\"end\",\"task\":%d,\"status\":{", batch->tasks[at].number);
  if (group->started_at_ms != 0) fprintf(to, "\"startedAtMs\":%" PRId64 ",", group->started_at_ms);
  fprintf(to, "\"endedAtMs\":%" PRId64 ",", ended_at_ms);
  print_ranks(to, group, false);
  print_troubles(to, group);
  fputs("}", to);
  print_stop(to, &turns[at]);
  fputs("}", to);
  end_line(&journal);
  group->rank_count = 0;
  slots[slot].phase = FREE;
}

static void take_task(int slot, int at) {
  turns[at].is_started = true;
  slots[slot] = (struct slot){.phase = DUE, .task = at, .port = batch->is_port_agreed ? NO_PORT : own_port()};
  int64_t at_ms = now_ms();
  FILE *to = begin_line();
  fprintf(to, "{\"kind\":\"start\",\"task\":%d,\"slot\":%d,\"atMs\":%" PRId64 "}", batch->tasks[at].number, slot, at_ms);
  end_line(&journal);
  if (launch.started_at_ms == 0) launch.started_at_ms = at_ms;
}

static void fill(int slot) {
  while (next_task < batch->task_count) {
    int at = next_task++;
    if (turns[at].reason != NULL) continue;
    take_task(slot, at);
    return;
  }
}

static void advance_slot(int slot, bool may_start) {
  struct slot *of = &slots[slot];
  struct group *group = &launch.groups[slot];
  if (of->phase == RUNNING && group->is_ended) *of = (struct slot){CLEARING, of->task, of->port, 0, KILLED_LOOK_MS};
  if (of->phase == CLEARING && of->look_at_ms <= elapsed_ms()) {
    if (clear_task(batch->tasks[of->task].number, group)) {
      of->look_at_ms = elapsed_ms() + of->pause_ms;
      of->pause_ms = of->pause_ms * 2 < KILLED_LOOK_MAX_MS ? of->pause_ms * 2 : KILLED_LOOK_MAX_MS;
    } else end_task(slot);
  }
  if (of->phase == FREE && may_start && !is_behind(&journal)) fill(slot);
  // Stopped while the disk was full: it has not run, and its line without an end says that it was cut off.
  if (of->phase == DUE && !may_start) of->phase = FREE;
  if (of->phase == DUE && !is_behind(&journal)) start_task(slot);
}

void start_batch(void) {
  watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (watch >= 0 && inotify_add_watch(watch, launch.path, IN_CLOSE_WRITE | IN_MOVED_TO) < 0) {
    close(watch);
    watch = -1;
  }
  take_stops();
}

static void take_news(void) {
  char events[4096];
  while (watch >= 0 && read(watch, events, sizeof events) > 0) continue;
  take_stops();
}

bool advance_batch(void) {
  retry_journal(&journal);
  take_news();
  bool may_start = !is_halted(), is_busy = false;
  for (int slot = 0; slot < batch->slot_count; slot += 1) {
    advance_slot(slot, may_start);
    if (slots[slot].phase != FREE) is_busy = true;
  }
  bool is_through = next_task >= batch->task_count || !may_start;
  return is_through && !is_busy && !is_behind(&journal);
}

int64_t batch_due(void) {
  int64_t due = journal.due < look_due ? journal.due : look_due;
  for (int slot = 0; slot < batch->slot_count; slot += 1) {
    if (slots[slot].phase == CLEARING && slots[slot].look_at_ms < due) due = slots[slot].look_at_ms;
    // What ended while it was started.
    if (slots[slot].phase == RUNNING && launch.groups[slot].is_ended) due = 0;
  }
  return due;
}
