/**
 * @file The weights pool of a host on a real machine: files in its memory (`/dev/shm`), a folder for each tenant and user of its launches.
 *
 * Services write and map the files (`workers/serving/kept-weights.ts`); all that this side knows of them is that the files of one model begin with
 * the same word, that its `.json` was touched when it was last used, that `.writing` stands beside one that is not whole yet, and that `.for-` with the mark of
 * a job's name stands beside one that such jobs used. A folder belongs to the
 * launches' user, so nothing in it is believed: names are unlinked, never followed. Folders above it are the agent's. Memory has no owner that outlives it,
 * so the pool names the state folder that it belongs to, and an agent removes pools of its user whose state folder is gone.
 */

import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  rmdirSync,
  symlinkSync,
  unlinkSync,
  type Stats,
} from "node:fs";
import { join } from "node:path";
import { MOST_SERVICES, wordMark, type KeptWeights } from "../../domain/lease/kept-weights.ts";
import { byCodeUnit } from "../../domain/values/ids.ts";
import type { WeightsPool } from "../ports/weights.ts";
import { ownerName } from "./state-layout.ts";

export interface PoolPlace {
  /** The folder of the host; the pool lives as long as it. */
  readonly stateDir: string;
  readonly budgetBytes: number;
  /** A folder in memory that every user may write to. */
  readonly memoryDir?: string;
}

const MEMORY_DIR = "/dev/shm";
/** Others pass through to their own folders and list nothing. */
const PASSED_MODE = 0o711;
const OWN_MODE = 0o700;
const WRITABLE_BY_OTHERS = 0o022;
/** What is still not whole after this was left by a service that has ended. */
const WRITING_MS = 600_000;
/** Names the state folder. */
const STATE_LINK = "state";

/** Makes nothing before the first service. */
export function openWeightsPool({
  stateDir,
  budgetBytes,
  memoryDir = MEMORY_DIR,
}: PoolPlace): WeightsPool {
  const root = rootIn(memoryDir);
  const dir = join(root, ownerName([stateDir]));
  return {
    budgetBytes,
    area(tenant, uid) {
      try {
        ownFolder(root);
        removeLeftPools(memoryDir);
        ownFolder(dir);
        linkOnce(stateDir, join(dir, STATE_LINK));
        // Its tenant is the agent's word; what is in it is that tenant's.
        const area = join(dir, `${wordMark(tenant)}-${ownerName([String(uid ?? "")])}`);
        madeFolder(area, OWN_MODE);
        return area;
      } catch {
        // Another user has taken the name, or the machine has no such memory.
        return undefined;
      }
    },
    trim(nowMs) {
      const kept = keptIn(root, dir, nowMs);
      let bytes = sum(kept);
      const oldestFirst = [...kept].sort(
        (a, b) => a.usedAtMs - b.usedAtMs || byCodeUnit(a.name, b.name),
      );
      for (const each of oldestFirst) {
        if (each.state === "writing" || (each.state === "whole" && bytes <= budgetBytes)) continue;
        bytes -= each.bytes;
        // A service that comes now finds a whole model or none: its description goes first.
        const files = [...each.files].sort((a, b) => Number(isAbout(b)) - Number(isAbout(a)));
        for (const file of files) unlink(file);
      }
    },
    use(): KeptWeights {
      const whole = keptIn(root, dir, Date.now()).filter(({ state }) => state === "whole");
      const services = [...whole]
        .sort((a, b) => b.usedAtMs - a.usedAtMs || byCodeUnit(a.name, b.name))
        .flatMap((each) => each.services);
      return {
        ...{ models: whole.length, bytes: sum(whole), budgetBytes },
        services: inTurns([...new Set(services)]).slice(0, MOST_SERVICES),
      };
    },
  };
}

/** The last ones first, a tenant's next one after those of all others: whoever has many takes nobody else's room. */
function inTurns(services: readonly string[]): readonly string[] {
  const turns = new Map<string, number>();
  const placed = services.map((service) => {
    const tenant = tenantOf(service);
    const turn = turns.get(tenant) ?? 0;
    turns.set(tenant, turn + 1);
    return { service, turn };
  });
  return placed.sort((a, b) => a.turn - b.turn).map(({ service }) => service);
}

/** Of a mark, or of an area: its first word. */
const tenantOf = (name: string): string => name.split("-")[0] ?? "";

interface KeptFiles {
  readonly name: string;
  readonly files: readonly string[];
  readonly bytes: number;
  readonly usedAtMs: number;
  readonly state: "whole" | "writing" | "left";
  /** Marks of services. */
  readonly services: readonly string[];
}

function keptIn(root: string, dir: string, nowMs: number): readonly KeptFiles[] {
  if (!isOwnFolder(root) || !isOwnFolder(dir)) return [];
  return areasIn(dir).flatMap((area) => {
    const byModel = new Map<string, string[]>();
    for (const name of namesIn(join(dir, area))) {
      const [model = ""] = name.split(".");
      byModel.set(model, [...(byModel.get(model) ?? []), join(dir, area, name)]);
    }
    const tenant = tenantOf(area);
    return [...byModel].map(([model, files]) => ({
      ...keptFiles(join(area, model), files, nowMs),
      services: files.flatMap((file) => {
        const name = FOR_NAME.exec(file)?.[1];
        return name === undefined ? [] : [`${tenant}-${name}`];
      }),
    }));
  });
}

const FOR_NAME = /\.for-([0-9a-f]{16})$/;

function keptFiles(
  name: string,
  files: readonly string[],
  nowMs: number,
): Omit<KeptFiles, "services"> {
  const found = files.flatMap((file) => {
    const fact = factOf(file);
    return fact?.isFile() === true ? [{ file, fact }] : [];
  });
  const writing = found.find(({ file }) => file.endsWith(".writing"));
  // Its user may set any time: one to come would keep it for ever.
  const isWriting = writing !== undefined && Math.abs(nowMs - writing.fact.mtimeMs) < WRITING_MS;
  const about = found.find(({ file }) => isAbout(file));
  return {
    name,
    files,
    bytes: found.reduce((all, { fact }) => all + fact.size, 0),
    // Its user may set any time; none makes it newer than now.
    usedAtMs: Math.min(nowMs, about?.fact.mtimeMs ?? 0),
    state: isWriting ? "writing" : about === undefined ? "left" : "whole",
  };
}

const isAbout = (file: string): boolean => file.endsWith(".json");

const sum = (kept: readonly KeptFiles[]): number => kept.reduce((all, { bytes }) => all + bytes, 0);

/** In a folder that is there. */
function madeFolder(dir: string, mode: number): void {
  if (lstatSync(dir, { throwIfNoEntry: false }) === undefined) mkdirSync(dir, { mode });
}

/** Throws where anybody else could change what is in it. */
function ownFolder(dir: string): void {
  madeFolder(dir, PASSED_MODE);
  if (!isOwnFolder(dir)) throw new Error(`${dir} is another user's`);
}

/** Whether nobody else can change what is in it. Anybody may have made what lies under its name in memory, so nothing is listed or removed in any other. */
function isOwnFolder(dir: string): boolean {
  const found = factOf(dir);
  const isOwn = found?.isDirectory() === true && found.uid === (process.getuid?.() ?? 0);
  return isOwn && (found.mode & WRITABLE_BY_OTHERS) === 0;
}

/** Undefined where it is not there, or cannot be looked at. */
function factOf(path: string): Stats | undefined {
  try {
    return lstatSync(path);
  } catch {
    return undefined;
  }
}

function linkOnce(target: string, link: string): void {
  if (lstatSync(link, { throwIfNoEntry: false }) === undefined) symlinkSync(target, link);
}

const rootIn = (memoryDir: string): string =>
  join(memoryDir, `orbweaver-weights-${String(process.getuid?.() ?? 0)}`);

/** Removes pools of this user whose host's state folder is gone. Never throws. */
export function removeLeftPools(memoryDir: string = MEMORY_DIR): void {
  const root = rootIn(memoryDir);
  if (!isOwnFolder(root)) return;
  for (const name of namesIn(root)) {
    const dir = join(root, name);
    if (!isOwnFolder(dir)) continue;
    const link = factOf(join(dir, STATE_LINK));
    // One that is being made has none yet.
    if (link?.isSymbolicLink() !== true || existsSync(join(dir, STATE_LINK))) continue;
    for (const area of areasIn(dir))
      for (const file of namesIn(join(dir, area))) unlink(join(dir, area, file));
    removePool(dir);
  }
}

/** Where a launch's user has made folders, they stay. */
function removePool(dir: string): void {
  try {
    for (const name of namesIn(dir)) if (name !== STATE_LINK) rmdirSync(join(dir, name));
    unlinkSync(join(dir, STATE_LINK));
    rmdirSync(dir);
  } catch {
    // Seen again by the next agent.
  }
}

/** No link is one. */
const areasIn = (dir: string): readonly string[] =>
  namesIn(dir).filter((name) => factOf(join(dir, name))?.isDirectory() === true);

function namesIn(dir: string): readonly string[] {
  try {
    return readdirSync(dir);
  } catch {
    return [];
  }
}

/** A folder of the user's is not unlinked. */
function unlink(file: string): void {
  try {
    unlinkSync(file);
  } catch {
    // It is gone, or is no file.
  }
}
