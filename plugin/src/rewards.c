/**
 * @file Writes rewards and what the job has sent: a whole new file beside the old one, then a rename, so a reader sees one of the two and never a part.
 *
 * The last line has a checksum, because on some network file systems a rename becomes visible before the data. Called between steps by
 * the one process that writes; at most `REWARDS_KEPT` lines, about 100 KiB.
 */

#include "rewards.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LINE_BYTES = 320 };

static char text[64 + (REWARDS_KEPT + 1) * LINE_BYTES];

static void add_sent(struct rewards *rewards, const struct reward *reward) {
  uint32_t at = 0;
  while (at < rewards->sent_rows && (rewards->sent[at].collective != reward->collective ||
                                     rewards->sent[at].min_bytes != reward->min_bytes ||
                                     rewards->sent[at].max_bytes != reward->max_bytes))
    at += 1;
  if (at == POLICY_ROWS) return;
  struct sent *sent = &rewards->sent[at];
  if (at == rewards->sent_rows) {
    rewards->sent_rows += 1;
    *sent = (struct sent){.min_bytes = reward->min_bytes,
                          .max_bytes = reward->max_bytes,
                          .collective = reward->collective};
  }
  sent->calls += reward->calls;
  sent->bytes += reward->bytes;
  if (reward->slowest_micros == 0) return;
  sent->timed_calls += reward->calls;
  sent->slowest_micros += reward->slowest_micros;
}

void rewards_note(struct rewards *rewards, const struct reward *reward) {
  rewards->kept[rewards->noted % REWARDS_KEPT] = *reward;
  rewards->noted += 1;
  add_sent(rewards, reward);
}

static size_t end_text(size_t length) {
  return length +
         (size_t)snprintf(text + length, LINE_BYTES, "end %08" PRIx32 "\n", crc32_of(text, length));
}

static size_t compose_sent(const struct rewards *rewards) {
  size_t length = (size_t)snprintf(text, sizeof text, "orbweaver-sent 1\n");
  for (uint32_t at = 0; at < rewards->sent_rows; at += 1) {
    const struct sent *sent = &rewards->sent[at];
    length += (size_t)snprintf(
        text + length, LINE_BYTES,
        "%s %" PRIu64 " %" PRIu64 " calls %" PRIu64 " bytes %" PRIu64 " timed %" PRIu64 " micros %" PRIu64 "\n",
        COLLECTIVES[sent->collective], sent->min_bytes, sent->max_bytes, sent->calls, sent->bytes,
        sent->timed_calls, sent->slowest_micros);
  }
  return end_text(length);
}

static size_t compose(const struct rewards *rewards) {
  uint64_t first = rewards->noted > REWARDS_KEPT ? rewards->noted - REWARDS_KEPT : 0;
  size_t length = (size_t)snprintf(text, sizeof text, "orbweaver-rewards 1\n");
  for (uint64_t at = first; at < rewards->noted; at += 1) {
    const struct reward *reward = &rewards->kept[at % REWARDS_KEPT];
    length += (size_t)snprintf(
        text + length, LINE_BYTES,
        "step %" PRIu64 " version %" PRIu64 " %s %s %" PRIu64 " %" PRIu64 " %s calls %" PRIu32
        " micros %" PRIu64,
        reward->step, reward->version, reward->topology, COLLECTIVES[reward->collective],
        reward->min_bytes, reward->max_bytes,
        reward->arm == ARM_MIXED ? "mixed" : ARMS[reward->arm].name, reward->calls, reward->micros);
    if (reward->slowest_micros > 0)
      length += (size_t)snprintf(text + length, LINE_BYTES, " slowest %" PRIu64,
                                 reward->slowest_micros);
    length += (size_t)snprintf(text + length, LINE_BYTES, "\n");
  }
  return end_text(length);
}

/** Puts the first `size` bytes of the text in the place of a file. */
static int replace(const char *file, size_t size) {
  char aside[PATH_MAX];
  int length = snprintf(aside, sizeof aside, "%s.tmp", file);
  if (length < 0 || (size_t)length >= sizeof aside) return 0;
  int handle = open(aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (handle < 0) return 0;
  size_t done = 0;
  while (done < size) {
    ssize_t count = write(handle, text + done, size - done);
    if (count <= 0) break;
    done += (size_t)count;
  }
  int is_closed = close(handle) == 0;
  return done == size && is_closed && rename(aside, file) == 0;
}

void rewards_write(struct rewards *rewards, const char *file) {
  char beside[PATH_MAX];
  if (rewards->written == rewards->noted) return;
  int length = snprintf(beside, sizeof beside, "%s.sent", file);
  if (length < 0 || (size_t)length >= sizeof beside) return;
  int is_sent_written = replace(beside, compose_sent(rewards));
  if (replace(file, compose(rewards)) && is_sent_written) rewards->written = rewards->noted;
}
