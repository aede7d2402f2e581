/** @file How a host looks up the secrets of an order. `agent/system/host-secrets.ts` is the real way. */

import type { RunOrder } from "../../protocol/agent-contract.ts";

/** By variable. */
export type SecretValues = Readonly<Record<string, string>>;

export type SecretReading =
  | { readonly kind: "read"; readonly values: SecretValues }
  /** Says which secret and why, and nothing of its value. */
  | { readonly kind: "unavailable"; readonly why: string };

/** Bounded in time; ends early when the signal comes. Never fails. */
export type ReadSecrets = (order: RunOrder, signal: AbortSignal) => Promise<SecretReading>;
