/** @file Shared by the parts of the harness: random numbers, policies that are known by their construction, the plugin's functions. */

#ifndef ORBWEAVER_HARNESS_H
#define ORBWEAVER_HARNESS_H

#include <stddef.h>
#include <stdint.h>

#include "nccl_tuner.h"
#include "policy.h"

uint64_t random_bits(uint64_t *state);
/** From 0 to `below − 1`. */
uint32_t random_below(uint64_t *state, uint32_t below);

/** A policy for the shapes given, drawn from the state; the writer of its text is not the plugin's. */
struct shape {
  uint32_t nodes;
  uint32_t ranks;
};
void draw_policy(struct policy *out, uint64_t version, const struct shape *shapes, int count,
                 uint64_t *state);
/** The text without a terminating zero; `out` has room for `POLICY_BYTES`. */
size_t write_policy(const struct policy *policy, char *out);

/** Plays one job: eight ranks, each with a copy of the plugin of its own. */
enum { RANKS = 8 };
struct job_order {
  /** One path to a library for each rank. */
  const char *const *libraries;
  const char *folder;
  uint64_t seed;
  /** Each rank acts on the file that it reads for itself, as no rank of ours may. */
  int is_control;
};
struct job_result {
  uint64_t decisions;
  uint64_t disagreements;
  /** Decisions that do not follow the policy in force. */
  uint64_t wrong;
  uint64_t overrides;
  uint64_t adopted;
  /** Elections at which the ranks held different policies, or one of them none. */
  uint64_t splits;
  uint64_t rewards_read;
  /** Reward files that were not whole. */
  uint64_t rewards_torn;
};
void play_job(const struct job_order *order, struct job_result *result);

#endif
