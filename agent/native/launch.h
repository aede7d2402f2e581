#ifndef ORBWEAVER_LAUNCH_H
#define ORBWEAVER_LAUNCH_H

#include <poll.h>
#include <stdio.h>

#include "rank-start.h"

enum { NO_STREAM = -1 };
/* A timer that is not set. */
#define OFF INT64_MAX

struct end {
  bool is_known;
  bool is_signal;
  /* The exit code, or the signal. */
  int value;
  int64_t at_ms;
};

struct rank {
  int number;
  /* False before the start, and for one whose program could not be started. */
  bool is_started;
  struct end end;
  int streams[STREAMS];
  struct rank_log log;
};

struct failure {
  const char *kind;
  int rank;
  struct end end;
  char message[MESSAGE_SIZE];
};

enum group_timer { DRAIN, GRACE, LIMIT, GROUP_TIMERS };

/* The local ranks of one gang, or of one array task (agent/shim/rank-group.ts). */
struct group {
  int rank_count;
  struct rank *ranks;
  /* Of the same ranks; a pid of 0 where there is none. */
  struct identity *identities;
  int64_t started_at_ms;
  int64_t limit_at_ms;
  struct failure failure;
  /* Every rank has ended and its output is kept. */
  bool is_ended;
  /* In a way that another agent should know. */
  bool is_changed;
  int64_t due[GROUP_TIMERS];
};

struct launch {
  int dir;
  /* As it was given. */
  const char *path;
  char *mark;
  struct identity own;
  struct plan plan;
  struct container container;
  /* One, or one for each slot of a batch. */
  struct group *groups;
  int group_count;
  int64_t started_at_ms;
  bool is_ended;
  /* The fence kills whatever runs. */
  bool is_cut_off;
};

extern struct launch launch;

/* rank-group.c */
/* Room for the ranks of the plan; false without memory. */
bool open_group(struct group *group, int rank_count);
/* The ranks of one gang or of one task; `folder` is where their `ranks/` lies below `log_dir`. */
struct group_start {
  const struct rank_plan *ranks;
  int rank_count;
  int log_dir;
  const char *folder;
};
void start_group(struct group *group, const struct group_start *of);
/* TERM, grace, KILL. */
void end_group(struct group *group);
/* Whether the child was one of its ranks. */
bool rank_ended(struct group *group, pid_t pid, int status);
bool has_open_streams(const struct group *group);
/* Keeps what lies in the pipes, and closes them. */
void close_group(struct group *group);
/* Output that the disk did not take before the end. */
void tell_losses(struct group *group);
int watch_group(const struct group *group, struct pollfd *polls);
void read_group(struct group *group, const struct pollfd *polls);
void run_group_timers(struct group *group);
int64_t group_due(const struct group *group);

/* batch.c */
bool open_batch(void);
/* Files whose changes are told here; -1 where nothing is told. */
int batch_watch(void);
void start_batch(void);
/* Carries out orders, settles tasks that have ended, and starts the next ones. True when the batch is over. */
bool advance_batch(void);
int64_t batch_due(void);

/* journal.c */
struct journal {
  int fd;
  char *pending;
  size_t size;
  int64_t due;
};
void open_journal(struct journal *journal);
/* A printer for the next line; `end_line` hands it to the disk. */
FILE *begin_line(void);
void end_line(struct journal *journal);
bool is_behind(const struct journal *journal);
void retry_journal(struct journal *journal);

/* task-orphans.c */
/* False when no process of the task, whose ranks have ended, is left; kills those that are. */
bool clear_task(int task, const struct group *group);
/* Whether a process has fallen to us that is no rank; true, too, where the system does not tell. */
bool has_strays(void);

/* status.c */
bool write_claim(int dir, const struct identity *own, bool *is_ours);
bool write_status(bool is_final);
bool write_cut_off(int dir, int64_t silent_ms);
/* When the agent told the processes to end; -1 when it has not. */
int64_t told_at_ms(int dir);
void print_ranks(FILE *to, const struct group *group, bool has_processes);
/* Failure and time limit. */
void print_troubles(FILE *to, const struct group *group);
int64_t last_end_ms(const struct group *group);

#endif
