/** @file Requests of a chosen length that no fleet can satisfy. */

import type { Ledger } from "../../scheduling/ledger/ledger.ts";

/** An inbox entry with about so many bytes of names that no other has. */
export const largeRequest = (
  jobId: string,
  { tenant, bytes }: { readonly tenant: string; readonly bytes: number },
): unknown => ({
  kind: "request",
  request: {
    jobId,
    runId: `run-of-${jobId}`,
    seq: 1,
    name: "large",
    tenant,
    class: "training",
    priority: 0,
    gang: { gpus: 1, min: 1, timeoutMs: 0 },
    constraints: {
      ...(bytes > 0 && { clusters: namesOf(jobId, bytes) }),
      gpuTypes: ["GB300"],
      isSameHost: false,
      isSameFabric: false,
    },
    submittedAtMs: Date.now(),
    requestedAtMs: Date.now(),
  },
});

const namesOf = (jobId: string, bytes: number): readonly string[] =>
  Array.from({ length: Math.ceil(bytes / 32) }, (_, at) =>
    `no-such-cluster-of-${jobId}-${at}`.slice(-29).padStart(29, "n"),
  );

export const hasOutside = ({ intake }: Ledger): boolean => (intake?.news.size ?? 0) > 0;
