/*
 * `supervisor --starter`: starts supervisors for the agent that started it, and tells it when they end (agent/system/starter.ts).
 *
 * To fork takes as long as the memory of a process is large: an agent has a hundred MiB, this one has none to speak of. It reads requests
 * from its input and ends with it; supervisors run on. A request is the size of the rest, four bytes, the lowest first, and words that each end in a
 * NUL byte: a number, the folder of the launch, the file for the supervisor's output, the environment. A line of the output is the number behind a `+`
 * once it is taken, and the number alone when that supervisor has ended.
 */
#define _GNU_SOURCE
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define PRIVATE_FILE 0600
#define SIZE_BYTES 4
/* As in agent/system/starter.ts. */
#define MOST_BYTES (256u << 10)
#define NOT_STARTED 127

struct child {
  pid_t pid;
  long long number;
};

static struct child *children;
static size_t child_count;
/* Of `children`. */
static size_t room;

static unsigned char request[SIZE_BYTES + MOST_BYTES];
static size_t filled;

static _Noreturn void become_supervisor(const char *program, char **words) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  signal(SIGPIPE, SIG_DFL);
  int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
  int output = open(words[1], O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, PRIVATE_FILE);
  bool is_apart = setsid() >= 0 && chdir(words[0]) == 0;
  if (!is_apart || dup2(input, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 || dup2(output, STDERR_FILENO) < 0)
    _exit(NOT_STARTED);
  char *command[] = {(char *)program, words[0], NULL};
  execve(program, command, words + 2);
  dprintf(STDERR_FILENO, "supervisor: %s does not start: %s\n", program, strerror(errno));
  _exit(NOT_STARTED);
}

static void tell_taken(long long number) { dprintf(STDOUT_FILENO, "+%lld\n", number); }

static void tell_end(long long number) { dprintf(STDOUT_FILENO, "%lld\n", number); }

/* Room for the child comes before it. */
static bool has_room(void) {
  if (child_count < room) return true;
  size_t more = room == 0 ? 64 : room * 2;
  struct child *larger = realloc(children, more * sizeof *children);
  if (larger == NULL) return false;
  children = larger;
  room = more;
  return true;
}

/* The words behind the number, and a NULL; NULL for what is no request. */
static char **words_of(char *at, const char *end) {
  size_t count = 0;
  for (const char *each = at; each < end; each += 1) count += *each == '\0';
  char **words = count < 2 || end[-1] != '\0' ? NULL : calloc(count + 1, sizeof *words);
  for (size_t word = 0; words != NULL && word < count; word += 1) {
    words[word] = at;
    at += strlen(at) + 1;
  }
  return words;
}

/* False for what is no request. */
static bool start(const char *program, char *at, char *end) {
  char *rest = NULL;
  if (at == end || end[-1] != '\0') return false;
  long long number = strtoll(at, &rest, 10);
  if (*rest != '\0' || rest == at) return false;
  char **words = words_of(rest + 1, end);
  if (words == NULL) return false;
  pid_t pid = has_room() ? fork() : -1;
  if (pid == 0) become_supervisor(program, words);
  free(words);
  tell_taken(number);
  if (pid < 0) tell_end(number);
  else children[child_count++] = (struct child){pid, number};
  return true;
}

/* False at the end of the input, and where it is broken. */
static bool take_requests(const char *program) {
  ssize_t got = read(STDIN_FILENO, request + filled, sizeof request - filled);
  if (got < 0 && errno == EINTR) return true;
  if (got <= 0) return false;
  filled += (size_t)got;
  while (filled >= SIZE_BYTES) {
    size_t size = (size_t)request[0] | (size_t)request[1] << 8 | (size_t)request[2] << 16 | (size_t)request[3] << 24;
    if (size > MOST_BYTES) return false;
    if (filled < SIZE_BYTES + size) break;
    char *at = (char *)request + SIZE_BYTES;
    if (!start(program, at, at + size)) return false;
    filled -= SIZE_BYTES + size;
    memmove(request, request + SIZE_BYTES + size, filled);
  }
  return true;
}

static void reap(int signals) {
  struct signalfd_siginfo info;
  while (read(signals, &info, sizeof info) > 0) continue;
  for (pid_t pid = waitpid(-1, NULL, WNOHANG); pid > 0; pid = waitpid(-1, NULL, WNOHANG))
    for (size_t at = 0; at < child_count; at += 1)
      if (children[at].pid == pid) {
        tell_end(children[at].number);
        children[at] = children[--child_count];
        break;
      }
}

_Noreturn void run_starter(const char *program) {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGCHLD);
  sigprocmask(SIG_BLOCK, &ends, NULL);
  signal(SIGPIPE, SIG_IGN);
  int signals = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals < 0) _exit(EXIT_FAILURE);
  struct pollfd polls[] = {{.fd = STDIN_FILENO, .events = POLLIN}, {.fd = signals, .events = POLLIN}};
  for (;;) {
    if (poll(polls, 2, -1) < 0) continue;
    if (polls[1].revents != 0) reap(signals);
    if (polls[0].revents != 0 && !take_requests(program)) _exit(EXIT_SUCCESS);
  }
}
