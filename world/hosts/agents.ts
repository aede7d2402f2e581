/** @file What all agents of a world share. Types. */

import type { HostId } from "../../domain/values/ids.ts";
import type { HostGpus } from "../../domain/lease/lease.ts";
import type { RunOrder } from "../../protocol/agent-contract.ts";
import type { Process, Task } from "../kernel/process.ts";
import type { Site } from "../shells/site.ts";
import type { AgentRules } from "./agent-rules.ts";
import type { Host } from "./host.ts";
import type { Fate, Witness } from "./witness.ts";

/** Of an agent: by no drain, or by its own. */
export type GpuOrder =
  | { readonly kind: "drain-gpus"; readonly reason: string; readonly isNew: true }
  | { readonly kind: "undrain-gpus"; readonly of: string };

/** All agents of a world. */
export interface Agents {
  readonly site: () => Site;
  readonly fleet: string;
  readonly hosts: ReadonlyMap<HostId, Host>;
  readonly rules: AgentRules;
  readonly witness: Witness;
  /** Orders to run that a host has taken up, in their order. */
  readonly taken: RunOrder[];
  /** Of a task, where the order is of a batch; it counts its starts. */
  readonly fateOf: (order: RunOrder, task?: number) => Fate;
  /** Returns once the fleet has taken or refused it. */
  readonly orderGpus: (
    from: Process,
    order: GpuOrder & { readonly gpus: readonly HostGpus[] },
  ) => Task<void>;
  /** Whether the agents look after single GPUs: in most worlds none breaks. */
  readonly mayBreakGpus: boolean;
  /** Something that is wrong with the host itself: it refuses to start anything. */
  readonly isRefusing: (host: HostId) => boolean;
}
