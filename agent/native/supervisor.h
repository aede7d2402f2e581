/*
 * The native supervisor of a launch, or of a batch of array tasks: the same protocol as the shim in Node (agent/shim/).
 *
 * It reads files of its own launch's folder, the host's `contact.json`, `/proc` and the launch's cgroups; every size is bounded. It looks up no
 * program for itself and starts no shell. What it needs of JSON are a few keys of files that only agents write, see `json_after`.
 */
#ifndef ORBWEAVER_SUPERVISOR_H
#define ORBWEAVER_SUPERVISOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* First word of `plan.words` (agent/runs/plan-words.ts), and what `--protocol` prints. */
#define PROTOCOL "orbweaver-supervisor-4"
#define BOOT_ID_SIZE 64
#define STARTED_SIZE 24

/* A process by boot id, pid and start time; the boot id is the machine's. */
struct identity {
  pid_t pid;
  char started[STARTED_SIZE];
};

struct rank_plan {
  int number;
  char **env;
};

struct task_plan {
  int number;
  char *checkpoint_dir;
  /* Empty where there is none. */
  char *checkpoint;
};

struct slot_plan {
  int rank_count;
  struct rank_plan *ranks;
};

/* As `BatchPlan` in agent/folder/launch-files.ts. */
struct batch_plan {
  /* Tasks of the whole array. */
  int64_t count;
  bool is_port_agreed;
  char *lease_dir;
  int task_count;
  struct task_plan *tasks;
  /* None for a launch that is no batch. */
  int slot_count;
  struct slot_plan *slots;
};

struct plan {
  char *bytes;
  int64_t grace_ms;
  /* Negative where there is none. */
  int64_t limit_ms;
  int64_t part_bytes;
  int parts;
  char *cwd;
  char **command;
  /* Names of variables whose values come by our input. */
  char **secrets;
  char *secret_bytes;
  size_t secret_size;
  /* None for a batch. */
  int rank_count;
  struct rank_plan *ranks;
  struct batch_plan batch;
};

/* One for all processes; where other hierarchies do so, one that counts them, one each for memory, processors and devices. */
#define MAX_GROUPS 5

struct container {
  bool is_subreaper;
  int group_count;
  char *groups[MAX_GROUPS];
};

enum { STREAMS = 2, HELD_SIZE = 3, FOLDER_SIZE = 64 };

/* A rank's output in parts, as agent/shim/rank-log.ts writes them. */
struct rank_log {
  int dir;
  /* Below `dir`; made when the rank writes something. */
  char folder[FOLDER_SIZE];
  int fd;
  bool is_open;
  int64_t part_bytes;
  int64_t offset;
  int64_t part_size;
  int64_t lost_bytes;
  int64_t *starts;
  int start_count;
  int parts;
  unsigned char held[STREAMS][HELD_SIZE];
  size_t held_size[STREAMS];
};

/* files.c */
char *read_whole(int dir, const char *name, size_t most, size_t *size);
char *read_all(int fd, size_t most, size_t *size);
bool replace_file(int dir, const char *name, const char *text);
/* 1: created by this call, 0: it was there already, -1: could not be written. */
int create_once(int dir, const char *name, const char *text);
bool write_word(const char *folder, const char *file, const char *word);
const char *json_after(const char *text, const char *key);
char *json_plain_string(const char *at);
void print_json_string(void *stream, const char *text);

/* plan.c */
bool read_plan(int dir, struct plan *plan);
/* Puts the values into the environment of every rank; false where they have not come whole. */
bool take_secrets(struct plan *plan);
void free_plan(struct plan *plan);
struct container read_container(int dir);

/* rank-log.c */
void open_log(struct rank_log *log, int dir, const char *folder, const struct plan *plan);
void log_write(struct rank_log *log, int stream, const unsigned char *bytes, size_t size);
void log_end(struct rank_log *log, int stream);
void log_close(struct rank_log *log);
void log_tell_loss(struct rank_log *log);
void forget_log(struct rank_log *log);

/* processes.c */
const char *boot_id(void);
bool identity_of(pid_t pid, struct identity *identity);
struct roots {
  const char *mark;
  const struct container *container;
  /* A pid of 0 where its other descendants are no members. */
  struct identity own;
  const struct identity *ranks;
  int rank_count;
  /* The ranks have just been waited for: sessions and groups with their pids are theirs, though they have ended. */
  bool are_ranks_recent;
};
/* Whether a process of the launch runs; sends KILL to all of them where asked. */
bool has_members(const struct roots *roots, bool is_kill);
/* The process group and the session of a process that runs. */
bool kin_of(pid_t pid, pid_t *group, pid_t *session);
/* What follows `prefix` in the environment that the process was started with, up to `size`; false where it is not there. */
bool marked_rest(pid_t pid, const char *prefix, char *rest, size_t size);

/* exec-step.c */
/* All groups but the first `joined`. */
void join_groups(const struct container *container, int joined);
_Noreturn void run_as_user(char **words);
_Noreturn void run_with_signals(char **words, bool is_held);

/* starter.c */
_Noreturn void run_starter(const char *program);

/* device-filter.c */
_Noreturn void deny_devices(char **words);

/* fence.c */
struct contact {
  double uptime_ms;
  double silence_ms;
  double fence_ms;
  bool is_met;
  bool is_of_this_boot;
  bool is_hold;
};
struct fence {
  char *host_dir;
  struct contact contact;
  bool is_seen_before;
};
/* Milliseconds until the next look; negative when the host has been cut off for too long: `silent_ms` says for how long. */
int64_t look_at_contact(struct fence *fence, int64_t *silent_ms);

/* clocks.c lies in files.c: three clocks in milliseconds. */
int64_t now_ms(void);
int64_t elapsed_ms(void);
double since_boot_ms(void);

#endif
