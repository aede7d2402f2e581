/**
 * @file The health file of a machine: which programs its agent runs to check its hosts, again and again and around each launch, and whether hosts that fail
 * whatever they are given are set aside.
 *
 * It names programs that run as the agent's user, often root. So it lies on the machine and belongs to root or the agent's user; a fleet's
 * description, which comes over the network, cannot name one.
 */

import { existsSync } from "node:fs";
import { parse } from "yaml";
import { z } from "zod";
import { readOwnedFile } from "../access/owned-file.ts";
import { LEASE_MOMENTS, type LeaseChecks } from "../agent/health/lease-checks.ts";
import type { HealthCheck } from "../agent/health/health-checks.ts";
import { duration } from "../domain/file/schema-leaf.ts";
import { OrbweaverError } from "../domain/values/failure.ts";

export interface HealthRules extends LeaseChecks {
  readonly check?: HealthCheck;
  readonly isSetAside: boolean;
  /** Whether the agent itself looks at the GPUs that the driver shows. */
  readonly isGpuChecked: boolean;
}

/** Names another file than the machine's. */
export const HEALTH_VARIABLE = "ORBWEAVER_HEALTH";
const HEALTH_FILE = "/etc/orbweaver/health.yaml";
const DEFAULTS = Object.freeze({
  everyMs: 60_000,
  timeoutMs: 30_000,
  leaseTimeoutMs: 30_000,
  isSetAside: true,
  isGpuChecked: true,
});

/** Longer ones are mistakes: no check takes minutes by the dozen, and timers hold no month. */
const LONGEST = Object.freeze({ everyMs: 86_400_000, timeoutMs: 600_000, leaseTimeoutMs: 60_000 });

const time = (description: string) => duration({ description, examples: ["1m"] }).optional();

const program = z.array(z.string().min(1)).min(1).optional();

const healthSchema = z.strictObject({
  check: program,
  prologue: program,
  epilogue: program,
  leaseTimeout: time("Longest time of a prologue or an epilogue."),
  every: time("Pause between two checks."),
  timeout: time("Longest time of a check."),
  setAside: z.boolean().optional(),
  gpus: z.boolean().optional(),
});

/** Throws BAD_INPUT when the file is wrong, when a named one is missing, or when others may write it. */
export function readHealthRules(env: Readonly<Record<string, string | undefined>>): HealthRules {
  const named = env[HEALTH_VARIABLE];
  const file = named ?? HEALTH_FILE;
  if (named === undefined && !existsSync(file)) {
    const { isSetAside, isGpuChecked } = DEFAULTS;
    return { isSetAside, isGpuChecked };
  }
  const wrong = (why: string): OrbweaverError =>
    new OrbweaverError("BAD_INPUT", `the health file ${file} cannot be used: ${why}`);
  let value: unknown;
  try {
    value = parse(readOwnedFile(file));
  } catch (error) {
    throw wrong(error instanceof Error ? error.message : String(error));
  }
  const parsed = healthSchema.safeParse(value ?? {});
  if (!parsed.success) throw wrong(z.prettifyError(parsed.error));
  const { check, every, timeout, setAside, leaseTimeout, gpus, ...around } = parsed.data;
  if (check === undefined && (every ?? timeout) !== undefined)
    throw wrong("every and timeout say nothing without check. Name a program, or leave them out.");
  if ((every ?? 0) > LONGEST.everyMs) throw wrong("every is longer than a day. Check more often.");
  if ((timeout ?? 0) > LONGEST.timeoutMs)
    throw wrong("timeout is longer than 10m. Name a program that takes less.");
  const moments = LEASE_MOMENTS.flatMap((moment) => {
    const command = around[moment];
    const timeoutMs = leaseTimeout ?? DEFAULTS.leaseTimeoutMs;
    return command === undefined ? [] : [[moment, { command, timeoutMs }] as const];
  });
  if (moments.length === 0 && leaseTimeout !== undefined)
    throw wrong(
      "leaseTimeout says nothing without prologue or epilogue. Name a program, or leave it out.",
    );
  if ((leaseTimeout ?? 0) > LONGEST.leaseTimeoutMs)
    throw wrong(
      "leaseTimeout is longer than 1m. A gang waits for it; name a program that takes less.",
    );
  return {
    ...Object.fromEntries(moments),
    ...(check !== undefined && {
      check: {
        command: check,
        everyMs: every ?? DEFAULTS.everyMs,
        timeoutMs: timeout ?? DEFAULTS.timeoutMs,
      },
    }),
    isSetAside: setAside ?? DEFAULTS.isSetAside,
    isGpuChecked: gpus ?? DEFAULTS.isGpuChecked,
  };
}
