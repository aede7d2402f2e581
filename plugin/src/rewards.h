/**
 * @file The times of a job's steps by arm, in a file that an agent reads; its form is in docs/collectives-format.md.
 */

#ifndef ORBWEAVER_REWARDS_H
#define ORBWEAVER_REWARDS_H

#include <stdint.h>

#include "policy.h"

/** The oldest is dropped first; a reader that looks twice a second misses no step of 2 ms. */
enum { REWARDS_KEPT = 1024 };

/** In place of an arm: the calls of the step were not all under one. */
enum { ARM_MIXED = ARM_COUNT };

struct reward {
  uint64_t step;
  uint64_t version;
  uint64_t micros;
  /** What the row's collectives took on the slowest rank; 0 unknown. */
  uint64_t slowest_micros;
  /** Of all its calls together. */
  uint64_t bytes;
  uint64_t min_bytes;
  uint64_t max_bytes;
  uint32_t calls;
  uint8_t collective;
  uint8_t arm;
  char topology[POLICY_TOPOLOGY_CHARS + 1];
};

/** All that was noted of one collective in one band of sizes since the process began. */
struct sent {
  uint64_t min_bytes;
  uint64_t max_bytes;
  uint64_t calls;
  uint64_t bytes;
  /** Of the calls, those whose time on the slowest rank is known, and that time. */
  uint64_t timed_calls;
  uint64_t slowest_micros;
  uint8_t collective;
};

struct rewards {
  /** The number of all rewards so far; the last `REWARDS_KEPT` are kept. */
  uint64_t noted;
  uint64_t written;
  struct reward kept[REWARDS_KEPT];
  /** By collective and band, as far as there is room: policies have `POLICY_ROWS` of them. */
  struct sent sent[POLICY_ROWS];
  uint32_t sent_rows;
};

void rewards_note(struct rewards *rewards, const struct reward *reward);

/**
 * Writes the rewards that are kept, by rename, if one is new, and beside them (`….sent`) what the job has sent since it began. A write that fails
 * is repeated the next time.
 */
void rewards_write(struct rewards *rewards, const char *file);

#endif
