import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Arm } from "../../domain/bandwidth/collective-arm.ts";
import { armsFor, PAPER_ARMS } from "../../tuning/arm.ts";
import type { Choice, Sample } from "../../tuning/choice.ts";
import { contrastsOf } from "../../tuning/contrasts.ts";
import type { Level } from "../../tuning/run-effects.ts";
import { ELIMINATION, eliminationChoice } from "../../tuning/elimination.ts";
import { offlineChoice } from "../../bench/rivals/tuning/offline-tuner.ts";
import { roundRobinChoice } from "../../tuning/round-robin.ts";
import { randomFrom } from "../../lib/random.ts";

const MIB = 1024 * 1024;
const ARMS: readonly Arm[] = ["auto", "tree/simple", "tree/ll128", "ring/simple", "ring/ll128"];
type Ground = Readonly<Partial<Record<Arm, number>>>;
const GROUND: Ground = {
  auto: 287,
  "tree/simple": 167,
  "tree/ll128": 181,
  "ring/simple": 483,
  "ring/ll128": 525,
};

interface Played {
  readonly samples: readonly Sample[];
  readonly exploring: number;
  readonly choice: Choice;
}

/** Asks whenever the schedule is over, and every four iterations while it exploits. */
function play(
  ground: (iteration: number) => Ground,
  { iterations, seed = 1, before = [] }: { iterations: number; seed?: number; before?: Sample[] },
): Played {
  const random = randomFrom(seed, "play");
  const samples = [...before];
  let exploring = 0;
  let made = 0;
  const run = (arm: Arm): void => {
    const ms = (ground(made)[arm] ?? NaN) * Math.exp(0.03 * random.normal());
    samples.push({ arm, ms });
    made += 1;
  };
  let choice = eliminationChoice(samples, ARMS);
  while (made < iterations) {
    choice = eliminationChoice(samples, ARMS);
    if (choice.kind === "explore")
      for (const { arm, count } of choice.runs)
        for (let at = 0; at < count; at += 1) {
          run(arm);
          exploring += 1;
        }
    else for (let at = 0; at < 4; at += 1) run(choice.arm);
  }
  return { samples, exploring, choice };
}

describe("elimination", () => {
  it("finds the best arm in a few rounds and never asks again while the ground is still", () => {
    for (let seed = 1; seed <= 8; seed += 1) {
      const { choice, exploring } = play(() => GROUND, { iterations: 200, seed });
      expect(choice).toMatchObject({ kind: "exploit", arm: "tree/simple" });
      expect(exploring).toBeLessThanOrEqual(40);
    }
  });

  it("keeps AUTO where nothing is better", () => {
    const flat = { ...GROUND, auto: 158 };
    for (let seed = 1; seed <= 20; seed += 1)
      expect(play(() => flat, { iterations: 160, seed }).choice).toMatchObject({ arm: "auto" });
  });

  it("explores again when the arm in use becomes slow, once, and finds the new best one", () => {
    const slow = { ...GROUND, "tree/simple": 400, "tree/ll128": 430, auto: 287 };
    const { choice, exploring } = play((at) => (at < 120 ? GROUND : slow), { iterations: 240 });
    expect(choice).toMatchObject({ kind: "exploit", arm: "auto" });
    expect(exploring).toBeLessThanOrEqual(80);
  });

  it("finds by a probe that another arm has become better although its own has not changed", () => {
    const faster = { ...GROUND, auto: 80 };
    const { choice, exploring } = play((at) => (at < 120 ? GROUND : faster), { iterations: 420 });
    expect(choice).toMatchObject({ kind: "exploit", arm: "auto" });
    expect(exploring).toBeLessThanOrEqual(80);
  });

  it("is not moved by single stalls, however long", () => {
    const { samples } = play(() => GROUND, { iterations: 100 });
    const stalled = samples.map((sample, at) =>
      at > 20 && at % 9 === 0 ? { ...sample, ms: sample.ms + 5_000 } : sample,
    );
    const choice = eliminationChoice(stalled, ARMS);
    expect(choice.kind === "exploit" ? choice.arm : choice.meanwhile).toBe("tree/simple");
  });

  it("asks for no more runs than a row of a policy may have, however many arms are level", () => {
    const many = [...ARMS, "nvls_tree/simple", "collnet_chain/simple"] as const;
    const samples: Sample[] = [];
    const random = randomFrom(1, "level");
    for (let round = 0; round < 8; round += 1) {
      const choice = eliminationChoice(samples, many);
      if (choice.kind === "exploit") break;
      expect(choice.runs.length).toBeLessThanOrEqual(32);
      for (const { arm, count } of choice.runs)
        for (let at = 0; at < count; at += 1)
          samples.push({ arm, ms: 100 * Math.exp(0.1 * random.normal()) });
    }
    expect(samples.length).toBeGreaterThan(60);
  });

  it("compares jobs by ratios: another job's longer steps do not look like slow arms", () => {
    const first = play(() => GROUND, { iterations: 40 }).samples;
    const mixed = first.map((sample, at) => ({ ...sample, run: at % 2 === 0 ? "a" : "b" }));
    const slower = mixed.map((s) => (s.run === "b" ? { ...s, ms: s.ms * 3 } : s));
    expect(eliminationChoice(slower, ARMS)).toMatchObject({ kind: "exploit", arm: "tree/simple" });
  });

  it("asks for what got lost, and for no more than a round, whatever order reports come in", () => {
    const { samples } = play(() => GROUND, { iterations: 24 });
    const kept = fc.shuffledSubarray([...samples], { minLength: 0, maxLength: samples.length });
    fc.assert(
      fc.property(kept, (some) => {
        const choice = eliminationChoice(some, ARMS);
        const again = eliminationChoice(some, ARMS);
        expect(again).toEqual(choice);
        if (choice.kind === "exploit") return;
        const asked = choice.runs.reduce((sum, { count }) => sum + count, 0);
        expect(asked).toBeGreaterThan(0);
        expect(asked).toBeLessThanOrEqual(ARMS.length * ELIMINATION.mostMore);
      }),
    );
  });

  it("reaches a decision from every set of samples when what it asks for is delivered", () => {
    const sample = fc.record({
      arm: fc.constantFrom(...ARMS),
      ms: fc.double({ min: 1, max: 1_000, noNaN: true }),
    });
    fc.assert(
      fc.property(fc.array(sample, { maxLength: 30 }), (before) => {
        const settled = play(() => GROUND, {
          iterations: 2 * ELIMINATION.mostSamples,
          before,
        }).choice;
        expect(settled.kind).toBe("exploit");
      }),
      { numRuns: 25 },
    );
  });

  it.each([[["auto"]], [["tree/simple"]]] as const)("has nothing to explore with %j", (arms) => {
    expect(eliminationChoice([], arms)).toMatchObject({ kind: "exploit", arm: arms[0] });
  });
});

describe("contrasts of arms", () => {
  const levelsOf = (values: readonly (readonly [Arm, number])[]): readonly Level[] =>
    values.map(([arm, logMs]) => ({ arm, logMs }));

  it("are the differences of means where nothing else differs", () => {
    const found = contrastsOf(
      levelsOf([
        ["auto", 1],
        ["tree/simple", 0.9],
        ["tree/simple", 0.92],
        ["auto", 1.02],
      ]),
    );
    expect(found.level("auto") - found.level("tree/simple")).toBeCloseTo(0.1, 9);
    expect(found.error("auto", "tree/simple")).toBeGreaterThan(0);
    expect([found.count("auto"), found.count("ring/simple")]).toEqual([2, 0]);
    expect(found.level("ring/simple")).toBe(Infinity);
    expect(found.error("auto", "ring/simple")).toBe(Infinity);
  });

  it("are not moved by what slows all arms for a while, although one arm meets most of it", () => {
    const random = randomFrom(4, "moments");
    const values = Array.from({ length: 120 }, (_, at): readonly [Arm, number] => {
      const isBusy = at >= 60;
      const arm = at % (isBusy ? 2 : 6) === 0 ? "tree/simple" : "auto";
      const own = arm === "auto" ? 0 : -0.1;
      return [arm, own + (isBusy ? 0.25 : 0) + 0.02 * random.normal()];
    });
    const found = contrastsOf(levelsOf(values));
    const plain = (arm: Arm): number => {
      const own = values.filter(([each]) => each === arm);
      return own.reduce((sum, [, logMs]) => sum + logMs, 0) / own.length;
    };
    const gain = found.level("auto") - found.level("tree/simple");
    expect(Math.abs(gain - 0.1)).toBeLessThan(3 * found.error("auto", "tree/simple"));
    expect(plain("auto") - plain("tree/simple")).toBeLessThan(0.05);
  });

  it("are known the better, the more samples there are", () => {
    const errorOf = (rounds: number): number =>
      contrastsOf(
        levelsOf(
          Array.from({ length: 2 * rounds }, (_, at) => [at % 2 === 0 ? "auto" : "ring/ll128", 0]),
        ),
      ).error("auto", "ring/ll128");
    expect(errorOf(8)).toBeLessThan(errorOf(2));
    expect(errorOf(40)).toBeLessThan(errorOf(8));
  });
});

describe("the paper's bandit", () => {
  it("goes round its four arms ten times, then takes the best trimmed mean", () => {
    const samples: Sample[] = [];
    for (let at = 0; at < 40; at += 1) {
      const choice = roundRobinChoice(samples, PAPER_ARMS);
      const arm = choice.kind === "explore" ? choice.runs[0]?.arm : undefined;
      expect(arm).toBe(PAPER_ARMS[at % 4]);
      samples.push({
        arm: arm ?? "auto",
        ms: (GROUND[arm ?? "auto"] ?? 0) + (at === 8 ? 9_000 : at % 5),
      });
    }
    expect(roundRobinChoice(samples, PAPER_ARMS)).toMatchObject({ arm: "tree/simple" });
  });

  it("keeps AUTO at less than 5 %", () => {
    const samples = Array.from({ length: 40 }, (_, at): Sample => {
      const arm = PAPER_ARMS[at % 4] ?? "auto";
      return { arm, ms: arm === "auto" ? 100 : 96 };
    });
    expect(roundRobinChoice(samples, PAPER_ARMS)).toMatchObject({ kind: "exploit", arm: "auto" });
  });
});

describe("the offline tuner's gates", () => {
  const of = (arm: Arm, values: readonly number[]): readonly Sample[] =>
    values.map((ms) => ({ arm, ms }));
  const spread = (middle: number, width: number, count = 20): readonly number[] =>
    Array.from({ length: count }, (_, at) => middle + width * (((at * 7) % count) / count - 0.5));
  const decide = (tree: readonly number[], auto: readonly number[], bytes = MIB) =>
    offlineChoice(
      [...of("tree/simple", tree), ...of("auto", auto)],
      ["tree/simple", "auto"],
      bytes,
    );

  it.each([
    { what: "all pass", tree: spread(80, 10), auto: spread(100, 10), want: { arm: "tree/simple" } },
    {
      what: "too few samples to be sure",
      tree: spread(80, 10, 3),
      auto: spread(100, 10, 3),
      want: { arm: "auto", refused: { arm: "tree/simple", gate: "significance" } },
    },
    {
      what: "many samples, but a small effect",
      tree: spread(96, 60, 400),
      auto: spread(104, 60, 400),
      want: { arm: "auto", refused: { arm: "tree/simple", gate: "effect" } },
    },
    {
      what: "halves that disagree",
      tree: Array.from(
        { length: 40 },
        (_, at) => (at % 2 === 0 ? 80 : at % 10 < 6 ? 98 : 120) + at / 100,
      ),
      auto: Array.from({ length: 40 }, (_, at) => 105 + at / 100),
      want: { arm: "auto", refused: { arm: "tree/simple", gate: "split halves" } },
    },
    {
      what: "sure, but 3 % only",
      tree: spread(97, 2),
      auto: spread(100, 2),
      want: { arm: "auto", refused: { arm: "tree/simple", gate: "improvement" } },
    },
  ] as const)("$what", ({ tree, auto, want }) => {
    expect(decide(tree, auto)).toEqual(want);
  });

  it("asks for 10 % from 64 MB on", () => {
    const [tree, auto] = [spread(93, 2), spread(100, 2)];
    expect(decide(tree, auto, 64 * MIB - 1)).toMatchObject({ arm: "tree/simple" });
    expect(decide(tree, auto, 64 * MIB)).toMatchObject({ refused: { gate: "improvement" } });
  });
});

describe("the arms of a topology", () => {
  const a100 = {
    key: "a100",
    nodes: 2,
    ranks: 8,
    hasNvlink: true,
    hasNvlinkSharp: false,
    hasCollnet: false,
  };
  const large = { collective: "allreduce", maxBytes: 256 * MIB } as const;

  it.each([
    { what: "A100 over two hosts", topology: a100, want: 5 },
    { what: "no NVLink", topology: { ...a100, hasNvlink: false }, want: 3 },
    { what: "H100 over two hosts", topology: { ...a100, hasNvlinkSharp: true }, want: 6 },
    { what: "H100 in one host", topology: { ...a100, nodes: 1, hasNvlinkSharp: true }, want: 6 },
    { what: "a reducing fabric", topology: { ...a100, hasCollnet: true }, want: 7 },
    { what: "one GPU", topology: { ...a100, nodes: 1, ranks: 1 }, want: 1 },
  ])("has $want with $what", ({ topology, want }) => {
    const arms = armsFor({ ...large, topology });
    expect(arms).toHaveLength(want);
    expect(arms[0]).toBe("auto");
  });

  it("tries LL at small messages only, PAT where each host has one rank", () => {
    expect(armsFor({ ...large, maxBytes: MIB, topology: a100 })).toContain("ring/ll");
    const flat = { ...a100, nodes: 8 };
    const gather = { collective: "allgather", maxBytes: 256 * MIB } as const;
    expect(armsFor({ ...gather, topology: flat })).toContain("pat/simple");
    expect(armsFor({ ...gather, topology: a100 })).not.toContain("pat/simple");
  });
});

describe("after each arm was tried once", () => {
  const round: readonly Sample[] = [
    { arm: "auto", ms: 120 },
    { arm: "tree/simple", ms: 100 },
    { arm: "tree/ll128", ms: 104 },
    { arm: "ring/simple", ms: 140 },
    { arm: "ring/ll128", ms: 400 },
  ];

  it("does not ask for an arm again that is far behind, but for one whose time may be a stall", () => {
    const choice = eliminationChoice(round, ARMS);
    const asked = choice.kind === "explore" ? choice.runs.map(({ arm }) => arm) : [];
    expect([...asked].sort()).toEqual(["auto", "ring/ll128", "tree/ll128", "tree/simple"]);
  });
});

describe("an arm that was in use for long", () => {
  const many = (arm: Arm, ms: number, count: number): readonly Sample[] =>
    Array.from({ length: count }, (_, at) => ({ arm, ms: ms * (at % 2 === 0 ? 1.05 : 0.95) }));
  // What a tuner still has of a race that was won by 4 %: the rest is forgotten.
  const rest = [...many("auto", 100, 6), ...many("tree/simple", 95, 6)];
  const arms: readonly Arm[] = ["auto", "tree/simple"];

  it("stays while it is ahead, and is probed on, although what proved it is forgotten", () => {
    expect(eliminationChoice(rest, arms).kind).toBe("explore");
    const used = [...rest, ...many("tree/simple", 95, 120)];
    expect(eliminationChoice(used, arms)).toMatchObject({ kind: "exploit", arm: "tree/simple" });
    const probed: readonly Sample[] = [...used, { arm: "auto", ms: 100 }];
    const again = [...probed, ...many("tree/simple", 95, 12)];
    expect(eliminationChoice(again, arms)).toMatchObject({ kind: "exploit", arm: "tree/simple" });
  });

  it("does not stay for a wait for times, however far ahead it was", () => {
    const waited = [...rest, ...many("tree/simple", 95, 40)];
    expect(eliminationChoice(waited, arms).kind).toBe("explore");
  });

  it("does not stay for a wait under the policy that tried the arms, however long that was", () => {
    const under = (version: number, samples: readonly Sample[]): readonly Sample[] =>
      samples.map((sample) => ({ ...sample, version }));
    const long = many("tree/simple", 95, 120);
    const waited = under(7, [...rest, ...long]);
    expect(eliminationChoice(waited, arms).kind).toBe("explore");
    const decided = [...under(7, rest), ...under(8, long)];
    expect(eliminationChoice(decided, arms)).toMatchObject({ kind: "exploit", arm: "tree/simple" });
    const probed = [...decided, ...under(9, [{ arm: "auto", ms: 100 }, ...long.slice(0, 40)])];
    expect(eliminationChoice(probed, arms)).toMatchObject({ kind: "exploit", arm: "tree/simple" });
  });

  it("leaves for AUTO when that is ahead", () => {
    const slower = [...rest, ...many("tree/simple", 95, 120), ...many("auto", 80, 12)];
    const choice = eliminationChoice(slower, arms);
    expect(choice.kind === "exploit" ? choice.arm : choice.meanwhile).toBe("auto");
  });
});

describe("the gate", () => {
  const arms: readonly Arm[] = ["auto", "tree/simple"];
  const pairs = (ms: number, count: number): readonly Sample[] =>
    Array.from({ length: count }, (_, at) =>
      arms.map((arm): Sample => {
        const scatter = at % 2 === 0 ? 1.05 : 0.95;
        return { arm, ms: scatter * (arm === "auto" ? 100 : ms) };
      }),
    ).flat();

  it("is passed by a gain of 2 % once a loss of 1 % is excluded", () => {
    const few = eliminationChoice(pairs(98, 20), arms);
    expect(few).toMatchObject({ kind: "explore" });
    const many = eliminationChoice(pairs(98, 60), arms);
    expect(many).toMatchObject({ kind: "exploit", arm: "tree/simple" });
  });

  it("is passed by no loss, however surely it is less than 1 %", () => {
    expect(eliminationChoice(pairs(100.5, 145), arms)).toMatchObject({ arm: "auto" });
  });
});

describe("an arm in use that became slower", () => {
  /** By 25 %, less than what is certain to be its own. */
  const slowedWith = (other: number): readonly Sample[] => [
    ...Array.from({ length: 12 }, (_, at): readonly Sample[] => [
      { arm: "tree/simple", ms: 100 + (at % 2) },
      { arm: "auto", ms: other + (at % 2) },
    ]).flat(),
    ...Array.from({ length: 20 }, (_, at): Sample => ({ arm: "tree/simple", ms: 100 + (at % 2) })),
    ...Array.from({ length: 12 }, (_, at): Sample => ({ arm: "tree/simple", ms: 125 + (at % 2) })),
  ];
  const arms: readonly Arm[] = ["auto", "tree/simple"];

  it("has those probed that, as they were, would now be 12 % better", () => {
    expect(eliminationChoice(slowedWith(106), arms)).toMatchObject({
      kind: "explore",
      runs: [{ arm: "auto", count: 1 }],
      meanwhile: "tree/simple",
    });
  });

  it("has none probed that could not be found better", () => {
    expect(eliminationChoice(slowedWith(118), arms)).toMatchObject({
      kind: "exploit",
      arm: "tree/simple",
    });
  });
});

describe("while the second round is under way", () => {
  const firstRound = (auto: number): readonly Sample[] =>
    ARMS.map((arm) => ({ arm, ms: arm === "auto" ? auto : (GROUND[arm] ?? NaN) }));
  it.each([
    ["runs on an arm that was far ahead in the first", 287, "tree/simple"],
    ["stays with AUTO where the lead may be luck", 175, "auto"],
    ["stays with AUTO where that was the fastest", 150, "auto"],
  ])("%s", (_, auto, want) => {
    const choice = eliminationChoice(firstRound(auto), ARMS);
    expect(choice).toMatchObject({ kind: "explore", meanwhile: want });
  });

  it("stays with AUTO where an arm has no time yet", () => {
    const choice = eliminationChoice(firstRound(287).slice(0, 4), ARMS);
    expect(choice).toMatchObject({ kind: "explore", meanwhile: "auto" });
  });
});
