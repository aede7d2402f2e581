/*
 * The supervisor's own watch over its host's contact with the control plane, for when the agent is dead or stopped; see
 * agent/presence/fence-last-resort.ts. It acts on what it has seen twice, because the file may be met half-written; one that is gone leaves what was
 * read last.
 */
#define _GNU_SOURCE
#include "supervisor.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_BYTES 4096
#define LOOK_LEAST_MS 250
#define LOOK_MOST_MS 5000
#define LOOK_AGAIN_MS 50
/* Of the agreed silence: how long after its agent a supervisor acts, and how often it looks. */
#define PATIENCE_SHARE 0.5
#define LOOK_SHARE 0.25

static bool number_after(const char *text, const char *key, double *number) {
  const char *at = json_after(text, key);
  char *end = NULL;
  if (at == NULL) return false;
  *number = strtod(at, &end);
  return end != at;
}

/* Changes nothing when there is none, or when it was met half-written. */
static void read_contact(const char *host_dir, struct contact *known) {
  struct contact found = {.is_met = true};
  char *path = NULL;
  if (asprintf(&path, "%s/contact.json", host_dir) < 0) return;
  char *text = read_whole(AT_FDCWD, path, MOST_BYTES, NULL);
  free(path);
  char *boot = json_plain_string(json_after(text, "bootId"));
  char *on_silence = json_plain_string(json_after(text, "onSilence"));
  bool is_whole = boot != NULL && on_silence != NULL && number_after(text, "uptimeMs", &found.uptime_ms) &&
                  number_after(text, "silenceMs", &found.silence_ms) &&
                  number_after(text, "fenceMs", &found.fence_ms);
  if (is_whole) {
    found.is_of_this_boot = strcmp(boot, boot_id()) == 0;
    found.is_hold = strcmp(on_silence, "fence") != 0;
    *known = found;
  }
  free(on_silence);
  free(boot);
  free(text);
}

int64_t look_at_contact(struct fence *fence, int64_t *silent_ms) {
  read_contact(fence->host_dir, &fence->contact);
  const struct contact contact = fence->contact;
  if (!contact.is_met) return LOOK_MOST_MS;
  double silent = since_boot_ms() - contact.uptime_ms;
  bool is_over = contact.is_of_this_boot && !contact.is_hold &&
                 silent > contact.fence_ms + contact.silence_ms * PATIENCE_SHARE;
  *silent_ms = (int64_t)silent;
  if (is_over && fence->is_seen_before) return -1;
  fence->is_seen_before = is_over;
  if (is_over) return LOOK_AGAIN_MS;
  double every = contact.silence_ms * LOOK_SHARE;
  return every < LOOK_LEAST_MS ? LOOK_LEAST_MS : every > LOOK_MOST_MS ? LOOK_MOST_MS : (int64_t)every;
}
