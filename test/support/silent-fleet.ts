/** @file A fleet in trouble, for tests of what operators see: hosts that are silent, held, fenced, drained, without agent. */

import { apply, emptyLedger } from "../../scheduling/ledger/apply/apply.ts";
import type { Ledger, LedgerEvent } from "../../scheduling/ledger/ledger.ts";
import {
  end,
  fleetShape,
  gpus,
  hello,
  host,
  hostNames,
  inbox,
  leased,
} from "../scheduling/builders.ts";

export const FENCE_MS = 600_000;
/** When the silences below begin. */
export const SILENT_AT_MS = 1_000_000;

/** Agents of `c0` fence after `FENCE_MS`; those of `c1` hold. Each host is an agent of its own. */
export function troubled({
  agentless = [],
  silent = [],
  fenced = [],
  drained = [],
  hostsPerCluster = 3,
}: {
  readonly agentless?: readonly string[];
  readonly silent?: readonly string[];
  readonly fenced?: readonly string[];
  readonly drained?: readonly string[];
  readonly hostsPerCluster?: number;
}): Ledger {
  const hosts = Array.from({ length: hostsPerCluster }, () => ({ gpus: 4 }));
  const shape = fleetShape([{ hosts }, { hosts }]);
  const hellos = hostNames(shape)
    .filter((name) => !agentless.includes(name))
    .map((name) => {
      const terms = name.startsWith("c0/") ? { fenceMs: FENCE_MS } : {};
      return { ...hello([name], { epoch: name }), terms };
    });
  let ledger = inbox(emptyLedger(shape), hellos).ledger;
  ledger = leased(
    ledger,
    { job: "wide", gpus: 5, constraints: { maxClusters: 2 } },
    gpus(["c0/h0", 0b1], ["c1/h0", 0b1111]),
  );
  ledger = leased(ledger, { job: "gone", gpus: 2 }, gpus(["c0/h0", 0b110]));
  ledger = inbox(ledger, [end("gone", { unconfirmed: ["c0/h0"] })]).ledger;
  const events: readonly LedgerEvent[] = [
    { kind: "drain", hosts: drained.map(host), reason: "bad NVLink", nowMs: 0 },
    {
      kind: "inbox",
      entries: silent.map((name) => ({ kind: "silence", hosts: [host(name)], epoch: name })),
      nowMs: SILENT_AT_MS,
    },
    { kind: "fence", hosts: fenced.map(host), nowMs: SILENT_AT_MS },
  ];
  return events.reduce((before, event) => apply(before, event).ledger, ledger);
}
