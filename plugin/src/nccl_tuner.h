/**
 * @file The interface between NCCL and a tuner plugin: the layouts that installed versions of NCCL look for.
 *
 * Written from NVIDIA's public description of the interface (github.com/NVIDIA/nccl, src/include/plugin, release 2.30.7), of which only
 * names, numbers and the order of members are taken; see NOTICE. NCCL tries the newest version that it knows and goes down to
 * `ncclTunerPlugin_v2` (v2 is all that 2.21 knows, v3 came with 2.22, v4 with 2.24). Version 6 is version 5 with one more function at its
 * end; version 7 differs from it only in a structure that the plugin does not read and that is opaque here; version 4 has another `init`;
 * version 3 is version 4 without the word on registered buffers; version 2 has no cost table: the plugin names the pair itself.
 */

#ifndef ORBWEAVER_NCCL_TUNER_H
#define ORBWEAVER_NCCL_TUNER_H

#include <stddef.h>
#include <stdint.h>

/** ncclResult_t; the plugin knows no other. */
enum { NCCL_SUCCESS = 0 };

/** ncclFunc_t, as far as NCCL asks a tuner about it. */
enum {
  NCCL_BROADCAST = 0,
  NCCL_REDUCE = 1,
  NCCL_ALL_GATHER = 2,
  NCCL_REDUCE_SCATTER = 3,
  NCCL_ALL_REDUCE = 4,
};

/** Rows of the cost table. */
enum {
  NCCL_TREE = 0,
  NCCL_RING = 1,
  NCCL_COLLNET_DIRECT = 2,
  NCCL_COLLNET_CHAIN = 3,
  NCCL_NVLS = 4,
  NCCL_NVLS_TREE = 5,
  NCCL_PAT = 6,
};

/** Columns of the cost table. */
enum { NCCL_LL = 0, NCCL_LL128 = 1, NCCL_SIMPLE = 2 };

/** A cost below zero: the pair cannot run here. NCCL takes the least of the others. */
#define NCCL_COST_IGNORED (-1.0f)

typedef void (*nccl_logger_fn)(int level, unsigned long flags, const char *file, int line,
                               const char *format, ...);
typedef int (*nccl_init_v4_fn)(size_t ranks, size_t nodes, nccl_logger_fn logger, void **context);
typedef int (*nccl_init_v5_fn)(void **context, uint64_t comm_id, size_t ranks, size_t nodes,
                               nccl_logger_fn logger, void *nvlink_domain, void *constants);
/** `costs` is a table of `algorithms` × `protocols` floats. */
typedef int (*nccl_choose_fn)(void *context, int collective, size_t bytes, int pipe_ops,
                              float **costs, int algorithms, int protocols, int is_registered,
                              int *channels);
typedef int (*nccl_choose_v3_fn)(void *context, int collective, size_t bytes, int pipe_ops,
                                 float **costs, int algorithms, int protocols, int *channels);
/** What is left unset NCCL chooses itself. */
typedef int (*nccl_choose_v2_fn)(void *context, int collective, size_t bytes, int has_collnet,
                                 int has_nvls, int pipe_ops, int *algorithm, int *protocol,
                                 int *channels);
typedef int (*nccl_end_fn)(void *context);
typedef int (*nccl_chunk_fn)(void *context, int collective, size_t bytes, int algorithm,
                             int protocol, int channels, size_t *chunk_bytes);

struct nccl_tuner_v2 {
  const char *name;
  nccl_init_v4_fn init;
  nccl_choose_v2_fn choose;
  nccl_end_fn end;
};

struct nccl_tuner_v3 {
  const char *name;
  nccl_init_v4_fn init;
  nccl_choose_v3_fn choose;
  nccl_end_fn end;
};

struct nccl_tuner_v4 {
  const char *name;
  nccl_init_v4_fn init;
  nccl_choose_fn choose;
  nccl_end_fn end;
};

struct nccl_tuner_v5 {
  const char *name;
  nccl_init_v5_fn init;
  nccl_choose_fn choose;
  nccl_end_fn end;
};

struct nccl_tuner_v6 {
  const char *name;
  nccl_init_v5_fn init;
  nccl_choose_fn choose;
  nccl_end_fn end;
  /** Null: NCCL's own chunk sizes. */
  nccl_chunk_fn chunk;
};

#endif
