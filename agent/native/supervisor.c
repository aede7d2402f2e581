/*
 * `supervisor <folder of the launch>`: starts the processes of a launch's plan, keeps their output, and writes down how they ended.
 *
 * It lives as long as its ranks, whatever happens to the agent. An order to stop takes another way: the agent notes it in `stop.json` and then
 * signals the processes itself. A supervisor that is not the first to take the claim does nothing. The first rank that ends badly stops the
 * others (TERM, grace, KILL), and so does the time limit. What it does is what agent/shim/supervisor.ts and rank-group.ts do.
 */
#define _GNU_SOURCE
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* Output still in a pipe when its rank ends is waited for this long; a daemon may hold the pipe for ever. */
#define DRAIN_MS 250
/* Ends of ranks that come close together are written down together. */
#define GATHER_MS 20
#define RETRY_WRITE_MS 500
/* Between two looks for orphans that were killed. */
#define ORPHAN_LOOK_MS 10
#define FENCE_KILL_MS 50
#define LONGEST_WAIT_MS 3600000
#define OUTPUT_BYTES (64 << 10)
#define OFF INT64_MAX

/* CONTACT alone keeps no supervisor alive. */
enum timer { DRAIN, GRACE, LIMIT, GATHER, RETRY, ORPHANS, FENCE_KILL, CONTACT, TIMERS };

static struct launch launch = {.dir = -1};
static struct identity own;
static struct fence fence;
static int64_t due[TIMERS];
static bool is_final;
static unsigned char buffer[HELD_SIZE + OUTPUT_BYTES];
/* Both streams of each rank, and the ends of children. */
static struct pollfd *polls;

static void set(enum timer timer, int64_t in_ms) { due[timer] = elapsed_ms() + in_ms; }

static void write_now(void) {
  due[GATHER] = OFF;
  // A full disk: the agent sees the end as soon as there is room.
  if (write_status(&launch, is_final)) due[RETRY] = OFF;
  else set(RETRY, RETRY_WRITE_MS);
}

static void on_change(void) {
  if (due[GATHER] == OFF && !is_final) set(GATHER, GATHER_MS);
}

static bool is_left(bool is_kill) {
  struct roots roots = {launch.mark, &launch.container, own, launch.identities, launch.plan.rank_count};
  return has_members(&roots, is_kill);
}

/* Orphans that fall to us are lost once we have ended: they are killed first, or get the grace of a stop. Any other container keeps them. */
static void look_for_orphans(void) {
  due[ORPHANS] = OFF;
  if (launch.container.is_subreaper) {
    int64_t told = told_at_ms(launch.dir);
    bool is_grace = told >= 0 && now_ms() < told + launch.plan.grace_ms;
    if (is_left(!is_grace)) {
      set(ORPHANS, ORPHAN_LOOK_MS);
      return;
    }
  }
  is_final = true;
  write_now();
}

static void finish(void) {
  if (launch.is_ended) return;
  launch.is_ended = true;
  due[LIMIT] = due[GRACE] = due[DRAIN] = OFF;
  look_for_orphans();
}

static bool is_open(const struct rank *rank) {
  return rank->streams[0] != NO_STREAM || rank->streams[1] != NO_STREAM;
}

static void finish_when_done(void) {
  bool is_any_open = false;
  for (int at = 0; at < launch.plan.rank_count; at += 1) {
    const struct rank *rank = &launch.ranks[at];
    if (rank->is_started && !rank->end.is_known) return;
    if (is_open(rank)) is_any_open = true;
  }
  if (!is_any_open) finish();
  else if (due[DRAIN] == OFF && !launch.is_ended) set(DRAIN, DRAIN_MS);
}

static void signal_ranks(int signal) {
  for (int at = 0; at < launch.plan.rank_count; at += 1)
    if (launch.identities[at].pid != 0 && !launch.ranks[at].end.is_known) kill(-launch.identities[at].pid, signal);
}

/* Some frameworks take a second TERM as "at once". */
static void end_ranks(void) {
  if (due[GRACE] != OFF || launch.is_ended) return;
  if (told_at_ms(launch.dir) < 0) signal_ranks(SIGTERM);
  set(GRACE, launch.plan.grace_ms);
}

static void fail(const struct rank *rank, const char *kind, const char *message) {
  if (launch.failure.kind != NULL) return;
  launch.failure = (struct failure){.kind = kind, .rank = rank->number, .end = rank->end};
  snprintf(launch.failure.message, sizeof launch.failure.message, "%s", message);
  end_ranks();
}

static void start(int at) {
  struct rank *rank = &launch.ranks[at];
  const struct rank_plan *plan = &launch.plan.ranks[at];
  int error = 0;
  pid_t pid = start_rank(&launch.plan, plan->env, &launch.container, rank->streams, &error);
  if (pid < 0) {
    struct start_failure why = explain_failure(&launch.plan, error);
    rank->end = (struct end){.is_known = true, .value = why.exit_code, .at_ms = now_ms()};
    fail(rank, why.kind, why.message);
    return;
  }
  rank->is_started = true;
  open_log(&rank->log, launch.dir, rank->number, &launch.plan);
  if (launch.started_at_ms == 0) launch.started_at_ms = now_ms();
  // Its own child: until it is waited for, no other process has the pid.
  if (!identity_of(pid, &launch.identities[at])) launch.identities[at].pid = pid;
}

static void on_end(pid_t pid, int status) {
  for (int at = 0; at < launch.plan.rank_count; at += 1) {
    struct rank *rank = &launch.ranks[at];
    if (launch.identities[at].pid != pid || rank->end.is_known) continue;
    bool is_signal = WIFSIGNALED(status);
    int value = is_signal ? WTERMSIG(status) : WEXITSTATUS(status);
    rank->end = (struct end){.is_known = true, .is_signal = is_signal, .value = value, .at_ms = now_ms()};
    if (is_signal || value != 0) fail(rank, is_signal ? "signalled" : "exited", "");
    on_change();
    finish_when_done();
  }
}

/* The ranks, and orphans that have fallen to us. */
static void reap(int signals) {
  struct signalfd_siginfo info;
  int status = 0;
  while (read(signals, &info, sizeof info) > 0) continue;
  for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG)) on_end(pid, status);
}

static void take_output(struct rank *rank, int stream) {
  ssize_t got = read(rank->streams[stream], buffer + HELD_SIZE, OUTPUT_BYTES);
  if (got > 0) {
    log_write(&rank->log, stream, buffer + HELD_SIZE, (size_t)got);
    return;
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  log_end(&rank->log, stream);
  close(rank->streams[stream]);
  rank->streams[stream] = NO_STREAM;
  if (!is_open(rank)) log_close(&rank->log);
  finish_when_done();
}

static void kill_for_fence(void) {
  due[FENCE_KILL] = OFF;
  if (is_left(true)) set(FENCE_KILL, FENCE_KILL_MS);
}

static void look_for_contact(void) {
  int64_t silent_ms = 0;
  int64_t again_ms = look_at_contact(&fence, &silent_ms);
  due[CONTACT] = OFF;
  if (again_ms >= 0) {
    set(CONTACT, again_ms);
    return;
  }
  write_cut_off(launch.dir, silent_ms);
  kill_for_fence();
}

static void reach_limit(void) {
  due[LIMIT] = OFF;
  if (launch.failure.kind != NULL) return;
  launch.limit_at_ms = now_ms();
  end_ranks();
  on_change();
}

static void run_timer(enum timer timer) {
  switch (timer) {
    case DRAIN: finish(); break;
    case GRACE:
      // Stays set in effect: a second end has no second grace.
      due[GRACE] = OFF - 1;
      signal_ranks(SIGKILL);
      break;
    case LIMIT: reach_limit(); break;
    case GATHER:
    case RETRY: write_now(); break;
    case ORPHANS: look_for_orphans(); break;
    case FENCE_KILL: kill_for_fence(); break;
    case CONTACT: look_for_contact(); break;
    case TIMERS: break;
  }
}

static int64_t next_due(void) {
  int64_t next = OFF;
  for (int timer = 0; timer < TIMERS; timer += 1)
    if (due[timer] < next) next = due[timer];
  return next;
}

static bool is_over(void) {
  if (!is_final || due[RETRY] != OFF || due[FENCE_KILL] != OFF) return false;
  for (int at = 0; at < launch.plan.rank_count; at += 1)
    if (is_open(&launch.ranks[at])) return false;
  return true;
}

static void look_at_streams(int signals) {
  int count = launch.plan.rank_count;
  for (int at = 0; at < count * STREAMS; at += 1)
    polls[at] = (struct pollfd){.fd = launch.ranks[at / STREAMS].streams[at % STREAMS], .events = POLLIN};
  polls[count * STREAMS] = (struct pollfd){.fd = signals, .events = POLLIN};
  int64_t wait = next_due() - elapsed_ms();
  if (poll(polls, (nfds_t)(count * STREAMS + 1), wait < 0 ? 0 : wait > LONGEST_WAIT_MS ? LONGEST_WAIT_MS : (int)wait) <= 0) return;
  for (int at = 0; at < count * STREAMS; at += 1)
    if (polls[at].revents != 0) take_output(&launch.ranks[at / STREAMS], at % STREAMS);
  if (polls[count * STREAMS].revents != 0) reap(signals);
}

static int supervise(int signals) {
  while (!is_over()) {
    look_at_streams(signals);
    for (int timer = 0; timer < TIMERS; timer += 1)
      if (due[timer] <= elapsed_ms()) run_timer((enum timer)timer);
  }
  return EXIT_SUCCESS;
}

/* Where the ends of children are told; -1 where the system has no room for it. */
static int take_signals(void) {
  // The agent signals the ranks itself; a supervisor that died of the same signal could not write how they ended.
  const int ignored[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE};
  for (size_t at = 0; at < sizeof ignored / sizeof ignored[0]; at += 1) signal(ignored[at], SIG_IGN);
  sigset_t children;
  sigemptyset(&children);
  sigaddset(&children, SIGCHLD);
  sigprocmask(SIG_BLOCK, &children, NULL);
  return signalfd(-1, &children, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int start_all(int signals) {
  bool is_running = false;
  if (launch.container.is_subreaper) prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  for (int at = 0; at < launch.plan.rank_count && launch.failure.kind == NULL; at += 1) start(at);
  free_plan(&launch.plan);
  for (int at = 0; at < launch.plan.rank_count; at += 1)
    if (launch.ranks[at].is_started) is_running = true;
  if (launch.plan.limit_ms >= 0) set(LIMIT, launch.plan.limit_ms);
  finish_when_done();
  if (is_running) write_now();
  look_for_contact();
  return supervise(signals);
}

static bool prepare(const char *dir) {
  const char *leases = NULL;
  for (const char *at = strstr(dir, "/leases/"); at != NULL; at = strstr(at + 1, "/leases/")) leases = at;
  fence.host_dir = strndup(dir, leases == NULL ? strlen(dir) : (size_t)(leases - dir));
  launch.ranks = calloc((size_t)launch.plan.rank_count + 1, sizeof *launch.ranks);
  launch.identities = calloc((size_t)launch.plan.rank_count + 1, sizeof *launch.identities);
  for (int timer = 0; timer < TIMERS; timer += 1) due[timer] = OFF;
  polls = calloc((size_t)launch.plan.rank_count * STREAMS + 1, sizeof *polls);
  if (launch.ranks == NULL || launch.identities == NULL || polls == NULL || fence.host_dir == NULL) return false;
  for (int at = 0; at < launch.plan.rank_count; at += 1)
    launch.ranks[at] = (struct rank){.number = launch.plan.ranks[at].number, .streams = {NO_STREAM, NO_STREAM}};
  return asprintf(&launch.mark, "ORBWEAVER_LAUNCH=%s", dir) >= 0 && identity_of(getpid(), &own);
}

int main(int count, char **words) {
  if (count == 2 && strcmp(words[1], "--protocol") == 0) return puts(PROTOCOL) < 0;
  if (count > 2 && strcmp(words[1], "--as-user") == 0) run_as_user(words + 2);
  if (count > 3 && strcmp(words[1], "--hold-signals") == 0) run_with_signals(words + 3, true);
  if (count > 3 && strcmp(words[1], "--take-signals") == 0) run_with_signals(words + 3, false);
  if (count > 2 && strcmp(words[1], "--deny-devices") == 0) deny_devices(words + 2);
  if (count != 2) {
    fputs("supervisor: no launch folder was given; only an agent starts this program\n", stderr);
    return 2;
  }
  launch.dir = open(words[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  bool is_ours = false;
  if (launch.dir < 0 || !read_plan(launch.dir, &launch.plan)) {
    fprintf(stderr, "supervisor: %s/plan.words is missing or broken\n", words[1]);
    return EXIT_FAILURE;
  }
  if (!take_secrets(&launch.plan)) {
    fputs("supervisor: the values of the job's secrets have not come\n", stderr);
    return EXIT_FAILURE;
  }
  // All that can fail for want of room comes before the claim.
  int signals = take_signals();
  if (signals < 0 || !prepare(words[1]) || !write_claim(launch.dir, &own, &is_ours)) {
    fprintf(stderr, "supervisor: cannot take the claim of %s: %s\n", words[1], strerror(errno));
    return EXIT_FAILURE;
  }
  if (!is_ours) return EXIT_SUCCESS;
  launch.container = read_container(launch.dir);
  if (faccessat(launch.dir, "stop.json", F_OK, 0) != 0) return start_all(signals);
  launch.is_ended = is_final = true;
  while (!write_status(&launch, true)) usleep(RETRY_WRITE_MS * 1000);
  return EXIT_SUCCESS;
}
