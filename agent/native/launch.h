#ifndef ORBWEAVER_LAUNCH_H
#define ORBWEAVER_LAUNCH_H

#include "rank-start.h"

enum { NO_STREAM = -1 };

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

struct launch {
  int dir;
  char *mark;
  struct plan plan;
  struct container container;
  struct rank *ranks;
  /* Of the same ranks; a pid of 0 where there is none. */
  struct identity *identities;
  int64_t started_at_ms;
  int64_t limit_at_ms;
  struct failure failure;
  bool is_ended;
};

/* status.c */
bool write_claim(int dir, const struct identity *own, bool *is_ours);
bool write_status(const struct launch *launch, bool is_final);
bool write_cut_off(int dir, int64_t silent_ms);
/* When the agent told the processes to end; -1 when it has not. */
int64_t told_at_ms(int dir);

#endif
