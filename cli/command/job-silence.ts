/**
 * @file What the fleet knows of a running job's hosts, for `explain` and `status`: which are silent, with the consequences, and their racks.
 *
 * When the fleet does not answer soon, this part is left out, because the rest of the
 * answer does not need it.
 */

import { setTimeout as sleep } from "node:timers/promises";
import { OrbweaverError, type JobView, type Ledger } from "../../client/index.ts";
import type { HostId } from "../../domain/values/ids.ts";
import { quietHosts, silenceText, type QuietHost, type Silence } from "./quiet-hosts.ts";
import type { FleetSession } from "./service-session.ts";

const FLEET_WITHIN_MS = 3_000;
const MAX_LISTED = 8;

export interface JobHosts {
  readonly quiet: readonly QuietHost[];
  /** Of hosts that have one. */
  readonly racks: ReadonlyMap<HostId, string>;
}

const NOTHING: JobHosts = { quiet: [], racks: new Map() };

/** Hosts of the job's present leases; none when it does not run. */
export async function jobHosts(
  { state, attempts, array }: JobView,
  { client, nowMs }: { readonly client: FleetSession["client"]; readonly nowMs: number },
): Promise<JobHosts> {
  if (state !== "running" && state !== "stopping") return NOTHING;
  const held = array?.leases.flatMap(({ gpus }) => gpus) ?? attempts.at(-1)?.gpus ?? [];
  const hosts = new Set(held.map(({ host }) => host));
  const ledger = await Promise.race([
    ledgerOf(client),
    sleep(FLEET_WITHIN_MS, undefined, { ref: false }),
  ]);
  if (ledger === undefined) return NOTHING;
  const described = ledger.shape.clusters.flatMap((cluster) => cluster.hosts);
  return {
    quiet: quietHosts(ledger, nowMs).filter(({ place }) => hosts.has(place.host.id)),
    racks: new Map(
      described.flatMap(({ id, rack }) =>
        rack !== undefined && hosts.has(id) ? [[id, rack] as const] : [],
      ),
    ),
  };
}

async function ledgerOf(client: FleetSession["client"]): Promise<Ledger | undefined> {
  try {
    return await client.fleet();
  } catch (error) {
    if (error instanceof OrbweaverError) return undefined;
    throw error;
  }
}

/** `eu-1/host-3: silent for 2m00s, fenced in 8m00s`, one a line, then what happens next; undefined when all answer. */
export function jobSilenceText(quiet: readonly QuietHost[]): string | undefined {
  if (quiet.length === 0) return undefined;
  const lines = quiet
    .slice(0, MAX_LISTED)
    .map(({ place, silence }) => `${place.host.id}: ${silenceText(silence)}`);
  const more = quiet.length - lines.length;
  const kinds = new Set(quiet.map(({ silence }) => silence.kind));
  return [
    ...lines,
    ...(more > 0 ? [`… ${String(more)} more`] : []),
    ...NEXT_STEPS.flatMap(({ kind, text }) => (kinds.has(kind) ? text : [])),
  ].join("\n");
}

/** The earliest consequence first; the lines are short, because they follow a label. */
const NEXT_STEPS: readonly { readonly kind: Silence["kind"]; readonly text: readonly string[] }[] =
  [
    {
      kind: "fenced",
      text: ["The run ends (HOST_LOST, uncharged); the job requests GPUs again."],
    },
    {
      kind: "fence-due",
      text: [
        "If it answers before that, the run continues unaffected.",
        "Otherwise it ends (HOST_LOST, uncharged); the job requests GPUs again.",
      ],
    },
    {
      kind: "stopped",
      text: [
        "So many hosts are silent at once that no fence time runs.",
        "If the machine is really gone: orbweaver fence HOST",
      ],
    },
    {
      kind: "held",
      text: ["No fence time runs. If the machine is gone: orbweaver fence HOST"],
    },
  ];
