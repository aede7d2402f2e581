/**
 * @file The plugin: gives every collective call of a communicator the arm that the policy in force names for a call of that number.
 *
 * Ranks must choose alike, or the job hangs or computes wrong results. So the choice depends only on the policy's text and on the numbers of
 * calls, which are the same on all ranks of a communicator. A text comes into force in two ways, and both reach all ranks or none
 * (docs/decisions/0037): sealed in the environment with which the launch starts every process, or elected by a vote that a collective of
 * the job carries (docs/collectives-format.md). A rank never acts on a file that it alone has read: the file may be late, torn or missing
 * on that rank only.
 *
 * The choice opens no file, allocates no memory and waits only for an election in the same process. After any fault NCCL's own choice
 * stands and the plugin reports success, because NCCL turns any other result into an error. The one exception is a process without 20 KiB
 * of memory left.
 */

#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "nccl_tuner.h"
#include "policy.h"
#include "profiler.h"
#include "rewards.h"

#define EXPORT __attribute__((visibility("default")))

enum { NCCL_SYSTEM_ERROR = 2, LOG_INFO = 3, LOG_TUNING = 0x40 };

/** Between two writes of the rewards. */
static const double WRITE_SECONDS = 0.25;
/** A job that has made so many steps has made its communicators. */
static const uint64_t SETTLED_STEPS = 10;
/** The times of the last steps by row, and the version of the policy twice. */
enum { TIMES = TIMED_STEPS * POLICY_ROWS + 2 };
/** Versions in the name of a vote, which must stay below 2^53. */
static const int64_t VERSIONS = INT64_C(1) << 21;

/** The calls of one row since the last step. */
struct row_state {
  uint64_t calls;
  uint64_t step_bytes;
  uint32_t step_calls;
  uint8_t step_arm;
};

struct communicator {
  atomic_flag lock;
  struct communicator *next;
  size_t ranks;
  size_t nodes;
  /** The ranks have not agreed at the last election: one of them may be without the plugin, so NCCL chooses on all. */
  int is_split;
  /** All calls, of every kind. */
  uint64_t calls;
  /** `policy[in_force]` is asked; the other one takes its place at the call that it names, if it is newer. */
  int in_force;
  struct policy policy[2];
  struct row_state row[POLICY_ROWS];
};

static atomic_flag global_lock = ATOMIC_FLAG_INIT;
static struct communicator *communicators;
/** The first policy of every communicator: it is the same in every process that this launch ever starts. */
static struct policy sealed;
static int is_seal_read;
/** The policy that is voted on. */
static struct policy held;
static uint64_t elected_version;
static int is_split;
/** Above zero: what is asked does not run now. */
static atomic_int asides;
/** NCCL has asked for a tuner in this process. */
static int is_loaded;
/** What the file beside the rewards says of NCCL; 0: there is none yet. */
static int noted_loads;
static uint64_t steps;
/** The last steps, by their number modulo `TIMED_STEPS`; of one without calls of a row that is zero. */
static struct reward step_rewards[TIMED_STEPS][POLICY_ROWS];
/** Up to this one the steps have been noted as rewards. */
static uint64_t noted_step;
static struct rewards rewards;
static double written_at;

static void lock(atomic_flag *flag) {
  while (atomic_flag_test_and_set_explicit(flag, memory_order_acquire)) sched_yield();
}

static void unlock(atomic_flag *flag) { atomic_flag_clear_explicit(flag, memory_order_release); }

/** The text of the environment has `;` for line feeds. */
static void read_seal(void) {
  static char text[POLICY_BYTES + 1];
  const char *value = getenv("ORBWEAVER_COLLECTIVES_SEALED");
  is_seal_read = 1;
  if (value == NULL) return;
  size_t length = strnlen(value, sizeof text);
  if (length > POLICY_BYTES) return;
  for (size_t at = 0; at < length; at += 1) text[at] = value[at] == ';' ? '\n' : value[at];
  if (!policy_read(&sealed, text, length)) sealed.version = 0;
}

/** A policy is in force from the call that it names; until then the one before it is. */
static void put_in_force(struct communicator *of, const struct policy *policy) {
  int other = 1 - of->in_force;
  of->policy[other] = *policy;
  if (of->calls < policy->from_call) return;
  of->in_force = other;
  memset(of->row, 0, sizeof of->row);
}

/** The newest policy of the communicator, in force or to come. */
static uint64_t version_of(const struct communicator *of) {
  uint64_t a = of->policy[0].version, b = of->policy[1].version;
  return a > b ? a : b;
}

static uint64_t least_version(void) {
  uint64_t least = UINT64_MAX;
  for (struct communicator *of = communicators; of != NULL; of = of->next) {
    lock(&of->lock);
    if (version_of(of) < least) least = version_of(of);
    unlock(&of->lock);
  }
  return communicators == NULL ? elected_version : least;
}

static int init(void **context, size_t ranks, size_t nodes, nccl_logger_fn logger) {
  struct communicator *made = calloc(1, sizeof *made);
  *context = made;
  if (made == NULL) return NCCL_SYSTEM_ERROR;
  made->ranks = ranks;
  made->nodes = nodes;
  atomic_flag_clear(&made->lock);
  lock(&global_lock);
  is_loaded = 1;
  if (!is_seal_read) read_seal();
  if (sealed.version > 0) put_in_force(made, &sealed);
  made->is_split = is_split;
  made->next = communicators;
  communicators = made;
  uint64_t version = sealed.version;
  unlock(&global_lock);
  if (logger != NULL)
    logger(LOG_INFO, LOG_TUNING, __FILE__, __LINE__,
           "TUNER/Orbweaver: policy version %llu for %zu ranks on %zu nodes",
           (unsigned long long)version, ranks, nodes);
  return NCCL_SUCCESS;
}

static int init_v4(size_t ranks, size_t nodes, nccl_logger_fn logger, void **context) {
  return init(context, ranks, nodes, logger);
}

static int init_v5(void **context, uint64_t comm_id, size_t ranks, size_t nodes, nccl_logger_fn logger,
                   void *nvlink_domain, void *constants) {
  (void)comm_id, (void)nvlink_domain, (void)constants;
  return init(context, ranks, nodes, logger);
}

static int row_of(const struct communicator *of, int collective, size_t bytes) {
  const struct policy *policy = &of->policy[of->in_force];
  const struct section *section =
      policy->version == 0 ? NULL : policy_section(policy, of->nodes, of->ranks);
  if (section == NULL) return -1;
  for (int at = section->first_row; at < section->first_row + section->rows; at += 1) {
    const struct row *row = &policy->row[at];
    if (row->collective == collective && row->min_bytes <= bytes && bytes <= row->max_bytes)
      return at;
  }
  return -1;
}

int tuner_row(size_t nodes, size_t ranks, int collective, size_t bytes) {
  int row = -1, is_found = 0;
  lock(&global_lock);
  for (struct communicator *of = communicators; of != NULL && !is_found; of = of->next) {
    if (of->nodes != nodes || of->ranks != ranks) continue;
    is_found = 1;
    lock(&of->lock);
    row = row_of(of, collective, bytes);
    unlock(&of->lock);
  }
  unlock(&global_lock);
  return row;
}

/** The arm of this call; counts it. What is asked aside is not counted and never an arm on trial: a graph would keep it. */
static int next_arm(struct communicator *of, int collective, size_t bytes) {
  if (of->is_split) return ARM_AUTO;
  const struct policy *coming = &of->policy[1 - of->in_force];
  if (coming->version > of->policy[of->in_force].version && of->calls >= coming->from_call) {
    of->in_force = 1 - of->in_force;
    memset(of->row, 0, sizeof of->row);
  }
  int is_aside = atomic_load_explicit(&asides, memory_order_acquire) > 0;
  if (!is_aside) of->calls += 1;
  int at = row_of(of, collective, bytes);
  if (at < 0) return ARM_AUTO;
  if (is_aside) return of->policy[of->in_force].row[at].arm;
  struct row_state *state = &of->row[at];
  int arm = policy_arm(&of->policy[of->in_force].row[at], state->calls);
  state->step_arm = state->step_calls == 0 || state->step_arm == arm ? (uint8_t)arm : ARM_MIXED;
  state->calls += 1;
  state->step_calls += 1;
  state->step_bytes += bytes;
  return arm;
}

static const struct arm *arm_of(struct communicator *of, int collective, size_t bytes) {
  lock(&of->lock);
  const struct arm *arm = &ARMS[next_arm(of, collective, bytes)];
  unlock(&of->lock);
  return arm;
}

static int choose(void *context, int collective, size_t bytes, int pipe_ops, float **costs,
                  int algorithms, int protocols, int is_registered, int *channels) {
  // Values that may differ between ranks, such as whether a buffer is registered, are ignored.
  (void)pipe_ops, (void)is_registered, (void)channels;
  struct communicator *of = context;
  if (of == NULL) return NCCL_SUCCESS;
  const struct arm *arm = arm_of(of, collective, bytes);
  if (costs == NULL || arm->algorithm < 0 || arm->algorithm >= algorithms ||
      arm->protocol >= protocols)
    return NCCL_SUCCESS;
  float *cost = (float *)costs + arm->algorithm * protocols + arm->protocol;
  if (*cost >= 0.0f) *cost = 0.0f;
  return NCCL_SUCCESS;
}

static int choose_v3(void *context, int collective, size_t bytes, int pipe_ops, float **costs,
                     int algorithms, int protocols, int *channels) {
  return choose(context, collective, bytes, pipe_ops, costs, algorithms, protocols, 0, channels);
}

/**
 * NCCL 2.21 runs what is named here without asking whether it can, and has no table that says so: only pairs that run everywhere are
 * named. LL128 is not one of them: where the hardware tears its lines the results are wrong.
 */
static int choose_v2(void *context, int collective, size_t bytes, int has_collnet, int has_nvls,
                     int pipe_ops, int *algorithm, int *protocol, int *channels) {
  (void)has_collnet, (void)has_nvls, (void)pipe_ops, (void)channels;
  struct communicator *of = context;
  if (of == NULL) return NCCL_SUCCESS;
  const struct arm *arm = arm_of(of, collective, bytes);
  int runs_everywhere =
      arm->algorithm == NCCL_RING || (arm->algorithm == NCCL_TREE && collective == NCCL_ALL_REDUCE);
  // Here NCCL would obey the plugin before its user.
  int is_user_choice = getenv("NCCL_ALGO") != NULL || getenv("NCCL_PROTO") != NULL;
  if (!runs_everywhere || arm->protocol == NCCL_LL128 || is_user_choice) return NCCL_SUCCESS;
  *algorithm = arm->algorithm;
  *protocol = arm->protocol;
  return NCCL_SUCCESS;
}

static int end(void *context) {
  struct communicator *ended = context;
  if (ended == NULL) return NCCL_SUCCESS;
  lock(&global_lock);
  for (struct communicator **at = &communicators; *at != NULL; at = &(*at)->next) {
    if (*at != ended) continue;
    *at = ended->next;
    break;
  }
  unlock(&global_lock);
  free(ended);
  return NCCL_SUCCESS;
}

static const char NAME[] = "Orbweaver";
EXPORT const struct nccl_tuner_v2 ncclTunerPlugin_v2 = {NAME, init_v4, choose_v2, end};
EXPORT const struct nccl_tuner_v3 ncclTunerPlugin_v3 = {NAME, init_v4, choose_v3, end};
EXPORT const struct nccl_tuner_v4 ncclTunerPlugin_v4 = {NAME, init_v4, choose, end};
EXPORT const struct nccl_tuner_v5 ncclTunerPlugin_v5 = {NAME, init_v5, choose, end};
EXPORT const struct nccl_tuner_v6 ncclTunerPlugin_v6 = {NAME, init_v5, choose, end, NULL};
EXPORT const struct nccl_tuner_v6 ncclTunerPlugin_v7 = {NAME, init_v5, choose, end, NULL};

/** One process of a job writes: the first, under any of the names that starters give it. */
static int is_first_rank(void) {
  static const char *const NAMES[] = {"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID"};
  for (size_t at = 0; at < sizeof NAMES / sizeof *NAMES; at += 1) {
    const char *rank = getenv(NAMES[at]);
    if (rank != NULL) return strcmp(rank, "0") == 0;
  }
  return 1;
}

static double seconds_now(void) {
  struct timespec now;
  if (clock_gettime(CLOCK_MONOTONIC, &now) != 0) return 0;
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/** Adds the step's calls of one communicator to those of the others; rows of one index are the same row of one policy. */
static void fold_step(struct communicator *of, struct reward step[POLICY_ROWS]) {
  const struct policy *policy = &of->policy[of->in_force];
  for (int at = 0; at < policy->rows; at += 1) {
    struct row_state *state = &of->row[at];
    struct reward *reward = &step[at];
    if (state->step_calls == 0) continue;
    int is_first = reward->calls == 0;
    int is_same = reward->version == policy->version && reward->arm == state->step_arm;
    reward->arm = is_first || is_same ? state->step_arm : ARM_MIXED;
    reward->calls += state->step_calls;
    reward->bytes += state->step_bytes;
    reward->version = policy->version;
    reward->collective = policy->row[at].collective;
    reward->min_bytes = policy->row[at].min_bytes;
    reward->max_bytes = policy->row[at].max_bytes;
    memcpy(reward->topology, policy_section(policy, of->nodes, of->ranks)->topology,
           sizeof reward->topology);
    state->step_calls = 0;
    state->step_bytes = 0;
  }
}

/** One process on each host writes: the first there, or the only one that Orbweaver starts. */
static int is_first_local(void) {
  const char *rank = getenv("LOCAL_RANK");
  return rank == NULL || strcmp(rank, "0") == 0;
}

/**
 * Beside the rewards stands what NCCL has loaded on this host, once the job has made some steps. An NCCL that knows no tuner ignores the plugin
 * without a word, and only the reporter's steps run here.
 */
static void note_loads(const char *file) {
  char path[PATH_MAX], aside[PATH_MAX], text[64];
  int loads = 1 + 2 * is_loaded + 4 * profiler_is_loaded();
  if (loads == noted_loads) return;
  int length = snprintf(path, sizeof path, "%s.nccl", file);
  int size = snprintf(aside, sizeof aside, "%s.nccl.tmp", file);
  if (length < 0 || size < 0 || (size_t)size >= sizeof aside) return;
  size = snprintf(text, sizeof text, "orbweaver-nccl 1\ntuner %s\nprofiler %s\n", is_loaded ? "yes" : "no",
                  profiler_is_loaded() ? "yes" : "no");
  int handle = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (handle < 0) return;
  int is_whole = write(handle, text, (size_t)size) == size;
  if (close(handle) == 0 && is_whole && rename(aside, path) == 0) noted_loads = loads;
}

/** A newer policy's own if it has been elected, else that of the seal. */
static uint64_t newest_version(void) {
  if (!is_seal_read) read_seal();
  return elected_version > sealed.version ? elected_version : sealed.version;
}

/** The rewards of the steps up to `last` go to the file. */
static void note_steps(uint64_t last) {
  uint64_t first = steps < TIMED_STEPS ? 1 : steps - TIMED_STEPS + 1;
  for (uint64_t step = noted_step < first ? first : noted_step + 1; step <= last; step += 1)
    for (int at = 0; at < POLICY_ROWS; at += 1) {
      const struct reward *reward = &step_rewards[step % TIMED_STEPS][at];
      if (reward->calls > 0 && reward->micros > 0) rewards_note(&rewards, reward);
    }
  if (last > noted_step) noted_step = last;
}

/**
 * A step of the job has ended after this time; a step of zero or less does not count. Called between steps, by one thread. Returns 1 while a
 * row is exploring: exact timing pays then. Where collectives are timed, a step's reward waits for the times of all ranks, or until
 * `TIMED_STEPS` more have come.
 */
EXPORT int orbweaver_collectives_step(double millis) {
  int is_exploring = 0;
  lock(&global_lock);
  if (steps >= TIMED_STEPS) note_steps(steps - TIMED_STEPS + 1);
  struct reward *step = step_rewards[(steps + 1) % TIMED_STEPS];
  memset(step, 0, sizeof step_rewards[0]);
  for (struct communicator *of = communicators; of != NULL; of = of->next) {
    lock(&of->lock);
    fold_step(of, step);
    const struct policy *policy = &of->policy[of->in_force];
    for (int at = 0; at < policy->rows; at += 1) {
      uint64_t iterations = 0;
      for (int run = 0; run < policy->row[at].runs; run += 1)
        iterations += policy->row[at].count[run];
      uint64_t calls = of->row[at].calls;
      if (calls > 0 && calls < iterations * policy->row[at].stride) is_exploring = 1;
    }
    unlock(&of->lock);
  }
  steps += 1;
  for (int at = 0; at < POLICY_ROWS && millis > 0 && millis < 1e9; at += 1) {
    if (step[at].calls == 0) continue;
    step[at].step = steps;
    step[at].micros = (uint64_t)(millis * 1e3);
  }
  profiler_begin_step(steps + 1);
  const char *file = getenv("ORBWEAVER_COLLECTIVES_REWARDS");
  if (file != NULL && steps >= SETTLED_STEPS && is_first_local()) note_loads(file);
  if (file != NULL && is_first_rank()) {
    if (!profiler_is_loaded()) note_steps(steps);
    double now = seconds_now();
    if (now - written_at >= WRITE_SECONDS || now < written_at) {
      written_at = now;
      rewards_write(&rewards, file);
    }
  }
  unlock(&global_lock);
  return is_exploring;
}

/** Writes the rewards that are not written yet: the job ends. */
EXPORT void orbweaver_collectives_flush(void) {
  const char *file = getenv("ORBWEAVER_COLLECTIVES_REWARDS");
  if (file == NULL || !is_first_rank()) return;
  lock(&global_lock);
  note_steps(steps);
  rewards_write(&rewards, file);
  unlock(&global_lock);
}

/**
 * This rank's times of collectives in the last steps but the newest, whose kernels may still run: microseconds by step and row, and the
 * policy's version twice. The ranks take the largest of each. Returns 0 when NCCL has not loaded the profiler here. It changes no state.
 */
EXPORT int orbweaver_collectives_times(int64_t out[TIMES]) {
  lock(&global_lock);
  for (uint64_t at = 0; at < TIMED_STEPS; at += 1)
    for (int row = 0; row < POLICY_ROWS; row += 1) {
      uint64_t step = steps - (steps - at) % TIMED_STEPS;
      const struct reward *reward = &step_rewards[at][row];
      int is_kept = steps >= TIMED_STEPS || (at > 0 && at <= steps);
      int64_t *time = &out[at * POLICY_ROWS + (uint64_t)row];
      *time = !is_kept || step == steps || reward->calls == 0
                  ? 0
                  : profiler_time(step, row, reward->calls);
    }
  int64_t version = (int64_t)newest_version();
  out[TIMES - 2] = version;
  out[TIMES - 1] = -version;
  unlock(&global_lock);
  return profiler_is_loaded();
}

/** The largest of all ranks' times: they are those of the slowest rank, and the steps that waited for them become rewards. */
EXPORT void orbweaver_collectives_slowest(const int64_t times[TIMES]) {
  lock(&global_lock);
  int is_known = times[TIMES - 2] == -times[TIMES - 1];
  for (uint64_t step = noted_step + 1; step < steps; step += 1) {
    if (step + TIMED_STEPS <= steps) continue;
    for (int row = 0; row < POLICY_ROWS; row += 1) {
      int64_t time = times[(step % TIMED_STEPS) * POLICY_ROWS + (uint64_t)row];
      int is_timed = is_known && time > 0 && time < TIME_UNKNOWN;
      step_rewards[step % TIMED_STEPS][row].slowest_micros = is_timed ? (uint64_t)time : 0;
    }
  }
  if (steps > 0) note_steps(steps - 1);
  unlock(&global_lock);
}

/**
 * The text that rank 0 may broadcast to all ranks: that of the job's policy file, if it is a whole policy and newer than the policy of some
 * communicator of this process. Returns its length, 0 without one. It changes no state.
 */
EXPORT int orbweaver_collectives_offer(char *out, int capacity) {
  static char text[POLICY_BYTES + 1];
  static struct policy offered;
  const char *file = getenv("ORBWEAVER_COLLECTIVES_POLICY");
  int length = 0;
  if (file == NULL || out == NULL || capacity <= 0) return 0;
  int handle = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (handle < 0) return 0;
  lock(&global_lock);
  size_t size = 0;
  ssize_t count;
  while (size < sizeof text && (count = read(handle, text + size, sizeof text - size)) > 0)
    size += (size_t)count;
  if (size <= (size_t)capacity && policy_read(&offered, text, size) &&
      offered.version > least_version()) {
    memcpy(out, text, size);
    length = (int)size;
  }
  unlock(&global_lock);
  close(handle);
  return length;
}

/** Holds a policy, to be voted on; holds none if the text is not a whole policy. The policy in force stays. */
EXPORT int orbweaver_collectives_hold(const char *text, int length) {
  lock(&global_lock);
  int is_whole = text != NULL && length > 0 && policy_read(&held, text, (size_t)length);
  if (!is_whole) held.version = 0;
  unlock(&global_lock);
  return is_whole;
}

/** Identifies the policy that is held; 0 without one. */
static int64_t name_held(void) {
  if (held.version == 0) return 0;
  return ((int64_t)held.version % VERSIONS) * (INT64_C(1) << 32) + held.crc;
}

/** This rank's vote: the policy that it holds, as four numbers; the ranks take the largest of each. */
EXPORT void orbweaver_collectives_ballot(int64_t out[4]) {
  lock(&global_lock);
  int64_t version = (int64_t)held.version;
  int64_t name = name_held();
  out[0] = name;
  out[1] = -name;
  out[2] = version == 0 ? 0 : (int64_t)held.from_call;
  out[3] = -version;
  unlock(&global_lock);
}

/**
 * Calls from here on do not run: a graph records them, or a simulated group asks what they would cost. They count for no schedule, and
 * get the arm that their policy has settled on, none on trial. Begun and ended by all ranks at the same place of their program, or by
 * those alone whose calls in between run on no rank.
 */
EXPORT void orbweaver_collectives_aside(int is_begun) {
  atomic_fetch_add_explicit(&asides, is_begun ? 1 : -1, memory_order_acq_rel);
}

/**
 * Counts the largest of all ranks' votes. If all ranks hold the same policy, it comes into force at every communicator's next call (or at the
 * call that it names). If none holds one, the policy in force stays. Otherwise the ranks are split, and NCCL chooses on all of them until they
 * hold the same again: a rank that lost its policy, or has no plugin, could not follow the others. The result depends only on these four numbers, which are the same on all ranks.
 * All ranks call it at the same place of their program, between steps. Returns 1 when the policy was adopted.
 */
EXPORT int orbweaver_collectives_elect(const int64_t votes[4]) {
  int is_taken = 0;
  lock(&global_lock);
  int64_t version = (int64_t)held.version;
  int64_t name = name_held();
  int is_whole = votes[0] == -votes[1];
  if (votes[0] > 0) is_split = !is_whole;
  for (struct communicator *of = communicators; of != NULL; of = of->next) {
    lock(&of->lock);
    of->is_split = is_split;
    unlock(&of->lock);
  }
  if (votes[0] > 0 && is_whole && votes[0] == name && votes[3] == -version) {
    is_taken = 1;
    if (held.version > elected_version) elected_version = held.version;
    for (struct communicator *of = communicators; of != NULL; of = of->next) {
      lock(&of->lock);
      if (version_of(of) < held.version) put_in_force(of, &held);
      unlock(&of->lock);
    }
  }
  held.version = 0;
  unlock(&global_lock);
  return is_taken;
}

/** The newest version that was in force in this process, 0 for none. */
EXPORT unsigned long long orbweaver_collectives_version(void) {
  lock(&global_lock);
  unsigned long long version = newest_version();
  unlock(&global_lock);
  return version;
}
