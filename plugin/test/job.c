/**
 * @file One job as NCCL and a launch would run it: eight ranks, each a process of its own (here: a copy of the plugin, loaded apart),
 * three kinds of communicators, ranks that run ahead of each other, files that are late, torn, missing or of another version on each rank.
 *
 * All ranks make the same calls in the same order, as NCCL demands of a program; the time of a rank's next call is drawn. Where the
 * program agrees on a policy it waits for all ranks, as a collective does, and all receive the text that rank 0 found. Every choice is compared
 * with the first rank's, and with the policy by a schedule that is written out in full.
 */

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"

enum {
  OPS = 1500,
  /** World, the rank's node, and one that is made in the middle of the job. */
  COMMUNICATORS = 3,
  LATE_COMMUNICATOR = 2,
  GROUPS = 2,
  ALGORITHMS = 7,
  PROTOCOLS = 3,
  CELLS = ALGORITHMS * PROTOCOLS,
  UNKNOWN = -2,
  EVERYBODY = (1 << RANKS) - 1,
};

enum op_kind { OP_CALL, OP_STEP, OP_AGREE, OP_MAKE, OP_FLUSH };
enum file_state { FILE_WHOLE, FILE_OLD, FILE_TORN, FILE_FLIPPED, FILE_MISSING, FILE_STATES };

struct op {
  enum op_kind kind;
  int communicator;
  int collective;
  size_t bytes;
  float costs[CELLS];
  /** Of a call that does not run: the ranks that make it. All record a graph together; one may ask alone what a group would cost. */
  int aside;
  /** The choice of the first rank of each group, and the right one. */
  int chosen[GROUPS];
  int want;
  /** At `OP_AGREE`: which policy is in the files, and how each rank finds its file. */
  int policy;
  int is_broadcast;
  enum file_state file[RANKS];
};

struct rank {
  void *library;
  nccl_end_fn end;
  /** The one of them that this job's NCCL has found. */
  const struct nccl_tuner_v2 *v2;
  const struct nccl_tuner_v3 *v3;
  const struct nccl_tuner_v4 *v4;
  const struct nccl_tuner_v5 *v5;
  void (*set_aside)(int);
  void *context[COMMUNICATORS];
  int (*step)(double);
  void (*flush)(void);
  int (*offer)(char *, int);
  int (*hold)(const char *, int);
  void (*ballot)(int64_t[4]);
  int (*elect)(const int64_t[4]);
  int at;
};

static const struct shape SHAPES[COMMUNICATORS] = {{2, 8}, {1, 4}, {2, 8}};
enum { POLICIES = 24 };

static struct op ops[OPS];
static struct policy policies[POLICIES];

/** The cell that NCCL takes: the least cost that is not below zero, the first of equals. */
static int cell_of(const float *costs) {
  int best = -1;
  for (int cell = 0; cell < CELLS; cell += 1)
    if (costs[cell] >= 0.0f && (best < 0 || costs[cell] < costs[best])) best = cell;
  return best;
}

static void draw_ops(uint64_t *state) {
  int drawn = 1;
  for (int k = 0; k < OPS; k += 1) {
    struct op *op = &ops[k];
    memset(op, 0, sizeof *op);
    uint32_t kind = random_below(state, 100);
    op->kind = k == OPS / 3 ? OP_MAKE : kind < 88 ? OP_CALL : kind < 96 ? OP_STEP
                                     : kind < 98 ? OP_AGREE : OP_FLUSH;
    op->communicator = (int)random_below(state, k > OPS / 3 ? 3 : 2);
    // Most calls of a job are alike.
    op->collective = random_below(state, 2) == 0 ? NCCL_ALL_REDUCE : (int)random_below(state, 5);
    op->bytes = (size_t)1 << random_below(state, 30);
    if (random_below(state, 2) == 0) op->bytes = 65536;
    for (int cell = 0; cell < CELLS; cell += 1)
      op->costs[cell] = random_below(state, 4) == 0
                            ? NCCL_COST_IGNORED
                            : 1.0f + (float)random_below(state, 1000) / 10.0f;
    op->costs[NCCL_RING * PROTOCOLS + NCCL_SIMPLE] = 50.0f;
    for (int group = 0; group < GROUPS; group += 1) op->chosen[group] = UNKNOWN;
    if (op->kind == OP_CALL && random_below(state, 10) == 0)
      op->aside = random_below(state, 2) == 0 ? EVERYBODY : 1 + (int)random_below(state, EVERYBODY);
    if (op->kind != OP_AGREE) continue;
    if (drawn < POLICIES && random_below(state, 2) == 0) drawn += 1;
    op->policy = drawn - 1;
    op->is_broadcast = random_below(state, 4) != 0;
    // One broken file among eight is the case to get right, and all whole has to be seen too.
    uint32_t broken = random_below(state, 3);
    for (int r = 0; r < RANKS; r += 1)
      if (random_below(state, RANKS) < broken) op->file[r] = (enum file_state)random_below(state, FILE_STATES);
  }
}

/** What is right, in the order of the program: schedules written out, counts by row. */
struct reference {
  int in_force;
  int coming;
  int newest;
  int is_split;
  uint64_t calls;
  uint64_t row_calls[POLICY_ROWS];
};

static int written_out(const struct row *row, uint64_t call) {
  uint64_t at = 0;
  for (int run = 0; run < row->runs; run += 1)
    for (uint64_t i = 0; i < (uint64_t)row->count[run] * row->stride; i += 1, at += 1)
      if (at == call) return row->run_arm[run];
  return row->arm;
}

static void settle(struct reference *of) {
  if (of->coming < 0 || of->calls < policies[of->coming].from_call) return;
  of->in_force = of->coming;
  of->coming = -1;
  memset(of->row_calls, 0, sizeof of->row_calls);
}

static int right_arm(struct reference *of, int communicator, const struct op *op) {
  if (of->is_split) return ARM_AUTO;
  settle(of);
  of->calls += op->aside == 0;
  if (of->in_force < 0) return ARM_AUTO;
  const struct policy *policy = &policies[of->in_force];
  for (int s = 0; s < policy->sections; s += 1) {
    const struct section *section = &policy->section[s];
    if (section->nodes != SHAPES[communicator].nodes) continue;
    for (int r = section->first_row; r < section->first_row + section->rows; r += 1) {
      const struct row *row = &policy->row[r];
      if (row->collective != op->collective || op->bytes < row->min_bytes ||
          op->bytes > row->max_bytes)
        continue;
      return op->aside != 0 ? row->arm : written_out(row, of->row_calls[r]++);
    }
  }
  return ARM_AUTO;
}

/** The policy that a rank gets hold of by its own file; −1 for none. */
static int own_policy(const struct op *op, int rank) {
  if (op->file[rank] == FILE_WHOLE) return op->policy;
  return op->file[rank] == FILE_OLD ? 0 : -1;
}

/** What all ranks hold at an election: a policy, −1 for none, `UNKNOWN` when they are split. */
static int held_by_all(const struct op *op, const struct reference *of, int made) {
  int first = own_policy(op, 0);
  if (op->is_broadcast) {
    // The first rank offers only what is new to one of its communicators.
    int least = of[0].newest;
    for (int c = 1; c < made; c += 1)
      if (of[c].newest < least) least = of[c].newest;
    return first > least ? first : -1;
  }
  for (int r = 1; r < RANKS; r += 1)
    if (own_policy(op, r) != first) return UNKNOWN;
  return first;
}

/** The pair that version 2 names, where it may name it. */
static int is_named(const struct op *op, const struct arm *arm) {
  int is_tree = arm->algorithm == NCCL_TREE && op->collective == NCCL_ALL_REDUCE;
  return (arm->algorithm == NCCL_RING || is_tree) && arm->protocol != NCCL_LL128;
}

static void work_out(int interface, int sealed, struct job_result *result) {
  struct reference of[COMMUNICATORS];
  memset(of, 0, sizeof of);
  int made = LATE_COMMUNICATOR, is_split = 0;
  for (int c = 0; c < COMMUNICATORS; c += 1)
    of[c] = (struct reference){.in_force = -1, .coming = sealed, .newest = sealed};
  for (int k = 0; k < OPS; k += 1) {
    struct op *op = &ops[k];
    if (op->kind == OP_MAKE) {
      made = COMMUNICATORS;
      of[LATE_COMMUNICATOR].is_split = is_split;
    }
    if (op->kind == OP_AGREE) {
      int agreed = held_by_all(op, of, made);
      if (agreed != -1) is_split = agreed == UNKNOWN;
      result->splits += agreed == UNKNOWN;
      for (int c = 0; c < made; c += 1) {
        of[c].is_split = is_split;
        if (agreed < 0 || agreed <= of[c].newest) continue;
        settle(&of[c]);
        of[c].coming = of[c].newest = agreed;
        result->adopted += 1;
      }
    }
    if (op->kind != OP_CALL) continue;
    float costs[CELLS];
    memcpy(costs, op->costs, sizeof costs);
    const struct arm *arm = &ARMS[right_arm(&of[op->communicator], op->communicator, op)];
    int cell = arm->algorithm * PROTOCOLS + arm->protocol;
    int is_taken = interface == 2 ? is_named(op, arm) : arm->algorithm >= 0 && costs[cell] >= 0.0f;
    result->overrides += is_taken;
    op->want = is_taken ? cell : cell_of(costs);
  }
}

static void *symbol(void *library, const char *name) {
  void *found = dlsym(library, name);
  if (found == NULL) {
    fprintf(stderr, "the plugin has no %s\n", name);
    exit(2);
  }
  return found;
}

static void copy_function(void *out, void *library, const char *name) {
  void *found = symbol(library, name);
  memcpy(out, &found, sizeof found);
}

static void make(struct rank *rank, int communicator) {
  const struct shape *shape = &SHAPES[communicator];
  nccl_init_v4_fn init = rank->v2 != NULL ? rank->v2->init : rank->v3 != NULL ? rank->v3->init
                                                         : rank->v4 != NULL ? rank->v4->init
                                                                            : NULL;
  int result = init != NULL ? init(shape->ranks, shape->nodes, NULL, &rank->context[communicator])
                            : rank->v5->init(&rank->context[communicator], 7, shape->ranks,
                                             shape->nodes, NULL, NULL, NULL);
  if (result != NCCL_SUCCESS) abort();
}

static void load(struct rank *rank, const char *path, int interface) {
  memset(rank, 0, sizeof *rank);
  rank->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (rank->library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
  char name[] = "ncclTunerPlugin_v5";
  name[sizeof name - 2] = (char)('0' + interface);
  void *tuner = symbol(rank->library, name);
  if (interface == 2) rank->end = (rank->v2 = tuner)->end;
  else if (interface == 3) rank->end = (rank->v3 = tuner)->end;
  else if (interface == 4) rank->end = (rank->v4 = tuner)->end;
  // Versions 6 and 7 begin like version 5.
  else rank->end = (rank->v5 = tuner)->end;
  copy_function(&rank->set_aside, rank->library, "orbweaver_collectives_aside");
  copy_function(&rank->step, rank->library, "orbweaver_collectives_step");
  copy_function(&rank->flush, rank->library, "orbweaver_collectives_flush");
  copy_function(&rank->offer, rank->library, "orbweaver_collectives_offer");
  copy_function(&rank->hold, rank->library, "orbweaver_collectives_hold");
  copy_function(&rank->ballot, rank->library, "orbweaver_collectives_ballot");
  copy_function(&rank->elect, rank->library, "orbweaver_collectives_elect");
}

static void write_file(const char *path, const char *text, size_t length) {
  unlink(path);
  FILE *file = fopen(path, "w");
  if (file == NULL) return;
  fwrite(text, 1, length, file);
  fclose(file);
}

/** Puts the policy file of a rank into the state that was drawn. */
static void lay_file(const char *path, const struct op *op, int rank, uint64_t *state) {
  char text[POLICY_BYTES];
  enum file_state is = op->file[rank];
  size_t length = write_policy(&policies[is == FILE_OLD ? 0 : op->policy], text);
  if (is == FILE_TORN) length = random_below(state, (uint32_t)length);
  if (is == FILE_FLIPPED) text[random_below(state, (uint32_t)length)] ^= (char)(1 << random_below(state, 7));
  if (is == FILE_MISSING) unlink(path);
  else write_file(path, text, length);
}

static int read_rewards(const char *path) {
  static char text[1 << 20];
  FILE *file = fopen(path, "r");
  if (file == NULL) return -1;
  size_t length = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  char want[16];
  if (length < 13) return 0;
  snprintf(want, sizeof want, "end %08x\n", (unsigned)crc32_of(text, length - 13));
  return memcmp(text + length - 13, want, 13) == 0;
}

static void be(const char *folder, int rank) {
  char path[4096], number[4];
  snprintf(path, sizeof path, "%s/%d.policy", folder, rank);
  snprintf(number, sizeof number, "%d", rank);
  setenv("ORBWEAVER_COLLECTIVES_POLICY", path, 1);
  setenv("RANK", number, 1);
}

static size_t read_text(const char *path, char *text) {
  FILE *file = fopen(path, "r");
  if (file == NULL) return 0;
  size_t length = fread(text, 1, POLICY_BYTES, file);
  fclose(file);
  return length;
}

/** Between two steps: rank 0's text by a broadcast, or each rank's own file, and then the vote. */
static void agree(struct rank *ranks, const struct op *op, const struct job_order *order,
                  uint64_t *state) {
  static char offered[POLICY_BYTES], own[POLICY_BYTES];
  int64_t votes[RANKS][4], most[4];
  int length = 0;
  for (int r = 0; r < RANKS; r += 1) {
    be(order->folder, r);
    lay_file(getenv("ORBWEAVER_COLLECTIVES_POLICY"), op, r, state);
    if (r == 0) length = ranks[0].offer(offered, POLICY_BYTES);
    if (op->is_broadcast && !order->is_control) ranks[r].hold(offered, length);
    else ranks[r].hold(own, (int)read_text(getenv("ORBWEAVER_COLLECTIVES_POLICY"), own));
    ranks[r].ballot(votes[r]);
    for (int at = 0; at < 4; at += 1)
      most[at] = r == 0 || votes[r][at] > most[at] ? votes[r][at] : most[at];
  }
  int first = (int)random_below(state, RANKS);
  for (int i = 0; i < RANKS; i += 1) {
    int r = (first + i) % RANKS;
    ranks[r].elect(order->is_control ? votes[r] : most);
  }
}

/** The cell of a call, as the NCCL of this interface takes it; −1 when the plugin has touched what it must not. */
static int chosen_cell(const struct rank *rank, const struct op *op, int is_registered) {
  void *context = rank->context[op->communicator];
  float costs[CELLS];
  memcpy(costs, op->costs, sizeof costs);
  float **table = (float **)(void *)costs;
  int channels = 0, algorithm = -1, protocol = -1, result;
  if (rank->v2 != NULL)
    result = rank->v2->choose(context, op->collective, op->bytes, 1, 1, 1, &algorithm, &protocol,
                              &channels);
  else if (rank->v3 != NULL)
    result = rank->v3->choose(context, op->collective, op->bytes, 1, table, ALGORITHMS, PROTOCOLS,
                              &channels);
  else
    result = (rank->v4 != NULL ? rank->v4->choose : rank->v5->choose)(
        context, op->collective, op->bytes, 1, table, ALGORITHMS, PROTOCOLS, is_registered,
        &channels);
  if (result != NCCL_SUCCESS) abort();
  if (channels != 0 || (algorithm < 0) != (protocol < 0)) return -1;
  return algorithm >= 0 ? algorithm * PROTOCOLS + protocol : cell_of(costs);
}

static void run_op(struct rank *rank, int r, struct op *op, const struct job_order *order,
                   struct job_result *result) {
  char path[4096];
  int group = op->communicator == 1 ? r / 4 : 0;
  switch (op->kind) {
    case OP_MAKE:
      make(rank, LATE_COMMUNICATOR);
      return;
    case OP_STEP:
      be(order->folder, r);
      rank->step(1.5 + r);
      return;
    case OP_FLUSH:
      be(order->folder, r);
      rank->flush();
      snprintf(path, sizeof path, "%s/rewards", order->folder);
      int is_whole = r == 0 ? read_rewards(path) : -1;
      if (is_whole >= 0) result->rewards_read += 1;
      if (is_whole == 0) result->rewards_torn += 1;
      return;
    case OP_AGREE:
      return;
    case OP_CALL:
      if (op->aside != 0 && (op->aside >> r & 1) == 0) return;
      if (op->aside != 0) rank->set_aside(1);
      int cell = chosen_cell(rank, op, r % 2);
      if (op->aside != 0) rank->set_aside(0);
      result->decisions += 1;
      if (op->chosen[group] == UNKNOWN) op->chosen[group] = cell;
      result->disagreements += cell != op->chosen[group];
      result->wrong += cell != op->want;
  }
}

void play_job(const struct job_order *order, struct job_result *result) {
  struct rank ranks[RANKS];
  uint64_t state = order->seed;
  char text[POLICY_BYTES + 1], path[4096];
  for (int p = 0; p < POLICIES; p += 1) draw_policy(&policies[p], (uint64_t)p + 1, SHAPES, 2, &state);
  draw_ops(&state);
  int is_sealed = random_below(&state, 4) != 0;
  int interface = 2 + (int)random_below(&state, 6);
  work_out(interface, is_sealed ? 0 : -1, result);

  size_t length = write_policy(&policies[0], text);
  text[length] = '\0';
  for (char *c = text; *c != '\0'; c += 1)
    if (*c == '\n') *c = ';';
  if (is_sealed) setenv("ORBWEAVER_COLLECTIVES_SEALED", text, 1);
  else unsetenv("ORBWEAVER_COLLECTIVES_SEALED");
  int has_folder = random_below(&state, 4) != 0;
  snprintf(path, sizeof path, "%s/%srewards", order->folder, has_folder ? "" : "missing/");
  setenv("ORBWEAVER_COLLECTIVES_REWARDS", path, 1);

  for (int r = 0; r < RANKS; r += 1) {
    be(order->folder, r);
    // Where it starts, too, each rank finds its file in a state of its own.
    struct op start = {.policy = 0};
    start.file[r] = (enum file_state)random_below(&state, FILE_STATES);
    lay_file(getenv("ORBWEAVER_COLLECTIVES_POLICY"), &start, r, &state);
    load(&ranks[r], order->libraries[r], interface);
    for (int c = 0; c < LATE_COMMUNICATOR; c += 1) make(&ranks[r], c);
  }
  // From ranks in step to ranks that run far ahead.
  int window = 1 << random_below(&state, 9);
  for (;;) {
    int least = OPS, waiting = 0;
    for (int r = 0; r < RANKS; r += 1) {
      if (ranks[r].at < least) least = ranks[r].at;
      waiting += ranks[r].at < OPS && ops[ranks[r].at].kind == OP_AGREE;
    }
    if (least == OPS) break;
    if (waiting == RANKS) {
      agree(ranks, &ops[least], order, &state);
      for (int r = 0; r < RANKS; r += 1) ranks[r].at += 1;
      continue;
    }
    int r = (int)random_below(&state, RANKS);
    while (ranks[r].at == OPS || ranks[r].at - least >= window || ops[ranks[r].at].kind == OP_AGREE)
      r = (r + 1) % RANKS;
    run_op(&ranks[r], r, &ops[ranks[r].at], order, result);
    ranks[r].at += 1;
  }
  for (int r = 0; r < RANKS; r += 1) {
    for (int c = 0; c < COMMUNICATORS; c += 1)
      if (ranks[r].end(ranks[r].context[c]) != NCCL_SUCCESS) abort();
    dlclose(ranks[r].library);
  }
}
