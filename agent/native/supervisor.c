/*
 * `supervisor <folder of the launch>`: starts the processes of a launch's plan, keeps their output, and writes down how they ended.
 *
 * It lives as long as its ranks, whatever happens to the agent. An order to stop takes another way: the agent notes it in `stop.json` and then
 * signals the processes itself. A supervisor that is not the first to take the claim does nothing. What it does is what
 * agent/shim/supervisor.ts does; the ranks are rank-group.c's, and those of a batch of array tasks batch.c's.
 */
#define _GNU_SOURCE
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* Ends of ranks that come close together are written down together. */
#define GATHER_MS 20
#define RETRY_WRITE_MS 500
/* Between two looks for orphans that were killed. */
#define ORPHAN_LOOK_MS 10
#define FENCE_KILL_MS 50
#define LONGEST_WAIT_MS 3600000

/* CONTACT alone keeps no supervisor alive. */
enum timer { GATHER, RETRY, ORPHANS, FENCE_KILL, CONTACT, TIMERS };

struct launch launch = {.dir = -1};
static struct fence fence;
static int64_t due[TIMERS];
static bool is_final;
/* Both streams of each rank, the ends of children, and the news of a batch. */
static struct pollfd *polls;

static bool is_batch(void) { return launch.plan.batch.slot_count > 0; }

static void set(enum timer timer, int64_t in_ms) { due[timer] = elapsed_ms() + in_ms; }

static void write_now(void) {
  due[GATHER] = OFF;
  if (is_final && !is_batch()) tell_losses(&launch.groups[0]);
  // A full disk: the agent sees the end as soon as there is room.
  if (write_status(is_final)) due[RETRY] = OFF;
  else set(RETRY, RETRY_WRITE_MS);
}

static bool is_left(bool is_kill) {
  const struct group *group = &launch.groups[0];
  struct roots roots = {launch.mark, &launch.container, launch.own, group->identities, is_batch() ? 0 : group->rank_count, false};
  return has_members(&roots, is_kill);
}

/* Orphans that fall to us are lost once we have ended: they are killed first, or get the grace of a stop. Any other container keeps them. */
static void look_for_orphans(void) {
  due[ORPHANS] = OFF;
  if (is_batch() ? has_strays() : launch.container.is_subreaper) {
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
  launch.is_ended = true;
  look_for_orphans();
}

/* The ranks, and orphans that have fallen to us. */
static void reap(int signals) {
  struct signalfd_siginfo info;
  int status = 0;
  while (read(signals, &info, sizeof info) > 0) continue;
  for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG))
    for (int at = 0; at < launch.group_count && !rank_ended(&launch.groups[at], pid, status); at += 1) continue;
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
  launch.is_cut_off = true;
  write_cut_off(launch.dir, silent_ms);
  kill_for_fence();
}

static void run_timer(enum timer timer) {
  switch (timer) {
    case GATHER:
    case RETRY: write_now(); break;
    case ORPHANS: look_for_orphans(); break;
    case FENCE_KILL: kill_for_fence(); break;
    case CONTACT: look_for_contact(); break;
    case TIMERS: break;
  }
}

static int64_t next_due(void) {
  int64_t next = is_batch() && !launch.is_ended ? batch_due() : OFF;
  for (int timer = 0; timer < TIMERS; timer += 1)
    if (due[timer] < next) next = due[timer];
  for (int at = 0; at < launch.group_count; at += 1)
    if (group_due(&launch.groups[at]) < next) next = group_due(&launch.groups[at]);
  return next;
}

static bool is_over(void) {
  if (!is_final || due[RETRY] != OFF || due[FENCE_KILL] != OFF) return false;
  for (int at = 0; at < launch.group_count; at += 1)
    if (has_open_streams(&launch.groups[at])) return false;
  return true;
}

static void wait_for_events(int signals) {
  int count = 0, first = 0;
  for (int at = 0; at < launch.group_count; at += 1) count += watch_group(&launch.groups[at], polls + count);
  polls[count] = (struct pollfd){.fd = signals, .events = POLLIN};
  polls[count + 1] = (struct pollfd){.fd = is_batch() ? batch_watch() : -1, .events = POLLIN};
  int64_t wait = next_due() - elapsed_ms();
  if (poll(polls, (nfds_t)count + 2, wait < 0 ? 0 : wait > LONGEST_WAIT_MS ? LONGEST_WAIT_MS : (int)wait) <= 0) return;
  for (int at = 0; at < launch.group_count; at += 1) {
    read_group(&launch.groups[at], polls + first);
    first += launch.groups[at].rank_count * STREAMS;
  }
  if (polls[count].revents != 0) reap(signals);
}

static void advance_tasks(void) {
  bool had_started = launch.started_at_ms != 0;
  if (advance_batch()) finish();
  else if (!had_started && launch.started_at_ms != 0) write_now();
}

static void advance_gang(void) {
  struct group *group = &launch.groups[0];
  if (group->is_ended) finish();
  else if (group->is_changed && due[GATHER] == OFF) set(GATHER, GATHER_MS);
  group->is_changed = false;
}

/* What follows from what has happened. */
static void advance(void) {
  if (launch.is_ended) return;
  if (is_batch()) advance_tasks();
  else advance_gang();
}

static int supervise(int signals) {
  while (advance(), !is_over()) {
    wait_for_events(signals);
    for (int at = 0; at < launch.group_count; at += 1) run_group_timers(&launch.groups[at]);
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

static void start_gang(void) {
  const struct plan *plan = &launch.plan;
  struct group *group = &launch.groups[0];
  if (launch.container.is_subreaper) prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  start_group(group, &(struct group_start){plan->ranks, plan->rank_count, launch.dir, ""});
  free_plan(&launch.plan);
  for (int at = 0; at < group->rank_count; at += 1)
    if (group->ranks[at].is_started) {
      write_now();
      return;
    }
}

static int start_all(int signals) {
  if (is_batch()) {
    // What a task leaves behind is to fall to us (task-orphans.c).
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    start_batch();
  } else start_gang();
  look_for_contact();
  return supervise(signals);
}

static bool open_groups(void) {
  const struct plan *plan = &launch.plan;
  int streams = 0;
  launch.group_count = is_batch() ? plan->batch.slot_count : 1;
  launch.groups = calloc((size_t)launch.group_count, sizeof *launch.groups);
  for (int at = 0; at < launch.group_count && launch.groups != NULL; at += 1) {
    int ranks = is_batch() ? plan->batch.slots[at].rank_count : plan->rank_count;
    if (!open_group(&launch.groups[at], ranks)) return false;
    streams += ranks * STREAMS;
  }
  polls = calloc((size_t)streams + 2, sizeof *polls);
  return launch.groups != NULL && polls != NULL && (!is_batch() || open_batch());
}

static bool prepare(const char *dir) {
  const char *leases = NULL;
  for (const char *at = strstr(dir, "/leases/"); at != NULL; at = strstr(at + 1, "/leases/")) leases = at;
  launch.path = dir;
  fence.host_dir = strndup(dir, leases == NULL ? strlen(dir) : (size_t)(leases - dir));
  for (int timer = 0; timer < TIMERS; timer += 1) due[timer] = OFF;
  return fence.host_dir != NULL && open_groups() && asprintf(&launch.mark, "ORBWEAVER_LAUNCH=%s", dir) >= 0 &&
         identity_of(getpid(), &launch.own);
}

int main(int count, char **words) {
  if (count == 2 && strcmp(words[1], "--protocol") == 0) return puts(PROTOCOL) < 0;
  if (count == 2 && strcmp(words[1], "--starter") == 0) run_starter(words[0]);
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
  if (signals < 0 || !prepare(words[1]) || !write_claim(launch.dir, &launch.own, &is_ours)) {
    fprintf(stderr, "supervisor: cannot take the claim of %s: %s\n", words[1], strerror(errno));
    return EXIT_FAILURE;
  }
  if (!is_ours) return EXIT_SUCCESS;
  launch.container = read_container(launch.dir);
  if (faccessat(launch.dir, "stop.json", F_OK, 0) != 0) return start_all(signals);
  launch.is_ended = is_final = true;
  launch.groups[0].rank_count = launch.plan.rank_count;
  for (int at = 0; at < launch.plan.rank_count; at += 1) launch.groups[0].ranks[at].number = launch.plan.ranks[at].number;
  while (!write_status(true)) usleep(RETRY_WRITE_MS * 1000);
  return EXIT_SUCCESS;
}
