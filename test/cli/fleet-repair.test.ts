/** @file `fleet repair` on the command line: the list, what is done with --yes, JSON, and 80 columns. */

import { describe, expect, it } from "vitest";
import type { Doubt } from "../../client/index.ts";
import { hostId, jobId, leaseId, token } from "../../domain/values/ids.ts";
import { emptyLedger } from "../../scheduling/ledger/apply/apply.ts";
import type { RepairNote } from "../../scheduling/ledger/ledger.ts";
import { fleetShape } from "../scheduling/builders.ts";
import { run } from "./run.ts";

const DOUBTS: readonly Doubt[] = [
  {
    kind: "lease",
    lease: leaseId(token(7)),
    jobId: jobId("train-llama-on-everything-we-have"),
    gpus: 16,
    isVacating: true,
    job: "closed",
    hosts: [
      { host: hostId("eu-1", "h1"), agent: "answers" },
      { host: hostId("eu-1", "h2"), agent: "silent" },
      { host: hostId("eu-1", "h3"), agent: "none" },
    ],
  },
  { kind: "request", jobId: jobId("b"), job: "closed" },
  { kind: "reservation", jobId: jobId("c"), gpus: 1 },
];
const NOTE: RepairNote = {
  key: "k",
  by: "ada",
  atMs: 1_795_000_000_000,
  freed: ["request of b", "reservation of c"],
  left: ["lease-7"],
  freedCount: 2,
  leftCount: 1,
};
const LEDGER = { ...emptyLedger(fleetShape([{}])), repairs: [NOTE] };

function clientOf(doubts: readonly Doubt[]) {
  const asked: (readonly [number, string])[] = [];
  return {
    asked,
    client: {
      doubts: () => Promise.resolve({ doubts, ledger: LEDGER }),
      repair: (about: readonly Doubt[], by: string) => {
        asked.push([about.length, by]);
        return Promise.resolve(NOTE);
      },
    },
  };
}

describe("fleet repair", () => {
  it("lists first, changes nothing, and says what frees them; nothing is wider than 80 columns", async () => {
    const { client, asked } = clientOf(DOUBTS);
    const { code, stdout } = await run(["fleet", "repair"], { client });
    expect(code).toBe(0);
    expect(asked).toEqual([]);
    expect(stdout).toContain("Fleet default: 3 things not confirmed by everybody");
    expect(stdout).toContain("lease-7  16 GPUs, vacating");
    expect(stdout).toContain("eu-1/h2: not confirmed; silent: fence it if it is gone");
    expect(stdout).toContain("orbweaver fleet repair --yes");
    expect(stdout).toContain("ada: 2 freed, 1 left");
    expect(Math.max(...stdout.split("\n").map(({ length }) => length))).toBeLessThanOrEqual(80);
  });

  it("asks everybody with --yes, and tells what was freed, what was left, and what would help", async () => {
    const { client, asked } = clientOf(DOUBTS);
    const { stdout } = await run(["fleet", "repair", "--yes"], { client, env: { USER: "ada" } });
    expect(asked).toEqual([[3, "ada"]]);
    expect(stdout).toContain("request of b");
    expect(stdout).toContain("orbweaver fence HOST");
  });

  it("asks nobody with --dry-run, or when nothing is doubted", async () => {
    for (const [words, doubts] of [
      [["--yes", "--dry-run"], DOUBTS],
      [["--yes"], []],
    ] as const) {
      const { client, asked } = clientOf(doubts);
      await run(["fleet", "repair", ...words], { client });
      expect(asked).toEqual([]);
    }
  });

  it("answers with one JSON document, before and after", async () => {
    const before = await run(["fleet", "repair", "--json"], clientOf(DOUBTS));
    expect(JSON.parse(before.stdout)).toMatchObject({ fleet: "default", doubts: DOUBTS });
    const after = await run(["fleet", "repair", "--yes", "--json"], clientOf(DOUBTS));
    expect(JSON.parse(after.stdout)).toMatchObject({ repair: NOTE });
  });

  it("has a help with examples within 80 columns", async () => {
    const { stdout } = await run(["fleet", "repair", "--help"]);
    expect(stdout).toContain("$ orbweaver fleet repair --yes");
    expect(Math.max(...stdout.split("\n").map(({ length }) => length))).toBeLessThanOrEqual(80);
  });
});
