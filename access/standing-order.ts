/**
 * @file The standing signature of a submit service: that this principal had the right to have these jobs submitted again and again. It has no end; the
 * service revokes it by its number, and asks for the principal's rights anew each time.
 */

import { z } from "zod";
import { OrbweaverError } from "../domain/values/failure.ts";
import { contentHash } from "./job-proof.ts";
import { parsePublicKey, type Identity } from "./own-identity.ts";
import type { Principal } from "./principal.ts";
import { openText, signText, type OpenedText } from "./signed-text.ts";

export interface StandingOrder {
  readonly fleet: string;
  /** The schedule. */
  readonly cron: string;
  readonly principal: Principal;
  /** By which it is revoked. */
  readonly number: string;
}

const claimsSchema = z.object({
  kind: z.literal("cron"),
  fleet: z.string(),
  cron: z.string(),
  hash: z.string(),
  number: z.string(),
  who: z.object({
    name: z.string(),
    via: z.string(),
    isOwner: z.boolean(),
    groups: z.array(z.string()),
  }),
});

/** Throws BAD_INPUT where it could never be proven, for the groups that the principal came with. */
export function signStandingOrder(
  { fleet, cron, principal: who, number }: StandingOrder,
  terms: object,
  { privateKey }: Pick<Identity, "privateKey">,
): string {
  const claims = { kind: "cron", fleet, cron, hash: contentHash(terms), number, who };
  const order = signText(claims, privateKey);
  if (openText(order, claimsSchema) === undefined)
    throw new OrbweaverError(
      "BAD_INPUT",
      `the standing signature would be ${String(order.length)} characters long, more than can be proven: ${who.name} is in ${String(who.groups.length)} groups. Use a token that names fewer.`,
    );
  return order;
}

/** What lists say of a schedule. */
export interface CronLabel {
  readonly fleet: string;
  readonly cron: string;
  readonly user: string;
  readonly tenant: string;
}

const labelSchema = z.object({
  kind: z.literal("cron-label"),
  fleet: z.string(),
  cron: z.string(),
  user: z.string(),
  tenant: z.string(),
});

/** By which lists tell the service's own from those of whoever reaches the frontend, without asking for each. It starts nothing. */
export const signCronLabel = (
  { fleet, cron, user, tenant }: CronLabel,
  { privateKey }: Pick<Identity, "privateKey">,
): string => signText({ kind: "cron-label", fleet, cron, user, tenant }, privateKey);

/** Undefined where none of these keys has signed it, or for another schedule. */
export function provenCronLabel(
  label: unknown,
  { fleet, cron }: Pick<CronLabel, "fleet" | "cron">,
  keys: readonly string[],
): CronLabel | undefined {
  const opened = openText(label, labelSchema);
  if (opened?.claims.fleet !== fleet || opened.claims.cron !== cron) return undefined;
  return isSignedByOne(opened, keys) ? opened.claims : undefined;
}

/** Undefined where none of these keys has signed it, or not for these terms. */
export function provenStandingOrder(
  order: unknown,
  terms: object,
  keys: readonly string[],
): StandingOrder | undefined {
  const opened = openText(order, claimsSchema);
  if (opened?.claims.hash !== contentHash(terms)) return undefined;
  return isSignedByOne(opened, keys) ? orderIn(opened.claims) : undefined;
}

const isSignedByOne = (
  opened: Pick<OpenedText<unknown>, "isSignedBy">,
  keys: readonly string[],
): boolean =>
  keys.some((text) => {
    const key = parsePublicKey(text);
    return key !== undefined && opened.isSignedBy(key);
  });

/** What it says of itself, whoever has signed it; nothing is proven. */
export function claimedStandingOrder(order: unknown): StandingOrder | undefined {
  const claims = openText(order, claimsSchema)?.claims;
  return claims && orderIn(claims);
}

const orderIn = ({
  fleet,
  cron,
  number,
  who: principal,
}: z.output<typeof claimsSchema>): StandingOrder => ({ fleet, cron, number, principal });
