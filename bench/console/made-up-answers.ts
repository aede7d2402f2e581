/** @file What a made-up fleet answers about one host, one job, and the shares of its tenants over time. */

import type { JobPage } from "../../page/job-wire.ts";
import type { HostPast, LeaseRow, SharesPast } from "../../page/wire.ts";
import { ALL_GPUS, TENANTS } from "./made-up-names.ts";

/** Two former leases of the whole host, and those that it has. */
export function spansOf(
  host: string,
  { leases, nowMs }: { readonly leases: ReadonlyMap<string, LeaseRow>; readonly nowMs: number },
): HostPast["spans"] {
  const hour = 3_600_000;
  const former = { class: "training", tenant: "vision", mask: ALL_GPUS };
  return [
    {
      ...former,
      job: "former-1",
      lease: "lease-0",
      fromMs: nowMs - 6 * hour,
      toMs: nowMs - 4 * hour,
    },
    {
      ...former,
      job: "former-2",
      lease: "lease-0b",
      fromMs: nowMs - 3.9 * hour,
      toMs: nowMs - 2 * hour,
    },
    ...[...leases].flatMap(([lease, { job, class: name, tenant, gpus, sinceMs }]) =>
      gpus
        .filter(([held]) => held === host)
        .map(([, mask]) => {
          return {
            job,
            class: name,
            tenant,
            lease,
            mask,
            fromMs: Math.max(sinceMs, nowMs - 2 * hour),
          };
        }),
    ),
  ];
}

export const samplesOf = (nowMs: number): SharesPast["samples"] =>
  Array.from({ length: 240 }, (_, at) => ({
    atMs: nowMs - (240 - at) * 60_000,
    tenants: Object.fromEntries(
      TENANTS.map((tenant, place) => {
        const wave = Math.sin(at / (12 + 3 * place) + place);
        return [
          tenant,
          [Math.round(400 + 250 * wave), 420 - 8 * place, Math.round(20 + 10 * wave)],
        ];
      }),
    ),
  }));

export function jobPageOf(
  job: string,
  { leases, nowMs }: { readonly leases: ReadonlyMap<string, LeaseRow>; readonly nowMs: number },
): JobPage {
  const [id, lease] = [...leases].find(([, row]) => row.job === job) ?? [];
  const at = (minutes: number): number => nowMs - minutes * 60_000;
  const submitted = { atMs: at(95), kind: "submitted", text: `training job ${job}` } as const;
  if (id === undefined || lease === undefined)
    return { job, run: "run-1", moments: [submitted], omitted: 0, attempts: [] };
  const former = `lease-0`;
  return {
    ...{ job, run: "run-1", user: "ada", omitted: 0 },
    about: {
      name: "gpt2-350m",
      class: lease.class,
      tenant: lease.tenant,
      gpus: 8 * lease.gpus.length,
    },
    moments: [
      submitted,
      { atMs: at(94), kind: "waiting", text: "WaitingForGpus: needs 8 GPUs; 6 are free." },
      { atMs: at(80), kind: "granted", text: `${former}: 8 GPUs on eu-h100/h004. compact` },
      { atMs: at(79), kind: "starting", text: `${former}: eu-h100/h004 prepare the gang` },
      { atMs: at(78.5), kind: "running", text: `${former}: all ranks have started` },
      { atMs: at(50), kind: "checkpoint", text: `${former}: checkpoint after 28m` },
      { atMs: at(45), kind: "preempted", text: `${former}: room for job-00002, least work lost` },
      { atMs: at(44), kind: "stopped", text: `${former}: stopped with a checkpoint` },
      { atMs: at(30), kind: "granted", text: `${id}: 8 GPUs on eu-h100/h009. compact` },
      { atMs: at(29), kind: "running", text: `${id}: all ranks have started` },
    ],
    attempts: [
      {
        ...{ lease: former, grantedAtMs: at(80), startedAtMs: at(78.5), endedAtMs: at(44) },
        gpus: [["eu-h100/h004", ALL_GPUS]],
        reason: "the whole host, one NVLink domain",
        ...{ predictedGbs: 371.2, measuredGbs: 362.9, end: "stopped", lostGpuSeconds: 512 },
        bandwidth: "expected 371.2 GB/s, measured 362.9 GB/s (−2.2 %)",
        extras: [{ part: "collectives", text: "ring, LL128 up to 1 MiB, then Simple" }],
        checkpoint: "/checkpoints/gpt2/28m",
      },
      {
        ...{ lease: id, grantedAtMs: at(30), gpus: lease.gpus, reason: "best of 412 candidates" },
        ...{ predictedGbs: 212.4, bandwidth: "expected 212.4 GB/s" },
        extras: [{ part: "plan", text: "DP 4 × PP 2, 212 ms a step" }],
      },
    ],
  };
}
