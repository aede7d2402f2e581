/**
 * @file The proof that a word (a signal, or what comes by the update `word`) has of its sender's role: which words need one, and how it is written.
 *
 * A client of ours signs what it says with the key of its role (`access/word-signature.ts`) and sends the proof as a header, so values stay as they
 * are. Workflow code has no cryptography: a local activity checks all words that came together, its verdicts are in history, and only what
 * passed is heard. What a plain read of the proof says, this file says: who claims to speak, when, and under which number.
 */

export const PROOF_HEADER = "orbweaver-proof";

/** The memo of a fleet whose words are proven: jobs that begin under it ask for proof, too. */
export const WORDS_MEMO = "orbweaverWords";
export const SIGNED_WORDS = "signed";

/** `fleet`, `jobs`: the workers of these names; `agent`: the program on hosts. */
export const WORD_ROLES = ["fleet", "jobs", "agent"] as const;
export type WordRole = (typeof WORD_ROLES)[number];

/** Who may send a signal, by its name, to a workflow that asks for proof. Others are sent by users: nobody but the submit service checks them. */
const SPEAKERS: ReadonlyMap<string, readonly WordRole[]> = new Map<string, readonly WordRole[]>([
  ["inbox", ["jobs", "agent"]],
  ["grant", ["fleet"]],
  ["grants", ["fleet"]],
  ["preempt", ["fleet"]],
  ["pending", ["fleet"]],
  ["fenced", ["fleet"]],
  ["assert", ["fleet", "jobs"]],
  ["call-in", ["jobs"]],
  ["predecessor", ["jobs"]],
]);

/** Undefined where a signal of this name needs no proof. */
export const speakersOf = (signal: string): readonly WordRole[] | undefined => SPEAKERS.get(signal);

/** What an agent tells its fleet by itself; the rest goes through its cluster's presence. */
const AGENT_KINDS: ReadonlySet<unknown> = new Set(["checkpointed", "vacated"]);

/** Whether a sender of this role says such entries of an inbox. */
export const maySayEntry = (role: WordRole, entry: unknown): boolean =>
  role !== "agent" ||
  (typeof entry === "object" && entry !== null && "kind" in entry && AGENT_KINDS.has(entry.kind));

export interface Proof {
  readonly role: WordRole;
  /** The public key, `ed25519:…`. */
  readonly key: string;
  readonly atMs: number;
  /** No two words have the same. */
  readonly nonce: string;
  readonly signature: string;
}

export const formatProof = ({ role, key, atMs, nonce, signature }: Proof): string =>
  [role, key, String(atMs), nonce, signature].join(" ");

const PROOF = /^(\w{1,16}) (ed25519:[\w-]{43}) (\d{1,16}) ([\w-]{16,40}) ([\w-]{86})$/;

/** Undefined when the text has another form; nothing is proven by its form. */
export function parseProof(text: unknown): Proof | undefined {
  const parts = typeof text === "string" && text.length < 300 ? PROOF.exec(text) : null;
  if (parts === null) return undefined;
  const [, name, key = "", atMs, nonce = "", signature = ""] = parts;
  const role = WORD_ROLES.find((each) => each === name);
  return role && { role, key, atMs: Number(atMs), nonce, signature };
}

/** What the signature covers. `digest`: SHA-256 of the value's JSON, in hexadecimal digits. */
export const signedWords = (
  { role, key, atMs, nonce }: Omit<Proof, "signature">,
  { workflowId, signal, digest }: WordText,
): string => ["orbweaver-word", role, key, atMs, nonce, workflowId, signal, digest].join("\n");

export interface WordText {
  readonly workflowId: string;
  readonly signal: string;
  readonly digest: string;
}

/** A word to check; the bytes of all values lie behind each other in one array beside the list. */
export interface UnprovenWord {
  readonly signal: string;
  readonly proof?: string;
  /** Of its value. */
  readonly bytes: number;
}

export interface WordsToCheck {
  readonly workflowId: string;
  readonly words: readonly UnprovenWord[];
}

/** By their places in the list; the others passed. */
export interface WordVerdicts {
  readonly refused: readonly { readonly reason: string; readonly words: readonly number[] }[];
}

export interface WordActivities {
  /** A local one: its arguments are in no history. */
  checkWords(list: WordsToCheck, values: Uint8Array): Promise<WordVerdicts>;
}

/** A word that was signed so long before the run of the workflow began that hears it is an old one, said again. */
const OLDEST_MS = 600_000;

/** Why a word is refused before anybody looks at its signature; undefined where that decides. */
export function staleWord(
  text: unknown,
  { startedAtMs, seen }: { readonly startedAtMs: number; readonly seen: ReadonlySet<string> },
): string | undefined {
  const proof = parseProof(text);
  if (proof === undefined) return undefined;
  if (seen.has(proof.nonce)) return "it was said before";
  return proof.atMs < startedAtMs - OLDEST_MS
    ? "it was signed long before this run of the workflow began; check the sender's clock"
    : undefined;
}
