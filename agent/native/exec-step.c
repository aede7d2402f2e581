/*
 * What a process of a job does to itself between its start and its program, by system calls: it joins the launch's groups, and becomes the
 * job's user of the host. As agent/system/exec-step.ts and access/run-as.ts describe it.
 *
 * As root, only paths that nothing of the job can change are followed: folders are handed over without following links, `/tmp` becomes a folder of
 * the lease, limits are set. Then all of root is dropped, and only then anything of the job is looked up.
 */
#define _GNU_SOURCE
#include "supervisor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of a step that failed, so that no program ran; those of a shell for a program that is missing or may not be executed. */
enum { NOT_JOINED = 125, NOT_STARTED = 126, NOT_FOUND = 127 };
/* From -1000 to 1000; agent and supervisors have the value of their user's session, mostly 0. */
#define OOM_SCORE "500"
/* Open files of one process; `run_as_user` may only lower it. */
#define MOST_FILES 65536
#define MOST_USER_GROUPS 65536
#define MOST_DEPTH 64
#define OTHERS_PASS 0001

_Noreturn static void fail(int code, const char *format, ...) {
  char text[512];
  va_list values;
  va_start(values, format);
  vsnprintf(text, sizeof text, format, values);
  va_end(values);
  dprintf(STDERR_FILENO, "orbweaver: %s\n", text);
  _exit(code);
}

static void must(bool is_done, const char *what) {
  if (!is_done) fail(NOT_STARTED, "this process cannot become its user: %s: %s", what, strerror(errno));
}

/*
 * By itself, this one thread: version 1 has a file for that. To move a whole process, as version 2 must, the kernel waits until no processor forks, which
 * takes 5 to 25 ms.
 */
static bool join_group(const char *group) {
  return write_word(group, "tasks", "0") || write_word(group, "cgroup.procs", "0");
}

void join_groups(const struct container *container, int joined) {
  // Refused where the score would fall.
  write_word("/proc/self", "oom_score_adj", OOM_SCORE);
  // A limit that is lower already stays where it may not be raised.
  struct rlimit files = {MOST_FILES, MOST_FILES};
  setrlimit(RLIMIT_NOFILE, &files);
  for (int at = joined; at < container->group_count; at += 1)
    if (!join_group(container->groups[at]))
      fail(NOT_JOINED, "this process cannot join %s", container->groups[at]);
}

static unsigned long number(const char *word) {
  char *end = NULL;
  errno = 0;
  unsigned long value = strtoul(word, &end, 10);
  if (*word < '0' || *word > '9' || *end != '\0' || errno != 0)
    fail(NOT_STARTED, "%s is not a number", word);
  return value;
}

/*
 * With what is in it; links are changed themselves, and never followed. Only what is still the agent's, each folder after what is in it: a folder
 * that the user has was handed over whole, and the job may have linked files of others into it.
 */
static void hand_over_tree(int parent, const char *name, uid_t uid, gid_t gid, int depth) {
  struct stat found;
  int at = openat(parent, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
  if (at < 0 && errno == ENOENT && depth > 0) return;
  must(at >= 0 && fstat(at, &found) == 0, name);
  bool is_folder = S_ISDIR(found.st_mode);
  if (found.st_uid == geteuid() && (is_folder || found.st_nlink == 1)) {
    int fd = is_folder && depth <= MOST_DEPTH ? openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    must(dir != NULL || fd < 0, name);
    for (struct dirent *entry = dir == NULL ? NULL : readdir(dir); entry != NULL; entry = readdir(dir))
      if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
        hand_over_tree(fd, entry->d_name, uid, gid, depth + 1);
    if (dir != NULL) closedir(dir);
    must(fchownat(at, "", uid, gid, AT_EMPTY_PATH) == 0, name);
  }
  close(at);
}

static bool is_in(const char *path, const char *folder) {
  size_t size = strlen(folder);
  return strncmp(path, folder, size) == 0 && (path[size] == '/' || path[size] == '\0');
}

/* The folders of the agent's state on the way to a handed one let others pass, and stay unreadable. */
static void let_pass(const char *path, const char *state) {
  char *at = strdup(path);
  must(at != NULL, path);
  for (char *cut = strrchr(at, '/'); cut != NULL && cut != at; cut = strrchr(at, '/')) {
    struct stat found;
    *cut = '\0';
    if (!is_in(at, state)) break;
    must(lstat(at, &found) == 0 && S_ISDIR(found.st_mode), at);
    if ((found.st_mode & OTHERS_PASS) == 0) must(chmod(at, (found.st_mode & 07777) | OTHERS_PASS) == 0, at);
  }
  free(at);
}

/* Opens the folder, made with all above it; refuses a link anywhere on the way, which the job may have put there. */
static int make_folders(const char *path, mode_t mode) {
  char *copy = strdup(path), *left = NULL;
  int at = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  must(copy != NULL && at >= 0, path);
  for (char *name = strtok_r(copy, "/", &left); name != NULL; name = strtok_r(NULL, "/", &left)) {
    must(mkdirat(at, name, mode) == 0 || errno == EEXIST, path);
    int next = openat(at, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    must(next >= 0, path);
    close(at);
    at = next;
  }
  free(copy);
  return at;
}

static void mount_at(int from, int to, const char *what) {
  char source[40], target[40];
  snprintf(source, sizeof source, "/proc/self/fd/%d", from);
  snprintf(target, sizeof target, "/proc/self/fd/%d", to);
  must(mount(source, target, NULL, MS_BIND, NULL) == 0, what);
}

/* `/tmp` becomes a folder of the lease; a state folder that this or the cover hides is mounted where it was. */
static void set_apart(const char *tmp, const char *state, const char *cover) {
  int kept = open(state, O_PATH | O_DIRECTORY | O_CLOEXEC);
  must(kept >= 0, state);
  must(mount(tmp, "/tmp", NULL, MS_BIND, NULL) == 0, "mount /tmp");
  // What lay below /tmp is hidden already.
  bool is_covered = *cover != '\0' && !is_in(cover, "/tmp");
  if (is_covered) must(mount("tmpfs", cover, "tmpfs", 0, "mode=0755,size=1m") == 0, cover);
  if (is_covered || is_in(state, "/tmp")) {
    umask(066);
    int at = make_folders(state, 0777);
    umask(077);
    mount_at(kept, at, state);
    close(at);
  }
  close(kept);
}

static void limit(int resource, unsigned long most, const char *what) {
  struct rlimit both = {most, most};
  must(setrlimit(resource, &both) == 0, what);
}

static void drop_all(uid_t uid, gid_t gid, const gid_t *groups, size_t group_count) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0, 0, 0}};
  for (unsigned long each = 0; prctl(PR_CAPBSET_READ, each, 0, 0, 0) >= 0; each += 1)
    must(prctl(PR_CAPBSET_DROP, each, 0, 0, 0) == 0, "bounding set");
  must(setgroups(group_count, groups) == 0, "groups");
  must(setresgid(gid, gid, gid) == 0, "group");
  must(setresuid(uid, uid, uid) == 0, "user");
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  must(syscall(SYS_capset, &header, none) == 0, "capabilities");
  must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
}

_Noreturn static void run_program(char **words) {
  execvp(words[0], words);
  fail(errno == ENOENT || errno == ENOTDIR ? NOT_FOUND : NOT_STARTED, "%s: %s", words[0], strerror(errno));
}

/*
 * A named checkpoint folder is the user's to make. An array task whose job has no checkpoint rule has none, and only the agent could make it.
 */
static void make_checkpoint_folder(void) {
  const char *dir = getenv("ORBWEAVER_CHECKPOINT_DIR"), *token = getenv("ORBWEAVER_TOKEN");
  char *path = NULL;
  if (dir == NULL || *dir == '\0') return;
  must(asprintf(&path, "%s/%s", dir, token == NULL ? "" : token) >= 0, dir);
  for (char *at = strchr(path + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
    *at = '\0';
    mkdir(path, 0777);
    *at = '/';
  }
  struct stat found;
  bool is_there = mkdir(path, 0777) == 0 || (errno == EEXIST && stat(path, &found) == 0 && S_ISDIR(found.st_mode));
  if (!is_there && getenv("ORBWEAVER_LAUNCH_TASK") == NULL)
    fail(NOT_STARTED, "cannot make the checkpoint folder %s: %s", path, strerror(errno));
  free(path);
}

static const char *next(char ***words) {
  if (**words == NULL) fail(NOT_STARTED, "the words of --as-user end too soon");
  return *(*words)++;
}

/* UID GID GROUPS PROCESSES FILES TMP STATE COVER GIVEN COUNT FOLDER... -- PROGRAM...; GROUPS are joined by commas, COVER and GIVEN may be empty. */
_Noreturn void run_as_user(char **words) {
  uid_t uid = (uid_t)number(next(&words));
  gid_t gid = (gid_t)number(next(&words));
  char *list = strdup(next(&words)), *left = NULL;
  gid_t *groups = calloc(MOST_USER_GROUPS, sizeof *groups);
  must(list != NULL && groups != NULL, "memory");
  size_t group_count = 0;
  for (char *word = strtok_r(list, ",", &left); word != NULL && group_count < MOST_USER_GROUPS; word = strtok_r(NULL, ",", &left))
    groups[group_count++] = (gid_t)number(word);
  unsigned long processes = number(next(&words)), files = number(next(&words));
  const char *tmp = next(&words), *state = next(&words), *cover = next(&words), *given = next(&words);

  umask(077);
  must(unshare(CLONE_NEWNS) == 0, "mount namespace");
  must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "private mounts");
  must(mkdir(tmp, 0777) == 0 || errno == EEXIST, tmp);
  if (*given != '\0') hand_over_tree(AT_FDCWD, given, uid, gid, 0);
  for (unsigned long count = number(next(&words)); count > 0; count -= 1) {
    const char *folder = next(&words);
    must(fchownat(AT_FDCWD, folder, uid, gid, AT_SYMLINK_NOFOLLOW) == 0, folder);
    let_pass(folder, state);
  }
  if (strcmp(next(&words), "--") != 0 || *words == NULL) fail(NOT_STARTED, "--as-user names no program");
  // Mounts hide the way to it, not the folder itself.
  set_apart(tmp, state, cover);
  limit(RLIMIT_NPROC, processes, "processes");
  limit(RLIMIT_NOFILE, files, "files");
  limit(RLIMIT_CORE, 0, "core");
  drop_all(uid, gid, groups, group_count);
  make_checkpoint_folder();
  run_program(words);
}

/*
 * Before and behind a runtime that would end of a signal meant for the program in its image (agent/images/bubblewrap.ts): what is held back here
 * stays so over the start of programs, until the second step lets it through. KILL ends the runtime at any time, and everything in it.
 */
_Noreturn void run_with_signals(char **words, bool is_held) {
  const int held[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH};
  sigset_t set;
  sigemptyset(&set);
  for (size_t at = 0; is_held && at < sizeof held / sizeof held[0]; at += 1) sigaddset(&set, held[at]);
  sigprocmask(SIG_SETMASK, &set, NULL);
  run_program(words);
}
