/** @file What all agents of a world share. Types. */

import type { HostId } from "../../domain/values/ids.ts";
import type { RunOrder } from "../../protocol/agent-contract.ts";
import type { Site } from "../shells/site.ts";
import type { AgentRules } from "./agent-rules.ts";
import type { Host } from "./host.ts";
import type { Fate, Witness } from "./witness.ts";

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
  /** Something that is wrong with the host itself: it refuses to start anything. */
  readonly isRefusing: (host: HostId) => boolean;
}
