/*
 * The journal of a batch: the tasks that were started, and how each ended. One line of JSON an event, appended by one write; see
 * agent/folder/slot-journal.ts. Lines that a full disk refuses are kept and tried again, and no task starts meanwhile.
 */
#define _GNU_SOURCE
#include "launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PRIVATE_DIR 0700
#define PRIVATE_FILE 0600
#define RETRY_MS 500

static char *line;
static size_t line_size;
static FILE *printer;

static bool open_file(struct journal *journal) {
  if (journal->fd >= 0) return true;
  mkdirat(launch.dir, "turns", PRIVATE_DIR);
  journal->fd = openat(launch.dir, "turns/journal", O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, PRIVATE_FILE);
  return journal->fd >= 0;
}

static void flush(struct journal *journal) {
  journal->due = OFF;
  while (journal->size > 0 && open_file(journal)) {
    ssize_t written = write(journal->fd, journal->pending, journal->size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    journal->size -= (size_t)written;
    memmove(journal->pending, journal->pending + written, journal->size);
  }
  if (journal->size > 0) journal->due = elapsed_ms() + RETRY_MS;
}

void open_journal(struct journal *journal) { *journal = (struct journal){.fd = -1, .due = OFF}; }

FILE *begin_line(void) {
  printer = open_memstream(&line, &line_size);
  // Without memory for a line nothing is supervised: the agent finds its supervisor gone, and ends what runs.
  if (printer == NULL) abort();
  return printer;
}

void end_line(struct journal *journal) {
  fputs("\n", printer);
  char *pending = fclose(printer) == 0 ? realloc(journal->pending, journal->size + line_size) : NULL;
  if (pending == NULL) abort();
  memcpy(pending + journal->size, line, line_size);
  journal->pending = pending;
  journal->size += line_size;
  free(line);
  if (journal->due == OFF) flush(journal);
}

bool is_behind(const struct journal *journal) { return journal->size > 0; }

void retry_journal(struct journal *journal) {
  if (journal->due <= elapsed_ms()) flush(journal);
}
