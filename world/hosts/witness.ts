/** @file Who hears of what runs on hosts, and how that would end by itself. Types. */

import type { RunOrder } from "../../protocol/agent-contract.ts";
import type { HostId, LeaseId } from "../../domain/values/ids.ts";
import type { Tokens } from "./disk.ts";

/** How the processes of a launch would end by themselves. */
export interface Fate {
  readonly afterMs: number;
  readonly isGood: boolean;
}

/** How long a host was cut off when it ended what ran there, by the world's own clock, and its fence. */
export interface Silenced {
  readonly forMs: number;
  readonly fenceMs: number;
}

/** Who hears of processes: the checker. */
export interface Witness {
  /** The host does not know any more what it was told and what it has started. */
  readonly forgot: (host: HostId) => void;
  /** The same of one launch. */
  readonly lost: (host: HostId, launch: string) => void;
  /** Its tokens cannot be read any more. */
  readonly unlearnt: (host: HostId) => void;
  /** A new agent has read its tokens. */
  readonly loaded: (host: HostId, tokens: Tokens) => void;
  /** It has ended what runs there, because it was cut off for so long. */
  readonly cutOff: (host: HostId, silence: Silenced) => void;
  readonly prepared: (host: HostId, order: RunOrder) => void;
  /** An order to stop was answered: nothing of the lease runs there, or ever will. */
  readonly stopped: (host: HostId, lease: LeaseId) => void;
  readonly started: (host: HostId, order: RunOrder) => void;
  readonly ended: (host: HostId, order: RunOrder, how: "completed" | "failed" | "killed") => void;
  readonly taskStarted: (host: HostId, order: RunOrder, task: number) => void;
  readonly taskEnded: (
    host: HostId,
    of: { readonly order: RunOrder; readonly task: number },
    how: "completed" | "failed" | "stopped",
  ) => void;
}
