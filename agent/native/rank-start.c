/* Starts a rank as the leader of a session of its own, and learns whether its program runs; the names of errors and signals. */
#define _GNU_SOURCE
#include "rank-start.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

struct name {
  int number;
  const char *text;
};

#define NAME(word) {word, #word}
static const struct name ERRORS[] = {
    NAME(ENOENT), NAME(ENOTDIR), NAME(EACCES), NAME(ENOEXEC), NAME(EISDIR), NAME(E2BIG), NAME(ENOMEM), NAME(EAGAIN),
    NAME(ELOOP), NAME(ENAMETOOLONG), NAME(EPERM), NAME(EINVAL), NAME(EIO), NAME(ETXTBSY), NAME(EMFILE), NAME(ENFILE)};
static const struct name SIGNALS[] = {
    NAME(SIGHUP),  NAME(SIGINT),  NAME(SIGQUIT), NAME(SIGILL),    NAME(SIGTRAP), NAME(SIGABRT),  NAME(SIGBUS),
    NAME(SIGFPE),  NAME(SIGKILL), NAME(SIGUSR1), NAME(SIGSEGV),   NAME(SIGUSR2), NAME(SIGPIPE),  NAME(SIGALRM),
    NAME(SIGTERM), NAME(SIGCHLD), NAME(SIGCONT), NAME(SIGSTOP),   NAME(SIGTSTP), NAME(SIGTTIN),  NAME(SIGTTOU),
    NAME(SIGURG),  NAME(SIGXCPU), NAME(SIGXFSZ), NAME(SIGVTALRM), NAME(SIGPROF), NAME(SIGWINCH), NAME(SIGIO),
    NAME(SIGPWR),  NAME(SIGSYS)};
#undef NAME
#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static const char *name_of(const struct name *table, size_t count, int number, const char *prefix) {
  static char other[24];
  for (size_t at = 0; at < count; at += 1)
    if (table[at].number == number) return table[at].text;
  snprintf(other, sizeof other, "%s%d", prefix, number);
  return other;
}

const char *error_name(int error) { return name_of(ERRORS, COUNT(ERRORS), error, "E"); }
const char *signal_name(int signal) { return name_of(SIGNALS, COUNT(SIGNALS), signal, "SIG"); }

/* The agent's own step for a user of the host needs no second program. */
static bool is_own_step(char **command) {
  char own[4096];
  ssize_t size = readlink("/proc/self/exe", own, sizeof own - 1);
  if (size <= 0 || command[1] == NULL) return false;
  own[size] = '\0';
  return strcmp(command[0], own) == 0 && strcmp(command[1], "--as-user") == 0;
}

/*
 * A child that is in the group from its first moment: Linux 5.7 offers it for groups of version 2. -1 where it does not, as for a group of version 1;
 * a child of a plain fork then joins by itself.
 */
static pid_t fork_into(const char *group) {
  pid_t pid = -1;
#if defined CLONE_INTO_CGROUP && defined SYS_clone3
  int fd = open(group, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return -1;
  struct clone_args args = {.flags = CLONE_INTO_CGROUP, .exit_signal = SIGCHLD, .cgroup = (__u64)fd};
  pid = (pid_t)syscall(SYS_clone3, &args, sizeof args);
  if (pid != 0) close(fd);
#else
  (void)group;
#endif
  return pid;
}

/* `joined`: of the groups, those that this process is in. */
_Noreturn static void become(const struct plan *plan, char **env, const struct container *container, int joined, int trouble) {
  sigset_t none;
  sigemptyset(&none);
  for (int each = 1; each < NSIG; each += 1) signal(each, SIG_DFL);
  sigprocmask(SIG_SETMASK, &none, NULL);
  setsid();
  if (chdir(plan->cwd) == 0) {
    join_groups(container, joined);
    environ = env;
    if (is_own_step(plan->command)) {
      // Trouble is told by a line and an exit code from here on: nothing that the job's user can stop may hold the supervisor up.
      close(trouble);
      run_as_user(plan->command + 2);
    }
    execvp(plan->command[0], plan->command);
  }
  int error = errno;
  while (write(trouble, &error, sizeof error) < 0 && errno == EINTR) continue;
  _exit(NOT_EXECUTED);
}

/* The pid, or -1 with the system's error in `error`. The reading ends of output and error lie in `output`. */
pid_t start_rank(const struct plan *plan, char **env, const struct container *container, int output[STREAMS], int *error) {
  int out[2] = {-1, -1}, err[2] = {-1, -1}, trouble[2] = {-1, -1};
  pid_t pid = -1;
  int joined = 0;
  *error = 0;
  if (pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0 && pipe2(trouble, O_CLOEXEC) == 0) {
    if (container->group_count > 0) pid = fork_into(container->groups[0]);
    joined = pid < 0 ? 0 : 1;
    if (pid < 0) pid = fork();
  }
  if (pid == 0) {
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    become(plan, env, container, joined, trouble[1]);
  }
  if (pid < 0) *error = errno;
  close(out[1]);
  close(err[1]);
  close(trouble[1]);
  // Nothing, once the program runs.
  while (pid > 0 && read(trouble[0], error, sizeof *error) < 0 && errno == EINTR) continue;
  close(trouble[0]);
  if (*error != 0) {
    if (pid > 0) waitpid(pid, NULL, 0);
    close(out[0]);
    close(err[0]);
    return -1;
  }
  fcntl(out[0], F_SETFL, O_NONBLOCK);
  fcntl(err[0], F_SETFL, O_NONBLOCK);
  output[0] = out[0];
  output[1] = err[0];
  return pid;
}

/* The exit codes of a shell: 127 for a missing command, 126 for one that may not be executed. */
struct start_failure explain_failure(const struct plan *plan, int error) {
  struct stat found;
  bool is_missing = error == ENOENT || error == ENOTDIR;
  bool is_forbidden = error == EACCES || error == ENOEXEC || error == EISDIR;
  bool is_folder_missing = is_missing && stat(plan->cwd, &found) < 0;
  struct start_failure failure = {
      .kind = !is_folder_missing && (is_missing || is_forbidden) ? "not-found" : "not-started",
      .exit_code = is_missing ? 127 : 126};
  if (is_folder_missing) snprintf(failure.message, sizeof failure.message, "the folder %s does not exist", plan->cwd);
  else snprintf(failure.message, sizeof failure.message, "%s for %s", error_name(error), plan->command[0]);
  return failure;
}
