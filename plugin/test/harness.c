/**
 * @file Simulates jobs for the plugin until the ranks have made STEPS decisions together: `checked PLUGIN.so STEPS [SEED]`.
 *
 * Ends with 1 when two ranks of a communicator ever chose differently, when a choice does not follow the policy, when a torn text was
 * adopted, or when the control run, in which ranks act on files that they alone have read, shows no disagreement: then the harness could not
 * see one. It is built with the address and undefined-behaviour sanitizers, which end it by themselves.
 */

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness.h"

static char folder[] = "/tmp/orbweaver-tuner-XXXXXX";
static char paths[RANKS][64];

/** Loaded from one path, all ranks would share the plugin's memory. */
static void copy_library(const char *from) {
  static char bytes[1 << 22];
  FILE *file = fopen(from, "r");
  if (file == NULL) {
    perror(from);
    exit(2);
  }
  size_t length = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  for (int r = 0; r < RANKS; r += 1) {
    snprintf(paths[r], sizeof paths[r], "%s/%d.so", folder, r);
    file = fopen(paths[r], "w");
    if (file == NULL || fwrite(bytes, 1, length, file) != length || fclose(file) != 0) exit(2);
  }
}

static void remove_folder(void) {
  static const char *const NAMES[] = {"rewards", "rewards.tmp", "rewards.nccl"};
  char path[64];
  for (int r = 0; r < RANKS; r += 1) {
    unlink(paths[r]);
    snprintf(path, sizeof path, "%s/%d.policy", folder, r);
    unlink(path);
  }
  for (size_t at = 0; at < sizeof NAMES / sizeof *NAMES; at += 1) {
    snprintf(path, sizeof path, "%s/%s", folder, NAMES[at]);
    unlink(path);
  }
  rmdir(folder);
}

/** Every beginning of a text, every bit of it turned round, and texts with pieces moved: none may be taken. Gives how many were. */
static uint64_t taken_though_torn(uint64_t seed, int rounds, uint64_t *tried) {
  static const struct shape SHAPES[] = {{2, 8}, {1, 4}};
  uint64_t taken = 0;
  struct policy policy, other;
  char text[POLICY_BYTES], broken[POLICY_BYTES];
  for (int round = 0; round < rounds; round += 1) {
    draw_policy(&policy, 1 + (uint64_t)round, SHAPES, 2, &seed);
    size_t length = write_policy(&policy, text);
    if (!policy_read(&other, text, length)) return UINT64_MAX;
    for (size_t cut = 0; cut < length; cut += 1, *tried += 1) {
      // A heap copy of exactly this length: the sanitizer sees one byte too far.
      char *copy = malloc(cut == 0 ? 1 : cut);
      memcpy(copy, text, cut);
      taken += (uint64_t)policy_read(&other, copy, cut);
      free(copy);
    }
    for (size_t bit = 0; bit < 8 * length; bit += 1, *tried += 1) {
      memcpy(broken, text, length);
      broken[bit / 8] ^= (char)(1 << (bit % 8));
      taken += (uint64_t)policy_read(&other, broken, length);
    }
    for (int move = 0; move < 2000; move += 1, *tried += 1) {
      size_t from = random_below(&seed, (uint32_t)length), to = random_below(&seed, (uint32_t)length);
      size_t most = length - (from > to ? from : to);
      size_t count = random_below(&seed, (uint32_t)(most < 40 ? most + 1 : 40));
      memcpy(broken, text, length);
      memmove(broken + to, text + from, count);
      if (memcmp(broken, text, length) == 0) continue;
      taken += (uint64_t)policy_read(&other, broken, length);
    }
  }
  return taken;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: %s PLUGIN.so STEPS [SEED]\n", argv[0]);
    return 2;
  }
  uint64_t steps = strtoull(argv[2], NULL, 10);
  uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
  if (mkdtemp(folder) == NULL) return 2;
  atexit(remove_folder);
  copy_library(argv[1]);
  const char *libraries[RANKS];
  for (int r = 0; r < RANKS; r += 1) libraries[r] = paths[r];

  struct job_result all = {0}, control = {0};
  uint64_t jobs = 0, tried = 0;
  for (; all.decisions < steps; jobs += 1) {
    struct job_order order = {libraries, folder, seed * 1000003 + jobs, 0};
    play_job(&order, &all);
  }
  for (uint64_t job = 0; job < 3; job += 1) {
    struct job_order order = {libraries, folder, seed * 1000003 + job, 1};
    play_job(&order, &control);
  }
  uint64_t torn = taken_though_torn(seed, steps < 500000 ? 1 : 4, &tried);

  printf("decisions of 8 ranks      %" PRIu64 " in %" PRIu64 " jobs; %" PRIu64 " times a communicator got another policy while they ran\n",
         all.decisions, jobs, all.adopted);
  printf("calls with an arm         %" PRIu64 "\n", all.overrides);
  printf("elections of split ranks  %" PRIu64 "\n", all.splits);
  printf("disagreements             %" PRIu64 "\n", all.disagreements);
  printf("not what the policy says  %" PRIu64 "\n", all.wrong);
  printf("reward files read, torn   %" PRIu64 ", %" PRIu64 "\n", all.rewards_read, all.rewards_torn);
  printf("broken texts tried, taken %" PRIu64 ", %" PRIu64 "\n", tried, torn);
  printf("control: each rank acts on the file that it reads: %" PRIu64 " disagreements in %" PRIu64 " decisions\n",
         control.disagreements, control.decisions);
  int is_good = all.disagreements == 0 && all.wrong == 0 && torn == 0 && all.rewards_torn == 0 &&
                all.overrides > 0 && all.adopted > 0 && all.splits > 0 && all.rewards_read > 0 &&
                control.disagreements > 0;
  return is_good ? 0 : 1;
}
