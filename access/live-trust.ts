/**
 * @file Whose jobs a host starts, as its policy file or the identity of the agent's user says at this moment: looked at with each question, read again where it was written.
 *
 * A file counts once it has stayed as it is for a second, because editors and `cp` empty one before they write it. One that is wrong or gone changes nothing. Which users
 * run the jobs stays as it was when the agent started: they own what the launches that run have written.
 */

import { statSync } from "node:fs";
import { readHostPolicy, type HostTrust } from "./host-trust.ts";
import { identityFile, ownIdentity } from "./own-identity.ts";

/** For which a file has to stay as it is. */
const SETTLED_MS = 1_000;

export interface LiveTrustParts {
  /** The log for operators. */
  readonly say: (text: string) => void;
  readonly nowMs?: () => number;
}

/** `first`: as the agent was started. Cost: one `stat` a question. */
export function liveTrust(
  first: HostTrust,
  { say, nowMs = Date.now }: LiveTrustParts,
): () => HostTrust {
  if (first.kind === "namespace") return () => first;
  const file = first.kind === "policy" ? first.file : identityFile(process.env);
  let trust: HostTrust = first;
  let stamp = stampOf(file)?.text;
  return () => {
    const found = stampOf(file);
    if (found?.text === stamp) return trust;
    const ageMs = nowMs() - (found?.changedAtMs ?? -Infinity);
    if (ageMs >= 0 && ageMs < SETTLED_MS) return trust;
    stamp = found?.text;
    try {
      if (found === undefined) throw new Error("it is gone");
      trust = readAgain(first);
      say(`${file}: read again`);
    } catch (error) {
      say(`${file} changed, and what was read before stays in force: ${String(error)}`);
    }
    return trust;
  };
}

function readAgain(first: Exclude<HostTrust, { readonly kind: "namespace" }>): HostTrust {
  if (first.kind === "own-user") return { ...first, publicKey: ownIdentity().publicKey };
  const { file, policy } = first;
  const { users: _users, ...read } = readHostPolicy(file);
  const { users } = policy;
  return { kind: "policy", file, policy: { ...read, ...(users !== undefined && { users }) } };
}

function stampOf(
  file: string,
): { readonly text: string; readonly changedAtMs: number } | undefined {
  const found = statSync(file, { throwIfNoEntry: false });
  if (found === undefined) return undefined;
  const { ino, size, mtimeMs, ctimeMs } = found;
  return { text: [ino, size, mtimeMs, ctimeMs].map(String).join(" "), changedAtMs: ctimeMs };
}
