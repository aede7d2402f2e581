/**
 * @file The collectives plugin, where a C compiler is at hand: ranks never disagree, a decision does nothing but decide, and its reader agrees with ours.
 *
 * Without a compiler there is nothing to load: one test says so in its name. The long form is `make check` in plugin/.
 */

import { execFile, execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { rewardsIn } from "../../agent/folder/rewards-file.ts";
import type { CollectiveReward } from "../../domain/bandwidth/collective-evidence.ts";
import { COLLECTIVES } from "../../domain/bandwidth/collective-arm.ts";
import { policyText } from "../../tuning/policy-file.ts";
import { armAt, rowFor, type Policy } from "../../tuning/policy.ts";

const PLUGIN = path.join(import.meta.dirname, "../../plugin");
const build = mkdtempSync(path.join(tmpdir(), "orbweaver-plugin-"));
const run = promisify(execFile);
const compiler = canBuild([]);
const sanitizers = ["-fsanitize=address,undefined"];

afterAll(() => rmSync(build, { recursive: true, force: true }));

/** Whether what is compiled with these flags also runs. */
function canBuild(flags: readonly string[]): boolean {
  const source = path.join(build, "probe.c");
  const program = path.join(build, "probe");
  try {
    writeFileSync(source, "int main(void) { return 0; }\n");
    execFileSync("make", ["--version"], { stdio: "ignore" });
    execFileSync("cc", [...flags, "-o", program, source], { stdio: "ignore" });
    execFileSync(program, { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

if (!compiler) {
  describe("the collectives plugin", () => {
    it("is not built here: there is no C compiler, or no make", () => {
      expect(compiler).toBe(false);
    });
  });
} else {
  describe("the collectives plugin", () => {
    beforeAll(async () => {
      const plain = canBuild(sanitizers) ? [] : ["SANITIZE=-g -O1"];
      await run("make", ["-C", PLUGIN, `BUILD=${build}`, ...plain, "programs"]);
    });

    it.each([1, 2])("lets no two ranks disagree, seed %i", async (seed) => {
      const library = path.join(build, "checked.so");
      const { stdout } = await run(path.join(build, "checked"), [library, "30000", String(seed)]);
      expect(stdout).toMatch(/^disagreements +0$/m);
      expect(stdout).toMatch(/^not what the policy says +0$/m);
      expect(stdout).toMatch(/broken texts tried, taken \d+, 0$/m);
    });

    it.each([1, 2])(
      "tells how long collectives take on the slowest rank, or that it does not know, seed %i",
      async (seed) => {
        const library = path.join(build, "checked.so");
        const { stdout } = await run(path.join(build, "profiled"), [library, "600", String(seed)]);
        expect(stdout).toMatch(/^not that of the slowest rank +0$/m);
        expect(stdout).toMatch(/^a rank without the profiler: .* 0, 0$/m);
        expect(stdout).toMatch(/^totals of what was sent, wrong +0$/m);
        expect(stdout).toMatch(/^what NCCL has loaded, named +3 of 3$/m);
      },
    );

    it("decides without memory, files or waiting", async () => {
      const library = path.join(build, "libnccl-tuner-orbweaver.so");
      const { stdout } = await run(path.join(build, "speed"), [library, "20000"]);
      expect(stdout).toMatch(/^allocations +0 in 40000 decisions$/m);
      expect(stdout).not.toContain("SOME");
    });

    it("reads a policy as its writer means it", async () => {
      const file = path.join(build, "policy");
      writeFileSync(file, policyText(POLICY));
      for (const { nodes, ranks } of [
        { nodes: 2, ranks: 8 },
        { nodes: 1, ranks: 4 },
        { nodes: 4, ranks: 8 },
      ]) {
        for (const [index, collective] of COLLECTIVES.entries()) {
          for (const bytes of [0, 4096, 4097, 2 ** 24, 2 ** 40]) {
            const row = rowFor(POLICY, { nodes, ranks, collective, bytes });
            const want = Array.from({ length: 40 }, (_, call) =>
              row === undefined ? "no row" : armAt(row, call),
            );
            const words = [file, nodes, ranks, index, bytes, want.length].map(String);
            const { stdout } = await run(path.join(build, "arms"), words);
            expect(stdout.trim().split("\n")).toEqual(want);
          }
        }
      }
    });

    it("reads nothing of a policy that is torn", async () => {
      const text = policyText(POLICY);
      const file = path.join(build, "torn");
      for (const cut of [0, 1, text.length - 1, text.length - 14, text.length >> 1]) {
        writeFileSync(file, text.slice(0, cut));
        const { stdout } = await run(path.join(build, "arms"), [file, "2", "8", "4", "0", "1"]);
        expect(stdout).toBe("no policy\n");
      }
    });

    // Without Python there is no training script either.
    if (hasPython()) {
      it("has reporters that vote: all ranks take a policy at the same step", async () => {
        const { rows } = await chosenByRanks(-1);
        expect(rows.every((row) => new Set(row.map(String)).size === 1)).toBe(true);
        expect(rows.map(([first]) => String(first))).toEqual([
          "",
          "",
          "",
          "",
          "5",
          "5",
          "2",
          "2",
          "2",
          "2",
          "2",
          "2",
        ]);
      });

      it("gives a call that is recorded into a graph the settled arm, and goes on with the trial after it", async () => {
        const { rows } = await chosenByRanks(-1, 5);
        expect(rows.every((row) => new Set(row.map(String)).size === 1)).toBe(true);
        // Step 5 would be the second of the trial: it is recorded, so step 6 is.
        expect(rows.map(([first]) => String(first)).slice(3, 8)).toEqual(["", "5", "2", "5", "2"]);
      });

      it("has reporters that vote: no rank takes what one of them cannot take", async () => {
        const { rows } = await chosenByRanks(2);
        expect(rows).toHaveLength(12);
        expect(new Set(rows.flat().map(String))).toEqual(new Set([""]));
      });

      it("has reporters that exchange times: a reward has that of the slowest rank", async () => {
        const { rewards } = await chosenByRanks(-1, -1, -1);
        // The policy is in force from step 5 on, and steps at which exact timing begins or ends do not count. The last exchange is after step
        // 12, when the kernels of step 12 may still run.
        expect(rewards.map(({ step, slowestMicros }) => [step, slowestMicros])).toEqual([
          ...[8, 9, 10, 11].map((step) => [step, 4000]),
          [12, undefined],
        ]);
      });

      it("has reporters that exchange times: none is known where one rank cannot tell", async () => {
        const { rewards } = await chosenByRanks(-1, -1, 3);
        expect(rewards.map(({ slowestMicros }) => slowestMicros)).toEqual(
          Array<undefined>(5).fill(undefined),
        );
      });
    }
  });
}

function hasPython(): boolean {
  try {
    execFileSync("python3", ["-c", "import ctypes"], { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/**
 * The cells of the cost table that each of four ranks chose, step by step, and the rewards of the first; `lacking` has no plugin; step `recorded`
 * goes into a graph; where `untimed` is given, NCCL tells all ranks but that one how long collectives take.
 */
async function chosenByRanks(
  lacking: number,
  recorded?: number,
  untimed?: number,
): Promise<{
  readonly rows: readonly (readonly (readonly number[])[])[];
  readonly rewards: readonly CollectiveReward[];
}> {
  const folder = mkdtempSync(path.join(build, "ranks-"));
  writeFileSync(path.join(folder, "policy"), policyText(VOTED));
  const library = path.join(build, "libnccl-tuner-orbweaver.so");
  const program = path.join(import.meta.dirname, "reporter_ranks.py");
  const env = { ...process.env, PYTHONDONTWRITEBYTECODE: "1" };
  const words = [program, library, folder, lacking, recorded ?? [], untimed ?? []]
    .flat()
    .map(String);
  const { stdout } = await run("python3", words, { env });
  // The program prints lists of lists of numbers.
  const rows = stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as number[][]);
  const file = path.join(folder, "rewards");
  const text = existsSync(file) ? readFileSync(file, "latin1") : "";
  return { rows, rewards: rewardsIn(text) ?? [] };
}

const VOTED: Policy = {
  version: 7,
  fromCall: 0,
  hasOverlap: true,
  sections: [
    {
      topology: "eu-1/2x2-A100",
      nodes: 2,
      ranks: 4,
      rows: [
        {
          collective: "allreduce",
          minBytes: 0,
          maxBytes: 1000,
          arm: "tree/simple",
          explore: { stride: 1, runs: [{ arm: "ring/simple", count: 2 }] },
        },
      ],
    },
  ],
};

const POLICY: Policy = {
  version: 9_007_199_254_740_991,
  fromCall: 3,
  hasOverlap: true,
  sections: [
    {
      topology: "eu-1/2x4-A100-nvlink",
      nodes: 2,
      ranks: 8,
      rows: [
        { collective: "broadcast", minBytes: 0, maxBytes: 4096, arm: "ring/ll" },
        {
          collective: "allreduce",
          minBytes: 4096,
          maxBytes: 2 ** 24,
          arm: "tree/simple",
          explore: {
            stride: 3,
            runs: [
              { arm: "auto", count: 2 },
              { arm: "nvls_tree/simple", count: 1 },
              { arm: "tree/ll128", count: 4 },
            ],
          },
        },
        {
          collective: "allreduce",
          minBytes: 2 ** 24 + 1,
          maxBytes: Number.MAX_SAFE_INTEGER,
          arm: "collnet_chain/simple",
        },
      ],
    },
    {
      topology: "eu-1/1x4-A100",
      nodes: 1,
      ranks: 4,
      rows: [{ collective: "allgather", minBytes: 0, maxBytes: 2 ** 40, arm: "pat/simple" }],
    },
  ],
};
