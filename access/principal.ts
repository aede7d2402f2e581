/**
 * @file Who asks the submit service, and what they may do there, by `access:` of the fleet file.
 *
 * Nothing is allowed that no grant allows. The user who runs the service is an operator, because the keys are that user's. Grants add up: each
 * is judged whole, so the tenants of one do not combine with the classes of another.
 */

import { EVERYBODY, type Access, type Grant, type Role } from "../domain/fleet/access-schema.ts";
import type { JobSpec } from "../domain/job/job.ts";

export interface Principal {
  /** A name of `principals`, of a user of this machine, or `ISSUER:SUBJECT` of a token whose subject has no name here. */
  readonly name: string;
  /** How it was known: `socket`, `token:ISSUER` or `certificate`. */
  readonly via: string;
  /** The user who runs the service. */
  readonly isOwner: boolean;
  /** Groups of its token that `access` knows, too. */
  readonly groups: readonly string[];
}

export interface Rights {
  readonly roles: readonly Role[];
  readonly grants: readonly Grant[];
}

/** What is known of a job that somebody asks about. */
export interface JobOwnership {
  /** Undefined where no proof that this service believes names the submitter. */
  readonly user: string | undefined;
  readonly tenant: string | undefined;
}

/** `see`: status and reasons. `read`: also environment and output. `change`: cancel, hold, release, retry. */
export type JobAct = "see" | "read" | "change";

export function rightsOf({ name, isOwner, groups }: Principal, access: Access): Rights {
  const member = (access.groups ?? []).filter(
    (group) => groups.includes(group.name) || group.members?.includes(name) === true,
  );
  // A subject without a name here has a colon in its name, which no name of the file has.
  const names = new Set([name, EVERYBODY, ...member.map((group) => group.name)]);
  const grants = (access.grants ?? []).filter(({ to }) => to.some((each) => names.has(each)));
  const roles = new Set<Role>(grants.map(({ role }) => role));
  if (isOwner) roles.add("operator");
  return { roles: [...roles].sort(), grants };
}

/** Why the principal may not submit the job; undefined when it may. */
export function submitRefusal(
  { name }: Principal,
  { roles, grants }: Rights,
  spec: Pick<JobSpec, "tenant" | "class" | "priority" | "constraints">,
): string | undefined {
  if (roles.includes("operator")) return undefined;
  const ofUsers = grants.filter(({ role }) => role === "user");
  const tenants = [...new Set(ofUsers.flatMap((grant) => grant.tenants ?? []))];
  if (tenants.length === 0) return `${name} may not submit jobs`;
  const ofTenant = ofUsers.filter((grant) => grant.tenants?.includes(spec.tenant) === true);
  if (ofTenant.length === 0)
    return `${name} may submit for ${tenants.join(", ")}, not for tenant ${spec.tenant}`;
  const reasons = ofTenant.map((grant) => limitRefusal(name, grant, spec));
  return reasons.includes(undefined) ? undefined : reasons[0];
}

/** Why the principal may submit no job at all; undefined when it may submit some. */
export const senderRefusal = (
  { name }: Principal,
  { roles, grants }: Rights,
): string | undefined =>
  roles.includes("operator") ||
  grants.some(({ role, tenants = [] }) => role === "user" && tenants.length > 0)
    ? undefined
    : `${name} may not submit jobs`;

function limitRefusal(
  name: string,
  { classes, priority, gpuTypes }: Grant,
  spec: Pick<JobSpec, "tenant" | "class" | "priority" | "constraints">,
): string | undefined {
  const may = `for ${spec.tenant} ${name} may ask for`;
  if (classes?.includes(spec.class) === false)
    return `${may} class ${classes.join(", ")}, not ${spec.class}`;
  if (priority !== undefined && spec.priority > priority)
    return `${may} priority ${String(priority)} at most, not ${String(spec.priority)}`;
  if (gpuTypes === undefined) return undefined;
  const asked = spec.constraints.gpuTypes;
  if (asked === undefined)
    return `${may} GPUs of type ${gpuTypes.join(", ")}, and the job names no type (constraints.gpuTypes)`;
  const other = asked.find((type) => !gpuTypes.includes(type));
  return other === undefined
    ? undefined
    : `${may} GPUs of type ${gpuTypes.join(", ")}, not ${other}`;
}

/** Why the principal may not have these fleets run its job; undefined when it may. `home` is the fleet whose `access:` is asked: it says nothing of others. */
export function fleetsRefusal(
  { name }: Principal,
  { roles }: Rights,
  { home, fleets }: { readonly home: string; readonly fleets: readonly string[] },
): string | undefined {
  if (roles.includes("operator")) return undefined;
  const other = fleets.find((each) => each !== home);
  return other === undefined
    ? undefined
    : `${name} may not submit to fleet ${other} here: only operators of ${home} may. Ask the submit service of ${other}, or leave fleets out`;
}

/** Why the principal may not do this with the job; undefined when it may. */
export function jobRefusal(
  { name }: Principal,
  { roles, grants }: Rights,
  { act, job }: { readonly act: JobAct; readonly job: JobOwnership },
): string | undefined {
  if (roles.includes("operator")) return undefined;
  if (act === "see" && roles.includes("viewer")) return undefined;
  // Its tenant may have been taken from it since; what it sees and ends is its own all the same.
  if (job.user === name) return undefined;
  const covers = ({ role, jobs, tenants = [] }: Grant): boolean =>
    role === "user" && jobs === "tenant" && tenants.some((tenant) => tenant === job.tenant);
  if (grants.some(covers)) return undefined;
  const verb = { see: "see", read: "read", change: "change" }[act];
  const whose =
    job.user === undefined ? "a job whose submitter is not known" : `a job of ${job.user}`;
  return `${name} may not ${verb} ${whose}`;
}

/** Why the principal may not ask a service of this tenant, or look at its counts; undefined when it may. */
export function serviceRefusal(
  { name }: Principal,
  { roles, grants }: Rights,
  { act, tenant }: { readonly act: "ask" | "look"; readonly tenant: string },
): string | undefined {
  if (roles.includes("operator") || (act === "look" && roles.includes("viewer"))) return undefined;
  const isOfTenant = grants.some(
    ({ role, tenants = [] }) => role === "user" && tenants.some((each) => each === tenant),
  );
  return isOfTenant
    ? undefined
    : `${name} may not ${act === "ask" ? "ask" : "look at"} services of ${tenant}`;
}

/** Whether it may see jobs of others. */
export const seesOthers = ({ roles, grants }: Rights): boolean =>
  roles.some((role) => role !== "user") ||
  grants.some(({ role, jobs }) => role === "user" && jobs === "tenant");

/** Why the principal may not give orders about hosts; undefined when it may. */
export const operatorRefusal = (
  { name }: Principal,
  { roles }: Rights,
  what: string,
): string | undefined =>
  roles.includes("operator") ? undefined : `${name} may not ${what}: only operators may`;

/** Why the principal may not look at the fleet and its queue; undefined when it may. */
export const fleetRefusal = ({ name }: Principal, { roles }: Rights): string | undefined =>
  roles.length > 0 ? undefined : `no grant of access names ${name}`;
