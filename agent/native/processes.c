/*
 * The processes of a launch: members of its groups, the ranks' process groups and sessions, descendants of ranks and supervisor, and each
 * process that carries the launch's mark. As agent/runs/launch-processes.ts and agent/system/node-groups.ts do.
 * Cost: one small read for each process of the machine, two for those that may carry the mark.
 */
#define _GNU_SOURCE
#include "supervisor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Fields of `/proc/<pid>/stat` behind the command's name: 0 state, 1 parent, 2 process group, 3 session, 19 start time. */
enum { STATE, PARENT, GROUP, SESSION, START_TIME = 19 };
#define FREEZE_LOOKS 100
#define MOST_GROUP_DEPTH 16

struct process {
  pid_t pid;
  pid_t parent;
  pid_t group;
  pid_t session;
  bool is_zombie;
  bool is_member;
  char started[STARTED_SIZE];
};

struct table {
  struct process *rows;
  size_t count;
  size_t room;
};

const char *boot_id(void) {
  static char id[BOOT_ID_SIZE];
  if (id[0] == '\0') {
    char *text = read_whole(AT_FDCWD, "/proc/sys/kernel/random/boot_id", BOOT_ID_SIZE, NULL);
    if (text != NULL) snprintf(id, sizeof id, "%.*s", (int)strcspn(text, "\n"), text);
    free(text);
  }
  return id;
}

static bool read_stat(pid_t pid, struct process *row) {
  char path[40], text[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t size = read(fd, text, sizeof text - 1);
  close(fd);
  if (size <= 0) return false;
  text[size] = '\0';
  // The command's name is in parentheses and may itself hold spaces and parentheses.
  char *rest = strrchr(text, ')');
  if (rest == NULL) return false;
  *row = (struct process){.pid = pid};
  int field = 0;
  char *left = NULL;
  for (char *word = strtok_r(rest + 1, " ", &left); word != NULL; word = strtok_r(NULL, " ", &left)) {
    if (field == STATE) row->is_zombie = *word == 'Z' || *word == 'X';
    if (field == PARENT) row->parent = (pid_t)atol(word);
    if (field == GROUP) row->group = (pid_t)atol(word);
    if (field == SESSION) row->session = (pid_t)atol(word);
    if (field == START_TIME) snprintf(row->started, sizeof row->started, "%s", word);
    field += 1;
  }
  return field > START_TIME;
}

/* False when none runs under the pid. */
bool identity_of(pid_t pid, struct identity *identity) {
  struct process row;
  if (!read_stat(pid, &row) || row.is_zombie) return false;
  identity->pid = pid;
  memcpy(identity->started, row.started, sizeof identity->started);
  return true;
}

static pid_t pid_of_name(const char *name) {
  char *end = NULL;
  long pid = *name >= '1' && *name <= '9' ? strtol(name, &end, 10) : 0;
  return pid > 0 && *end == '\0' ? (pid_t)pid : 0;
}

static void look_at_all(struct table *table) {
  DIR *proc = opendir("/proc");
  if (proc == NULL) return;
  for (struct dirent *entry = readdir(proc); entry != NULL; entry = readdir(proc)) {
    pid_t pid = pid_of_name(entry->d_name);
    if (pid == 0) continue;
    if (table->count == table->room) {
      size_t room = table->room * 2 + 256;
      struct process *rows = realloc(table->rows, room * sizeof *rows);
      if (rows == NULL) break;
      table->rows = rows;
      table->room = room;
    }
    if (read_stat(pid, &table->rows[table->count])) table->count += 1;
  }
  closedir(proc);
}

/* False where none runs under the pid. */
bool kin_of(pid_t pid, pid_t *group, pid_t *session) {
  struct process row;
  if (!read_stat(pid, &row) || row.is_zombie) return false;
  *group = row.group;
  *session = row.session;
  return true;
}

/* Looks for `size` bytes in the environment that the process was started with; copies what follows them, up to the end of the entry. */
static bool find_in_environment(pid_t pid, const char *wanted, size_t size, char *rest, size_t rest_size) {
  static char bytes[64 << 10];
  char path[40];
  size_t kept = 0, window = size + rest_size;
  snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const char *found = NULL;
  while (found == NULL) {
    ssize_t got = read(fd, bytes + kept, sizeof bytes - 1 - kept);
    if (got <= 0 && kept == 0) break;
    size_t filled = kept + (got < 0 ? 0 : (size_t)got);
    bytes[filled] = '\0';
    found = memmem(bytes, filled, wanted, size);
    // The rest of the entry may come with the next read.
    if (found != NULL && got > 0 && found + window > bytes + filled) found = NULL;
    if (got <= 0) break;
    kept = filled < window ? filled : window;
    if (found == NULL) memmove(bytes, bytes + filled - kept, kept);
  }
  close(fd);
  if (found != NULL && rest_size > 0) snprintf(rest, rest_size, "%s", found + size);
  return found != NULL;
}

/* As a whole entry. */
static bool is_marked(pid_t pid, const char *mark) {
  return find_in_environment(pid, mark, strlen(mark) + 1, NULL, 0);
}

bool marked_rest(pid_t pid, const char *prefix, char *rest, size_t size) {
  return find_in_environment(pid, prefix, strlen(prefix), rest, size);
}

typedef void visitor(const char *group, void *context);

/* The group and all below it. */
static void visit_groups(const char *group, int depth, visitor *visit, void *context) {
  DIR *dir = depth > MOST_GROUP_DEPTH ? NULL : opendir(group);
  if (dir == NULL) return;
  for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
    char *below = NULL;
    if (entry->d_type != DT_DIR || entry->d_name[0] == '.') continue;
    if (asprintf(&below, "%s/%s", group, entry->d_name) < 0) break;
    visit_groups(below, depth + 1, visit, context);
    free(below);
  }
  closedir(dir);
  visit(group, context);
}

struct pid_list {
  pid_t *pids;
  size_t count;
};

static void add_pids(const char *group, void *context) {
  struct pid_list *list = context;
  char *path = NULL;
  if (asprintf(&path, "%s/cgroup.procs", group) < 0) return;
  FILE *file = fopen(path, "re");
  free(path);
  if (file == NULL) return;
  int pid = 0;
  while (fscanf(file, "%d", &pid) == 1) {
    // 0 stands for a process of another PID namespace.
    if (pid <= 0) continue;
    pid_t *pids = realloc(list->pids, (list->count + 1) * sizeof *pids);
    if (pids == NULL) break;
    list->pids = pids;
    pids[list->count++] = (pid_t)pid;
  }
  fclose(file);
}

static struct pid_list pids_of(const char *group) {
  struct pid_list list = {NULL, 0};
  visit_groups(group, 0, add_pids, &list);
  return list;
}

static void freeze(const char *group, void *context) {
  (void)context;
  if (write_word(group, "cgroup.freeze", "1") || !write_word(group, "freezer.state", "FROZEN")) return;
  char *path = NULL;
  if (asprintf(&path, "%s/freezer.state", group) < 0) return;
  bool is_frozen = false;
  for (int look = 0; look < FREEZE_LOOKS && !is_frozen; look += 1) {
    char *state = read_whole(AT_FDCWD, path, 64, NULL);
    is_frozen = state == NULL || strncmp(state, "FROZEN", 6) == 0;
    free(state);
  }
  free(path);
}

static void thaw(const char *group, void *context) {
  (void)context;
  if (!write_word(group, "cgroup.freeze", "0")) write_word(group, "freezer.state", "THAWED");
}

/* Whether the group held a process. Frozen, signalled and thawed where it cannot be killed at once, so that no process forks meanwhile. */
static bool kill_group(const char *group) {
  struct pid_list held = pids_of(group);
  free(held.pids);
  // Reaches every depth, and so also what is too deep to be listed.
  bool is_killed = write_word(group, "cgroup.kill", "1");
  if (held.count == 0 || is_killed) return held.count > 0;
  visit_groups(group, 0, freeze, NULL);
  struct pid_list frozen = pids_of(group);
  for (size_t at = 0; at < frozen.count; at += 1) kill(frozen.pids[at], SIGKILL);
  free(frozen.pids);
  visit_groups(group, 0, thaw, NULL);
  return true;
}

static int by_pid(const void *one, const void *other) {
  pid_t a = ((const struct process *)one)->pid, b = ((const struct process *)other)->pid;
  return (a > b) - (a < b);
}

static struct process *row_of(const struct table *table, pid_t pid) {
  struct process wanted = {.pid = pid};
  return table->count == 0 ? NULL : bsearch(&wanted, table->rows, table->count, sizeof wanted, by_pid);
}

static bool is_known(const struct table *table, const struct identity *identity) {
  const struct process *row = row_of(table, identity->pid);
  return row != NULL && strcmp(row->started, identity->started) == 0;
}

/* None that started before the supervisor can have the mark from it. */
static bool is_root(const struct roots *roots, const struct table *table, const struct process *row) {
  for (int at = 0; at < roots->rank_count; at += 1) {
    const struct identity *rank = &roots->ranks[at];
    if (rank->pid == 0) continue;
    // A process with the pid of a rank that has ended is another one, and so are those that follow it.
    if (roots->are_ranks_recent ? row_of(table, rank->pid) != NULL : !is_known(table, rank)) continue;
    if (row->pid == rank->pid || row->group == rank->pid || row->session == rank->pid) return true;
  }
  return row->pid == roots->own.pid ||
         (atoll(row->started) >= atoll(roots->own.started) && is_marked(row->pid, roots->mark));
}

static void find_members(const struct roots *roots, struct table *table) {
  look_at_all(table);
  if (table->count > 1) qsort(table->rows, table->count, sizeof *table->rows, by_pid);
  for (size_t at = 0; at < table->count; at += 1)
    table->rows[at].is_member = is_root(roots, table, &table->rows[at]);
  for (int at = 0; at < (roots->container->group_count > 0 ? 1 : 0); at += 1) {
    struct pid_list grouped = pids_of(roots->container->groups[at]);
    for (size_t each = 0; each < grouped.count; each += 1) {
      struct process *row = row_of(table, grouped.pids[each]);
      if (row != NULL) row->is_member = true;
    }
    free(grouped.pids);
  }
  for (bool is_changed = true; is_changed;) {
    is_changed = false;
    for (size_t at = 0; at < table->count; at += 1) {
      struct process *row = &table->rows[at];
      const struct process *parent = row->is_member ? NULL : row_of(table, row->parent);
      if (parent == NULL || !parent->is_member) continue;
      row->is_member = is_changed = true;
    }
  }
}

bool has_members(const struct roots *roots, bool is_kill) {
  bool has_any = false;
  // Before any look at single processes: one that forks and ends again and again is in no two looks.
  for (int at = 0; is_kill && at < roots->container->group_count; at += 1)
    if (kill_group(roots->container->groups[at])) has_any = true;
  struct table table = {NULL, 0, 0};
  find_members(roots, &table);
  for (size_t at = 0; at < table.count; at += 1) {
    const struct process *row = &table.rows[at];
    if (!row->is_member || row->is_zombie || row->pid == roots->own.pid) continue;
    has_any = true;
    if (is_kill) kill(row->pid, SIGKILL);
  }
  free(table.rows);
  return has_any;
}
