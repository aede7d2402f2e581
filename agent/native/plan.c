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
  plan->rank_count = (int)next_number(&words, 0, MOST_RANKS);
  plan->ranks = calloc((size_t)plan->rank_count + 1, sizeof *plan->ranks);
  if (plan->ranks == NULL || plan->command == NULL || plan->command[0] == NULL || plan->secrets == NULL)
    return false;
  for (int at = 0; at < plan->rank_count && !words.is_broken; at += 1) {
    plan->ranks[at].number = (int)next_number(&words, 0, INT32_MAX);
    plan->ranks[at].env = next_list(&words);
  }
  return strcmp(next_word(&words), "end") == 0 && !words.is_broken && words.at == words.end;
}

static size_t count_of(char **list) {
  size_t count = 0;
  while (list[count] != NULL) count += 1;
  return count;
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
  for (int each = 0; each < plan->rank_count && is_whole; each += 1) {
    struct rank_plan *rank = &plan->ranks[each];
    size_t own = count_of(rank->env);
    char **env = realloc(rank->env, (own + count + 1) * sizeof *env);
    if (env == NULL) is_whole = false;
    else {
      memcpy(env + own, values, (count + 1) * sizeof *env);
      rank->env = env;
    }
  }
  free(values);
  return is_whole;
}

/* The environment of jobs is large, and of no use once they run. */
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
