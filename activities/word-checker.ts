/**
 * @file Checks who has said what came to a workflow: each word's proof against the keys that this worker believes of the sender's role.
 *
 * Where payloads have keys, a word that came in the open is not heard either.
 * Cost: 0.2 ms a signed word, in Node's pool of threads; nothing for one without a proof. The keys are those of the moment; the verdicts are in
 * history, so a rotation changes no past.
 */

import { sealProblem, type KeysInUse, type SealFlaw } from "../protocol/seal.ts";
import { digestOf, hasSigned } from "../access/word-signature.ts";
import { provenSigner } from "../access/job-proof.ts";
import { believedKeys, operatorKeys, withdrawnKeys, wordKeyFiles } from "../access/role-keys.ts";
import {
  NO_PROOF,
  parseProof,
  signedWords,
  speakersOf,
  UNSIGNED,
  USER,
  WORD_ROLES,
  type Speaker,
  type WordActivities,
  type WordVerdicts,
} from "../protocol/word-proof.ts";

export interface WordTrust {
  /** Of a role, at this moment; of users, the operators'. */
  readonly keysOf: (role: Speaker) => readonly string[];
  /** Of users, whatever they have signed. At this moment; undefined where nobody can tell. */
  readonly withdrawn: () => readonly string[] | undefined;
  /** The deployment lets everybody speak who reaches the namespace (`trust: namespace`). */
  readonly isEverybodyTrusted: boolean;
  /** Of the payloads, where there are any: what is not encrypted is not heard, whoever is trusted. */
  readonly payloadKeys?: KeysInUse;
}

type Environment = Readonly<Record<string, string | undefined>>;

/** What the control plane's workers of this environment believe. */
export function wordTrust(env: Environment = process.env, payloadKeys?: KeysInUse): WordTrust {
  const keys = new Map<Speaker, () => readonly string[]>(
    WORD_ROLES.map((role) => [role, believedKeys(wordKeyFiles(role, env))]),
  );
  keys.set(USER, operatorKeys(env));
  return {
    keysOf: (role) => keys.get(role)?.() ?? [],
    withdrawn: withdrawnKeys(env),
    isEverybodyTrusted: env["ORBWEAVER_TRUST"] === "namespace",
    ...(payloadKeys !== undefined && { payloadKeys }),
  };
}

/** Checks at a time: as many as Node's pool has threads. */
const AT_ONCE = 4;

export function createWordActivities(trust: WordTrust): WordActivities {
  return {
    async checkWords({ workflowId, words, submitted }, values) {
      if (trust.isEverybodyTrusted && trust.payloadKeys === undefined) return { refused: [] };
      const starts: number[] = [];
      let end = 0;
      for (const { bytes } of words) {
        starts.push(end);
        end += bytes;
      }
      const reasons: (string | undefined)[] = [];
      const check = async (from: number): Promise<void> => {
        for (let at = from; at < words.length; at += AT_ONCE) {
          const word = words[at];
          const start = starts[at] ?? 0;
          if (word === undefined) continue;
          const value = values.subarray(start, start + word.bytes);
          reasons[at] = await problemOf(trust, { ...word, workflowId, value, submitted });
        }
      };
      await Promise.all(Array.from({ length: AT_ONCE }, (_, from) => check(from)));
      return verdictsOf(reasons);
    },
  };
}

/** Who is trusted without a proof needs none, and a proof speaks for what was said before there were keys. */
async function problemOf(trust: WordTrust, word: Heard): Promise<string | undefined> {
  const { isEverybodyTrusted, payloadKeys } = trust;
  if (isEverybodyTrusted && word.flaw === undefined) return undefined;
  const unproven = await proofProblem(trust, word);
  if (unproven !== undefined && !isEverybodyTrusted) return unproven;
  const atMs = parseProof(word.proof)?.atMs;
  const isSigned = unproven === undefined;
  return sealProblem(payloadKeys, word.flaw, {
    ...(isSigned && atMs !== undefined && { atMs, isSigned }),
  });
}

async function proofProblem(
  { keysOf, withdrawn }: WordTrust,
  { workflowId, signal, proof: text, value, submitted }: Heard,
): Promise<string | undefined> {
  const proof = parseProof(text);
  if (proof === undefined) return text === undefined ? UNSIGNED : NO_PROOF;
  const { role, key } = proof;
  if (speakersOf(signal)?.includes(role) === false) return `role ${role} does not say ${signal}`;
  const gone = role === USER ? withdrawn() : [];
  if (gone === undefined)
    return "nobody can tell whether its key was withdrawn: keys/withdrawn.pub on this worker's machine cannot be read";
  if (gone.includes(key))
    return `it is signed with ${key}, which was withdrawn; \`orbweaver keys withdrawn\` on the machines of the fleet's and the jobs' workers lists such keys`;
  const isBelieved =
    keysOf(role).includes(key) ||
    (role === USER && provenSigner(submitted, { jobId: workflowId, keys: [key] }) !== undefined);
  if (!isBelieved)
    return role === USER
      ? `it is signed with ${key}, which is no operator's${submitted === undefined ? "" : " and not the submitter's"}; \`orbweaver keys operators --add\` on the machines of the fleet's and the jobs' workers admits a key`
      : `it is signed with ${key}, which is none of the keys in ${role}.pub`;
  const isSigned = await hasSigned(
    proof,
    signedWords(proof, { workflowId, signal, digest: digestOf(value) }),
  );
  return isSigned ? undefined : "its signature is not one of this word to this workflow";
}

interface Heard {
  readonly workflowId: string;
  readonly signal: string;
  readonly proof?: string;
  readonly value: Uint8Array;
  readonly flaw?: SealFlaw;
  readonly submitted: string | undefined;
}

function verdictsOf(reasons: readonly (string | undefined)[]): WordVerdicts {
  const words = new Map<string, number[]>();
  reasons.forEach((reason, at) => {
    if (reason !== undefined) {
      const places = words.get(reason);
      if (places === undefined) words.set(reason, [at]);
      else places.push(at);
    }
  });
  return { refused: [...words].map(([reason, places]) => ({ reason, words: places })) };
}
