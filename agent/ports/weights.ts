/** @file The memory of a host in which services of one tenant leave the weights of their models for later ones. */

import type { KeptWeights } from "../../domain/lease/kept-weights.ts";

export interface WeightsPool {
  /** Of all tenants together. */
  readonly budgetBytes: number;
  /** The folder of a tenant's launches that run as this user, by default the agent's. Undefined where it cannot be made. Never throws. */
  area(tenant: string, uid?: number): string | undefined;
  /** Removes what was used least lately until the budget is kept. Never throws. */
  trim(nowMs: number): void;
  /** What is there now. */
  use(): KeptWeights;
}
