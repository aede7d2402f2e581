#ifndef ORBWEAVER_RANK_START_H
#define ORBWEAVER_RANK_START_H

#include "supervisor.h"

#define MESSAGE_SIZE 4096
/* Of a child that could not execute its program; nobody sees it. */
#define NOT_EXECUTED 127

struct start_failure {
  const char *kind;
  int exit_code;
  char message[MESSAGE_SIZE];
};

const char *error_name(int error);
const char *signal_name(int signal);
pid_t start_rank(const struct plan *plan, char **env, const struct container *container, int output[STREAMS], int *error);
struct start_failure explain_failure(const struct plan *plan, int error);

#endif
