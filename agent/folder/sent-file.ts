/**
 * @file Reads what a job has sent since it began, by collective and band of sizes; the form is in docs/collectives-plugin.md.
 *
 * The plugin writes it beside the rewards. Its writer is a job, which may put anything in its place: what is no such text says nothing. A part's
 * size is the mean of its calls, its share that of the time on the slowest rank, or of the bytes where a part's time is not known.
 * Cost: a stat, and at most 16 KiB.
 */

import { join } from "node:path";
import type { Collective } from "../../domain/bandwidth/message-profile.ts";
import { MOST_PARTS, type SentPart } from "../../domain/bandwidth/sent-messages.ts";
import { crc32Text } from "../../lib/crc32.ts";
import { REWARDS_FILE } from "../../protocol/collective-files.ts";
import type { Files } from "../ports/files.ts";
import { extrasDir } from "./extra-files.ts";

const MAX_BYTES = 16 * 1024;
const MAGIC = "orbweaver-sent 1\n";
const LINE =
  /^(\S{1,20}) \d{1,16} \d{1,16} calls (\d{1,15}) bytes (\d{1,18}) timed (\d{1,15}) micros (\d{1,15})$/;
/** As NCCL names them. */
const NAMES: ReadonlyMap<string, Collective> = new Map([
  ["allreduce", "all_reduce"],
  ["allgather", "all_gather"],
  ["reducescatter", "reduce_scatter"],
]);
/** A start is no profile. */
const LEAST_CALLS = 20;

export const sentFile = (launchDir: string): string =>
  join(extrasDir(launchDir), `${REWARDS_FILE}.sent`);

/** The largest share first; undefined while too little is known. */
export function readSent(files: Files, launchDir: string): readonly SentPart[] | undefined {
  const bytes = files.readUntrusted(sentFile(launchDir), ({ sizeBytes }) =>
    sizeBytes > MAX_BYTES ? undefined : { position: 0, length: sizeBytes },
  );
  return bytes && sentIn(bytes.toString("latin1"));
}

interface Row {
  readonly collective: Collective;
  readonly calls: number;
  readonly bytes: number;
  /** Of all calls, as far as some of them were timed. */
  readonly micros: number | undefined;
}

export function sentIn(text: string): readonly SentPart[] | undefined {
  const end = text.lastIndexOf("end ");
  if (!text.startsWith(MAGIC) || end < 0) return undefined;
  const body = text.slice(0, end);
  if (text.slice(end) !== `end ${crc32Text(body)}\n`) return undefined;
  const rows = body
    .slice(MAGIC.length)
    .split("\n")
    .flatMap((line) => rowIn(line) ?? []);
  const calls = rows.reduce((sum, row) => sum + row.calls, 0);
  if (calls < LEAST_CALLS) return undefined;
  const isTimed = rows.every(({ micros }) => micros !== undefined);
  const weightOf = ({ micros = 0, bytes }: Row): number => (isTimed ? micros : bytes);
  const whole = rows.reduce((sum, row) => sum + weightOf(row), 0);
  return rows
    .map((row) => ({
      collective: row.collective,
      bytes: Math.max(1, Math.round(row.bytes / row.calls)),
      share: weightOf(row) / whole,
    }))
    .sort((a, b) => b.share - a.share)
    .slice(0, MOST_PARTS);
}

function rowIn(line: string): Row | undefined {
  const [, name = "", ...numbers] = LINE.exec(line) ?? [];
  const collective = NAMES.get(name);
  const [calls = 0, bytes = 0, timed = 0, micros = 0] = numbers.map(Number);
  if (collective === undefined || calls === 0 || bytes === 0 || timed > calls) return undefined;
  const isKnown = timed > 0 && micros > 0;
  return { collective, calls, bytes, micros: isKnown ? (micros / timed) * calls : undefined };
}
