/** @file Whose jobs this machine's hosts start, by the flags of an agent or of `up`; a policy of the machine comes before both. */

import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { readHostPolicy, type HostTrust } from "../../access/host-trust.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { ownUserTrust } from "../../workers/submitter-check.ts";
import type { Io } from "../terminal/io.ts";

export const TRUST_NAMES = ["own-user", "namespace"] as const;
export type TrustName = (typeof TRUST_NAMES)[number];

/** Belongs to the machine's administrator, who has the last word. */
export const HOST_POLICY_FILE = "/etc/orbweaver/agent.yaml";

export interface TrustFlags {
  readonly trust?: TrustName;
  readonly policy?: string;
}

/** Throws BAD_INPUT where flags contradict each other or the machine's policy. */
export function hostTrust(
  { trust, policy }: TrustFlags,
  { cwd }: Pick<Io, "cwd">,
  machinePolicy: string = HOST_POLICY_FILE,
): HostTrust {
  const hasMachinePolicy = existsSync(machinePolicy);
  if (hasMachinePolicy && (trust !== undefined || policy !== undefined)) {
    throw new OrbweaverError(
      "BAD_INPUT",
      `${machinePolicy} says whose jobs this machine starts. Leave out --trust and --policy.`,
    );
  }
  if (trust !== undefined && policy !== undefined)
    throw new OrbweaverError("BAD_INPUT", "--policy says more than --trust. Give one of them.");
  if (trust === "namespace") return { kind: "namespace" };
  const file = hasMachinePolicy ? machinePolicy : policy;
  if (file === undefined) return ownUserTrust();
  const path = resolve(cwd, file);
  return { kind: "policy", file: path, policy: readHostPolicy(path) };
}
