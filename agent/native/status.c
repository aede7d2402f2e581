/*
 * The files that tell the agent of a launch: `claim.json`, `status.json` and, when the host was cut off, `stop.json`. See
 * agent/folder/launch-files.ts.
 */
#define _GNU_SOURCE
#include "launch.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_STOP_BYTES (1u << 20)

static void print_identity(FILE *to, const struct identity *identity) {
  fprintf(to, "{\"bootId\":\"%s\",\"pid\":%d,\"started\":\"%s\"}", boot_id(), (int)identity->pid, identity->started);
}

/* False when it could not be written; `is_ours` when no other supervisor, and no order to stop, was first. */
bool write_claim(int dir, const struct identity *own, bool *is_ours) {
  char *text = NULL;
  size_t size = 0;
  FILE *to = open_memstream(&text, &size);
  if (to == NULL) return false;
  fputs("{\"kind\":\"shim\",\"shim\":", to);
  print_identity(to, own);
  fputs("}", to);
  int created = fclose(to) == 0 ? create_once(dir, "claim.json", text) : -1;
  free(text);
  *is_ours = created == 1;
  return created >= 0;
}

static void print_end(FILE *to, const struct end *end) {
  if (end->is_signal) fprintf(to, "\"signal\":\"%s\"", signal_name(end->value));
  else fprintf(to, "\"exitCode\":%d", end->value);
  fprintf(to, ",\"atMs\":%" PRId64, end->at_ms);
}

static void print_rank(FILE *to, const struct rank *rank, const struct identity *identity) {
  fprintf(to, "{\"rank\":%d", rank->number);
  if (identity != NULL && identity->pid != 0 && identity->started[0] != '\0') {
    fputs(",\"process\":", to);
    print_identity(to, identity);
  }
  if (rank->end.is_known) {
    fputs(",\"end\":{", to);
    print_end(to, &rank->end);
    fputs("}", to);
  }
  fputs("}", to);
}

void print_ranks(FILE *to, const struct group *group, bool has_processes) {
  fputs("\"ranks\":[", to);
  for (int at = 0; at < group->rank_count; at += 1) {
    if (at > 0) fputs(",", to);
    print_rank(to, &group->ranks[at], has_processes ? &group->identities[at] : NULL);
  }
  fputs("]", to);
}

int64_t last_end_ms(const struct group *group) {
  int64_t last = 0;
  for (int at = 0; at < group->rank_count; at += 1)
    if (group->ranks[at].end.at_ms > last) last = group->ranks[at].end.at_ms;
  return last == 0 ? now_ms() : last;
}

void print_troubles(FILE *to, const struct group *group) {
  if (group->failure.kind != NULL) {
    fprintf(to, ",\"failure\":{\"rank\":%d,\"kind\":\"%s\",", group->failure.rank, group->failure.kind);
    print_end(to, &group->failure.end);
    if (group->failure.message[0] != '\0') {
      fputs(",\"message\":", to);
      print_json_string(to, group->failure.message);
    }
    fputs("}", to);
  }
  if (group->limit_at_ms != 0) fprintf(to, ",\"limitAtMs\":%" PRId64, group->limit_at_ms);
}

/* Of a batch it names no ranks: its journal does. */
bool write_status(bool is_final) {
  char *text = NULL;
  size_t size = 0;
  bool is_batch = launch.plan.batch.slot_count > 0;
  const struct group *group = &launch.groups[0];
  int64_t started_at_ms = is_batch ? launch.started_at_ms : group->started_at_ms;
  FILE *to = open_memstream(&text, &size);
  if (to == NULL) return false;
  fprintf(to, "{\"phase\":\"%s\"", is_final ? "ended" : "running");
  if (started_at_ms != 0) fprintf(to, ",\"startedAtMs\":%" PRId64, started_at_ms);
  if (launch.is_ended) fprintf(to, ",\"endedAtMs\":%" PRId64, is_batch ? now_ms() : last_end_ms(group));
  fputs(",", to);
  if (is_batch) fputs("\"ranks\":[]", to);
  else {
    print_ranks(to, group, true);
    print_troubles(to, group);
  }
  fputs("}", to);
  bool is_written = fclose(to) == 0 && replace_file(launch.dir, "status.json", text);
  free(text);
  return is_written;
}

/* A full disk: that the processes end matters more than a record of the reason. */
bool write_cut_off(int dir, int64_t silent_ms) {
  char text[320];
  int64_t at_ms = now_ms();
  snprintf(text, sizeof text,
           "{\"reason\":\"the host was cut off from the control plane, and its agent did not act\",\"atMs\":%" PRId64
           ",\"termAtMs\":%" PRId64 ",\"cutOffMs\":%" PRId64 "}",
           at_ms, at_ms, silent_ms);
  return create_once(dir, "stop.json", text) >= 0;
}

int64_t told_at_ms(int dir) {
  char *text = read_whole(dir, "stop.json", MOST_STOP_BYTES, NULL);
  const char *at = json_after(text, "termAtMs");
  int64_t told = at == NULL ? -1 : strtoll(at, NULL, 10);
  free(text);
  return told;
}
