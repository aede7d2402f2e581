/**
 * @file The functions that NCCL calls of a profiler: they time each collective by its kernel, on the clock of the GPU.
 *
 * A collective begins on the thread that makes the call, and so in a step and under a row of the policy. Its kernel runs later: NCCL's proxy
 * threads tell when each channel began and ended. Its time is from the first beginning to the last end. Collectives that the tuner was asked
 * about together, that a graph replays, or of which a channel or an end was not told leave their row without a time in that step. Nothing is
 * allocated for a call; where too many are under way, some are not timed.
 */

#include "profiler.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "nccl_profiler.h"

#define EXPORT __attribute__((visibility("default")))

/** Of the last steps together. */
enum { TIMED_CALLS = 8192 };

struct timed_call {
  /** Tells the calls apart that have had this place; 0: none yet. */
  uint64_t use;
  uint64_t step;
  uint64_t first;
  uint64_t last;
  uint16_t begun;
  uint16_t ended;
  /** Of its kernel; 0 where NCCL does not say. */
  uint8_t channels;
  uint8_t row;
};

/** What was counted of a row in a step. */
struct timed_row {
  uint32_t calls;
  /** Calls that found no place. */
  uint32_t untimed;
};

struct timed_communicator {
  size_t nodes;
  size_t ranks;
};

static atomic_flag timing_lock = ATOMIC_FLAG_INIT;
static atomic_int loaded;
static struct timed_call calls[TIMED_CALLS];
static uint64_t used;
static uint64_t current = 1;
static struct timed_row rows[TIMED_STEPS][POLICY_ROWS];

static void lock(void) {
  while (atomic_flag_test_and_set_explicit(&timing_lock, memory_order_acquire)) sched_yield();
}

static void unlock(void) { atomic_flag_clear_explicit(&timing_lock, memory_order_release); }

/** A handle is the number of a call, never an address: what comes late for a call that has lost its place finds none. */
static struct timed_call *call_of(const void *handle) {
  uint64_t use = (uint64_t)(uintptr_t)handle;
  struct timed_call *call = &calls[use % TIMED_CALLS];
  return use != 0 && call->use == use ? call : NULL;
}

static int collective_of(const char *function) {
  static const char *const NAMES[COLLECTIVE_COUNT] = {"Broadcast", "Reduce", "AllGather",
                                                      "ReduceScatter", "AllReduce"};
  for (int at = 0; function != NULL && at < COLLECTIVE_COUNT; at += 1)
    if (strcmp(function, NAMES[at]) == 0) return at;
  return -1;
}

/** From the first number in its name, which counts bits: `ncclBfloat16`, `ncclFloat8e4m3`. */
static size_t bytes_of(const char *datatype) {
  size_t bits = 0;
  const char *at = datatype == NULL ? "" : datatype;
  while (*at != '\0' && (*at < '0' || *at > '9')) at += 1;
  for (; *at >= '0' && *at <= '9' && bits < 1000; at += 1) bits = bits * 10 + (size_t)(*at - '0');
  return bits / 8;
}

static int init(void **context, int *kinds, const char *name, uint64_t comm_id, int nodes, int ranks,
                int rank, nccl_logger_fn logger) {
  (void)name, (void)comm_id, (void)rank, (void)logger;
  struct timed_communicator *made = calloc(1, sizeof *made);
  *context = made;
  *kinds = made == NULL ? 0 : NCCL_PROFILE_COLLECTIVE | NCCL_PROFILE_KERNEL;
  if (made == NULL) return NCCL_SUCCESS;
  made->nodes = (size_t)nodes;
  made->ranks = (size_t)ranks;
  atomic_store_explicit(&loaded, 1, memory_order_release);
  return NCCL_SUCCESS;
}

/** The oldest place is taken, unless its step is one of those that are kept. */
static void *begin_call(int row, uint8_t channels) {
  struct timed_row *of = &rows[current % TIMED_STEPS][row];
  struct timed_call *call = &calls[(used + 1) % TIMED_CALLS];
  of->calls += 1;
  if (call->use != 0 && call->step + TIMED_STEPS > current) {
    of->untimed += 1;
    return NULL;
  }
  used += 1;
  *call = (struct timed_call){
      .use = used, .step = current, .channels = channels, .row = (uint8_t)row};
  return (void *)(uintptr_t)used;
}

static int start(void *context, void **handle, struct nccl_event_v4 *event) {
  const struct timed_communicator *of = context;
  *handle = NULL;
  if (of == NULL) return NCCL_SUCCESS;
  if (event->type == NCCL_PROFILE_COLLECTIVE) {
    int collective = collective_of(event->of.collective.function);
    size_t bytes = event->of.collective.count * bytes_of(event->of.collective.datatype);
    // NCCL asks a tuner about the larger of what a rank sends and receives, and counts a part here.
    if (collective == NCCL_ALL_GATHER || collective == NCCL_REDUCE_SCATTER) bytes *= of->ranks;
    int row = collective < 0 ? -1 : tuner_row(of->nodes, of->ranks, collective, bytes);
    if (row < 0) return NCCL_SUCCESS;
    lock();
    *handle = begin_call(row, event->of.collective.channels);
    unlock();
  } else if (event->type == NCCL_PROFILE_KERNEL) {
    lock();
    struct timed_call *call = call_of(event->parent);
    if (call != NULL) {
      uint64_t timer = event->of.kernel.timer;
      if (call->begun == 0 || timer < call->first) call->first = timer;
      call->begun += 1;
      *handle = event->parent;
    }
    unlock();
  }
  return NCCL_SUCCESS;
}

static int record(void *handle, int state, union nccl_event_state_v4 *given) {
  if (state != NCCL_KERNEL_STOP || given == NULL) return NCCL_SUCCESS;
  lock();
  struct timed_call *call = call_of(handle);
  if (call != NULL) {
    if (given->kernel.timer > call->last) call->last = given->kernel.timer;
    call->ended += 1;
  }
  unlock();
  return NCCL_SUCCESS;
}

static int stop(void *handle) {
  (void)handle;
  return NCCL_SUCCESS;
}

static int finalize(void *context) {
  free(context);
  return NCCL_SUCCESS;
}

EXPORT const struct nccl_profiler_v4 ncclProfiler_v4 = {"Orbweaver", init,   start,
                                                        stop,        record, finalize};

int profiler_is_loaded(void) { return atomic_load_explicit(&loaded, memory_order_acquire); }

void profiler_begin_step(uint64_t step) {
  lock();
  current = step;
  memset(rows[step % TIMED_STEPS], 0, sizeof rows[0]);
  unlock();
}

/** NCCL may have told of some channels and not yet of others. */
static int is_over(const struct timed_call *call) {
  return call->begun > 0 && call->begun >= call->channels && call->begun == call->ended &&
         call->last >= call->first;
}

int64_t profiler_time(uint64_t step, int row, uint32_t count) {
  uint64_t nanos = 0;
  uint32_t over = 0;
  lock();
  struct timed_row of = {0};
  if (step + TIMED_STEPS > current && step <= current) of = rows[step % TIMED_STEPS][row];
  // From the newest call back: those of the steps that are kept.
  for (uint64_t use = used; use > 0 && used - use < TIMED_CALLS; use -= 1) {
    const struct timed_call *call = &calls[use % TIMED_CALLS];
    if (call->step < step) break;
    if (call->step > step || call->row != row || !is_over(call)) continue;
    nanos += call->last - call->first;
    over += 1;
  }
  unlock();
  if (of.calls != count || of.untimed > 0 || over != count) return TIME_UNKNOWN;
  return (int64_t)(nanos / 1000);
}
