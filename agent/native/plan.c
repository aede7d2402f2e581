/*
 * Reads the plan of a launch from `plan.words`: words that each end in a NUL byte, written by the agent from `plan.json`
 * (agent/runs/plan-words.ts). A list is its length and then its words. Anything else is refused whole.
 */
#define _GNU_SOURCE
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST_BYTES (64u << 20)
#define MOST_CONTAINER_BYTES (64u << 10)
#define MOST_SECRET_BYTES (8u << 20)
#define MOST_RANKS 1024
#define MOST_PARTS 1000000
#define MOST_SLOTS 1024
#define MOST_TASKS 1000000
#define MOST_MS INT64_C(9007199254740991)

struct words {
  char *at;
  char *end;
  bool is_broken;
};

static char *next_word(struct words *words) {
  static char none[] = "";
  char *word = words->at;
  char *nul = words->is_broken ? NULL : memchr(word, '\0', (size_t)(words->end - word));
  if (nul == NULL) {
    words->is_broken = true;
    return none;
  }
  words->at = nul + 1;
  return word;
}

static int64_t next_number(struct words *words, int64_t least, int64_t most) {
  const char *word = next_word(words);
  char *end = NULL;
  errno = 0;
  long long number = strtoll(word, &end, 10);
  bool is_plain = *word == '-' || (*word >= '0' && *word <= '9');
  if (!is_plain || errno != 0 || *end != '\0' || number < least || number > most) words->is_broken = true;
  return words->is_broken ? least : number;
}

static char **next_list(struct words *words) {
  size_t count = (size_t)next_number(words, 0, words->end - words->at);
  char **list = calloc(count + 1, sizeof *list);
  if (list == NULL) words->is_broken = true;
  for (size_t at = 0; at < count && !words->is_broken; at += 1) list[at] = next_word(words);
  return list;
}

static struct rank_plan *next_ranks(struct words *words, int *count) {
  *count = (int)next_number(words, 0, MOST_RANKS);
  struct rank_plan *ranks = calloc((size_t)*count + 1, sizeof *ranks);
  if (ranks == NULL) words->is_broken = true;
  for (int at = 0; at < *count && !words->is_broken; at += 1) {
    ranks[at].number = (int)next_number(words, 0, INT32_MAX);
    ranks[at].env = next_list(words);
  }
  return ranks;
}

/* Its slots, and where it has some, all else. */
static void next_batch(struct words *words, struct batch_plan *batch) {
  batch->slot_count = (int)next_number(words, 0, MOST_SLOTS);
  if (batch->slot_count == 0) return;
  batch->slots = calloc((size_t)batch->slot_count, sizeof *batch->slots);
  if (batch->slots == NULL) words->is_broken = true;
  for (int at = 0; at < batch->slot_count && !words->is_broken; at += 1)
    batch->slots[at].ranks = next_ranks(words, &batch->slots[at].rank_count);
  batch->count = next_number(words, 0, MOST_MS);
  batch->is_port_agreed = next_number(words, 0, 1) == 1;
  batch->lease_dir = next_word(words);
  batch->task_count = (int)next_number(words, 0, MOST_TASKS);
  batch->tasks = calloc((size_t)batch->task_count + 1, sizeof *batch->tasks);
  if (batch->tasks == NULL) words->is_broken = true;
  for (int at = 0; at < batch->task_count && !words->is_broken; at += 1) {
    struct task_plan *task = &batch->tasks[at];
    task->number = (int)next_number(words, 0, INT32_MAX);
    task->checkpoint_dir = next_word(words);
    task->checkpoint = next_word(words);
  }
}

/* False where there is none, or where it is broken. */
bool read_plan(int dir, struct plan *plan) {
  size_t size = 0;
  memset(plan, 0, sizeof *plan);
  plan->bytes = read_whole(dir, "plan.words", MOST_BYTES, &size);
  if (plan->bytes == NULL) return false;
  struct words words = {plan->bytes, plan->bytes + size, false};
  if (strcmp(next_word(&words), PROTOCOL) != 0) return false;
  plan->grace_ms = next_number(&words, 0, MOST_MS);
  plan->limit_ms = next_number(&words, -1, MOST_MS);
  plan->part_bytes = next_number(&words, 1, MOST_MS);
  plan->parts = (int)next_number(&words, 1, MOST_PARTS);
  plan->cwd = next_word(&words);
  plan->command = next_list(&words);
  plan->secrets = next_list(&words);
  plan->ranks = next_ranks(&words, &plan->rank_count);
  next_batch(&words, &plan->batch);
  if (words.is_broken || plan->command[0] == NULL) return false;
  return strcmp(next_word(&words), "end") == 0 && !words.is_broken && words.at == words.end;
}

static size_t count_of(char **list) {
  size_t count = 0;
  while (list[count] != NULL) count += 1;
  return count;
}

/* Adds the values to the environment of each rank. */
static bool give_values(struct rank_plan *ranks, int rank_count, char **values) {
  size_t count = count_of(values);
  for (int each = 0; each < rank_count; each += 1) {
    size_t own = count_of(ranks[each].env);
    char **env = realloc(ranks[each].env, (own + count + 1) * sizeof *env);
    if (env == NULL) return false;
    memcpy(env + own, values, (count + 1) * sizeof *env);
    ranks[each].env = env;
  }
  return true;
}

/* As agent/shim/secret-input.ts writes them: `NAME=VALUE` and a NUL for each name, in their order. */
bool take_secrets(struct plan *plan) {
  size_t count = count_of(plan->secrets);
  if (count == 0) return true;
  plan->secret_bytes = read_all(STDIN_FILENO, MOST_SECRET_BYTES, &plan->secret_size);
  // Ranks have our input.
  int none = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (none < 0 || dup2(none, STDIN_FILENO) < 0 || plan->secret_bytes == NULL) return false;
  close(none);
  struct words words = {plan->secret_bytes, plan->secret_bytes + plan->secret_size, false};
  char **values = calloc(count + 1, sizeof *values);
  if (values == NULL) return false;
  bool is_whole = true;
  for (size_t at = 0; at < count; at += 1) {
    size_t size = strlen(plan->secrets[at]);
    values[at] = next_word(&words);
    if (strncmp(values[at], plan->secrets[at], size) != 0 || values[at][size] != '=') is_whole = false;
  }
  if (words.is_broken || words.at != words.end) is_whole = false;
  if (is_whole) is_whole = give_values(plan->ranks, plan->rank_count, values);
  for (int slot = 0; slot < plan->batch.slot_count && is_whole; slot += 1)
    is_whole = give_values(plan->batch.slots[slot].ranks, plan->batch.slots[slot].rank_count, values);
  free(values);
  return is_whole;
}

/* The environment of jobs is large, and of no use once they run. A batch needs its plan to its end. */
void free_plan(struct plan *plan) {
  if (plan->secret_bytes != NULL) explicit_bzero(plan->secret_bytes, plan->secret_size);
  free(plan->secret_bytes);
  free(plan->secrets);
  plan->secret_bytes = NULL;
  plan->secrets = NULL;
  for (int at = 0; at < plan->rank_count; at += 1) free(plan->ranks[at].env);
  free(plan->ranks);
  free(plan->command);
  free(plan->bytes);
  plan->ranks = NULL;
  plan->command = NULL;
  plan->bytes = NULL;
}

/* Of `container.json`: without one, marks alone (agent/containment/container.ts). */
struct container read_container(int dir) {
  struct container found = {false, 0, {NULL}};
  char *text = read_whole(dir, "container.json", MOST_CONTAINER_BYTES, NULL);
  char *kind = json_plain_string(json_after(text, "kind"));
  found.is_subreaper = kind != NULL && strcmp(kind, "subreaper") == 0;
  free(kind);
  const char *at = text;
  while (found.group_count < MAX_GROUPS && (at = json_after(at, "group")) != NULL) {
    char *group = json_plain_string(at);
    bool is_known = group == NULL;
    for (int each = 0; each < found.group_count && !is_known; each += 1)
      is_known = strcmp(group, found.groups[each]) == 0;
    if (is_known) free(group);
    else found.groups[found.group_count++] = group;
  }
  free(text);
  return found;
}
