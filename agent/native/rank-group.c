/*
 * Starts the local ranks of one gang or of one array task, keeps their output, and sees them to their end. The first rank that ends badly stops
 * the others (TERM, grace, KILL), and so does the time limit. Processes that the ranks leave behind are not looked for here.
 */
#define _GNU_SOURCE
#include "launch.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Output still in a pipe when its rank ends is waited for this long; a daemon may hold the pipe for ever. */
#define DRAIN_MS 250
#define OUTPUT_BYTES (64 << 10)
/* More than a pipe holds. */
#define LAST_READS 64

static unsigned char buffer[HELD_SIZE + OUTPUT_BYTES];

bool open_group(struct group *group, int rank_count) {
  *group = (struct group){.ranks = calloc((size_t)rank_count + 1, sizeof *group->ranks),
                          .identities = calloc((size_t)rank_count + 1, sizeof *group->identities),
                          .due = {OFF, OFF, OFF}};
  return group->ranks != NULL && group->identities != NULL;
}

static void set(struct group *group, enum group_timer timer, int64_t in_ms) { group->due[timer] = elapsed_ms() + in_ms; }

static bool is_open(const struct rank *rank) {
  return rank->streams[0] != NO_STREAM || rank->streams[1] != NO_STREAM;
}

bool has_open_streams(const struct group *group) {
  for (int at = 0; at < group->rank_count; at += 1)
    if (is_open(&group->ranks[at])) return true;
  return false;
}

static void finish(struct group *group) {
  group->is_ended = true;
  for (int timer = 0; timer < GROUP_TIMERS; timer += 1) group->due[timer] = OFF;
}

static void finish_when_done(struct group *group) {
  for (int at = 0; at < group->rank_count; at += 1)
    if (group->ranks[at].is_started && !group->ranks[at].end.is_known) return;
  if (group->is_ended) return;
  if (!has_open_streams(group)) finish(group);
  else if (group->due[DRAIN] == OFF) set(group, DRAIN, DRAIN_MS);
}

static void signal_ranks(const struct group *group, int signal) {
  for (int at = 0; at < group->rank_count; at += 1)
    if (group->identities[at].pid != 0 && !group->ranks[at].end.is_known) kill(-group->identities[at].pid, signal);
}

/* Some frameworks take a second TERM as "at once". */
void end_group(struct group *group) {
  if (group->due[GRACE] != OFF || group->is_ended) return;
  if (told_at_ms(launch.dir) < 0) signal_ranks(group, SIGTERM);
  set(group, GRACE, launch.plan.grace_ms);
}

static void fail(struct group *group, const struct rank *rank, const char *kind, const char *message) {
  if (group->failure.kind != NULL) return;
  group->failure = (struct failure){.kind = kind, .rank = rank->number, .end = rank->end};
  snprintf(group->failure.message, sizeof group->failure.message, "%s", message);
  end_group(group);
}

static void start(struct group *group, int at, const struct group_start *of) {
  struct rank *rank = &group->ranks[at];
  int error = 0;
  pid_t pid = start_rank(&launch.plan, of->ranks[at].env, &launch.container, rank->streams, &error);
  if (pid < 0) {
    struct start_failure why = explain_failure(&launch.plan, error);
    rank->end = (struct end){.is_known = true, .value = why.exit_code, .at_ms = now_ms()};
    fail(group, rank, why.kind, why.message);
    return;
  }
  char folder[FOLDER_SIZE];
  snprintf(folder, sizeof folder, "%sranks/%d", of->folder, rank->number);
  rank->is_started = true;
  open_log(&rank->log, of->log_dir, folder, &launch.plan);
  if (group->started_at_ms == 0) group->started_at_ms = now_ms();
  // Its own child: until it is waited for, no other process has the pid.
  if (!identity_of(pid, &group->identities[at])) group->identities[at].pid = pid;
}

void start_group(struct group *group, const struct group_start *of) {
  struct rank *ranks = group->ranks;
  struct identity *identities = group->identities;
  for (int at = 0; at < group->rank_count; at += 1) forget_log(&ranks[at].log);
  *group = (struct group){.ranks = ranks, .identities = identities, .rank_count = of->rank_count, .due = {OFF, OFF, OFF}};
  for (int at = 0; at < of->rank_count; at += 1) {
    ranks[at] = (struct rank){.number = of->ranks[at].number, .streams = {NO_STREAM, NO_STREAM}, .log = {.fd = -1}};
    identities[at] = (struct identity){.pid = 0};
  }
  for (int at = 0; at < of->rank_count && group->failure.kind == NULL; at += 1) start(group, at, of);
  if (launch.plan.limit_ms >= 0) set(group, LIMIT, launch.plan.limit_ms);
  finish_when_done(group);
}

bool rank_ended(struct group *group, pid_t pid, int status) {
  for (int at = 0; at < group->rank_count; at += 1) {
    struct rank *rank = &group->ranks[at];
    if (group->identities[at].pid != pid || rank->end.is_known) continue;
    bool is_signal = WIFSIGNALED(status);
    int value = is_signal ? WTERMSIG(status) : WEXITSTATUS(status);
    rank->end = (struct end){.is_known = true, .is_signal = is_signal, .value = value, .at_ms = now_ms()};
    if (is_signal || value != 0) fail(group, rank, is_signal ? "signalled" : "exited", "");
    group->is_changed = true;
    finish_when_done(group);
    return true;
  }
  return false;
}

/* False when nothing more lies in the pipe now. */
static bool take_output(struct rank *rank, int stream) {
  ssize_t got = read(rank->streams[stream], buffer + HELD_SIZE, OUTPUT_BYTES);
  if (got > 0) {
    log_write(&rank->log, stream, buffer + HELD_SIZE, (size_t)got);
    return true;
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  log_end(&rank->log, stream);
  close(rank->streams[stream]);
  rank->streams[stream] = NO_STREAM;
  if (!is_open(rank)) log_close(&rank->log);
  return false;
}

void close_group(struct group *group) {
  for (int at = 0; at < group->rank_count; at += 1) {
    struct rank *rank = &group->ranks[at];
    for (int stream = 0; stream < STREAMS; stream += 1) {
      for (int reads = 0; reads < LAST_READS && rank->streams[stream] != NO_STREAM; reads += 1)
        if (!take_output(rank, stream)) break;
      if (rank->streams[stream] == NO_STREAM) continue;
      log_end(&rank->log, stream);
      close(rank->streams[stream]);
      rank->streams[stream] = NO_STREAM;
    }
    forget_log(&rank->log);
  }
}

void tell_losses(struct group *group) {
  for (int at = 0; at < group->rank_count; at += 1) {
    struct rank *rank = &group->ranks[at];
    if (!is_open(rank)) log_tell_loss(&rank->log);
  }
}

int watch_group(const struct group *group, struct pollfd *polls) {
  int count = group->rank_count * STREAMS;
  for (int at = 0; at < count; at += 1)
    polls[at] = (struct pollfd){.fd = group->ranks[at / STREAMS].streams[at % STREAMS], .events = POLLIN};
  return count;
}

void read_group(struct group *group, const struct pollfd *polls) {
  for (int at = 0; at < group->rank_count * STREAMS; at += 1)
    if (polls[at].revents != 0) take_output(&group->ranks[at / STREAMS], at % STREAMS);
  finish_when_done(group);
}

static void reach_limit(struct group *group) {
  group->due[LIMIT] = OFF;
  if (group->failure.kind != NULL || group->is_ended) return;
  group->limit_at_ms = now_ms();
  end_group(group);
  group->is_changed = true;
}

void run_group_timers(struct group *group) {
  int64_t now = elapsed_ms();
  if (group->due[DRAIN] <= now) finish(group);
  if (group->due[GRACE] <= now) {
    // Stays set in effect: a second end has no second grace.
    group->due[GRACE] = OFF - 1;
    signal_ranks(group, SIGKILL);
  }
  if (group->due[LIMIT] <= now) reach_limit(group);
}

int64_t group_due(const struct group *group) {
  int64_t next = OFF;
  for (int timer = 0; timer < GROUP_TIMERS; timer += 1)
    if (group->due[timer] < next) next = group->due[timer];
  return next;
}
