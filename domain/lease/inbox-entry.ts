/** @file The entries of a fleet's inbox, from jobs, agents, models, link monitors and lobbies. */

import type { SiteLink } from "../fleet/site-link.ts";
import type { ClusterId, HostId, JobId, LeaseId, RunId, Token } from "../values/ids.ts";
import type { GangRequest, HostGpus, LeaseFact } from "./lease.ts";
import type { LobbyReport } from "./lobby.ts";

/** Where the orders for a host go. The epoch is part of the queues' names, so stale tasks die in old queues. */
export interface AgentAddress {
  readonly epoch: string;
  readonly runQueue: string;
  readonly orderQueue: string;
  /** The address to which other hosts of a gang connect. */
  readonly address: string;
}

export interface ServingModel {
  readonly version: string;
  /** Counts publications for the cluster: a late entry about an earlier one changes nothing. */
  readonly generation: number;
}

/** Each entry is one fact and is idempotent against the current ledger. */
export type InboxEntry =
  | { readonly kind: "request"; readonly request: GangRequest }
  /** Ends `seq` and all requests of the job before it: releases their leases, drops and refuses the requests. */
  | {
      readonly kind: "end";
      readonly jobId: JobId;
      readonly runId: RunId;
      readonly seq: number;
      /** Hosts that have not confirmed that nothing runs there: their GPUs stay taken (`vacating`). */
      readonly unconfirmedHosts: readonly HostId[] | "all";
      /** Ends only this lease and no request: one part of a job array is done. */
      readonly lease?: LeaseId;
      /** The job will ask again for what it now gives up: its next request keeps its place. */
      readonly returns?: true;
      /** A host of its gang is lost: for so long its other GPUs are kept for it while a replacement is found. */
      readonly keepMs?: number;
      /** To a fleet that has lost its ledger: those other GPUs, which no ledger can know any more. */
      readonly kept?: readonly HostGpus[];
    }
  /** A job runs on this lease; sent to a fleet that has lost its ledger or has not confirmed the lease. */
  | { readonly kind: "assert"; readonly lease: LeaseFact }
  /** An agent serves hosts and reports its runs and the highest token that it has seen. Repeated after a silence. */
  | {
      readonly kind: "agent-registered";
      readonly hosts: readonly HostId[];
      readonly agent: AgentAddress;
      readonly running: readonly {
        readonly host: HostId;
        readonly lease: LeaseId;
        readonly token: Token;
        /** The whole lease, as the agent's order described it. */
        readonly fact?: LeaseFact;
      }[];
      readonly highestToken: number;
      /** The agreed terms of silence; absent for agents that do not know of presence. */
      readonly terms?: { readonly fenceMs?: number };
      /** When its presence told it: grows with each word, so that a late copy is known. Absent of presences that do not date their words. */
      readonly toldAtMs?: number;
    }
  /** The agent of that epoch does not answer. */
  | {
      readonly kind: "silence";
      readonly hosts: readonly HostId[];
      readonly epoch: string;
      readonly toldAtMs?: number;
    }
  /** An agent ends on purpose: its hosts are not offered until an agent registers them again. */
  | {
      readonly kind: "agent-deregistered";
      readonly hosts: readonly HostId[];
      readonly epoch: string;
      readonly toldAtMs?: number;
    }
  /** Completed checkpoints, reported by agents in batches. */
  | {
      readonly kind: "checkpointed";
      readonly marks: readonly { readonly lease: LeaseId; readonly atMs: number }[];
    }
  /** From now on this version of the bandwidth model serves in the cluster. */
  | ({ readonly kind: "model"; readonly cluster: ClusterId } & ServingModel)
  /** The link monitor has news of these links between sites. */
  | { readonly kind: "links"; readonly links: readonly SiteLink[] }
  /** A host has confirmed that nothing runs under this lease any more. */
  | { readonly kind: "vacated"; readonly lease: LeaseId; readonly hosts: readonly HostId[] }
  /** How many wait in a lobby, and the credits that it gives back. */
  | ({ readonly kind: "lobby" } & LobbyReport);

const KINDS: Readonly<Record<InboxEntry["kind"], true>> = {
  request: true,
  end: true,
  assert: true,
  "agent-registered": true,
  silence: true,
  "agent-deregistered": true,
  checkpointed: true,
  model: true,
  links: true,
  vacated: true,
  lobby: true,
};

/** Whether an entry could have this kind. */
export const isInboxKind = (kind: unknown): kind is InboxEntry["kind"] =>
  typeof kind === "string" && Object.hasOwn(KINDS, kind);
