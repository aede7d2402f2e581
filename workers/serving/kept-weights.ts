/**
 * @file The weights of served models that a host keeps in its memory, as the services of one tenant find and leave them there.
 *
 * The agent names a folder in memory and what one model may take of it (`agent/system/weights-pool.ts`), and removes what was used least lately. The first
 * service of a model writes down, while it loads, each part as onnxruntime has optimised it, with the weights in a file beside, packed as its operators read
 * them: later ones map that into their memory, take hardly any of their own, and read, cut, check and try nothing of the model. What is kept is for one model file as it lies there (path, size,
 * times, number on its disk), one division into parts, one release of onnxruntime and one kind of processor. All files of a kept model begin with its key;
 * the one that describes it comes last, so a reader sees a whole model or none. An empty one names the job that used it, by which placement finds the host.
 */

import { createHash } from "node:crypto";
import { cpus } from "node:os";
import {
  closeSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  statfsSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { PRIVATE_FILE } from "../../access/private-files.ts";
import { wordMark } from "../../domain/lease/kept-weights.ts";
import type { ServingPlan } from "../../domain/model/serving-plan.ts";
import { weightsOf, type SessionPort } from "../../models/onnx/onnx-session.ts";
import { onnxruntimeVersion } from "../../models/onnxruntime.ts";
import type { PartPorts } from "./split-model.ts";

/** Where a service finds and leaves weights. */
export interface WeightsPlace {
  readonly dir: string;
  /** Of one model. */
  readonly mostBytes: number;
  /** The name of the job that serves; absent by hand. */
  readonly jobName?: string;
}

/** What is known of a kept model beside its weights. */
export interface KeptFacts {
  readonly inputs: readonly SessionPort[];
  readonly outputs: readonly SessionPort[];
  /** What the trial of batches found. */
  readonly unbatched?: string;
  readonly parts: readonly PartPorts[];
}

export interface KeptModel extends KeptFacts {
  /** By part, the path of its file. */
  readonly files: readonly string[];
  readonly bytes: number;
}

/** To be raised when another release keeps something else. */
const MADE = 2;
/** Of a model's bytes: weights are kept as the model has them and as operators pack them, and small parameters are repeated in parts. */
const ROOM = 2.25;
/** Launches share memory in the same place, and a container may have little of it. */
const MOST_OF_FREE = 0.5;

export interface KeptFor {
  readonly modelFile: string;
  /** The file as it lay before it was read: one that was replaced meanwhile is another. */
  readonly lies: readonly number[];
  readonly plan: Pick<ServingPlan, "model" | "gpus" | "parts">;
  readonly isBatching: boolean;
}

export function howItLies(modelFile: string): readonly number[] {
  const { dev, ino, size, mtimeMs, ctimeMs } = statSync(modelFile);
  return [dev, ino, size, mtimeMs, ctimeMs];
}

export function weightsKey({ modelFile, lies, plan, isBatching }: KeptFor): string {
  const { model, gpus, parts } = plan;
  const words = [
    ...[MADE, onnxruntimeVersion(), process.arch, cpus()[0]?.model],
    ...[modelFile, ...lies, model, gpus, parts, isBatching],
  ];
  return createHash("sha256").update(JSON.stringify(words)).digest("hex").slice(0, 32);
}

/** The kept model, which counts as used by that; undefined when there is none that can be read. */
export function findKept(place: WeightsPlace, key: string): KeptModel | undefined {
  const { dir } = place;
  const about = aboutFile(dir, key);
  try {
    // Of this user, as is all else in the folder, and of this form: `MADE` is part of its name.
    const facts = JSON.parse(readFileSync(about, "utf8")) as KeptFacts;
    const files = facts.parts.map((_, part) => partFile(dir, { key, part }));
    const bytes = files.map((file) => sizeOf(file) + sizeOf(weightsOf(file)));
    const now = new Date();
    utimesSync(about, now, now);
    markUse(place, key);
    return { ...facts, files, bytes: bytes.reduce((sum, each) => sum + each, 0) };
  } catch {
    return undefined;
  }
}

export interface Keeping {
  /** Where the part is to be written. */
  readonly partAt: (part: number) => string;
  /** Whether all parts were written, and are kept from now on. */
  readonly finish: (facts: KeptFacts) => boolean;
  readonly drop: () => void;
}

/** Undefined where the model is too large, there is no room, or another service writes it at this moment. */
export function beginKeeping(
  place: WeightsPlace,
  key: string,
  modelBytes: number,
): Keeping | undefined {
  const { dir, mostBytes } = place;
  const writing = join(dir, `${key}.writing`);
  const drop = (): void => {
    removeKept({ dir }, key);
  };
  try {
    const { bavail, bsize } = statfsSync(dir);
    if (modelBytes * ROOM > Math.min(mostBytes, MOST_OF_FREE * bavail * bsize)) return undefined;
    closeSync(openSync(writing, "wx", PRIVATE_FILE));
  } catch {
    return undefined;
  }
  return {
    partAt: (part) => partFile(dir, { key, part }),
    drop,
    finish(facts) {
      try {
        const files = facts.parts.map((_, part) => partFile(dir, { key, part }));
        const bytes = files.reduce((sum, file) => sum + sizeOf(file) + sizeOf(weightsOf(file)), 0);
        if (bytes > mostBytes) throw new Error("it takes more than one model may");
        markUse(place, key);
        const about = aboutFile(dir, key);
        writeFileSync(`${about}.new`, JSON.stringify(facts), { mode: PRIVATE_FILE });
        renameSync(`${about}.new`, about);
        rmSync(writing, { force: true });
        return true;
      } catch {
        drop();
        return false;
      }
    },
  };
}

/** Never fails; what a service maps of it stays with that service. */
export function removeKept({ dir }: Pick<WeightsPlace, "dir">, key: string): void {
  try {
    // The description first: without it nobody begins to read the rest.
    rmSync(aboutFile(dir, key), { force: true });
    for (const name of readdirSync(dir))
      if (name.startsWith(`${key}.`)) rmSync(join(dir, name), { force: true });
  } catch {
    // The agent removes what is left.
  }
}

/** Of one model; beyond them the former ones are forgotten. */
const MOST_MARKS = 16;

/** Placement prefers a host that is marked; without room for a mark the model is as good. */
function markUse({ dir, jobName }: WeightsPlace, key: string): void {
  if (jobName === undefined) return;
  const own = `${key}.for-${wordMark(jobName)}`;
  try {
    const marks = readdirSync(dir).filter((name) => name.startsWith(`${key}.for-`));
    if (marks.includes(own)) return;
    if (marks.length >= MOST_MARKS)
      for (const name of marks) rmSync(join(dir, name), { force: true });
    writeFileSync(join(dir, own), "", { mode: PRIVATE_FILE });
  } catch {
    // Tried again by the next service.
  }
}

const aboutFile = (dir: string, key: string): string => join(dir, `${key}.json`);
const partFile = (
  dir: string,
  { key, part }: { readonly key: string; readonly part: number },
): string => join(dir, `${key}.${part}.onnx`);

/** Small models have no file of weights. */
const sizeOf = (file: string): number =>
  file.endsWith(".onnx")
    ? statSync(file).size
    : (statSync(file, { throwIfNoEntry: false })?.size ?? 0);
