/**
 * @file Plans of served models that were made before: a service that comes up again from no replica does not wait for its model to be timed anew.
 *
 * A plan is kept for one file as it lies there (path, size, times, number on its disk), one number of lanes and one host as the fleet describes it, so a
 * file that was replaced or another topology is planned anew. Each is a file in a folder of the fleet's store, used by whichever worker plans
 * next; the least lately used go first beyond `MOST_KEPT`. What cannot be read or written counts as none: the plan is made. Only plans are kept, not
 * refusals.
 */

import { createHash, randomUUID } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import path from "node:path";
import { PRIVATE_DIR, PRIVATE_FILE } from "../../access/private-files.ts";
import { planInThread, type PlannerAnswer, type PlannerTask } from "../serving-planner-port.ts";

/** What planning makes of a file; to be raised when it makes something else, so that plans of former releases are not used. */
const MADE = 1;
const MOST_KEPT = 256;

export interface PlannedModel {
  readonly answer: PlannerAnswer;
  /** It was made for an earlier start. */
  readonly isKept: boolean;
}

export type PlanModel = (task: PlannerTask, signal: AbortSignal) => Promise<PlannedModel>;

type MakePlan = (task: PlannerTask, signal: AbortSignal) => Promise<PlannerAnswer>;

export const planAnew: PlanModel = async (task, signal) => ({
  answer: await planInThread(task, signal),
  isKept: false,
});

export const keptPlansDir = (storeDir: string): string => path.join(storeDir, "serving-plans");

/** `dir` is made when it is needed. */
export const keepingPlans =
  (dir: string, make: MakePlan = planInThread, most: number = MOST_KEPT): PlanModel =>
  async (task, signal) => {
    const file = path.join(dir, `${await keyOf(task)}.json`);
    const kept = await readKept(file);
    if (kept !== undefined) return { answer: kept, isKept: true };
    const answer = await make(task, signal);
    if (answer.kind === "planned") await keep(file, answer, most).catch(() => undefined);
    return { answer, isKept: false };
  };

async function keyOf({ file, gpus, options }: PlannerTask): Promise<string> {
  const { dev, ino, size, mtimeMs, ctimeMs } = await stat(file);
  const { bindings, ...others } = options;
  const asked = { ...others, bindings: [...(bindings ?? [])] };
  const key = { made: MADE, file, dev, ino, size, mtimeMs, ctimeMs, gpus, asked };
  return createHash("sha256").update(JSON.stringify(key)).digest("hex");
}

async function readKept(file: string): Promise<PlannerAnswer | undefined> {
  try {
    // Our own file, of this form: `MADE` is part of its name.
    const answer = JSON.parse(await readFile(file, "utf8")) as PlannerAnswer | null;
    if (answer?.kind !== "planned") return undefined;
    const now = new Date();
    // Of a worker that may only read them, they serve all the same.
    await utimes(file, now, now).catch(() => undefined);
    return answer;
  } catch {
    return undefined;
  }
}

/** By rename, so that a reader sees a whole plan or none. */
async function keep(file: string, answer: PlannerAnswer, most: number): Promise<void> {
  const dir = path.dirname(file);
  await mkdir(dir, { recursive: true, mode: PRIVATE_DIR });
  const temporary = path.join(dir, `.${randomUUID()}`);
  try {
    await writeFile(temporary, JSON.stringify(answer), { mode: PRIVATE_FILE });
    await rename(temporary, file);
  } catch (error) {
    // On a full disk a part of it may be there.
    await rm(temporary, { force: true });
    throw error;
  }
  const names = await readdir(dir);
  const used = await Promise.all(
    names.map(async (name) => ({ name, atMs: (await stat(path.join(dir, name))).mtimeMs })),
  );
  used.sort((a, b) => b.atMs - a.atMs || (a.name < b.name ? -1 : 1));
  for (const { name } of used.slice(most)) await rm(path.join(dir, name), { force: true });
}
