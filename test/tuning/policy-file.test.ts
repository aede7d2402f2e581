import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { crc32, crc32Text } from "../../lib/crc32.ts";
import { ARMS, COLLECTIVES } from "../../domain/bandwidth/collective-arm.ts";
import { ncclCsv } from "../../tuning/nccl-csv.ts";
import { armAt, rowFor, type Policy } from "../../tuning/policy.ts";
import { parsePolicy, POLICY_LIMITS, policyText } from "../../tuning/policy-file.ts";

const POLICY: Policy = {
  version: 7,
  fromCall: 0,
  hasOverlap: true,
  sections: [
    {
      topology: "eu-1/a100/2x4",
      nodes: 2,
      ranks: 8,
      rows: [
        {
          collective: "allreduce",
          minBytes: 16_777_216,
          maxBytes: 134_217_727,
          arm: "tree/simple",
          explore: {
            stride: 2,
            runs: [
              { arm: "ring/simple", count: 2 },
              { arm: "auto", count: 1 },
            ],
          },
        },
        {
          collective: "allreduce",
          minBytes: 134_217_728,
          maxBytes: Number.MAX_SAFE_INTEGER,
          arm: "auto",
        },
      ],
    },
  ],
};

const run = fc.record({
  arm: fc.constantFrom(...ARMS),
  count: fc.integer({ min: 1, max: POLICY_LIMITS.count }),
});
const explore = fc.record({
  stride: fc.integer({ min: 1, max: POLICY_LIMITS.stride }),
  runs: fc.array(run, { minLength: 1, maxLength: 8 }),
});
/** Bands between ascending edges, so that rows never overlap. */
const rows = fc
  .tuple(
    fc.uniqueArray(fc.integer({ min: 0, max: 1e12 }), { minLength: 2, maxLength: 5 }),
    fc.constantFrom(...COLLECTIVES),
    fc.constantFrom(...ARMS),
    fc.option(explore, { nil: undefined }),
  )
  .map(([edges, collective, arm, schedule]) => {
    const sorted = [...edges].sort((a, b) => a - b);
    return sorted.slice(1).map((edge, at) => ({
      collective,
      minBytes: sorted[at] ?? 0,
      maxBytes: edge - 1,
      arm,
      ...(schedule !== undefined && { explore: schedule }),
    }));
  });
const policies: fc.Arbitrary<Policy> = fc.record({
  version: fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER }),
  fromCall: fc.nat(),
  hasOverlap: fc.boolean(),
  sections: fc.uniqueArray(
    fc.record({
      topology: fc.stringMatching(/^[A-Za-z0-9._:/@+-]{1,20}$/),
      nodes: fc.integer({ min: 1, max: 8 }),
      ranks: fc.integer({ min: 1, max: 64 }),
      rows,
    }),
    { maxLength: 4, selector: ({ nodes, ranks }) => `${String(nodes)}/${String(ranks)}` },
  ),
});

describe("the policy file", () => {
  it("knows the checksum that others know", () => {
    expect(crc32("123456789")).toBe(0xcbf43926);
    expect(crc32Text("")).toBe("00000000");
  });

  it("reads back what it writes", () => {
    fc.assert(
      fc.property(policies, (policy) => {
        expect(parsePolicy(policyText(policy), "policy")).toEqual({ kind: "parsed", policy });
      }),
    );
  });

  it("refuses every torn file", () => {
    const text = policyText(POLICY);
    for (let length = 0; length < text.length; length += 1)
      expect(parsePolicy(text.slice(0, length), "torn").kind).toBe("refused");
  });

  it("refuses a file of which any one character differs", () => {
    const text = policyText(POLICY);
    for (let at = 0; at < text.length; at += 1) {
      const other = text[at] === "7" ? "8" : "7";
      expect(parsePolicy(text.slice(0, at) + other + text.slice(at + 1), "bent").kind).toBe(
        "refused",
      );
    }
  });

  it.each([
    { what: "another format", change: (t: string) => t.replace("collectives 1", "collectives 2") },
    { what: "version 0", change: (t: string) => t.replace("version 7", "version 0") },
    { what: "a leading zero", change: (t: string) => t.replace("from 0", "from 00") },
    { what: "an unknown arm", change: (t: string) => t.replace("ring/simple*2", "ring/fast*2") },
    { what: "a run of nothing", change: (t: string) => t.replace("auto*1", "auto*0") },
    { what: "a size below the row before", change: (t: string) => t.replace("134217728", "134") },
    { what: "two blanks", change: (t: string) => t.replace("nodes 2", "nodes  2") },
    { what: "a row before its section", change: (t: string) => t.replace(/topology.*\n/, "") },
    { what: "a tab", change: (t: string) => t.replace("version 7", "version\t7") },
  ])("refuses $what although the checksum is right", ({ change }) => {
    const body = change(policyText(POLICY).replace(/end.*\n$/, ""));
    const text = `${body}end ${crc32Text(body)}\n`;
    expect(parsePolicy(text, "wrong").kind).toBe("refused");
  });

  it("refuses the same shape of communicator twice", () => {
    const [section] = POLICY.sections;
    if (section === undefined) throw new Error("the fixture has a section");
    expect(() => policyText({ ...POLICY, sections: [section, section] })).toThrow("same shape");
  });

  it("is what its specification shows", () => {
    const page = readFileSync("docs/collectives-format.md", "utf8");
    const example = /```\n(orbweaver-collectives 1\n[\s\S]*?)```/.exec(page)?.[1] ?? "";
    const parsed = parsePolicy(example, "the example");
    expect(parsed).toMatchObject({ kind: "parsed", policy: { version: 7 } });
    if (parsed.kind === "parsed") expect(policyText(parsed.policy)).toBe(example);
  });
});

describe("the arm of a call", () => {
  const call = { nodes: 2, ranks: 8, collective: "allreduce", bytes: 67_108_864 } as const;

  it("follows the schedule by iterations and then stays", () => {
    const row = rowFor(POLICY, call);
    if (row === undefined) throw new Error("the row covers the call");
    const arms = Array.from({ length: 8 }, (_, k) => armAt(row, k));
    const ring = Array.from({ length: 4 }, () => "ring/simple");
    expect(arms).toEqual([...ring, "auto", "auto", "tree/simple", "tree/simple"]);
  });

  it.each([
    { what: "another shape", other: { ...call, ranks: 16 } },
    { what: "another collective", other: { ...call, collective: "broadcast" as const } },
    { what: "a smaller message", other: { ...call, bytes: 1_024 } },
  ])("is NCCL's own for $what", ({ other }) => {
    expect(rowFor(POLICY, other)).toBeUndefined();
  });
});

describe("the export for NVIDIA's example plugin", () => {
  it("has a line for each row that is not on AUTO", () => {
    const lines = ncclCsv(POLICY).split("\n");
    expect(lines.filter((line) => line !== "" && !line.startsWith("#"))).toEqual([
      "allreduce,16777216,134217727,tree,simple,-1,2,8",
    ]);
    expect(lines.filter((line) => line.includes("NCCL's own choice"))).toHaveLength(1);
  });
});
