/**
 * @file The proof that a user has submitted this very job: an Ed25519 signature over a hash of all that its processes are made of.
 *
 * Claims: job id, hash of the content, public key, name, time, and of a job whose content was changed the run of its workflow. The content is hashed as JSON with sorted keys, so that who parses it, and in
 * which order, changes nothing.
 */

import { createHash } from "node:crypto";
import { z } from "zod";
import { parsePublicKey, type Identity } from "./own-identity.ts";
import { openText, signText } from "./signed-text.ts";

export interface ProvenSubmitter {
  readonly publicKey: string;
  /** The submitter's own word. */
  readonly name: string;
  readonly signedAtMs: number;
  /** The signature is for this run of the job's workflow alone, at any time. */
  readonly run?: string;
}

export type ProofCheck =
  | { readonly kind: "proven"; readonly by: ProvenSubmitter }
  | { readonly kind: "refused"; readonly reason: string };

export interface JobToProve {
  readonly jobId: string;
  readonly content: unknown;
  /** The run of the job's workflow, of a job that has been submitted before. */
  readonly run?: string;
}

const claimsSchema = z.object({
  job: z.string(),
  hash: z.string(),
  key: z.string(),
  name: z.string().max(64),
  at: z.number().int(),
  run: z.string().optional(),
});

export function signJob(
  { jobId, content, run }: JobToProve,
  { privateKey, publicKey, name }: Identity,
  nowMs: number,
): string {
  const claims = { job: jobId, hash: contentHash(content), key: publicKey, name, at: nowMs, run };
  return signText(claims, privateKey);
}

export function checkJobProof(proof: unknown, { jobId, content, run }: JobToProve): ProofCheck {
  const refused = (reason: string): ProofCheck => ({ kind: "refused", reason });
  if (typeof proof !== "string" || proof === "") return refused("it is not signed");
  const opened = openText(proof, claimsSchema);
  const key = opened && parsePublicKey(opened.claims.key);
  if (opened === undefined || key === undefined) return refused("its signature has another form");
  const { claims } = opened;
  if (!opened.isSignedBy(key)) return refused("its signature is forged");
  if (claims.job !== jobId) return refused(`its signature is that of job ${claims.job}`);
  if (claims.hash !== contentHash(content))
    return refused("what is to run differs from what was signed");
  if (claims.run !== undefined && claims.run !== run)
    return refused("its signature is that of another run of its workflow");
  return {
    kind: "proven",
    by: {
      publicKey: claims.key,
      name: claims.name,
      signedAtMs: claims.at,
      ...(claims.run !== undefined && { run: claims.run }),
    },
  };
}

/** Who signed the job, where one of these keys did; what the job is made of is not checked. */
export function provenSigner(
  proof: unknown,
  { jobId, keys }: { readonly jobId: string; readonly keys: readonly string[] },
): Omit<ProvenSubmitter, "signedAtMs"> | undefined {
  const opened = openText(proof, claimsSchema);
  const { key: publicKey = "", name = "", job } = opened?.claims ?? {};
  const key = parsePublicKey(publicKey);
  if (key === undefined || job !== jobId || !keys.includes(publicKey)) return undefined;
  return opened?.isSignedBy(key) === true ? { publicKey, name } : undefined;
}

/**
 * By what a signature is known that may start its job, however its text is written: the same for each start. Undefined of one that is forged, is another job's, or is for one run
 * of a workflow alone.
 */
export function startingSignature(proof: unknown, jobId: string): string | undefined {
  const opened = openText(proof, claimsSchema);
  if (opened === undefined) return undefined;
  const { job, hash, key, at, run } = opened.claims;
  const publicKey = parsePublicKey(key);
  if (job !== jobId || run !== undefined || publicKey === undefined) return undefined;
  return opened.isSignedBy(publicKey) ? contentHash({ job, hash, key, at }) : undefined;
}

/** What a proof says of itself, to be passed on to who checks it; nothing is proven. */
export function claimedIn(
  proof: unknown,
): { readonly hash: string; readonly publicKey: string } | undefined {
  const claims = openText(proof, claimsSchema)?.claims;
  return claims && { hash: claims.hash, publicKey: claims.key };
}

/** SHA-256 of the content as JSON with sorted keys; a member that is undefined does not count, as in JSON. */
export function contentHash(content: unknown): string {
  return createHash("sha256").update(canonicalJson(content)).digest("base64url");
}

function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value) ?? "null";
  const members = Object.entries(value)
    .filter(([, member]) => member !== undefined)
    .sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0))
    .map(([name, member]) => `${JSON.stringify(name)}:${canonicalJson(member)}`);
  return `{${members.join(",")}}`;
}
