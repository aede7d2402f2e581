/**
 * @file The proof that a word (a signal, an update, or what comes by the update `word`) has of its sender's role: which words need one, and how it is written.
 *
 * A client of ours signs what it says with the key of its role (`access/word-signature.ts`) and sends the proof as a header, so values stay as they
 * are; an update has it as its second argument. Workflow code has no cryptography: a local activity checks all words that came together, its verdicts are in history, and only what
 * passed is heard. What a plain read of the proof says, this file says: who claims to speak, when, and under which number.
 */

import type { SealFlaw } from "./seal.ts";

export const PROOF_HEADER = "orbweaver-proof";

/** The memo of a fleet whose words are proven: jobs that begin under it ask for proof, too. */
export const WORDS_MEMO = "orbweaverWords";
export const SIGNED_WORDS = "signed";

/** The memo of a fleet whose orders are proven, too (`SIGNED_ORDER_RULES`). */
export const ORDERS_MEMO = "orbweaverOrders";

/** The memo of a fleet whose presences, lobbies and learners ask for proof, too (`SIGNED_ATTENDANT_RULES`). */
export const ATTENDANTS_MEMO = "orbweaverAttendants";

/** `fleet`, `jobs`: the workers of these names; `agent`: the program on hosts. Each has a key of its own. */
export const WORD_ROLES = ["fleet", "jobs", "agent"] as const;
export type WordRole = (typeof WORD_ROLES)[number];

/** A person, who signs with an identity: an operator, or of a job its submitter. */
export const USER = "user";
export type Speaker = WordRole | typeof USER;

/** Who may say a word, by the name of its signal or update, to a workflow that asks for proof. */
const SPEAKERS: ReadonlyMap<string, readonly Speaker[]> = new Map<string, readonly Speaker[]>([
  ["inbox", ["jobs", "agent"]],
  ["grant", ["fleet"]],
  ["grants", ["fleet"]],
  ["preempt", ["fleet"]],
  ["pending", ["fleet"]],
  ["fenced", ["fleet"]],
  ["assert", ["fleet", "jobs"]],
  ["call-in", ["jobs"]],
  ["predecessor", ["jobs"]],
  // To presences, lobbies and learners.
  ["announce", ["agent"]],
  ["deregister", ["agent"]],
  ["report-again", ["fleet", USER]],
  ["lobby-news", ["fleet", "jobs"]],
  ["lobby-leave", ["jobs"]],
  ["arrived", ["agent"]],
  ["measured", ["agent", USER]],
  ["report-rewards", ["agent"]],
]);

/** From these rules of theirs on learners ask their fleet whether to believe only what is proven. */
export const PROVEN_LEARNER_RULES = 2;

/** Operators' orders to a fleet, by the names of their updates. */
export const FLEET_ORDERS = [
  "drain",
  "undrain",
  "drain-gpus",
  "undrain-gpus",
  "fence",
  "configure",
  "upgrade",
  "repair",
  "hold-queue",
  "release-queue",
] as const;
export type FleetOrderName = (typeof FLEET_ORDERS)[number];

const BY_USERS: readonly Speaker[] = [USER];
/** Who may give an order, by the name of its update or signal, to a workflow that asks for proof of orders, too. */
const ORDERS: ReadonlyMap<string, readonly Speaker[]> = new Map<string, readonly Speaker[]>([
  ["drain", [USER, "agent"]],
  ["undrain", [USER, "agent"]],
  ["drain-gpus", [USER, "agent"]],
  ["undrain-gpus", [USER, "agent"]],
  ["fence", BY_USERS],
  ["configure", BY_USERS],
  ["upgrade", BY_USERS],
  ["repair", BY_USERS],
  ["hold-queue", BY_USERS],
  ["release-queue", BY_USERS],
  ["hold", BY_USERS],
  ["release", BY_USERS],
  ["suspend", BY_USERS],
  ["requeue", BY_USERS],
  ["amend", BY_USERS],
  ["move", BY_USERS],
  ["cancel-tasks", BY_USERS],
  ["retry-tasks", BY_USERS],
  ["kill", BY_USERS],
  ["follow", ["jobs"]],
  // To learners.
  ["probe", BY_USERS],
  ["train", BY_USERS],
  ["rollback", BY_USERS],
  ["reset", BY_USERS],
]);

/** Undefined where a word of this name needs no proof. */
export const speakersOf = (word: string): readonly Speaker[] | undefined =>
  SPEAKERS.get(word) ?? ORDERS.get(word);

/** Whether workflows that ask for proof of signals alone hear it without. */
export const isOrder = (word: string): boolean => ORDERS.has(word);

/** What an agent tells its fleet by itself; the rest goes through its cluster's presence. */
const AGENT_KINDS: ReadonlySet<unknown> = new Set(["checkpointed", "vacated"]);

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null;

/** Whether a sender of this role says such entries of an inbox. */
export const maySayEntry = (role: Speaker, entry: unknown): boolean =>
  role !== "agent" || (isRecord(entry) && AGENT_KINDS.has(entry["kind"]));

/** Whether a sender of this role gives such an order: an agent drains what is not drained, and ends drains of its own. */
export const mayOrder = (role: Speaker, order: unknown): boolean =>
  role !== "agent" ||
  (isRecord(order) && (order["isNew"] === true || typeof order["of"] === "string"));

export interface Proof {
  readonly role: Speaker;
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
  const role = [...WORD_ROLES, USER].find((each): each is Speaker => each === name);
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
  /** How it came, where that may be a reason not to hear it; absent of an asker of a former release, too. */
  readonly flaw?: SealFlaw;
}

export interface WordsToCheck {
  readonly workflowId: string;
  readonly words: readonly UnprovenWord[];
  /** Of a job: the signature with which it was submitted; its submitter gives it orders. */
  readonly submitted?: string;
}

/** An order, and the proof of who gives it. A workflow that asks for proof answers null: the query `order` tells the outcome. */
export type Proven<Order> = [order: Order, proof?: string];

/** What a run did not believe of one sender. */
export interface Disbelieved {
  /** As the sender's client calls itself. */
  readonly sender: string;
  readonly times: number;
  /** The last of them: its name, why it was not believed, and when. */
  readonly word: string;
  readonly reason: string;
  readonly atMs: number;
}

/** What became of an order, by the id of its update. */
export type OrderOutcome =
  | { readonly kind: "pending" }
  /** `answer`: as the update says it where no proof is asked. */
  | { readonly kind: "done"; readonly answer: unknown }
  | { readonly kind: "refused"; readonly code: string; readonly message: string }
  /** Too long ago, or none of this run. */
  | { readonly kind: "unknown" };

/** Why a word is refused that has no proof, or none by its form, where nobody is believed without one. Runs compare the reasons in their histories with these. */
export const UNSIGNED = "it is not signed";
export const NO_PROOF = "its proof is no proof";

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
