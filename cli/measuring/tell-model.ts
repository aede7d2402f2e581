/**
 * @file Sends measurements over hosts to the bandwidth models of a fleet, which learn from them as from jobs.
 *
 * A set and its figure count as a run of their own, so a repeated table is counted once and a new measurement is news. Sets of
 * files have no time and count as the oldest. They are sent in batches of `MAX_WORDS`; the next command repeats a failed batch.
 */

import type { Client } from "@temporalio/client";
import { meanGbs, type BandwidthTable } from "../../domain/bandwidth/bandwidth-table.ts";
import { jobId, parseHostId, type ClusterId } from "../../domain/values/ids.ts";
import { signalModel } from "../../workers/fleet-notice.ts";
import { median } from "../../lib/median.ts";
import type { MessageProfile } from "../../domain/bandwidth/message-profile.ts";
import { sharesKey, type MeasuredReading } from "../../domain/bandwidth/measuring.ts";
import { measuredSets } from "./results.ts";
import type { MeasuredNote } from "../../protocol/messages.ts";

/** Stands for the job id where a measuring command or a file is the source. */
const SOURCE = jobId("measured-table");
const MAX_WORDS = 100;

export interface MeasuredTable {
  readonly cluster: ClusterId;
  readonly table: BandwidthTable;
  /** Time of a set's measurement, by its masks; 0 where it is not known. */
  readonly atMsOf?: (masks: readonly number[]) => number;
}

/** Returns the number of sets that were sent. */
export async function tellModel(
  client: Client,
  fleet: string,
  { cluster, ...measured }: MeasuredTable,
): Promise<number> {
  return await tellWords(client, { fleet, cluster }, wordsOf(measured));
}

export async function tellWords(
  client: Client,
  { fleet, cluster }: { readonly fleet: string; readonly cluster: ClusterId },
  words: readonly MeasuredNote[],
): Promise<number> {
  const tell = signalModel(client, fleet);
  for (let from = 0; from < words.length; from += MAX_WORDS)
    await tell(cluster, words.slice(from, from + MAX_WORDS));
  return words.length;
}

/** Of other messages than the tables have: each set with the median of its readings, inside hosts and over several. */
export const wordsOfReadings = (
  readings: readonly MeasuredReading[],
  messages: MessageProfile,
): readonly MeasuredNote[] =>
  measuredSets(readings).map(({ shares, gbs }) => ({
    jobId: SOURCE,
    runId: `${sharesKey(shares).replaceAll(" ", "/")}@${String(messages.bytes)}/${messages.collective}=${median(gbs).toFixed(3)}`,
    attempt: 0,
    window: 0,
    gpus: shares.map(([host, mask]) => ({ host: parseHostId(host), mask })),
    gbs: median(gbs),
    atMs: Math.max(
      ...readings
        .filter((reading) => sharesKey(reading.shares) === sharesKey(shares))
        .map(({ atMs }) => atMs),
    ),
    messages,
  }));

/** Of a fleet file: every cluster that has sets over hosts. */
export async function tellModels(
  client: Client,
  fleet: string,
  tables: ReadonlyMap<ClusterId, BandwidthTable>,
): Promise<void> {
  for (const [cluster, table] of tables) await tellModel(client, fleet, { cluster, table });
}

/** Sets over several hosts; those inside one are in its own table. */
export function wordsOf({
  table,
  atMsOf = () => 0,
}: Omit<MeasuredTable, "cluster">): readonly MeasuredNote[] {
  return table.sets.flatMap((set): readonly MeasuredNote[] => {
    const gpus = table.hosts.flatMap((name, at) => {
      const mask = set.masks[at] ?? 0;
      return mask === 0 ? [] : [{ host: parseHostId(name), mask }];
    });
    const gbs = meanGbs(set);
    if (gpus.length < 2 || !(gbs > 0)) return [];
    return [
      {
        jobId: SOURCE,
        runId: `${gpus.map(({ host, mask }) => `${host}:${String(mask)}`).join("/")}=${gbs.toFixed(3)}`,
        attempt: 0,
        window: 0,
        gpus,
        gbs,
        atMs: atMsOf(set.masks),
      },
    ];
  });
}
