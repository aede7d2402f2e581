/** @file Draws policies and writes their text, independently of the code that reads them. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "harness.h"

/** splitmix64 */
uint64_t random_bits(uint64_t *state) {
  uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

uint32_t random_below(uint64_t *state, uint32_t below) {
  return (uint32_t)(random_bits(state) >> 33) % below;
}

static void draw_row(struct row *row, uint64_t *state) {
  row->stride = 1 + random_below(state, 4);
  row->arm = (uint8_t)random_below(state, ARM_COUNT);
  row->runs = (uint8_t)random_below(state, 9);
  for (int run = 0; run < row->runs; run += 1) {
    row->run_arm[run] = (uint8_t)random_below(state, ARM_COUNT);
    row->count[run] = (uint16_t)(1 + random_below(state, 5));
  }
}

void draw_policy(struct policy *out, uint64_t version, const struct shape *shapes, int count,
                 uint64_t *state) {
  memset(out, 0, sizeof *out);
  out->version = version;
  out->from_call = random_below(state, 3) == 0 ? random_below(state, 200) : 0;
  for (int at = 0; at < count; at += 1) {
    struct section *section = &out->section[out->sections];
    section->nodes = shapes[at].nodes;
    section->ranks = shapes[at].ranks;
    section->first_row = out->rows;
    snprintf(section->topology, sizeof section->topology, "eu-1/%ux%u", shapes[at].nodes,
             shapes[at].ranks);
    for (uint8_t collective = 0; collective < COLLECTIVE_COUNT; collective += 1) {
      uint64_t bytes = random_below(state, 3) == 0 ? UINT64_C(1) << 20 : 0;
      int bands = (int)random_below(state, 4);
      for (int band = 0; band < bands; band += 1) {
        struct row *row = &out->row[out->rows];
        row->collective = collective;
        row->min_bytes = bytes;
        row->max_bytes = band == 2 ? UINT64_C(9007199254740991)
                                   : bytes + (UINT64_C(1) << (12 + random_below(state, 12)));
        draw_row(row, state);
        bytes = row->max_bytes + 1;
        out->rows += 1;
        section->rows += 1;
      }
    }
    out->sections += 1;
  }
}

size_t write_policy(const struct policy *policy, char *out) {
  char *at = out;
  at += sprintf(at, "orbweaver-collectives 1\nversion %" PRIu64 "\nfrom %" PRIu64 "\noverlap yes\n",
                policy->version, policy->from_call);
  for (int s = 0; s < policy->sections; s += 1) {
    const struct section *section = &policy->section[s];
    at += sprintf(at, "topology %s nodes %" PRIu32 " ranks %" PRIu32 "\n", section->topology,
                  section->nodes, section->ranks);
    for (int r = section->first_row; r < section->first_row + section->rows; r += 1) {
      const struct row *row = &policy->row[r];
      at += sprintf(at, "%s %" PRIu64 " %" PRIu64 " %s", COLLECTIVES[row->collective],
                    row->min_bytes, row->max_bytes, ARMS[row->arm].name);
      if (row->runs > 0) at += sprintf(at, " explore %" PRIu32, row->stride);
      for (int run = 0; run < row->runs; run += 1)
        at += sprintf(at, " %s*%d", ARMS[row->run_arm[run]].name, row->count[run]);
      at += sprintf(at, "\n");
    }
  }
  uint32_t crc = crc32_of(out, (size_t)(at - out));
  at += sprintf(at, "end %08" PRIx32 "\n", crc);
  return (size_t)(at - out);
}
