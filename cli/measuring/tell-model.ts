/**
 * @file Tells the bandwidth models of a fleet what was measured over hosts: probes teach as jobs do.
 *
 * A set and its figure are a run of their own, so the same table told again is heard once, and a set that was measured anew is news.
 * Sets of files have no time and count as the oldest. Batches of `MAX_WORDS`, each started again by the next command if it fails.
 */

import type { Client } from "@temporalio/client";
import { meanGbs, type BandwidthTable } from "../../domain/bandwidth-table.ts";
import { jobId, parseHostId, type ClusterId } from "../../domain/ids.ts";
import { signalModel } from "../../workers/fleet-notice.ts";
import type { MeasuredWord } from "../../workflows/messages.ts";

/** Stands for the job where a measuring command or a file is the source. */
const SOURCE = jobId("measured-table");
const MAX_WORDS = 100;

export interface MeasuredTable {
  readonly cluster: ClusterId;
  readonly table: BandwidthTable;
  /** When a set was measured, by its masks; 0 where that is not known. */
  readonly atMsOf?: (masks: readonly number[]) => number;
}

/** How many sets were told. */
export async function tellModel(
  client: Client,
  fleet: string,
  { cluster, ...measured }: MeasuredTable,
): Promise<number> {
  const words = wordsOf(measured);
  const tell = signalModel(client, fleet);
  for (let from = 0; from < words.length; from += MAX_WORDS)
    await tell(cluster, words.slice(from, from + MAX_WORDS));
  return words.length;
}

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
}: Omit<MeasuredTable, "cluster">): readonly MeasuredWord[] {
  return table.sets.flatMap((set): readonly MeasuredWord[] => {
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
