import fc from "fast-check";
import { expect, it } from "vitest";
import { crc32 } from "../../lib/crc32.ts";
import { ballotOf, reduceBallots, verdictOf, type Held } from "../../tuning/agreement.ts";
import { armAt, rowFor, type Policy } from "../../tuning/policy.ts";
import { parsePolicy, policyText } from "../../tuning/policy-file.ts";
import type { Sample } from "../../tuning/choice.ts";
import { eliminationChoice } from "../../tuning/elimination.ts";
import type { Arm } from "../../domain/bandwidth/collective-arm.ts";

const RANKS = 4;
const ARMS: readonly Arm[] = ["auto", "tree/simple", "ring/simple"];
const CALL = { nodes: 2, ranks: 8, collective: "allreduce", bytes: 1024 } as const;

/** What the tuner makes of the reports that reached it: a policy that explores or exploits. */
function policyFrom(samples: readonly Sample[], version: number): Policy {
  const choice = eliminationChoice(samples, ARMS);
  const band = { collective: CALL.collective, minBytes: 0, maxBytes: 4096 } as const;
  const row =
    choice.kind === "exploit"
      ? { ...band, arm: choice.arm }
      : { ...band, arm: choice.meanwhile, explore: { stride: 1, runs: choice.runs } };
  const section = { topology: "t", nodes: CALL.nodes, ranks: CALL.ranks, rows: [row] };
  return { version, fromCall: 0, hasOverlap: true, sections: [section] };
}

interface Rank {
  /** Whole files that it has, by version. */
  readonly files: Map<number, { readonly policy: Policy; readonly held: Held }>;
  newest: number;
  inForce?: { readonly version: number; readonly since: number };
}

const whole = Array.from({ length: 12 }, () => "whole");
const fate = fc.constantFrom(...whole, "torn", "missing", "late");
/** Of one step: how each rank's file fares, and of the step's report, in which place it arrives if it does. */
const step = fc.record({
  calls: fc.integer({ min: 0, max: 6 }),
  fates: fc.array(fate, { minLength: RANKS, maxLength: RANKS }),
  tornAt: fc.double({ min: 0, max: 0.99, noNaN: true }),
  report: fc.constantFrom("in order", "lost", "twice", "first" as const),
  ms: fc.double({ min: 1, max: 900, noNaN: true }),
});

it("ranks never part, whatever becomes of files and reports", () => {
  let switches = 0;
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 25 }), (steps) => {
      const ranks = Array.from({ length: RANKS }, (): Rank => ({ files: new Map(), newest: 0 }));
      const samples: Sample[] = [];
      let callsMade = 0;
      for (const [at, { calls, fates, tornAt, report, ms }] of steps.entries()) {
        const text = policyText(policyFrom(samples, at + 1));
        for (const [index, rank] of ranks.entries())
          give(rank, text, { fate: fates[index], tornAt });
        switches += vote(ranks, callsMade);
        let used: Arm = "auto";
        for (let call = 0; call < calls; call += 1, callsMade += 1) {
          const arms = new Set(ranks.map((rank) => armOf(rank, callsMade)));
          expect(arms.size).toBe(1);
          used = [...arms][0] ?? "auto";
        }
        const sample = { arm: used, ms };
        if (report === "first") samples.unshift(sample);
        else if (report !== "lost") samples.push(sample);
        if (report === "twice") samples.push(sample);
      }
    }),
    { numRuns: 60 },
  );
  expect(switches).toBeGreaterThan(0);
});

function give(
  rank: Rank,
  text: string,
  { fate: how, tornAt }: { fate: string | undefined; tornAt: number },
): void {
  const arrives = how === "torn" ? text.slice(0, Math.floor(tornAt * text.length)) : text;
  if (how === "missing" || how === "late") return;
  const parsed = parsePolicy(arrives, "file");
  if (parsed.kind === "refused") return;
  const { policy } = parsed;
  const held = { version: policy.version, checksum: crc32(arrives), fromCall: policy.fromCall };
  rank.files.set(policy.version, { policy, held });
  rank.newest = policy.version;
}

function vote(ranks: readonly Rank[], callsMade: number): number {
  const ballots = ranks.map(({ files, newest }) => ballotOf(files.get(newest)?.held, callsMade));
  const verdict = verdictOf(ballots.reduce(reduceBallots));
  if (verdict.kind === "keep") return 0;
  for (const rank of ranks)
    if (rank.inForce?.version !== verdict.version)
      rank.inForce = { version: verdict.version, since: verdict.atCall };
  return 1;
}

function armOf({ files, inForce }: Rank, call: number): Arm {
  const policy = inForce === undefined ? undefined : files.get(inForce.version)?.policy;
  const row = policy === undefined ? undefined : rowFor(policy, CALL);
  return row === undefined || inForce === undefined ? "auto" : armAt(row, call - inForce.since);
}
