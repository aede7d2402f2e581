/**
 * @file Plays a job whose NCCL has loaded the tuner and the profiler of the plugin: `profiled PLUGIN.so [STEPS [SEED]]`.
 *
 * Four ranks, each a copy of the plugin, make the calls of two rows in every step; their kernels begin and end by a clock that is drawn, and
 * NCCL tells of them late and out of order, as its proxy threads do. Every ten steps the ranks exchange their times. The times that the file of
 * rewards gives must be those of the slowest rank, and absent where some rank's are not known: an end or a channel is not told, a graph replays a
 * call, NCCL joins two calls into one question, or a rank's NCCL has loaded no profiler. Ends with 1 otherwise, and when one of these cases never came.
 */

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"
#include "nccl_profiler.h"
#include "profiler.h"
#include "rewards.h"

enum { PLAYED = 4, ROWS = 2, MOST_STEPS = 2000, EVERY = 10, CHANNELS = 3, TOLD = 256 };
enum { TIMES = TIMED_STEPS * POLICY_ROWS + 2 };

/** What may go wrong with the first call of a row on one rank. */
enum fault { FAULT_NONE, FAULT_NO_END, FAULT_NO_CHANNEL, FAULT_REPLAY, FAULT_JOINED, FAULTS };

struct played {
  void *library;
  const struct nccl_tuner_v5 *tuner;
  const struct nccl_profiler_v4 *profiler;
  void *tuned;
  void *profiled;
  int (*step)(double);
  void (*flush)(void);
  int (*times)(int64_t[TIMES]);
  void (*slowest)(const int64_t[TIMES]);
};

/** A kernel that NCCL has not told of yet. */
struct untold {
  void *call;
  uint64_t begin[CHANNELS];
  uint64_t end[CHANNELS];
  enum fault fault;
};

static const struct {
  int collective;
  const char *function;
  const char *datatype;
  size_t count;
  uint64_t min_bytes;
  int calls;
} USED[ROWS] = {
    // 4 ranks × 1 MiB of bytes, and 32 MiB of bfloat16.
    {NCCL_ALL_GATHER, "AllGather", "ncclInt8", 1 << 20, 1 << 22, 3},
    {NCCL_ALL_REDUCE, "AllReduce", "ncclBfloat16", 1 << 24, 1 << 25, 2},
};

static char folder[] = "/tmp/orbweaver-profiled-XXXXXX";
static struct played ranks[PLAYED];
static struct untold untold[PLAYED][TOLD];
static int untold_count[PLAYED];
/** By step and row; 0: some rank's time is unknown. */
static uint64_t expected[MOST_STEPS + 1][ROWS];
static uint64_t seen_faults[FAULTS];
/** By step and row: the calls that the first rank's tuner was asked about. */
static uint64_t asked[MOST_STEPS + 1][ROWS];

static void *symbol(void *library, const char *name) {
  void *found = dlsym(library, name);
  if (found == NULL) exit(2);
  return found;
}

static void load(struct played *of, const char *from, int rank, int has_tuner, int has_profiler) {
  static char bytes[1 << 22];
  char path[80];
  snprintf(path, sizeof path, "%s/%d.so", folder, rank);
  FILE *file = fopen(from, "r");
  if (file == NULL) exit(2);
  size_t length = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  file = fopen(path, "w");
  if (file == NULL || fwrite(bytes, 1, length, file) != length || fclose(file) != 0) exit(2);
  of->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  unlink(path);
  if (of->library == NULL) exit(2);
  of->tuner = symbol(of->library, "ncclTunerPlugin_v5");
  of->profiler = symbol(of->library, "ncclProfiler_v4");
  // ISO C knows no way from an object pointer to a function.
  *(void **)&of->step = symbol(of->library, "orbweaver_collectives_step");
  *(void **)&of->flush = symbol(of->library, "orbweaver_collectives_flush");
  *(void **)&of->times = symbol(of->library, "orbweaver_collectives_times");
  *(void **)&of->slowest = symbol(of->library, "orbweaver_collectives_slowest");
  of->tuned = NULL;
  if (has_tuner) of->tuner->init(&of->tuned, 7, PLAYED, 2, NULL, NULL, NULL);
  int kinds = 0;
  of->profiled = NULL;
  if (!has_profiler) return;
  of->profiler->init(&of->profiled, &kinds, "world", 7, 2, PLAYED, rank, NULL);
  if (kinds != (NCCL_PROFILE_COLLECTIVE | NCCL_PROFILE_KERNEL)) exit(1);
}

/** NCCL tells of a kernel, channel by channel. */
static void tell(struct played *of, const struct untold *kernel) {
  void *handle[CHANNELS] = {NULL};
  for (int channel = kernel->fault == FAULT_NO_CHANNEL; channel < CHANNELS; channel += 1) {
    struct nccl_event_v4 event = {.type = NCCL_PROFILE_KERNEL, .parent = kernel->call};
    event.of.kernel.channel = (uint8_t)channel;
    event.of.kernel.timer = kernel->begin[channel];
    of->profiler->start(of->profiled, &handle[channel], &event);
  }
  for (int channel = CHANNELS - 1; channel >= 0; channel -= 1) {
    if (handle[channel] == NULL || (channel == 0 && kernel->fault == FAULT_NO_END)) continue;
    union nccl_event_state_v4 state = {.kernel = {kernel->end[channel]}};
    of->profiler->record(handle[channel], NCCL_KERNEL_STOP, &state);
    of->profiler->stop(handle[channel]);
  }
}

static void tell_all(int rank, uint64_t *state) {
  // In any order.
  for (int left = untold_count[rank]; left > 0; left -= 1) {
    int at = (int)random_below(state, (uint32_t)left);
    tell(&ranks[rank], &untold[rank][at]);
    untold[rank][at] = untold[rank][left - 1];
  }
  untold_count[rank] = 0;
}

/** One event of a collective; its kernel is told of later. Gives how long it runs, in ns. */
static uint64_t launch(int rank, int row, uint64_t *clock, uint64_t *state, enum fault fault) {
  struct played *of = &ranks[rank];
  struct nccl_event_v4 event = {.type = NCCL_PROFILE_COLLECTIVE, .rank = rank};
  event.of.collective.function = USED[row].function;
  event.of.collective.datatype = USED[row].datatype;
  event.of.collective.count = USED[row].count;
  event.of.collective.channels = CHANNELS;
  struct untold *kernel = &untold[rank][untold_count[rank]++];
  memset(kernel, 0, sizeof *kernel);
  if (of->profiled == NULL) return 0;
  of->profiler->start(of->profiled, &kernel->call, &event);
  of->profiler->stop(kernel->call);
  uint64_t first = UINT64_MAX, last = 0;
  kernel->fault = fault;
  for (int channel = 0; channel < CHANNELS; channel += 1) {
    kernel->begin[channel] = *clock + random_below(state, 5000);
    kernel->end[channel] = kernel->begin[channel] + 100000 + random_below(state, 400000);
    if (kernel->begin[channel] < first) first = kernel->begin[channel];
    if (kernel->end[channel] > last) last = kernel->end[channel];
  }
  *clock = last + 1000;
  return last - first;
}

static void play_step(uint64_t step, uint64_t *state) {
  static uint64_t clock[PLAYED];
  for (int row = 0; row < ROWS; row += 1) {
    enum fault fault = random_below(state, 6) == 0 ? 1 + (enum fault)random_below(state, FAULTS - 1) : FAULT_NONE;
    int faulty = (int)random_below(state, PLAYED);
    seen_faults[fault] += 1;
    expected[step][row] = 0;
    asked[step][row] = (uint64_t)USED[row].calls - (fault == FAULT_REPLAY && faulty == 0);
    for (int rank = 0; rank < PLAYED; rank += 1) {
      struct played *of = &ranks[rank];
      uint64_t nanos = 0;
      for (int call = 0; call < USED[row].calls; call += 1) {
        enum fault own = rank == faulty && call == 0 ? fault : FAULT_NONE;
        float costs[21];
        int channels = 0;
        size_t bytes = USED[row].min_bytes;
        for (int cell = 0; cell < 21; cell += 1) costs[cell] = 5.0f;
        if (own != FAULT_REPLAY)
          of->tuner->choose(of->tuned, USED[row].collective, bytes, 1, (float **)(void *)costs, 7, 3, 0, &channels);
        nanos += launch(rank, row, &clock[rank], state, own);
        if (own == FAULT_JOINED) launch(rank, row, &clock[rank], state, FAULT_NONE);
      }
      if (nanos / 1000 > expected[step][row]) expected[step][row] = nanos / 1000;
    }
    if (fault != FAULT_NONE) expected[step][row] = 0;
  }
}

/** The rewards in the file have the times that are expected, up to this step. Gives how many do not. */
static uint64_t wrong_in(const char *path, uint64_t steps, uint64_t *timed, uint64_t *untimed) {
  static char text[1 << 20];
  static uint64_t got[MOST_STEPS + 1][ROWS];
  static int is_there[MOST_STEPS + 1][ROWS];
  memset(got, 0, sizeof got);
  memset(is_there, 0, sizeof is_there);
  FILE *file = fopen(path, "r");
  if (file == NULL) return UINT64_MAX;
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  uint64_t wrong = 0;
  for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
    uint64_t step;
    if (sscanf(line, "step %" SCNu64, &step) != 1 || step == 0 || step > steps) continue;
    int row = strstr(line, "allgather") != NULL ? 0 : 1;
    const char *slowest = strstr(line, " slowest ");
    got[step][row] = slowest == NULL ? 0 : strtoull(slowest + 9, NULL, 10);
    is_there[step][row] = 1;
  }
  uint64_t first = steps > REWARDS_KEPT / ROWS ? steps - REWARDS_KEPT / ROWS + 1 : 1;
  for (uint64_t step = first; step <= steps; step += 1)
    for (int row = 0; row < ROWS; row += 1) {
      // The newest steps had no exchange.
      uint64_t want = step < steps / EVERY * EVERY ? expected[step][row] : 0;
      if (!is_there[step][row] || got[step][row] != want) wrong += 1;
      *(want > 0 ? timed : untimed) += 1;
    }
  return wrong;
}

/** The totals beside the rewards are those of all steps: calls, bytes, and the times that are expected. Gives how many rows are not. */
static uint64_t wrong_sent(const char *path, uint64_t steps) {
  char line[320], text[2048] = "", beside[96];
  snprintf(beside, sizeof beside, "%s.sent", path);
  size_t length = (size_t)snprintf(text, sizeof text, "orbweaver-sent 1\n");
  for (int row = 0; row < ROWS; row += 1) {
    uint64_t calls = 0, timed = 0, micros = 0;
    for (uint64_t step = 1; step <= steps; step += 1) {
      int is_timed = step < steps / EVERY * EVERY && expected[step][row] > 0;
      calls += asked[step][row];
      timed += is_timed ? asked[step][row] : 0;
      micros += is_timed ? expected[step][row] : 0;
    }
    length += (size_t)snprintf(text + length, sizeof line,
                               "%s %" PRIu64 " %" PRIu64 " calls %" PRIu64 " bytes %" PRIu64 " timed %" PRIu64
                               " micros %" PRIu64 "\n",
                               COLLECTIVES[USED[row].collective], USED[row].min_bytes, USED[row].min_bytes,
                               calls, calls * USED[row].min_bytes, timed, micros);
  }
  snprintf(text + length, sizeof line, "end %08" PRIx32 "\n", crc32_of(text, length));
  FILE *file = fopen(beside, "r");
  if (file == NULL) return ROWS;
  uint64_t wrong = 0;
  const char *want = text;
  while (fgets(line, sizeof line, file) != NULL) {
    if (strncmp(want, line, strlen(line)) != 0) wrong += 1;
    const char *next = strchr(want, '\n');
    if (next != NULL) want = next + 1;
  }
  fclose(file);
  unlink(beside);
  return *want == '\0' ? wrong : wrong + 1;
}

/** With the profiler on all ranks but `lacking`; −1 for all. */
static uint64_t play(const char *library, uint64_t steps, uint64_t seed, int lacking, uint64_t *timed, uint64_t *untimed,
                     uint64_t *not_sent) {
  char path[80];
  static int64_t own[TIMES], all[TIMES];
  snprintf(path, sizeof path, "%s/rewards", folder);
  setenv("ORBWEAVER_COLLECTIVES_REWARDS", path, 1);
  for (int rank = 0; rank < PLAYED; rank += 1) load(&ranks[rank], library, rank, 1, rank != lacking);
  for (uint64_t step = 1; step <= steps; step += 1) {
    play_step(step, &seed);
    for (int rank = 0; rank < PLAYED; rank += 1) {
      // Of some steps NCCL tells when the next one has begun.
      if (step % EVERY == 0 || random_below(&seed, 2) == 0) tell_all(rank, &seed);
      // All ranks write: the file of the first is the one that is read, being the last to be flushed.
      ranks[rank].step(10.0);
    }
    if (step % EVERY != 0) continue;
    for (int at = 0; at < TIMES; at += 1) all[at] = INT64_MIN;
    for (int rank = 0; rank < PLAYED; rank += 1) {
      int is_loaded = ranks[rank].times(own);
      if (is_loaded != (rank != lacking)) exit(1);
      for (int at = 0; at < TIMES; at += 1)
        if (own[at] > all[at]) all[at] = own[at];
    }
    for (int rank = 0; rank < PLAYED; rank += 1) ranks[rank].slowest(all);
  }
  ranks[0].flush();
  if (lacking >= 0) memset(expected, 0, sizeof expected);
  uint64_t wrong = wrong_in(path, steps, timed, untimed);
  *not_sent += wrong_sent(path, steps);
  unlink(path);
  for (int rank = 0; rank < PLAYED; rank += 1) {
    untold_count[rank] = 0;
    ranks[rank].tuner->end(ranks[rank].tuned);
    if (ranks[rank].profiled != NULL) ranks[rank].profiler->finalize(ranks[rank].profiled);
    dlclose(ranks[rank].library);
  }
  return wrong;
}

/** Whether the file that says what NCCL has loaded says so; it is removed. */
static int is_noted(const char *tuner, const char *profiler) {
  char path[80], text[80], want[80];
  snprintf(path, sizeof path, "%s/rewards.nccl", folder);
  snprintf(want, sizeof want, "orbweaver-nccl 1\ntuner %s\nprofiler %s\n", tuner, profiler);
  FILE *file = fopen(path, "r");
  if (file == NULL) return 0;
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  unlink(path);
  return strcmp(text, want) == 0;
}

/** An NCCL that has loaded so much is named after ten steps of the job, and not before. */
static int names_loads(const char *library, int has_tuner, int has_profiler) {
  struct played one;
  int is_early = 0;
  load(&one, library, 0, has_tuner, has_profiler);
  for (int step = 1; step <= 10; step += 1) {
    is_early = is_early || is_noted("yes", "yes") || is_noted("no", "no");
    one.step(10.0);
  }
  int is_right = !is_early && is_noted(has_tuner ? "yes" : "no", has_profiler ? "yes" : "no");
  if (has_tuner) one.tuner->end(one.tuned);
  if (has_profiler) one.profiler->finalize(one.profiled);
  dlclose(one.library);
  return is_right;
}

static void seal_policy(void) {
  static struct policy policy;
  static char text[POLICY_BYTES + 1];
  policy.version = 3;
  policy.sections = 1;
  policy.rows = ROWS;
  policy.section[0] = (struct section){2, PLAYED, 0, ROWS, "eu-1/2x2"};
  for (int row = 0; row < ROWS; row += 1)
    policy.row[row] = (struct row){.min_bytes = USED[row].min_bytes,
                                   .max_bytes = USED[row].min_bytes,
                                   .stride = 1,
                                   .collective = (uint8_t)USED[row].collective,
                                   .arm = 1};
  size_t length = write_policy(&policy, text);
  for (size_t at = 0; at < length; at += 1)
    if (text[at] == '\n') text[at] = ';';
  text[length] = '\0';
  setenv("ORBWEAVER_COLLECTIVES_SEALED", text, 1);
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: %s PLUGIN.so [STEPS [SEED]]\n", argv[0]);
    return 2;
  }
  uint64_t steps = argc > 2 ? strtoull(argv[2], NULL, 10) : 400;
  uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
  if (steps > MOST_STEPS || mkdtemp(folder) == NULL) return 2;
  seal_policy();
  unsetenv("RANK");
  uint64_t timed = 0, untimed = 0, lacking_timed = 0, lacking_untimed = 0;
  uint64_t not_sent = 0;
  uint64_t wrong = play(argv[1], steps, seed, -1, &timed, &untimed, &not_sent);
  uint64_t lacking = play(argv[1], steps, seed, 2, &lacking_timed, &lacking_untimed, &not_sent);
  is_noted("yes", "yes");
  int named = names_loads(argv[1], 0, 0) + names_loads(argv[1], 1, 0) + names_loads(argv[1], 1, 1);
  char path[80];
  snprintf(path, sizeof path, "%s/rewards", folder);
  unlink(path);
  rmdir(folder);
  printf("what NCCL has loaded, named       %d of 3\n", named);
  printf("rewards with a time, without      %" PRIu64 ", %" PRIu64 "\n", timed, untimed);
  printf("not that of the slowest rank      %" PRIu64 "\n", wrong);
  printf("a rank without the profiler: with a time, wrong %" PRIu64 ", %" PRIu64 "\n", lacking_timed,
         lacking);
  printf("totals of what was sent, wrong    %" PRIu64 "\n", not_sent);
  int is_good = named == 3 && not_sent == 0 && wrong == 0 && lacking == 0 && timed > 0 && lacking_timed == 0;
  for (int fault = 0; fault < FAULTS; fault += 1) is_good = is_good && seen_faults[fault] > 0;
  return is_good ? 0 : 1;
}
