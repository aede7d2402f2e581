/** @file Who has said a word: by its proof, against the keys of a role; and what a plain look at a proof says. */
import { defaultPayloadConverter } from "@temporalio/common";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { signJob } from "../../access/job-proof.ts";
import { ownIdentity } from "../../access/own-identity.ts";
import {
  changeOperators,
  changeWithdrawn,
  revokeRoleKey,
  rotateRoleKeys,
  wordKeyFiles,
  withdrawnKeys,
} from "../../access/role-keys.ts";
import { createWordActivities, wordTrust } from "../../activities/word-checker.ts";
import type { KeysInUse, SealFlaw } from "../../protocol/seal.ts";
import {
  maySayEntry,
  parseProof,
  staleWord,
  USER,
  WORD_ROLES,
  type UnprovenWord,
  type WordRole,
} from "../../protocol/word-proof.ts";
import { wordProver } from "../../workers/word-signer.ts";

let dir = "";
let env: Readonly<Record<string, string>> = {};
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "orbweaver-checker-"));
  env = { ORBWEAVER_KEYS: join(dir, "keys") };
});
afterAll(() => rmSync(dir, { recursive: true, force: true }));

const FLEET = "orbweaver-fleet-eu";
const jsonOf = (value: unknown): Uint8Array =>
  defaultPayloadConverter.toPayload(value)?.data ?? new Uint8Array();

interface Said {
  readonly by: WordRole;
  readonly signal: string;
  readonly value?: unknown;
  readonly to?: string;
  readonly from?: Readonly<Record<string, string>>;
}

/** A word as its receiver gets it. */
const said = ({ by, signal, value = 1, to = FLEET, from = env }: Said) => ({
  signal,
  value: jsonOf(value),
  proof: wordProver([by], from)({ workflowId: to, signal }, value) ?? "",
});

async function refusals(
  words: readonly { signal: string; value: Uint8Array; proof?: string; flaw?: SealFlaw }[],
  trusted: Readonly<Record<string, string>> = env,
  payloadKeys?: KeysInUse,
): Promise<readonly (string | undefined)[]> {
  const list = words.map(({ signal, value, proof, flaw }): UnprovenWord => ({
    signal,
    ...(flaw !== undefined && { flaw }),
    bytes: value.length,
    ...(proof !== undefined && { proof }),
  }));
  const all = Buffer.concat(words.map(({ value }) => value));
  const { checkWords } = createWordActivities(wordTrust(trusted, payloadKeys));
  const { refused } = await checkWords({ workflowId: FLEET, words: list }, all);
  return words.map((_, at) => refused.find((each) => each.words.includes(at))?.reason);
}

describe("checkWords", () => {
  it("passes each role's words, and says of every other why it is not believed", async () => {
    const good = said({ by: "jobs", signal: "inbox", value: [{ kind: "request" }] });
    const words = [
      good,
      said({ by: "fleet", signal: "grant", value: { é: "ü", 1: -0 } }),
      { ...good, value: jsonOf([{ kind: "end" }]) },
      { ...good, signal: "assert" },
      said({ by: "jobs", signal: "inbox", to: "orbweaver-fleet-us" }),
      { signal: "inbox", value: jsonOf(1) },
      { signal: "inbox", value: jsonOf(1), proof: "let me in" },
      said({ by: "jobs", signal: "inbox", from: { ORBWEAVER_KEYS: join(dir, "other") } }),
      { ...said({ by: "agent", signal: "inbox" }), signal: "grant" },
      { ...good, proof: good.proof.replace(/^jobs/, "fleet") },
    ];
    expect(await refusals(words)).toEqual([
      undefined,
      undefined,
      expect.stringContaining("signature"),
      expect.stringContaining("signature"),
      expect.stringContaining("signature"),
      "it is not signed",
      "its proof is no proof",
      expect.stringContaining("none of the keys in jobs.pub"),
      "role agent does not say grant",
      "role fleet does not say inbox",
    ]);
  });

  it("passes everything where the namespace is trusted", async () => {
    const trusted = { ...env, ORBWEAVER_TRUST: "namespace" };
    expect(await refusals([{ signal: "inbox", value: jsonOf(1) }], trusted)).toEqual([undefined]);
  });

  it("with keys of payloads hears no word that came in the open after them, whoever is trusted", async () => {
    const at = (sinceMs: number): KeysInUse => ({ isBinding: () => true, sinceMs: () => sinceMs });
    const now = Date.now();
    const word = said({ by: "jobs", signal: "inbox" });
    const words = [
      word,
      { ...word, flaw: "open" as const },
      { ...word, flaw: "unbound" as const },
      { ...word, flaw: "unreadable" as const },
    ];
    const unsigned = words.map(({ proof: _proof, ...rest }) => rest);
    const trusted = { ...env, ORBWEAVER_TRUST: "namespace" };
    const [open, lifted] = [/^it is not encrypted/, /made for another workflow/].map(
      (text): unknown => expect.stringMatching(text),
    );
    const signed = [undefined, open, undefined, lifted];
    const before = [undefined, undefined, undefined, lifted];
    expect(await refusals(words, env, at(now - 60_000))).toEqual(signed);
    expect(await refusals(words, trusted, at(now - 60_000))).toEqual(signed);
    expect(await refusals(words, env, at(now + 60_000))).toEqual(before);
    expect(await refusals(words, env)).toEqual([undefined, undefined, undefined, undefined]);
    expect(await refusals(unsigned, trusted, at(now + 60_000))).toEqual([
      ...[undefined, open],
      expect.stringContaining("not bound to this workflow"),
      lifted,
    ]);
  });

  it("believes a former key until it is revoked", async () => {
    const word = said({ by: "jobs", signal: "inbox" });
    rotateRoleKeys(wordKeyFiles("jobs", env));
    expect(await refusals([word, said({ by: "jobs", signal: "inbox" })])).toEqual([
      undefined,
      undefined,
    ]);
    revokeRoleKey(parseProof(word.proof)?.key ?? "", wordKeyFiles("jobs", env));
    expect((await refusals([word]))[0]).toContain("none of the keys");
  });
});

it("nobody signs a word that another role says, or one that needs no proof", () => {
  const prove = wordProver(["agent"], env);
  expect(prove({ workflowId: FLEET, signal: "grant" }, 1)).toBeUndefined();
  expect(wordProver(WORD_ROLES, env)({ workflowId: FLEET, signal: "kill" }, 1)).toBeUndefined();
});

it("a word that was heard, or was signed long before the run began, is stale", () => {
  const { proof } = said({ by: "jobs", signal: "inbox" });
  const { nonce = "", atMs = 0 } = parseProof(proof) ?? {};
  expect(staleWord(proof, { startedAtMs: atMs, seen: new Set() })).toBeUndefined();
  expect(staleWord(proof, { startedAtMs: atMs, seen: new Set([nonce]) })).toContain("before");
  expect(staleWord(proof, { startedAtMs: atMs + 600_001, seen: new Set() })).toContain("clock");
});

it("an agent says checkpoints and freed hosts, not requests and ends", () => {
  const kinds = ["checkpointed", "vacated", "request", "end", "agent-registered", "silence"];
  expect(kinds.filter((kind) => maySayEntry("agent", { kind }))).toEqual([
    "checkpointed",
    "vacated",
  ]);
  expect(kinds.every((kind) => maySayEntry("jobs", { kind }))).toBe(true);
  expect(maySayEntry("agent", null)).toBe(false);
});

describe("orders", () => {
  const JOB = "train-7";
  const userOf = (name: string) => ({ ORBWEAVER_IDENTITY: join(dir, `${name}.pem`) });
  const orderBy = (name: string, workflowId = JOB): string =>
    wordProver([USER], userOf(name))({ workflowId, signal: "hold" }, null) ?? "";
  const checked = async (proof: string, submitter?: string): Promise<boolean> => {
    const { checkWords } = createWordActivities(wordTrust({ ...env, ...userOf("operator") }));
    const value = jsonOf(null);
    const submitted =
      submitter && signJob({ jobId: JOB, content: {} }, ownIdentity(userOf(submitter)), 1);
    const words = [{ signal: "hold", proof, bytes: value.length }];
    const list = { workflowId: JOB, words, ...(submitted !== undefined && { submitted }) };
    return (await checkWords(list, value)).refused.length === 0;
  };

  it("are believed of the worker's own user and of the job's submitter, and of nobody else", async () => {
    expect(await checked(orderBy("operator"))).toBe(true);
    expect(await checked(orderBy("ada"), "ada")).toBe(true);
    expect(await checked(orderBy("ada"), "bob")).toBe(false);
    expect(await checked(orderBy("ada"))).toBe(false);
    expect(await checked(orderBy("operator", "train-8"))).toBe(false);
  });

  it("are not believed of a key that was withdrawn: neither a submitter's to its job nor an operator's", async () => {
    const [ada, carl] = ["ada", "carl"].map((name) => ownIdentity(userOf(name)).publicKey);
    changeOperators({ add: carl ?? "" }, env);
    for (const add of [ada ?? "", carl ?? ""]) changeWithdrawn({ add }, env);
    expect(await checked(orderBy("ada"), "ada")).toBe(false);
    expect(await checked(orderBy("carl"))).toBe(false);
    expect(await checked(orderBy("operator"))).toBe(true);
    changeWithdrawn({ remove: ada ?? "" }, env);
    expect(await checked(orderBy("ada"), "ada")).toBe(true);
    const own = ownIdentity(userOf("operator")).publicKey;
    expect(() => changeWithdrawn({ add: own }, { ...env, ...userOf("operator") })).toThrow(
      /is your own key/,
    );
  });

  it("are judged by the list of before where it cannot be read any more, and refused where it never could be", async () => {
    const list = { ...env, ORBWEAVER_KEYS: join(dir, "torn") };
    const key = ownIdentity(userOf("fay")).publicKey;
    const other = `${key.slice(0, -1)}${String.fromCharCode(key.charCodeAt(key.length - 1) + 1)}`;
    expect(changeWithdrawn({ add: other }, list).keys).toEqual([key]);
    const ofBefore = withdrawnKeys(list);
    expect(ofBefore()).toEqual([key]);
    writeFileSync(join(dir, "torn/withdrawn.pub"), "ed25519:half\n");
    expect(ofBefore()).toEqual([key]);
    expect(withdrawnKeys(list)()).toBeUndefined();
    const { checkWords } = createWordActivities({
      ...wordTrust({ ...env, ...userOf("operator") }),
      withdrawn: withdrawnKeys(list),
    });
    const proof = orderBy("operator");
    const words = [{ signal: "hold", proof, bytes: jsonOf(null).length }];
    const { refused } = await checkWords({ workflowId: JOB, words }, jsonOf(null));
    expect(refused).toMatchObject([
      { reason: expect.stringContaining("cannot be read") as string },
    ]);
  });

  it("are believed of a key that the operators' list has, from the next order on", async () => {
    const key = ownIdentity(userOf("eve")).publicKey;
    expect(await checked(orderBy("eve"))).toBe(false);
    changeOperators({ add: key }, env);
    expect(await checked(orderBy("eve"))).toBe(true);
    changeOperators({ remove: key }, env);
    expect(await checked(orderBy("eve"))).toBe(false);
    expect(() => changeOperators({ remove: key }, env)).toThrow(/does not list/);
    expect(() => changeOperators({ add: "mine" }, env)).toThrow(/is no key/);
  });
});
