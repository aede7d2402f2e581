/**
 * @file The word of a submit service that one user may open one session with a rank of a job: a one-use order to the rank's agent.
 *
 * It names who, which run, rank, what for, the relays to dial and a number used once; it is good for a minute. It is signed by the key that has signed
 * the job, or by an operator's of the host, which is what makes output readable, too (`workers/order-check.ts`).
 */

import { z } from "zod";
import { parsePublicKey, type Identity } from "./own-identity.ts";
import { openText, signText } from "./signed-text.ts";

/** For the agent's first connection. */
export const SESSION_TICKET_MS = 60_000;
/** No session is longer, and no ticket is good for a connection after it. */
export const LONGEST_SESSION_MS = 24 * 3_600_000;

/** What the client wants started. The agent asks for this form too: whoever has signed a job can sign tickets past every service. */
export const sessionStartSchema = z.strictObject({
  command: z.array(z.string()).min(1).max(1_000).exactOptional(),
  terminal: z
    .strictObject({
      rows: z.number().int().min(1).max(10_000),
      columns: z.number().int().min(1).max(10_000),
      name: z.string().regex(/^[A-Za-z0-9.+-]{1,40}$/),
    })
    .exactOptional(),
  idleMs: z.number().int().min(1_000).max(LONGEST_SESSION_MS),
});

const claimsSchema = z.object({
  kind: z.literal("session"),
  by: z.string(),
  principal: z.string().max(200),
  job: z.string(),
  lease: z.string(),
  host: z.string(),
  rank: z.number().int().min(0),
  verb: z.enum(["exec", "port-forward"]),
  port: z.number().int().min(1).max(65_535).optional(),
  /** Of what is to be started (`SessionStart`). */
  hash: z.string().optional(),
  nonce: z.string().min(20).max(64),
  relays: z.array(z.string().max(300)).min(1).max(4),
  until: z.number(),
  ends: z.number(),
});
export type SessionTicket = z.output<typeof claimsSchema>;

export type SessionTicketCheck =
  | { readonly kind: "good"; readonly ticket: SessionTicket }
  | { readonly kind: "refused"; readonly reason: string };

export const signSessionTicket = (
  ticket: Omit<SessionTicket, "kind" | "by">,
  { privateKey, publicKey }: Identity,
): string => signText({ kind: "session", by: publicKey, ...ticket }, privateKey);

/** Whether one of these keys has signed it; absent: any key, of whom nothing is known. Its times and what it names are the caller's matter. */
export function checkSessionTicket(
  signed: unknown,
  believed: readonly string[] | undefined,
): SessionTicketCheck {
  const opened = openText(signed, claimsSchema);
  const key = opened && parsePublicKey(opened.claims.by);
  if (opened === undefined || key === undefined)
    return { kind: "refused", reason: "its ticket has another form" };
  if (!opened.isSignedBy(key)) return { kind: "refused", reason: "its ticket is forged" };
  const { claims } = opened;
  if (believed !== undefined && !believed.includes(claims.by))
    return {
      kind: "refused",
      reason: `only the submitter of ${claims.job} and this host's operators open sessions with it, and ${claims.by} is neither`,
    };
  return { kind: "good", ticket: claims };
}
