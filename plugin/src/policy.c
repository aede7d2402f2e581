/**
 * @file Reads the text of a policy, and finds the arm of a call.
 *
 * The reader accepts exactly the form that the writer writes (docs/collectives-format.md), so two ranks that accept a text hold the same
 * policy. It looks at each byte once or twice, never beyond `length`, and allocates nothing.
 */

#include "policy.h"

#include <string.h>

#include "nccl_tuner.h"

const struct arm ARMS[ARM_COUNT] = {
    {"auto", -1, -1},
    {"tree/simple", NCCL_TREE, NCCL_SIMPLE},
    {"tree/ll128", NCCL_TREE, NCCL_LL128},
    {"tree/ll", NCCL_TREE, NCCL_LL},
    {"ring/simple", NCCL_RING, NCCL_SIMPLE},
    {"ring/ll128", NCCL_RING, NCCL_LL128},
    {"ring/ll", NCCL_RING, NCCL_LL},
    {"nvls/simple", NCCL_NVLS, NCCL_SIMPLE},
    {"nvls_tree/simple", NCCL_NVLS_TREE, NCCL_SIMPLE},
    {"pat/simple", NCCL_PAT, NCCL_SIMPLE},
    {"collnet_direct/simple", NCCL_COLLNET_DIRECT, NCCL_SIMPLE},
    {"collnet_chain/simple", NCCL_COLLNET_CHAIN, NCCL_SIMPLE},
};

const char *const COLLECTIVES[COLLECTIVE_COUNT] = {"broadcast", "reduce", "allgather",
                                                   "reducescatter", "allreduce"};

/** Whole numbers up to 2^53 − 1, which JavaScript holds exactly too. */
#define MOST_NUMBER UINT64_C(9007199254740991)

struct word {
  const char *at;
  size_t length;
};

struct line {
  const char *at;
  const char *end;
};

uint32_t crc32_of(const char *text, size_t length) {
  uint32_t crc = 0xffffffffu;
  for (size_t at = 0; at < length; at += 1) {
    crc ^= (unsigned char)text[at];
    for (int bit = 0; bit < 8; bit += 1) crc = (crc >> 1) ^ (0xedb88320u & (0u - (crc & 1u)));
  }
  return crc ^ 0xffffffffu;
}

/** Words are separated by exactly one blank; false when no word is left or one is empty. */
static int next_word(struct line *line, struct word *out) {
  if (line->at == NULL) return 0;
  const char *end = line->at;
  while (end < line->end && *end != ' ') end += 1;
  out->at = line->at;
  out->length = (size_t)(end - line->at);
  line->at = end < line->end ? end + 1 : NULL;
  return out->length > 0;
}

static int is_word(const struct word *word, const char *text) {
  return strlen(text) == word->length && memcmp(word->at, text, word->length) == 0;
}

static int number_in(const struct word *word, uint64_t least, uint64_t most, uint64_t *out) {
  if (word->length == 0 || word->length > 16) return 0;
  if (word->at[0] == '0' && word->length > 1) return 0;
  uint64_t value = 0;
  for (size_t at = 0; at < word->length; at += 1) {
    if (word->at[at] < '0' || word->at[at] > '9') return 0;
    value = value * 10 + (uint64_t)(word->at[at] - '0');
  }
  *out = value;
  return value >= least && value <= most;
}

static int next_number(struct line *line, uint64_t least, uint64_t most, uint64_t *out) {
  struct word word;
  return next_word(line, &word) && number_in(&word, least, most, out);
}

static int next_is(struct line *line, const char *text) {
  struct word word;
  return next_word(line, &word) && is_word(&word, text);
}

static int arm_in(const struct word *word, uint8_t *out) {
  for (int arm = 0; arm < ARM_COUNT; arm += 1) {
    if (!is_word(word, ARMS[arm].name)) continue;
    *out = (uint8_t)arm;
    return 1;
  }
  return 0;
}

static int is_topology_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         (c != '\0' && strchr("._:/@+-", c) != NULL);
}

/** `topology KEY nodes N ranks R` */
static int read_section(struct policy *out, struct line line) {
  struct word key;
  uint64_t nodes, ranks;
  if (out->sections == POLICY_SECTIONS || !next_is(&line, "topology") || !next_word(&line, &key))
    return 0;
  if (key.length > POLICY_TOPOLOGY_CHARS) return 0;
  for (size_t at = 0; at < key.length; at += 1)
    if (!is_topology_char(key.at[at])) return 0;
  if (!next_is(&line, "nodes") || !next_number(&line, 1, POLICY_NODES, &nodes)) return 0;
  if (!next_is(&line, "ranks") || !next_number(&line, 1, POLICY_RANKS, &ranks)) return 0;
  if (line.at != NULL || policy_section(out, nodes, ranks) != NULL) return 0;
  struct section *section = &out->section[out->sections];
  memset(section, 0, sizeof *section);
  memcpy(section->topology, key.at, key.length);
  section->nodes = (uint32_t)nodes;
  section->ranks = (uint32_t)ranks;
  section->first_row = out->rows;
  out->sections += 1;
  return 1;
}

/** `ARM*COUNT` */
static int read_run(struct row *row, struct word word) {
  const char *star = memchr(word.at, '*', word.length);
  uint64_t count;
  if (star == NULL || row->runs == POLICY_RUNS) return 0;
  struct word arm = {word.at, (size_t)(star - word.at)};
  struct word digits = {star + 1, word.length - arm.length - 1};
  if (!arm_in(&arm, &row->run_arm[row->runs])) return 0;
  if (!number_in(&digits, 1, POLICY_RUN_COUNT, &count)) return 0;
  row->count[row->runs] = (uint16_t)count;
  row->runs += 1;
  return 1;
}

/** `COLLECTIVE MIN MAX ARM [explore STRIDE ARM*COUNT …]` */
static int read_row(struct policy *out, struct line line) {
  if (out->sections == 0 || out->rows == POLICY_ROWS) return 0;
  struct section *section = &out->section[out->sections - 1];
  struct row *row = &out->row[out->rows];
  struct word word;
  uint64_t stride;
  memset(row, 0, sizeof *row);
  if (!next_word(&line, &word)) return 0;
  int collective = 0;
  while (collective < COLLECTIVE_COUNT && !is_word(&word, COLLECTIVES[collective])) collective += 1;
  if (collective == COLLECTIVE_COUNT) return 0;
  row->collective = (uint8_t)collective;
  if (!next_number(&line, 0, MOST_NUMBER, &row->min_bytes)) return 0;
  if (!next_number(&line, row->min_bytes, MOST_NUMBER, &row->max_bytes)) return 0;
  if (!next_word(&line, &word) || !arm_in(&word, &row->arm)) return 0;
  if (section->rows > 0) {
    const struct row *before = row - 1;
    int is_after = row->collective > before->collective ||
                   (row->collective == before->collective && row->min_bytes > before->max_bytes);
    if (!is_after) return 0;
  }
  row->stride = 1;
  if (line.at != NULL) {
    if (!next_is(&line, "explore") || !next_number(&line, 1, POLICY_STRIDE, &stride)) return 0;
    row->stride = (uint32_t)stride;
    do {
      if (!next_word(&line, &word) || !read_run(row, word)) return 0;
    } while (line.at != NULL);
  }
  section->rows += 1;
  out->rows += 1;
  return 1;
}

/** The line at `text + *at`, without its line feed; false at the end, or where a line is too long or has other characters. */
static int next_line(const char *text, size_t length, size_t *at, struct line *out) {
  const char *start = text + *at;
  const char *feed = *at < length ? memchr(start, '\n', length - *at) : NULL;
  if (feed == NULL || feed - start + 1 > POLICY_LINE_BYTES) return 0;
  for (const char *c = start; c < feed; c += 1)
    if (*c < 0x20 || *c > 0x7e) return 0;
  out->at = feed > start ? start : NULL;
  out->end = feed;
  *at += (size_t)(feed - start) + 1;
  return 1;
}

static int is_line(const struct line *line, const char *text) {
  struct word word = {line->at, line->at == NULL ? 0 : (size_t)(line->end - line->at)};
  return is_word(&word, text);
}

static int read_head(const char *text, size_t length, size_t *at, const char *name, uint64_t least,
                     uint64_t *out) {
  struct line line;
  return next_line(text, length, at, &line) && next_is(&line, name) &&
         next_number(&line, least, MOST_NUMBER, out) && line.at == NULL;
}

/** The last line: `end` and the checksum of the text before it, as eight lower-case hexadecimal digits. */
static int is_end(const struct line *line, uint32_t crc) {
  char want[13] = "end ";
  for (int digit = 0; digit < 8; digit += 1)
    want[4 + digit] = "0123456789abcdef"[(crc >> (28 - 4 * digit)) & 15u];
  want[12] = '\0';
  return is_line(line, want);
}

int policy_read(struct policy *out, const char *text, size_t length) {
  struct line line;
  size_t at = 0;
  out->version = 0;
  out->sections = 0;
  out->rows = 0;
  if (length > POLICY_BYTES) return 0;
  if (!next_line(text, length, &at, &line) || !is_line(&line, "orbweaver-collectives 1")) return 0;
  uint64_t version;
  if (!read_head(text, length, &at, "version", 1, &version)) return 0;
  if (!read_head(text, length, &at, "from", 0, &out->from_call)) return 0;
  if (!next_line(text, length, &at, &line)) return 0;
  if (!is_line(&line, "overlap yes") && !is_line(&line, "overlap no")) return 0;
  for (;;) {
    size_t before = at;
    if (!next_line(text, length, &at, &line) || line.at == NULL) return 0;
    if (line.end - line.at >= 4 && memcmp(line.at, "end ", 4) == 0) {
      out->crc = crc32_of(text, before);
      if (at != length || !is_end(&line, out->crc)) return 0;
      out->version = version;
      return 1;
    }
    int is_section = line.end - line.at >= 9 && memcmp(line.at, "topology ", 9) == 0;
    if (is_section ? !read_section(out, line) : !read_row(out, line)) return 0;
  }
}

const struct section *policy_section(const struct policy *policy, size_t nodes, size_t ranks) {
  for (int at = 0; at < policy->sections; at += 1) {
    const struct section *section = &policy->section[at];
    if (section->nodes == nodes && section->ranks == ranks) return section;
  }
  return NULL;
}

int policy_arm(const struct row *row, uint64_t row_call) {
  uint64_t iteration = row_call / row->stride;
  for (int run = 0; run < row->runs; run += 1) {
    if (iteration < row->count[run]) return row->run_arm[run];
    iteration -= row->count[run];
  }
  return row->arm;
}
