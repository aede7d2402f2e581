/**
 * @file What the steps of a job took under which arm, in a file that an agent picks up; form: docs/collectives-format.md.
 */

#ifndef ORBWEAVER_REWARDS_H
#define ORBWEAVER_REWARDS_H

#include <stdint.h>

#include "policy.h"

/** The oldest goes first; a reader that comes twice a second misses none of steps of 2 ms. */
enum { REWARDS_KEPT = 1024 };

/** In place of an arm: the calls of the step were not all under one. */
enum { ARM_MIXED = ARM_COUNT };

struct reward {
  uint64_t step;
  uint64_t version;
  uint64_t micros;
  uint64_t min_bytes;
  uint64_t max_bytes;
  uint32_t calls;
  uint8_t collective;
  uint8_t arm;
  char topology[POLICY_TOPOLOGY_CHARS + 1];
};

struct rewards {
  /** How many were ever noted; the last `REWARDS_KEPT` are there. */
  uint64_t noted;
  uint64_t written;
  struct reward kept[REWARDS_KEPT];
};

void rewards_note(struct rewards *rewards, const struct reward *reward);

/** Writes all that is kept, by rename, if there is anything new. Whatever goes wrong is tried again the next time. */
void rewards_write(struct rewards *rewards, const char *file);

#endif
