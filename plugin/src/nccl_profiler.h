/**
 * @file The interface between NCCL and a profiler plugin, version 4, as far as this plugin reads it.
 *
 * Written from NVIDIA's public description of the interface (github.com/NVIDIA/nccl, src/include/plugin/profiler, release 2.30.7), of which
 * only names, numbers and the order of members are taken; see NOTICE. Version 3 (NCCL 2.26) is the first that tells of kernels, but neither
 * how long they ran nor of which shape their communicator is; version 4 (2.27) tells both, and later releases still ask for it. Of the
 * members of a description only those of collectives and of kernels are declared: NCCL's own structure is larger, and read through a
 * pointer alone.
 */

#ifndef ORBWEAVER_NCCL_PROFILER_H
#define ORBWEAVER_NCCL_PROFILER_H

#include <stddef.h>
#include <stdint.h>

#include "nccl_tuner.h"

/** Bits of the kinds of events that a plugin asks for. */
enum { NCCL_PROFILE_COLLECTIVE = 1 << 1, NCCL_PROFILE_KERNEL = 1 << 6 };

/** What becomes of a kernel's event: its channel has ended. */
enum { NCCL_KERNEL_STOP = 22 };

struct nccl_event_v4 {
  uint8_t type;
  /** Of a kernel: the handle that the plugin gave its collective, or null. */
  void *parent;
  int rank;
  union {
    struct {
      uint64_t number;
      /** `AllReduce`, `AllGather`, … */
      const char *function;
      const void *send;
      void *receive;
      /** Elements of one rank's part. */
      size_t count;
      int root;
      /** `ncclFloat32`, … */
      const char *datatype;
      uint8_t channels;
      uint8_t warps;
      const char *algorithm;
      const char *protocol;
    } collective;
    struct {
      uint8_t channel;
      /** When it began, in ns, by the GPU's clock. */
      uint64_t timer;
    } kernel;
  } of;
};

union nccl_event_state_v4 {
  struct {
    size_t bytes;
  } proxy_step;
  struct {
    /** When the channel ended, in ns, by the GPU's clock. */
    uint64_t timer;
  } kernel;
};

typedef int (*nccl_profiler_init_v4_fn)(void **context, int *kinds, const char *name,
                                        uint64_t comm_id, int nodes, int ranks, int rank,
                                        nccl_logger_fn logger);
typedef int (*nccl_start_event_v4_fn)(void *context, void **handle, struct nccl_event_v4 *event);
typedef int (*nccl_stop_event_fn)(void *handle);
typedef int (*nccl_record_state_v4_fn)(void *handle, int state, union nccl_event_state_v4 *given);
typedef int (*nccl_finalize_fn)(void *context);

struct nccl_profiler_v4 {
  const char *name;
  nccl_profiler_init_v4_fn init;
  nccl_start_event_v4_fn start;
  nccl_stop_event_fn stop;
  nccl_record_state_v4_fn record;
  nccl_finalize_fn finalize;
};

#endif
