/** @file The parts of a fleet's queue that operators hold and release: all of it, a class's, a tenant's. */

import { JOB_CLASSES, type JobClass } from "../job/job.ts";
import { tenantId, type TenantId } from "../values/ids.ts";

export type QueuePart =
  | { readonly kind: "fleet" }
  | { readonly kind: "class"; readonly class: JobClass }
  | { readonly kind: "tenant"; readonly tenant: TenantId };

/** As job files and fleet files name tenants. */
export const TENANT = /^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$/;

/** As messages name it; no two parts have the same name. */
export function queueName(part: QueuePart): string {
  if (part.kind === "fleet") return "the whole fleet";
  return part.kind === "class" ? `class ${part.class}` : `tenant ${part.tenant}`;
}

/** Undefined for anything else. */
export function readQueuePart(value: unknown): QueuePart | undefined {
  if (typeof value !== "object" || value === null || !("kind" in value)) return undefined;
  if (value.kind === "fleet") return { kind: "fleet" };
  if (value.kind === "class" && "class" in value) {
    const found = JOB_CLASSES.find((each) => each === value.class);
    return found && { kind: "class", class: found };
  }
  if (value.kind !== "tenant" || !("tenant" in value)) return undefined;
  const { tenant } = value;
  return typeof tenant === "string" && TENANT.test(tenant)
    ? { kind: "tenant", tenant: tenantId(tenant) }
    : undefined;
}

/** The flags of `orbweaver queue hold` and `release` that name it. */
export function queueFlags(part: QueuePart): string {
  if (part.kind === "fleet") return "";
  return part.kind === "class" ? ` --class ${part.class}` : ` --tenant ${part.tenant}`;
}
