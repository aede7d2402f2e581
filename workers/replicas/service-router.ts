/**
 * @file The line of a service's requests, and the slots of its replicas: each request gets a slot of the replica that `choose-replica.ts` names, or waits.
 *
 * Requests are served in the order in which they came. One whose replica failed before it answered goes to the front again. The line is bounded.
 */

import { busyAfter, chooseReplica, roomAtMs } from "../../planning/serving/choose-replica.ts";
import type { ReplicaTerms } from "../../planning/serving/replica-terms.ts";

export interface RouterLimits {
  /** Requests in line; more are refused. */
  readonly waiting: number;
  /** A request that has waited so long is refused. */
  readonly waitMs: number;
}

/** A replica's place in the router. */
export interface Seat {
  readonly id: string;
  readonly url: string;
  readonly terms: ReplicaTerms;
}

export interface Slot {
  readonly seat: Seat;
  /** To be called once: the request needs the replica no more. */
  readonly release: () => void;
}

export type Taken =
  | { readonly kind: "slot"; readonly slot: Slot }
  | { readonly kind: "full" | "late" | "gone" | "closed" };

export interface Asked {
  /** The beginning of its prompt (`prompt-blocks.ts`). */
  readonly blocks: readonly string[];
  /** Aborted when the client hangs up. */
  readonly signal: AbortSignal;
  /** It had a replica before, which failed. */
  readonly isAgain: boolean;
}

export interface ServiceRouter {
  readonly take: (asked: Asked) => Promise<Taken>;
  /** Requests go to this replica from now on; one of the same id is replaced. */
  readonly open: (seat: Seat) => void;
  /** It gets no further requests; those in service go on. */
  readonly shut: (id: string) => void;
  readonly inServiceOf: (id: string) => number;
  /** `came`: requests since the start. */
  readonly load: () => {
    readonly inService: number;
    readonly waiting: number;
    readonly came: number;
  };
  /** Refuses those in line, and all that come. */
  readonly close: () => void;
}

interface Served {
  seat: Seat;
  isOpen: boolean;
  inService: number;
  busyUntilMs: number;
  readonly seen: PromptMemory;
}

interface Waiting extends Asked {
  readonly settle: (taken: Taken) => void;
}

export function createServiceRouter(limits: RouterLimits): ServiceRouter {
  const served = new Map<string, Served>();
  let line: Waiting[] = [];
  let isClosed = false;
  let came = 0;
  let alarm: NodeJS.Timeout | undefined;

  const routed = () =>
    [...served.values()]
      .filter(({ isOpen }) => isOpen)
      .map((each) => ({
        ...each.seat.terms,
        id: each.seat.id,
        inService: each.inService,
        busyUntilMs: each.busyUntilMs,
        known: each.seen.known,
        each,
      }));
  const slotFor = (blocks: readonly string[]): Slot | undefined => {
    const nowMs = performance.now();
    const found = chooseReplica(routed(), { blocks, nowMs });
    if (found === undefined) return undefined;
    const chosen = found.each;
    chosen.busyUntilMs = busyAfter(found, nowMs);
    chosen.inService += 1;
    chosen.seen.note(blocks);
    let isHeld = true;
    return {
      seat: chosen.seat,
      release: () => {
        if (!isHeld) return;
        isHeld = false;
        chosen.inService -= 1;
        forget(chosen);
        serveLine();
      },
    };
  };
  const forget = ({ seat, isOpen, inService }: Served): void => {
    if (!isOpen && inService === 0) served.delete(seat.id);
  };
  const serveLine = (): void => {
    for (let first = line[0]; first !== undefined; first = line[0]) {
      const slot = slotFor(first.blocks);
      if (slot === undefined) return callAgain();
      line.shift();
      first.settle({ kind: "slot", slot });
    }
  };
  /** When a replica has taken in the prompts that have come, though it has finished no answer. */
  const callAgain = (): void => {
    clearTimeout(alarm);
    const atMs = roomAtMs(routed());
    if (atMs !== undefined) alarm = setTimeout(serveLine, Math.max(1, atMs - performance.now()));
  };
  const waitInLine = (asked: Asked): Promise<Taken> =>
    new Promise((resolve) => {
      const leave = (kind: "late" | "gone"): void => {
        line = line.filter((each) => each !== waiting);
        waiting.settle({ kind });
      };
      const timer = setTimeout(() => leave("late"), limits.waitMs);
      const onGone = (): void => leave("gone");
      const waiting: Waiting = {
        ...asked,
        settle: (taken) => {
          clearTimeout(timer);
          asked.signal.removeEventListener("abort", onGone);
          resolve(taken);
        },
      };
      asked.signal.addEventListener("abort", onGone, { once: true });
      if (asked.isAgain) line.unshift(waiting);
      else line.push(waiting);
      callAgain();
    });

  return {
    take(asked) {
      if (isClosed) return Promise.resolve({ kind: "closed" });
      if (!asked.isAgain) came += 1;
      if (asked.signal.aborted) return Promise.resolve({ kind: "gone" });
      const slot = line.length === 0 || asked.isAgain ? slotFor(asked.blocks) : undefined;
      if (slot !== undefined) return Promise.resolve({ kind: "slot", slot });
      if (line.length >= limits.waiting && !asked.isAgain) return Promise.resolve({ kind: "full" });
      return waitInLine(asked);
    },
    open(seat) {
      const known = served.get(seat.id);
      if (known === undefined)
        served.set(seat.id, {
          seat,
          isOpen: true,
          inService: 0,
          busyUntilMs: 0,
          seen: promptMemory(),
        });
      else {
        // Another run of the job has other memory.
        if (known.seat.url !== seat.url) known.seen.clear();
        Object.assign(known, { seat, isOpen: true });
      }
      serveLine();
    },
    shut(id) {
      const known = served.get(id);
      if (known === undefined) return;
      known.isOpen = false;
      forget(known);
    },
    inServiceOf: (id) => served.get(id)?.inService ?? 0,
    load: () => ({
      inService: [...served.values()].reduce((sum, { inService }) => sum + inService, 0),
      waiting: line.length,
      came,
    }),
    close() {
      isClosed = true;
      clearTimeout(alarm);
      const all = line;
      line = [];
      for (const each of all) each.settle({ kind: "closed" });
    },
  };
}

interface PromptMemory {
  readonly known: (blocks: readonly string[]) => number;
  readonly note: (blocks: readonly string[]) => void;
  readonly clear: () => void;
}

/** Blocks of a replica that are remembered; the least lately used are forgotten first. */
const MOST_REMEMBERED = 8_192;

function promptMemory(): PromptMemory {
  const seen = new Set<string>();
  return {
    known: (blocks) => {
      const unknown = blocks.findIndex((block) => !seen.has(block));
      return unknown === -1 ? blocks.length : unknown;
    },
    note: (blocks) => {
      for (const block of blocks) {
        seen.delete(block);
        seen.add(block);
      }
      for (const oldest of seen) {
        if (seen.size <= MOST_REMEMBERED) break;
        seen.delete(oldest);
      }
    },
    clear: () => seen.clear(),
  };
}
