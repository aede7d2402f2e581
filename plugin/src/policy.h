/**
 * @file A policy in memory: for each shape of communicator and size band, the arm of every call. Read from the text of
 * docs/collectives-format.md, whose maxima allow a structure of fixed size, without allocation.
 */

#ifndef ORBWEAVER_POLICY_H
#define ORBWEAVER_POLICY_H

#include <stddef.h>
#include <stdint.h>

enum {
  POLICY_BYTES = 16384,
  POLICY_LINE_BYTES = 512,
  POLICY_SECTIONS = 8,
  POLICY_ROWS = 64,
  POLICY_RUNS = 32,
  POLICY_RUN_COUNT = 4096,
  POLICY_STRIDE = 65536,
  POLICY_TOPOLOGY_CHARS = 63,
  POLICY_NODES = 65536,
  POLICY_RANKS = 1048576,
};

/** `ARM_AUTO` leaves NCCL's own choice alone. */
enum { ARM_AUTO = 0, ARM_COUNT = 12 };

struct arm {
  const char *name;
  /** Row and column of NCCL's cost table; −1 for `ARM_AUTO`. */
  int algorithm;
  int protocol;
};
extern const struct arm ARMS[ARM_COUNT];

/** Indexed by ncclFunc_t. */
enum { COLLECTIVE_COUNT = 5 };
extern const char *const COLLECTIVES[COLLECTIVE_COUNT];

struct row {
  uint64_t min_bytes;
  uint64_t max_bytes;
  uint32_t stride;
  uint16_t count[POLICY_RUNS];
  uint8_t run_arm[POLICY_RUNS];
  uint8_t runs;
  uint8_t collective;
  uint8_t arm;
};

struct section {
  uint32_t nodes;
  uint32_t ranks;
  /** Its rows are `first_row` to `first_row + rows − 1`. */
  uint8_t first_row;
  uint8_t rows;
  char topology[POLICY_TOPOLOGY_CHARS + 1];
};

struct policy {
  /** 0 without one. */
  uint64_t version;
  uint64_t from_call;
  /** Of its text, as the last line has it. */
  uint32_t crc;
  uint8_t sections;
  uint8_t rows;
  struct section section[POLICY_SECTIONS];
  struct row row[POLICY_ROWS];
};

/** Whether `text` is a whole policy. If not, the content of `out` is undefined. */
int policy_read(struct policy *out, const char *text, size_t length);

/** The section for communicators of this shape, or null. */
const struct section *policy_section(const struct policy *policy, size_t nodes, size_t ranks);

/** The arm of the call of this number of a row, counted from 0 since the policy is in effect. */
int policy_arm(const struct row *row, uint64_t row_call);

uint32_t crc32_of(const char *text, size_t length);

#endif
