/**
 * @file How an agent of the world writes to its host's disk: a disk that is full or read-only takes nothing new, a slow one takes long, and what was not
 * written is lost with the agent.
 */

import type { Kernel } from "../kernel/kernel.ts";
import { sleep, type Task } from "../kernel/process.ts";
import type { AgentRules } from "./agent-rules.ts";
import { copyOf, type DiskState, type Tokens } from "./disk.ts";

/** The agent's own copy. */
interface HasTokens {
  tokens: Tokens | undefined;
}

export interface DiskWrites {
  readonly state: () => DiskState;
  readonly set: (disk: DiskState) => void;
  readonly takesFiles: () => boolean;
  /** At once, or when the disk has room again; never once the machine has lost power. */
  readonly whenItTakes: (write: () => void) => void;
  readonly losePower: () => void;
  /** Changes the agent's own copy at once. False where the disk does not take it. */
  readonly changeTokens: (change: (tokens: Tokens) => void) => Task<boolean>;
  /** A new agent has what the disk has. */
  readonly load: () => void;
  /** What was under way for the tokens is gone with them. */
  readonly loseTokens: () => void;
}

/** Of a durable write to a slow disk. */
const SLOW_MS = 1_500;

export function createDiskWrites(
  kernel: Kernel,
  { waitsForDisk }: Pick<AgentRules, "waitsForDisk">,
  host: () => HasTokens,
): DiskWrites {
  let disk: DiskState = "well";
  /** What the disk has, where that is not what the agent has. */
  let durable: Tokens | undefined;
  let written = 0;
  let begun = 0;
  let waiting: (() => void)[] = [];
  const takesFiles = (): boolean => disk === "well" || disk === "slow";

  function* changeTokens(change: (tokens: Tokens) => void): Task<boolean> {
    const { tokens } = host();
    if (tokens === undefined) return false;
    if (disk === "well" && durable === undefined) {
      change(tokens);
      return true;
    }
    durable ??= copyOf(tokens);
    change(tokens);
    begun += 1;
    const own = begun;
    const next = copyOf(tokens);
    if (!waitsForDisk) return true;
    if (disk === "slow") yield* sleep(kernel, kernel.random.exponential(SLOW_MS));
    if (!takesFiles()) return false;
    if (own > written) {
      written = own;
      durable = own === begun ? undefined : next;
    }
    return true;
  }

  const settle = (): void => {
    durable = undefined;
    written = begun;
  };

  return {
    state: () => disk,
    set: (next) => {
      disk = next;
      if (!takesFiles()) return;
      const writes = waiting;
      waiting = [];
      for (const write of writes) write();
    },
    takesFiles,
    whenItTakes: (write) => {
      if (takesFiles()) write();
      else waiting.push(write);
    },
    losePower: () => {
      waiting = [];
    },
    changeTokens,
    load: () => {
      if (durable !== undefined) host().tokens = durable;
      settle();
    },
    loseTokens: () => {
      host().tokens = undefined;
      settle();
    },
  };
}
