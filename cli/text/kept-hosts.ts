/** @file What is kept for gangs that have lost a host, as text: for whom, where, until when, and how many GPUs are missing. */

import type { Ledger } from "../../client/index.ts";
import { gpuCountOf } from "../../domain/lease/lease.ts";
import { counted } from "../terminal/duration.ts";

const MOST_HOSTS = 8;

/** `train-7: 6 GPUs on eu-1/h1, eu-1/h3 until 2030-05-04T06:00:00.000Z; 2 are missing`, the first to end first. */
export const keptHostLines = (
  ledger: Pick<Ledger, "reservations" | "requests">,
): readonly string[] =>
  keptHostDocuments(ledger).map(({ jobId, gpus, hosts, until, missing }) => {
    const more = hosts.length - MOST_HOSTS;
    const shown = `${hosts.slice(0, MOST_HOSTS).join(", ")}${more > 0 ? ` and ${String(more)} more` : ""}`;
    const lack =
      missing === undefined ? "" : `; ${String(missing)} ${missing === 1 ? "is" : "are"} missing`;
    return `${jobId}: ${counted(gpus, "GPU")} on ${shown} until ${until}${lack}`;
  });

interface KeptHosts {
  readonly jobId: string;
  readonly gpus: number;
  readonly hosts: readonly string[];
  readonly until: string;
  /** Absent until the job has asked again. */
  readonly missing?: number;
}

/** For `--json`. */
export const keptHostDocuments = ({
  reservations,
  requests,
}: Pick<Ledger, "reservations" | "requests">): readonly KeptHosts[] =>
  [...(reservations?.values() ?? [])]
    .flatMap(({ jobId, kind, gpus, untilMs = 0 }) =>
      kind === "replace" ? [{ jobId, gpus, untilMs }] : [],
    )
    .sort((a, b) => a.untilMs - b.untilMs)
    .map(({ jobId, gpus, untilMs }) => {
      const asked = requests.get(jobId)?.gang.gpus;
      const count = gpuCountOf(gpus);
      return {
        jobId,
        gpus: count,
        hosts: gpus.map(({ host }) => host),
        until: new Date(untilMs).toISOString(),
        ...(asked !== undefined && { missing: Math.max(0, asked - count) }),
      };
    });
