/**
 * @file Measures a cluster: first the open jobs of an earlier command, then sets inside hosts, then sets over groups of hosts;
 * then makes the tables.
 *
 * Readings are stored as they arrive, and the fleet's details after each stage, so the command resumes wherever it was cut off.
 * The measurements are jobs, which need no running command.
 */

import { ordered } from "../../client/orders.ts";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Client } from "@temporalio/client";
import { directoryStore, type FleetDetails } from "../../activities/store.ts";
import type { Ledger, OrbweaverClient } from "../../client/index.ts";
import type { BandwidthTable, IntraHostTable } from "../../domain/bandwidth/bandwidth-table.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import type { ClusterShape, HostDetails, HostShape } from "../../domain/fleet/fleet.ts";
import type { MessageProfile } from "../../domain/bandwidth/message-profile.ts";
import type { HostId } from "../../domain/values/ids.ts";
import {
  sharesKey,
  type HostShares,
  type MeasuringOrder,
} from "../../domain/bandwidth/measuring.ts";
import { randomFrom } from "../../lib/random.ts";
import { clusterDomain } from "../../models/bandwidth/lookup.ts";
import { median } from "../../lib/median.ts";
import { configureUpdate, fleetWorkflowId } from "../../protocol/messages.ts";
import { counted, durationText } from "../terminal/duration.ts";
import { storeDirOf } from "../up/places.ts";
import { gather, submitMeasuring, type Gathered, type JobTerms } from "./jobs.ts";
import {
  interCsv,
  interTable,
  intraCsv,
  intraTable,
  measuredSets,
  readingsOf,
  type Results,
} from "./results.ts";
import { tellModel, tellWords, wordsOfReadings } from "./tell-model.ts";
import { setsBetween, type Work, type WorkNeed } from "./work.ts";

export interface MeasureTerms extends JobTerms {
  readonly fleet: string;
  readonly temporal: Client;
  readonly client: OrbweaverClient;
  readonly stateDir: string;
  readonly cluster: ClusterShape;
  readonly hosts: readonly HostShape[];
  readonly between: number;
  readonly maxSeconds?: number;
  readonly seed: number;
  readonly results: Results;
  /** Other messages than the tables have; the usual ones when absent. */
  readonly messages?: MessageProfile;
  readonly orderFor: (hosts: readonly HostShape[]) => Omit<MeasuringOrder, "sets">;
  /** A line for people. */
  readonly say: (line: string) => void;
}

/** The cluster's known figures: the fleet's own tables, overridden by the readings. */
export interface Known {
  readonly details: ReadonlyMap<HostId, HostDetails>;
  readonly inter: BandwidthTable | undefined;
}

export async function knownOf(terms: MeasureTerms, ledger: Ledger): Promise<Known> {
  const former = await formerDetails(terms, ledger);
  const sets = measuredSets(readingsOf(terms.results));
  const formerHosts = new Map<HostId, HostDetails>(former.hosts);
  const details = new Map(formerHosts);
  for (const host of terms.cluster.hosts) {
    const known = formerHosts.get(host.id);
    const bandwidth = intraTable(host, sets, known?.bandwidth);
    if (bandwidth !== undefined) details.set(host.id, { ...known, bandwidth });
  }
  const formerInter = former.interHost.find(([cluster]) => cluster === terms.cluster.id)?.[1];
  // This product wrote the value that the store has under the fleet's hash.
  const inter = interTable(terms.cluster.hosts, sets, formerInter as BandwidthTable | undefined);
  return { details, inter };
}

export function needOf(terms: MeasureTerms, known: Known): WorkNeed {
  const { cluster, hosts, between, maxSeconds, results, seed, messages } = terms;
  const { details } = known;
  const domain = clusterDomain(cluster, details);
  const topologies = [...details].flatMap(([id, { topology }]) =>
    topology === undefined ? [] : [[id, topology] as const],
  );
  const measured = messages === undefined ? setsOf(known) : otherSets(terms, messages);
  const placed = measured.map((shares) =>
    shares
      .map(([name, mask]) => ({ host: cluster.hosts.findIndex(({ id }) => id === name), mask }))
      .sort((a, b) => a.host - b.host),
  );
  return {
    domain,
    hosts,
    topologies: new Map(topologies),
    measured: placed.filter((shares) => shares.every(({ host }) => host >= 0)),
    between,
    timedSeconds: timedSeconds(results),
    ...(maxSeconds !== undefined && { maxSeconds }),
    random: randomFrom(seed, "measure"),
    ...(messages !== undefined && { isOther: true }),
  };
}

const setsOf = ({ inter }: Known): readonly HostShares[] =>
  (inter?.sets ?? []).map(({ masks }) =>
    masks.flatMap((mask, at): HostShares => (mask === 0 ? [] : [[inter?.hosts[at] ?? "", mask]])),
  );

const otherSets = ({ results }: MeasureTerms, messages: MessageProfile): readonly HostShares[] =>
  measuredSets(readingsOf(results, messages)).map(({ shares }) => shares);

/** By host id: the median time of a set inside it. */
function timedSeconds({ readings }: Results): ReadonlyMap<string, number> {
  const times = new Map<string, number[]>();
  for (const { shares, tookMs, gbs } of readings) {
    const [first, ...others] = shares;
    if (first === undefined || others.length > 0 || gbs === undefined) continue;
    times.set(first[0], [...(times.get(first[0]) ?? []), tookMs / 1_000]);
  }
  return new Map([...times].map(([host, seconds]) => [host, median(seconds)]));
}

/** Waits for jobs of an earlier command. */
export async function gatherOpen(terms: MeasureTerms): Promise<readonly Gathered[]> {
  const open = terms.results.openJobs();
  if (open.length > 0) {
    terms.say(`resuming ${counted(open.length, "measuring job")} of an earlier command`);
  }
  return await Promise.all(open.map((job) => gather(job, terms, progressOf(terms, job))));
}

export async function measureInside(
  terms: MeasureTerms,
  { inside }: Work,
): Promise<readonly Gathered[]> {
  const open = inside.filter(({ sets }) => sets.length > 0);
  const jobs: { readonly job: string; readonly count: number; readonly name: string }[] = [];
  for (const { host, sets } of open) {
    const order = { ...terms.orderFor([host]), sets: [...sets] };
    const job = await submitMeasuring({ hosts: [host], order }, terms);
    jobs.push({ job, count: sets.length, name: host.id });
  }
  return await Promise.all(
    jobs.map(({ job, count, name }) => gather(job, terms, progressOf(terms, name, count))),
  );
}

/** One group after the other, so that the hosts of a cluster are never all occupied. */
export async function measureBetween(
  terms: MeasureTerms,
  need: WorkNeed,
  { groups }: Work,
): Promise<readonly Gathered[]> {
  const gathered: Gathered[] = [];
  for (const { hosts, sets: count } of groups) {
    const sets = setsBetween(need, hosts, count);
    if (sets.length === 0) continue;
    const order = { ...terms.orderFor(hosts), sets: [...sets] };
    const job = await submitMeasuring({ hosts, order }, terms);
    const name = `${hosts[0]?.id ?? ""} … ${hosts.at(-1)?.id ?? ""}`;
    gathered.push(await gather(job, terms, progressOf(terms, name, sets.length)));
  }
  return gathered;
}

/** Sends what was measured of other messages to the bandwidth model: tables are of the usual ones. Returns the number of sets. */
export const publishOther = (terms: MeasureTerms, messages: MessageProfile): Promise<number> =>
  tellWords(
    terms.temporal,
    { fleet: terms.fleet, cluster: terms.cluster.id },
    wordsOfReadings(readingsOf(terms.results, messages), messages),
  );

export interface Published {
  readonly detailsHash: string;
  readonly files: readonly string[];
  /** Sets over hosts that were sent to the cluster's bandwidth model. */
  readonly setsSent: number;
}

/**
 * Puts the tables in the fleet's store, sends them to the fleet and the bandwidth model, and writes them as files for its
 * description.
 */
export async function publish(terms: MeasureTerms, { details, inter }: Known): Promise<Published> {
  const { fleet, client, temporal, stateDir, cluster, results } = terms;
  // Hours may have passed, so the tables go to the description that is in force now.
  const ledger = await client.fleet();
  const former = await formerDetails(terms, ledger);
  const interHost = [
    ...former.interHost.filter(([name]) => name !== cluster.id),
    ...(inter === undefined ? [] : [[cluster.id, inter] as const]),
  ];
  const detailsHash = await directoryStore(storeDirOf(stateDir)).put({
    hosts: [...details],
    interHost,
  });
  const workflowId = fleetWorkflowId(fleet);
  const call = { client: temporal, workflowId, subject: `fleet ${fleet}` };
  await ordered(call, configureUpdate, { shape: ledger.shape, detailsHash });
  const setsSent =
    inter === undefined
      ? 0
      : await tellModel(temporal, fleet, {
          cluster: cluster.id,
          table: inter,
          atMsOf: lastReadAt(inter.hosts, results),
        });
  const tables = new Map<string, IntraHostTable>();
  for (const { id } of cluster.hosts) {
    const table = details.get(id)?.bandwidth;
    if (table !== undefined) tables.set(id, table);
  }
  const files: string[] = [];
  const write = (name: string, text: string): void => {
    writeFileSync(join(results.dir, name), text);
    files.push(join(results.dir, name));
  };
  if (tables.size > 0) write(`${cluster.id}-intra.csv`, intraCsv(tables));
  if (inter !== undefined) write(`${cluster.id}-inter.csv`, interCsv(inter));
  return { detailsHash, files, setsSent };
}

/** Time of a set's last reading, by its masks; 0 for a set that was not read here. */
function lastReadAt(
  hosts: readonly string[],
  results: Results,
): (masks: readonly number[]) => number {
  const lastMs = new Map<string, number>();
  for (const { shares, atMs } of readingsOf(results)) {
    const key = sharesKey(shares);
    lastMs.set(key, Math.max(lastMs.get(key) ?? 0, atMs));
  }
  return (masks) => {
    const shares = hosts.flatMap((host, at): HostShares => {
      const mask = masks[at] ?? 0;
      return mask === 0 ? [] : [[host, mask]];
    });
    return lastMs.get(sharesKey(shares)) ?? 0;
  };
}

async function formerDetails({ stateDir }: MeasureTerms, ledger: Ledger): Promise<FleetDetails> {
  const { detailsHash } = ledger;
  if (detailsHash === undefined) return { hosts: [], interHost: [] };
  const found = await directoryStore(storeDirOf(stateDir)).get<FleetDetails>(detailsHash);
  if (found !== undefined) return found;
  throw new OrbweaverError(
    "NOT_FOUND",
    "the fleet has measured tables that are not on this machine and would be lost. Run this command on the machine where `orbweaver up` or `fleet apply` was run.",
  );
}

/** Reports every twentieth part, with the remaining time. */
function progressOf({ say }: MeasureTerms, name: string, count?: number): () => void {
  const startMs = Date.now();
  let done = 0;
  let said = 0;
  return () => {
    done += 1;
    const step = count === undefined ? 20 : Math.max(1, Math.ceil(count / 20));
    if (done - said < step && done !== count) return;
    said = done;
    const eachMs = (Date.now() - startMs) / done;
    const left = count === undefined || done > count ? undefined : (count - done) * eachMs;
    const rest = left === undefined ? "" : `, about ${durationText(Math.round(left))} left`;
    say(`${name}: ${String(done)}${count === undefined ? "" : ` of ${String(count)}`} sets${rest}`);
  };
}
