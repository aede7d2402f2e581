/*
 * Writes a rank's output in parts of bounded size, and drops the oldest part when there are too many.
 *
 * A part's name is the offset of its first byte in the rank's whole output. Output and error are one stream; a character that one of them
 * has not finished yet is held back, or the other could write into its middle. A full disk loses output (a line says how much) but never ends
 * the ranks. Output that is there already is of an earlier try of the same array task, and stays.
 */
#define _GNU_SOURCE
#include "supervisor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PRIVATE_DIR 0700
#define PRIVATE_FILE 0600
#define NAME_SIZE (FOLDER_SIZE + 32)

void open_log(struct rank_log *log, int dir, const char *folder, const struct plan *plan) {
  *log = (struct rank_log){.dir = dir, .fd = -1, .part_bytes = plan->part_bytes, .parts = plan->parts};
  snprintf(log->folder, sizeof log->folder, "%s", folder);
}

static void name_part(const struct rank_log *log, int64_t start, char name[NAME_SIZE]) {
  snprintf(name, NAME_SIZE, "%s/%016" PRId64 ".log", log->folder, start);
}

/* The parts that are kept; one more than that while a new part replaces the oldest. */
static bool note_start(struct rank_log *log, int64_t start) {
  int64_t *starts = realloc(log->starts, sizeof *starts * (size_t)(log->start_count + 1));
  if (starts == NULL) return false;
  log->starts = starts;
  starts[log->start_count++] = start;
  return true;
}

static int ascending(const void *one, const void *other) {
  int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
  return (a > b) - (a < b);
}

/* Goes on behind the parts that are there. */
static bool go_on(struct rank_log *log) {
  int fd = openat(log->dir, log->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  DIR *folder = fd < 0 ? NULL : fdopendir(fd);
  if (folder == NULL) return false;
  bool is_noted = true;
  for (struct dirent *entry = readdir(folder); entry != NULL && is_noted; entry = readdir(folder)) {
    size_t digits = strspn(entry->d_name, "0123456789");
    if (digits > 0 && strcmp(entry->d_name + digits, ".log") == 0)
      is_noted = note_start(log, strtoll(entry->d_name, NULL, 10));
  }
  closedir(folder);
  if (log->start_count == 0 || !is_noted) return is_noted;
  qsort(log->starts, (size_t)log->start_count, sizeof *log->starts, ascending);
  char name[NAME_SIZE];
  struct stat found;
  int64_t last = log->starts[log->start_count - 1];
  name_part(log, last, name);
  log->offset = last + (fstatat(log->dir, name, &found, AT_SYMLINK_NOFOLLOW) == 0 ? found.st_size : 0);
  return true;
}

/* The folder and all above it. */
static bool make_folder(struct rank_log *log) {
  char path[FOLDER_SIZE];
  for (const char *at = strchr(log->folder, '/'); at != NULL; at = strchr(at + 1, '/')) {
    snprintf(path, sizeof path, "%.*s", (int)(at - log->folder), log->folder);
    mkdirat(log->dir, path, PRIVATE_DIR);
  }
  return mkdirat(log->dir, log->folder, PRIVATE_DIR) == 0 || (errno == EEXIST && go_on(log));
}

static bool rotate(struct rank_log *log) {
  char name[NAME_SIZE];
  log_close(log);
  if (!log->is_open) {
    log->start_count = 0;
    if (!make_folder(log)) return false;
    log->is_open = true;
  }
  name_part(log, log->offset, name);
  log->fd = openat(log->dir, name, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, PRIVATE_FILE);
  if (log->fd < 0) return false;
  // After a full disk the same part is opened again.
  bool is_new = log->start_count == 0 || log->starts[log->start_count - 1] != log->offset;
  if (is_new && !note_start(log, log->offset)) return false;
  log->part_size = 0;
  while (log->start_count > log->parts) {
    name_part(log, log->starts[0], name);
    unlinkat(log->dir, name, 0);
    log->start_count -= 1;
    memmove(log->starts, log->starts + 1, sizeof *log->starts * (size_t)log->start_count);
  }
  return true;
}

/* How many of the bytes are on the disk now. */
static size_t append(struct rank_log *log, const unsigned char *bytes, size_t size) {
  size_t at = 0;
  while (at < size) {
    if ((log->fd < 0 || log->part_size >= log->part_bytes) && !rotate(log)) break;
    size_t room = (size_t)(log->part_bytes - log->part_size);
    ssize_t written = write(log->fd, bytes + at, size - at < room ? size - at : room);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    at += (size_t)written;
    log->offset += written;
    log->part_size += written;
  }
  return at;
}

/* Says how much was lost; false while the disk does not take that either. */
static bool tell_loss(struct rank_log *log) {
  if (log->lost_bytes == 0) return true;
  char note[120];
  int length = snprintf(note, sizeof note, "\n[orbweaver: %" PRId64 " bytes were lost, the disk did not take them]\n", log->lost_bytes);
  if (append(log, (unsigned char *)note, (size_t)length) < (size_t)length) return false;
  log->lost_bytes = 0;
  return true;
}

static void append_all(struct rank_log *log, const unsigned char *bytes, size_t size) {
  if (!tell_loss(log)) log->lost_bytes += (int64_t)size;
  else log->lost_bytes += (int64_t)(size - append(log, bytes, size));
}

/* Length of the character that starts with this byte; 1 for what can start none. */
static size_t character_bytes(unsigned char byte) {
  if (byte >= 0xf0 && byte < 0xf8) return 4;
  if (byte >= 0xe0) return byte < 0xf0 ? 3 : 1;
  return byte >= 0xc0 ? 2 : 1;
}

/* Bytes at the end that begin a character and do not finish it; 0 to 3. */
static size_t unfinished_tail(const unsigned char *bytes, size_t size) {
  for (size_t back = 1; back <= HELD_SIZE && back <= size; back += 1) {
    unsigned char byte = bytes[size - back];
    if ((byte & 0xc0) == 0x80) continue;
    return character_bytes(byte) > back ? back : 0;
  }
  return 0;
}

/* `bytes` has HELD_SIZE bytes of room before it. */
void log_write(struct rank_log *log, int stream, const unsigned char *bytes, size_t size) {
  unsigned char *held = log->held[stream];
  size_t before = log->held_size[stream];
  unsigned char *whole = (unsigned char *)bytes - before;
  memcpy(whole, held, before);
  size_t tail = unfinished_tail(whole, before + size);
  size_t cut = before + size - tail;
  memcpy(held, whole + cut, tail);
  log->held_size[stream] = tail;
  if (cut > 0) append_all(log, whole, cut);
}

/* Writes the bytes that were held back. */
void log_end(struct rank_log *log, int stream) {
  size_t size = log->held_size[stream];
  log->held_size[stream] = 0;
  if (size > 0) append_all(log, log->held[stream], size);
}

/* Of a closed log whose last bytes were lost: says so where the disk has room by now. */
void log_tell_loss(struct rank_log *log) {
  if (log->lost_bytes == 0) return;
  tell_loss(log);
  log_close(log);
}

/* A later write opens a new part. */
void log_close(struct rank_log *log) {
  if (log->fd >= 0) close(log->fd);
  log->fd = -1;
}

/* Nothing is written any more. */
void forget_log(struct rank_log *log) {
  log_close(log);
  free(log->starts);
  *log = (struct rank_log){.fd = -1};
}
