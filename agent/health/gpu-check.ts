/**
 * @file Whether the machine's GPUs are sound: by the driver's answer, and by what it writes to the kernel log.
 *
 * In every round the log is read and the driver is asked, of its links once a minute and whenever the log tells of a hardware fault. Such a fault counts for
 * `HOLD_MS` after it was written; then the driver's answer alone decides. Faults of applications drain nothing. A driver that does not answer is
 * a fault of all of the machine. A GPU of the hosts that it does not show is out alone; where nobody knows the hosts' GPUs, one that it has shown and no longer shows is
 * a fault of all. An NVLink that was up since the agent's start and is down keeps new work away.
 */

import { parseGpuFaults, type GpuCondition } from "../../domain/fleet/gpu-faults.ts";
import {
  linksDown,
  mostLinks,
  parseNvlinkErrors,
  parseNvlinkStatus,
  type LinkErrors,
  type LinksUp,
} from "../../domain/fleet/nvlink-status.ts";
import { isOfOneGpu, parseXid, xidKind, xidText, type XidWord } from "../../domain/fleet/xid.ts";
import type { Clock } from "../ports/clock.ts";
import type { KernelRecord } from "../system/kernel-log.ts";

export interface GpuCheckPorts {
  readonly clock: Clock;
  /** Those of the agent's hosts, as they count them now; empty where that is not known, and the order of the driver's answer counts. */
  gpus(): readonly PlacedGpu[];
  /** The driver's answer to `-q -x`; undefined where there is no driver. Fails where it does. */
  query(): Promise<string | undefined>;
  /** The answer of `nvidia-smi nvlink --status`, which not every driver has. */
  links(): Promise<string | undefined>;
  /** The same of `nvidia-smi nvlink --errorcounters`. */
  linkErrors(): Promise<string | undefined>;
  readLog(): readonly KernelRecord[];
  readonly onNote: (note: string) => void;
}

export interface PlacedGpu {
  readonly place: number;
  readonly busId?: string;
  /** Of a whole GPU, which is known by it wherever it is. */
  readonly uuid?: string;
  /** What no look at whole GPUs shows, as an instance of MIG that is not there. */
  readonly goneText?: string;
}

export type GpuVerdict =
  | { readonly kind: "passed" }
  | {
      readonly kind: "failed";
      readonly why: string;
      /** The broken GPUs, which jobs had better leave, by their places; `all` where nobody knows which. */
      readonly gpus: readonly number[] | "all";
      /** Why each GPU is to be out of service, by its place, where the rest of the machine is sound; `all` where it is not. */
      readonly out: ReadonlyMap<number, string> | "all";
    };

export interface GpuCheck {
  look(): Promise<GpuVerdict>;
  /** Hardware faults that the driver has written since then, oldest first; also those that the next look tells of. */
  faultsSince(sinceBootMs: number): readonly GpuFault[];
}

export interface GpuFault {
  readonly busId: string;
  /** For people. */
  readonly text: string;
  readonly sinceBootMs: number;
}

/** Between two rounds. */
export const GPU_CHECK_EVERY_MS = 10_000;
/** Links mend most errors by themselves, and are asked for by two programs more. */
const LINKS_EVERY_MS = 60_000;
/** An hour: what a reset or a reboot has mended is known to be sound by then. */
export const HOLD_MS = 3_600_000;
const SHOWN_FAULTS = 3;

interface HeldXid extends XidWord {
  readonly untilMs: number;
}

interface Seen {
  readonly atMs: number;
  readonly conditions: readonly GpuCondition[];
  /** Nobody says which GPUs there are. */
  readonly isWithoutDriver?: boolean;
  /** Why there is no answer. */
  readonly failure?: string;
}

export function createGpuCheck({
  clock,
  gpus,
  query,
  links,
  linkErrors,
  readLog,
  onNote,
}: GpuCheckPorts): GpuCheck {
  let held: readonly HeldXid[] = [];
  let isFresh = false;
  let seen: Seen = { atMs: -Infinity, conditions: [] };
  let linksAtMs = -Infinity;
  let up: LinksUp = new Map();
  let known: readonly string[] = [];
  let most: LinksUp = new Map();
  let errors: LinkErrors | undefined;
  const read = (): void => {
    const fresh = faultsIn(readLog(), clock.sinceBootMs(), onNote);
    held = [...held, ...fresh].filter(({ untilMs }) => untilMs > clock.sinceBootMs());
    isFresh ||= fresh.length > 0;
  };
  const lookAtLinks = async (nowMs: number): Promise<void> => {
    linksAtMs = nowMs;
    const [status, counters] = await Promise.all([
      links().catch(() => undefined),
      linkErrors().catch(() => undefined),
    ]);
    up = parseNvlinkStatus(status ?? "");
    most = mostLinks(most, up);
    const counted = parseNvlinkErrors(counters ?? "");
    if (errors !== undefined) noteErrors(errors, counted, onNote);
    errors = counted;
  };
  const look = async (): Promise<GpuVerdict> => {
    read();
    const nowMs = clock.elapsedMs();
    const isOver = (atMs: number, everyMs: number): boolean => isFresh || nowMs - atMs >= everyMs;
    if (isOver(seen.atMs, GPU_CHECK_EVERY_MS)) {
      const areLinksDue = isOver(linksAtMs, LINKS_EVERY_MS);
      isFresh = false;
      // At once, because a driver that hangs is waited for by each of them.
      const [asked] = await Promise.all([
        ask(query, nowMs),
        ...(areLinksDue ? [lookAtLinks(nowMs)] : []),
      ]);
      // A driver that was there is missed, as while its package is replaced; without one from the start there is nothing to look at.
      const isMissed = asked.isWithoutDriver === true && known.length > 0;
      const answered = isMissed ? { ...asked, failure: "the driver is there no more" } : asked;
      seen = withLinks(answered, { most, now: up });
    }
    known = [...new Set([...known, ...seen.conditions.map(({ busId }) => busId)])];
    return verdictOf(seen, held, { known, placed: gpus() });
  };
  return {
    look,
    faultsSince: (sinceBootMs) => {
      read();
      return held
        .map(({ busId, xid, untilMs }) => ({
          ...{ busId, text: `GPU ${busId}: ${xidText(xid)}` },
          sinceBootMs: untilMs - HOLD_MS,
        }))
        .filter((fault) => fault.sinceBootMs >= sinceBootMs)
        .sort((a, b) => a.sinceBootMs - b.sinceBootMs);
    },
  };
}

function faultsIn(
  records: readonly KernelRecord[],
  nowMs: number,
  onNote: (note: string) => void,
): readonly HeldXid[] {
  return records.flatMap(({ text, sinceBootMs = nowMs }) => {
    const word = parseXid(text);
    if (word === undefined) return [];
    const kind = xidKind(word.xid);
    if (kind === "hardware") return [{ ...word, untilMs: sinceBootMs + HOLD_MS }];
    onNote(
      `GPU ${word.busId}: ${xidText(word.xid)}, ${kind === "application" ? "the application's" : "no certain fault of the hardware"}: ${word.text}`,
    );
    return [];
  });
}

/** Links mend most errors by themselves, so they drain nothing; many of them tell of a link that will fall. */
function noteErrors(before: LinkErrors, now: LinkErrors, onNote: (note: string) => void): void {
  for (const [gpu, count] of now) {
    const more = count - (before.get(gpu) ?? count);
    if (more > 0)
      onNote(`${gpu}: its NVLinks have counted ${more} errors more since they were last asked`);
  }
}

async function ask(query: GpuCheckPorts["query"], atMs: number): Promise<Seen> {
  try {
    const answer = await query();
    const conditions = answer === undefined ? [] : parseGpuFaults(answer);
    return conditions === undefined
      ? { atMs, conditions: [], failure: "the driver gives an answer of another form" }
      : { atMs, conditions, isWithoutDriver: answer === undefined };
  } catch (error) {
    const [line = ""] = (error instanceof Error ? error.message : String(error)).split("\n");
    return { atMs, conditions: [], failure: `the driver does not answer: ${line}` };
  }
}

const withLinks = (seen: Seen, links: { readonly most: LinksUp; readonly now: LinksUp }): Seen => ({
  ...seen,
  conditions: seen.conditions.map((each) => ({
    ...each,
    beyond: [...each.beyond, ...linksDown(each.uuid, links)],
  })),
});

function verdictOf(
  { conditions, failure, isWithoutDriver = false }: Seen,
  held: readonly HeldXid[],
  { known, placed }: { readonly known: readonly string[]; readonly placed: readonly PlacedGpu[] },
): GpuVerdict {
  const places = placesIn(conditions, placed);
  const missing =
    failure === undefined ? goneIn(conditions, { known, placed, isWithoutDriver }) : [];
  const broken: readonly Found[] = [
    ...(failure === undefined ? [] : [{ text: failure, place: undefined }]),
    ...missing,
    ...held.map(({ busId, xid }) => ({
      text: `GPU ${busId}: ${xidText(xid)}`,
      place: places.get(busId),
      isBeyond: !isOfOneGpu(xid),
    })),
    ...conditions.flatMap(({ busId, faults }) =>
      faults.map((fault) => ({ text: `GPU ${busId}: ${fault}`, place: places.get(busId) })),
    ),
  ];
  const limited: readonly Found[] = conditions.flatMap(({ busId, limits, beyond }) => [
    ...limits.map((limit) => ({ text: `GPU ${busId}: ${limit}`, place: places.get(busId) })),
    ...beyond.map((limit) => ({
      text: `GPU ${busId}: ${limit}`,
      place: places.get(busId),
      isBeyond: true,
    })),
  ]);
  const found = [...broken, ...limited];
  const texts = [...new Set(found.map(({ text }) => text))];
  if (texts.length === 0) return { kind: "passed" };
  const more = texts.length - SHOWN_FAULTS;
  const named = broken.flatMap(({ place }) => place ?? []);
  return {
    kind: "failed",
    why: `${texts.slice(0, SHOWN_FAULTS).join("; ")}${more > 0 ? `; ${more} more` : ""}`,
    gpus: named.length < broken.length ? "all" : [...new Set(named)].sort((a, b) => a - b),
    out: outOf(found),
  };
}

const isShown = ({ goneText }: PlacedGpu): boolean => goneText === undefined;

/** By bus address, as the kernel's log names them. */
function placesIn(
  conditions: readonly GpuCondition[],
  placed: readonly PlacedGpu[],
): ReadonlyMap<string, number> {
  // An answer without one of the GPUs would move the others' places.
  if (placed.length === 0) return new Map(conditions.map(({ busId }, place) => [busId, place]));
  // Those that are gone first: another one may be at their bus address now.
  const inTurn = [...placed].sort((a, b) => Number(isShown(a)) - Number(isShown(b)));
  const places = new Map(inTurn.flatMap(({ busId, place }) => (busId ? [[busId, place]] : [])));
  for (const { busId, uuid } of conditions) {
    const own = placed.find((each) => each.uuid !== undefined && each.uuid === uuid);
    if (own !== undefined) places.set(busId, own.place);
  }
  return places;
}

function goneIn(
  conditions: readonly GpuCondition[],
  {
    known,
    placed,
    isWithoutDriver,
  }: {
    readonly known: readonly string[];
    readonly placed: readonly PlacedGpu[];
    readonly isWithoutDriver: boolean;
  },
): readonly Found[] {
  const busIds = new Set(conditions.map(({ busId }) => busId));
  const uuids = new Set(conditions.map(({ uuid }) => uuid));
  if (placed.length === 0)
    return known.flatMap((busId) =>
      busIds.has(busId) ? [] : [{ text: `GPU ${busId} is gone`, place: undefined }],
    );
  const seen = new Set<number>();
  return placed.flatMap(({ place, busId, uuid, goneText }): readonly Found[] => {
    // Instances of one GPU share its place.
    if (seen.has(place)) return [];
    seen.add(place);
    if (goneText !== undefined) return [{ text: goneText, place }];
    if (isWithoutDriver) return [];
    const isThere = uuid === undefined ? busId && busIds.has(busId) : uuids.has(uuid);
    if (isThere !== false) return [];
    return [{ text: `GPU ${uuid ?? String(busId)} is gone`, place }];
  });
}

interface Found {
  readonly text: string;
  /** Undefined where nobody knows of which GPU. */
  readonly place: number | undefined;
  readonly isBeyond?: boolean;
}

function outOf(found: readonly Found[]): ReadonlyMap<number, string> | "all" {
  const out = new Map<number, string>();
  for (const { text, place, isBeyond = false } of found) {
    if (place === undefined || isBeyond) return "all";
    const former = out.get(place);
    out.set(place, former === undefined ? text : `${former}; ${text}`);
  }
  return out;
}
