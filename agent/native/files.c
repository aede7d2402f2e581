/* Files of a launch: read whole within a bound, replaced by rename, taken once by a hard link; the three clocks. */
#define _GNU_SOURCE
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PRIVATE_FILE 0600
#define NAME_SIZE 64

/* All that can be read and a NUL behind it; NULL when it is longer than `most`, or cannot be read. */
char *read_all(int fd, size_t most, size_t *size) {
  size_t room = 4096, filled = 0;
  char *bytes = malloc(room + 1);
  while (bytes != NULL) {
    ssize_t got = read(fd, bytes + filled, room - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) {
      bytes[filled] = '\0';
      break;
    }
    if (got > 0) filled += (size_t)got;
    if (got < 0 || filled > most) {
      free(bytes);
      bytes = NULL;
    } else if (filled == room) {
      room *= 2;
      char *larger = realloc(bytes, room + 1);
      if (larger == NULL) free(bytes);
      bytes = larger;
    }
  }
  if (size != NULL) *size = filled;
  return bytes;
}

/* The same of a file. */
char *read_whole(int dir, const char *name, size_t most, size_t *size) {
  int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return NULL;
  char *bytes = read_all(fd, most, size);
  close(fd);
  return bytes;
}

static bool write_all(int fd, const char *text) {
  for (size_t left = strlen(text); left > 0;) {
    ssize_t written = write(fd, text, left);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text += written;
    left -= (size_t)written;
  }
  return true;
}

/* What a crash left behind is overwritten by the next writer of that name. */
static bool write_aside(int dir, const char *name, const char *text, char aside[NAME_SIZE]) {
  snprintf(aside, NAME_SIZE, "%.32s.%d-n.tmp", name, (int)getpid());
  int fd = openat(dir, aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, PRIVATE_FILE);
  if (fd < 0) return false;
  bool is_written = write_all(fd, text);
  return close(fd) == 0 && is_written;
}

bool replace_file(int dir, const char *name, const char *text) {
  char aside[NAME_SIZE];
  return write_aside(dir, name, text, aside) && renameat(dir, aside, dir, name) == 0;
}

int create_once(int dir, const char *name, const char *text) {
  char aside[NAME_SIZE];
  int result = -1;
  if (write_aside(dir, name, text, aside))
    result = linkat(dir, aside, dir, name, 0) == 0 ? 1 : errno == EEXIST ? 0 : -1;
  int trouble = errno;
  unlinkat(dir, aside, 0);
  errno = trouble;
  return result;
}

/* Into a file of the kernel; false where there is none, or where it refuses. */
bool write_word(const char *folder, const char *file, const char *word) {
  char *path = NULL;
  if (asprintf(&path, "%s/%s", folder, file) < 0) return false;
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  free(path);
  if (fd < 0) return false;
  bool is_written = write_all(fd, word);
  int trouble = errno;
  close(fd);
  errno = trouble;
  return is_written;
}

/*
 * The text behind `"key":`; NULL where the key is missing. Agents write compact JSON, where these bytes cannot stand inside a string: the quote
 * before the colon would have a backslash.
 */
const char *json_after(const char *text, const char *key) {
  char wanted[NAME_SIZE];
  snprintf(wanted, sizeof wanted, "\"%s\":", key);
  const char *at = text == NULL ? NULL : strstr(text, wanted);
  return at == NULL ? NULL : at + strlen(wanted);
}

/* A copy of the string that begins here; NULL for another value, and for a string with escapes (the agent starts none with such). */
char *json_plain_string(const char *at) {
  if (at == NULL || *at != '"') return NULL;
  size_t size = strcspn(at + 1, "\"\\");
  return at[1 + size] == '"' ? strndup(at + 1, size) : NULL;
}

void print_json_string(void *stream, const char *text) {
  fputc('"', stream);
  for (; *text != '\0'; text += 1) {
    unsigned char byte = (unsigned char)*text;
    if (byte < 0x20) fprintf(stream, "\\u%04x", byte);
    else {
      if (byte == '"' || byte == '\\') fputc('\\', stream);
      fputc(byte, stream);
    }
  }
  fputc('"', stream);
}

static struct timespec read_clock(clockid_t clock) {
  struct timespec time = {0, 0};
  clock_gettime(clock, &time);
  return time;
}

static int64_t in_ms(struct timespec time) {
  return (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* The wall clock. */
int64_t now_ms(void) { return in_ms(read_clock(CLOCK_REALTIME)); }

/* Never set. For durations. */
int64_t elapsed_ms(void) { return in_ms(read_clock(CLOCK_MONOTONIC)); }

/* As Node's os.uptime(), by which the agent writes contact.json: some containers have a /proc/uptime of their own. */
double since_boot_ms(void) {
  char *text = read_whole(AT_FDCWD, "/proc/uptime", 256, NULL), *end = text;
  double seconds = text == NULL ? 0 : strtod(text, &end);
  bool is_read = end != text;
  free(text);
  if (is_read) return seconds * 1e3;
  struct timespec time = read_clock(CLOCK_BOOTTIME);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}
