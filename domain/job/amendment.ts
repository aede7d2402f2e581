/**
 * @file Changes a job that has been submitted: which of its settings may change, and whether what comes out could have been submitted.
 *
 * Shapes of a gang that no longer lie between `min` and `gpus` are dropped. Cost: O(shapes).
 */

import { shown } from "../values/file-problem.ts";
import { tenantId, type TenantId } from "../values/ids.ts";
import { ms, type Ms } from "../values/units.ts";
import { MAX_GANG_GPUS, MAX_PRIORITY, type Gang, type JobSpec } from "./job.ts";

/** What is to be different; absent: as before. */
export interface JobChanges {
  /** −1000 to 1000. */
  readonly priority?: number;
  readonly tenant?: TenantId;
  readonly timeLimitMs?: Ms;
  /** After the submission. */
  readonly deadlineMs?: Ms;
  /** `gang.min` and `gang.gpus`. */
  readonly min?: number;
  readonly max?: number;
}

/** One setting before and after, as a job file writes it; `before` is absent where there was none. */
export interface ChangedSetting {
  readonly setting: keyof JobChanges;
  readonly before?: string | number;
  readonly after: string | number;
}

/** Made known by the job to whoever looks at it. */
export interface Amendment {
  readonly atMs: number;
  /** Its author's own word. */
  readonly by: string;
  readonly changes: readonly ChangedSetting[];
}

/** A name is checked in full where it is written. */
const TENANT = /^\S{1,200}$/;

export type Amended =
  | {
      readonly kind: "amended";
      readonly spec: JobSpec;
      /** Empty where all settings were so before. */
      readonly changes: readonly ChangedSetting[];
    }
  | { readonly kind: "refused"; readonly problem: string };

/** The job's settings that `amendSpec` may change, in the order in which they are shown. */
const SETTINGS = [
  "priority",
  "tenant",
  "timeLimitMs",
  "deadlineMs",
  "min",
  "max",
] as const satisfies readonly (keyof JobChanges)[];

export function amendSpec(spec: JobSpec, changes: JobChanges): Amended {
  const { priority, tenant, timeLimitMs, deadlineMs, min, max } = changes;
  if (spec.array !== undefined && (min ?? max) !== undefined)
    return refused("all tasks of an array have gang.gpus, which stays. Submit another array.");
  const gang = gangWith(spec.gang, changes);
  if (gang.min > gang.gpus)
    return refused(
      `the gang would be of ${String(gang.min)} to ${String(gang.gpus)} GPUs. Keep min at most max.`,
    );
  const amended: JobSpec = {
    ...spec,
    ...(priority !== undefined && { priority }),
    ...(tenant !== undefined && { tenant }),
    ...(timeLimitMs !== undefined && { timeLimitMs }),
    ...(deadlineMs !== undefined && { deadlineMs }),
    gang,
  };
  const changed = SETTINGS.flatMap((setting): readonly ChangedSetting[] => {
    const before = valueOf(spec, setting);
    const after = valueOf(amended, setting);
    if (after === undefined || before === after) return [];
    return [{ setting, ...(before !== undefined && { before }), after }];
  });
  return { kind: "amended", spec: changed.length === 0 ? spec : amended, changes: changed };
}

/** The changes that a message asks for, or what is wrong with them. */
export function readChanges(
  value: unknown,
): { readonly changes: JobChanges } | { readonly problem: string } {
  if (typeof value !== "object" || value === null) return { problem: "there are no changes" };
  const fields = new Map(Object.entries(value));
  const unknown = [...fields.keys()].find((name) => !SETTINGS.some((each) => each === name));
  if (unknown !== undefined) return { problem: `${shown(unknown)} cannot be changed` };
  const whole = (name: keyof JobChanges, least: number, most: number): string | undefined => {
    const found = fields.get(name);
    const isFit =
      found === undefined ||
      (typeof found === "number" && Number.isInteger(found) && found >= least && found <= most);
    return isFit
      ? undefined
      : `${name} ${shown(found)} is not a whole number from ${String(least)} to ${String(most)}`;
  };
  const tenant = fields.get("tenant");
  const problem =
    whole("priority", -MAX_PRIORITY, MAX_PRIORITY) ??
    whole("min", 1, MAX_GANG_GPUS) ??
    whole("max", 1, MAX_GANG_GPUS) ??
    whole("timeLimitMs", 1, Number.MAX_SAFE_INTEGER) ??
    whole("deadlineMs", 1, Number.MAX_SAFE_INTEGER) ??
    (tenant === undefined || (typeof tenant === "string" && TENANT.test(tenant))
      ? undefined
      : `${shown(tenant)} is no name of a tenant`);
  if (problem !== undefined) return { problem };
  const number = (name: keyof JobChanges): number | undefined => {
    const found = fields.get(name);
    return typeof found === "number" ? found : undefined;
  };
  const [priority, min, max] = [number("priority"), number("min"), number("max")];
  const [timeLimitMs, deadlineMs] = [number("timeLimitMs"), number("deadlineMs")];
  return {
    changes: {
      ...(priority !== undefined && { priority }),
      ...(typeof tenant === "string" && { tenant: tenantId(tenant) }),
      ...(timeLimitMs !== undefined && { timeLimitMs: ms(timeLimitMs) }),
      ...(deadlineMs !== undefined && { deadlineMs: ms(deadlineMs) }),
      ...(min !== undefined && { min }),
      ...(max !== undefined && { max }),
    },
  };
}

function gangWith(gang: Gang, { min, max }: JobChanges): Gang {
  if (min === undefined && max === undefined) return gang;
  const gpus = max ?? gang.gpus;
  // A gang that could not shrink still cannot.
  const least = min ?? (gang.min === gang.gpus ? gpus : gang.min);
  const { shapes, ...rest } = gang;
  if (shapes === undefined) return { ...rest, gpus, min: least };
  const fitting = shapes.filter((shape) => shape >= least && shape < gpus);
  return { ...rest, gpus, min: least > gpus ? least : (fitting.at(-1) ?? gpus), shapes: fitting };
}

function valueOf(spec: JobSpec, setting: keyof JobChanges): string | number | undefined {
  switch (setting) {
    case "min":
      return spec.gang.min;
    case "max":
      return spec.gang.gpus;
    default:
      return spec[setting];
  }
}

const refused = (problem: string): Amended => ({ kind: "refused", problem });
