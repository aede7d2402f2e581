/** @file What a bandwidth model remembers: new words, the bounded buffer, outliers, drift, and when it trains. */
import { describe, expect, test } from "vitest";
import { jobId, parseHostId } from "../../../domain/values/ids.ts";
import type { KeptSample, MeasuredNote, ModelMemory } from "../../../protocol/model-messages.ts";
import {
  learnable,
  MAX_PER_SET,
  MAX_SAMPLES,
  NO_MEMORY,
  noteDrift,
  noteEvaluated,
  outliersOf,
  takeIn,
  trainingCause,
  notEvaluated,
  withServing,
} from "../../../workflows/learners/model-memory.ts";

const gpus = (...parts: readonly (readonly [host: string, mask: number])[]) =>
  parts.map(([host, mask]) => ({ host: parseHostId(`eu/${host}`), mask }));

function word(job: string, more: Partial<MeasuredNote> = {}): MeasuredNote {
  const base = { jobId: jobId(job), runId: "run", attempt: 1, window: 0, gbs: 100, atMs: 0 };
  return { ...base, gpus: gpus(["a", 1], ["b", 1]), ...more };
}
const taken = (words: readonly unknown[], from: ModelMemory = NO_MEMORY): ModelMemory =>
  takeIn(from, words, "eu");

describe("words", () => {
  test.each([
    { name: "of two jobs", words: [word("x"), word("y")], want: { samples: 2, repeated: 0 } },
    { name: "said twice", words: [word("x"), word("x")], want: { samples: 1, repeated: 1 } },
    {
      name: "of a later window",
      words: [word("x"), word("x", { window: 1, atMs: 5 })],
      want: { samples: 2, repeated: 0 },
    },
    {
      name: "of an earlier window, late",
      words: [word("x", { window: 1 }), word("x", { atMs: 9 })],
      want: { samples: 1, repeated: 1 },
    },
    {
      name: "of another attempt",
      words: [word("x"), word("x", { attempt: 2 })],
      want: { samples: 2, repeated: 0 },
    },
  ])("$name", ({ words, want }) => {
    const { samples, repeated } = taken(words);
    expect({ samples: samples.length, repeated }).toEqual(want);
  });

  test("the later word of one window takes the place of the earlier, and is no news", () => {
    const { samples, fresh } = taken([word("x"), word("x", { atMs: 5, gbs: 90 })]);
    expect(samples.map(({ gbs }) => gbs)).toEqual([90]);
    expect(fresh).toBe(1);
  });

  test.each([
    { name: "junk", words: [7, null, "x", { jobId: "x" }] },
    { name: "one host, which its table answers", words: [word("x", { gpus: gpus(["a", 3]) })] },
    { name: "a host twice", words: [word("x", { gpus: gpus(["a", 1], ["a", 2]) })] },
    { name: "no GPU of a host", words: [word("x", { gpus: gpus(["a", 1], ["b", 0]) })] },
    {
      name: "another cluster",
      words: [word("x", { gpus: [...gpus(["a", 1]), { host: parseHostId("us/a"), mask: 1 }] })],
    },
    {
      name: "of no messages",
      words: [
        word("x", { messages: { collective: "all_reduce", bytes: 0 } }),
        { ...word("y"), messages: { collective: "sing", bytes: 1 } },
      ],
    },
    { name: "no bandwidth", words: [word("x", { gbs: 0 }), word("y", { gbs: NaN })] },
    { name: "more than any link carries", words: [word("x", { gbs: 1e6 })] },
  ])("$name: counted and left out", ({ words }) => {
    const { samples, unfit } = taken(words);
    expect([samples.length, unfit]).toEqual([0, words.length]);
  });

  test("of other messages are kept with them, inside one host too, beside those of the usual ones", () => {
    const messages = { collective: "all_reduce", bytes: 2 ** 31 } as const;
    const usual = Array.from({ length: MAX_PER_SET }, (_, at) => word(`u${String(at)}`));
    const { samples, unfit } = taken([
      ...usual,
      word("x", { messages }),
      word("y", { messages, gpus: gpus(["a", 3]) }),
    ]);
    expect(unfit).toBe(0);
    expect(samples).toHaveLength(MAX_PER_SET + 2);
    expect(samples.slice(-2).map((sample) => sample.messages)).toEqual([messages, messages]);
    const junk = word("z", { messages: Object.assign({ junk: "x".repeat(1e3) }, messages) });
    expect(taken([junk]).samples[0]?.messages).toEqual(messages);
  });

  test("a signal that is no list is one word", () => {
    expect(takeIn(NO_MEMORY, "junk", "eu").unfit).toBe(1);
  });

  test("GPUs in another order are the same set, and junk beside the known fields stays outside", () => {
    const [sample] = taken([{ ...word("x", { gpus: gpus(["b", 1], ["a", 1]) }), junk: 1 }]).samples;
    expect(sample?.gpus).toEqual(gpus(["a", 1], ["b", 1]));
    expect(Object.keys(sample ?? {})).not.toContain("junk");
  });
});

describe("the buffer", () => {
  test("keeps the newest few of one set of GPUs", () => {
    const words = Array.from({ length: 9 }, (_, at) => word(`j${at}`, { gbs: at + 1 }));
    expect(taken(words).samples.map(({ gbs }) => gbs)).toEqual([6, 7, 8, 9]);
    expect(MAX_PER_SET).toBe(4);
  });

  test("full, gives up the oldest of the set that has most: many of one job push nobody out", () => {
    const rare = Array.from({ length: MAX_SAMPLES - 2 }, (_, at) =>
      word(`rare${at}`, { gpus: gpus([`h${at}`, 1], ["z", 1]) }),
    );
    const often = Array.from({ length: 5 }, (_, at) => word(`often${at}`));
    const { samples } = taken([...rare, ...often]);
    expect(samples).toHaveLength(MAX_SAMPLES);
    expect(samples.filter(({ jobId: job }) => job.startsWith("rare"))).toHaveLength(rare.length);
    expect(samples.slice(-2).map(({ jobId: job }) => job)).toEqual(["often3", "often4"]);
  });
});

/** Samples whose measured ÷ predicted is given, each of a job of its own. */
function evaluated(
  rows: readonly (readonly [hosts: string, ratio: number])[],
  { isServed = true } = {},
): ModelMemory {
  const words = rows.map(([hosts, ratio], at) =>
    word(`j${at}`, {
      gpus: gpus(...[...hosts].map((host) => [host, at + 1] as const)),
      gbs: 100 * ratio,
      atMs: at,
    }),
  );
  const served = isServed ? withServing(NO_MEMORY, { version: "v1", generation: 1 }) : NO_MEMORY;
  const memory = taken(words, served);
  return noteEvaluated(
    memory,
    notEvaluated(memory),
    words.map(() => 100),
  );
}

describe("outliers", () => {
  test("one that nobody confirms is named and not learned from", () => {
    const memory = evaluated([
      ["ab", 1],
      ["ab", 0.2],
      ["ab", 1.1],
      ["bc", 1],
    ]);
    expect(outliersOf(memory)).toMatchObject([{ jobId: "j1", gbs: 20, predictedGbs: 100 }]);
    expect(learnable(memory).map(({ jobId: job }) => job)).toEqual(["j0", "j2", "j3"]);
  });

  test("once another run on one of its hosts is off the same way, it is none", () => {
    expect(
      outliersOf(
        evaluated([
          ["ab", 1],
          ["ab", 0.2],
          ["bc", 0.4],
        ]),
      ),
    ).toEqual([]);
  });

  test("without predictions nothing is an outlier", () => {
    const memory = taken([word("x"), word("y", { gbs: 1 })]);
    expect(outliersOf(memory)).toEqual([]);
  });
});

describe("drift", () => {
  const calm = [
    ["ab", 1],
    ["bc", 1.02],
    ["cd", 0.98],
    ["da", 1],
    ["bd", 1.01],
  ] as const;

  test("small errors are none", () => {
    expect(noteDrift(evaluated([...calm, ...calm]), 5).drift).toBeUndefined();
  });

  test("one slow host is named, and what was measured there before is stale", () => {
    const slow = [
      ["ab", 0.25],
      ["ac", 0.3],
      ["ad", 0.25],
      ["ab", 0.28],
    ] as const;
    const memory = noteDrift(evaluated([...calm, ...slow, ...slow]), 50);
    expect(memory.drift).toMatchObject({ host: "eu/a", samples: 8, atMs: 50 });
    expect(memory.drift?.ratio).toBeCloseTo(0.265, 2);
    const stale = memory.samples.filter(({ isStale }) => isStale === true);
    expect(stale.map(({ jobId: job }) => job)).toEqual(["j0", "j3"]);
  });

  test("all hosts off the same way is the cluster", () => {
    const rows = [...calm, ...calm].map(([hosts]) => [hosts, 0.6] as const);
    const { drift } = noteDrift(evaluated(rows), 0);
    expect(drift).toMatchObject({ samples: 10 });
    expect(drift).not.toHaveProperty("host");
  });

  test("the first measurements of other messages are neither drift nor outliers, and make nothing stale", () => {
    const messages = { collective: "all_reduce", bytes: 2 ** 31 } as const;
    const hosts = ["a", "b", "c", "d"];
    const pair = (at: number) =>
      gpus([hosts[at % 4] ?? "", at + 1], [hosts[(at + 1) % 4] ?? "", at + 1]);
    const usual = Array.from({ length: 50 }, (_, at) =>
      word(`u${at}`, { atMs: at, gpus: pair(at) }),
    );
    const large = Array.from({ length: 25 }, (_, at) =>
      word(`l${at}`, { atMs: 100 + at, gpus: pair(at), gbs: at === 0 ? 900 : 160, messages }),
    );
    const memory = taken(
      [...usual, ...large],
      withServing(NO_MEMORY, { version: "v1", generation: 1 }),
    );
    const asked = notEvaluated(memory);
    const answers = asked.map(() => 100);
    const next = noteDrift(noteEvaluated(memory, asked, answers), 200);
    expect(next.drift).toBeUndefined();
    expect(next.samples.filter(({ isStale }) => isStale === true)).toEqual([]);
    expect(outliersOf(next)).toEqual([]);
    expect(learnable(next)).toHaveLength(75);
  });

  test("one job alone is no drift, however often it measures", () => {
    const words = Array.from({ length: 8 }, (_, at) =>
      word("x", { window: at, atMs: at, gbs: 20, gpus: gpus(["a", at + 1], ["b", 1]) }),
    );
    const memory = taken(words, withServing(NO_MEMORY, { version: "v1", generation: 1 }));
    const notified = noteEvaluated(
      memory,
      notEvaluated(memory),
      words.map(() => 100),
    );
    expect(noteDrift(notified, 0).drift).toBeUndefined();
  });

  test("is over when another version serves, whose errors are not known yet", () => {
    const slow = [
      ["ab", 0.25],
      ["ac", 0.3],
      ["ad", 0.25],
      ["ab", 0.28],
    ] as const;
    const memory = noteDrift(evaluated(slow), 0);
    expect(memory.drift).toBeDefined();
    const next = withServing(memory, { version: "v2", generation: 2 });
    expect(next.drift).toBeUndefined();
    expect(notEvaluated(next)).toHaveLength(4);
  });

  test("is over when the newest samples are as expected", () => {
    const slow = [
      ["ab", 0.25],
      ["ac", 0.3],
      ["ad", 0.25],
      ["ab", 0.28],
    ] as const;
    const memory = noteDrift(evaluated(slow), 0);
    const good = Array.from({ length: 8 }, (_, at) =>
      word(`g${at}`, { atMs: 100 + at, gpus: gpus(["a", at + 1], ["b", 2]) }),
    );
    const later = taken(good, memory);
    const notified = noteEvaluated(
      later,
      notEvaluated(later),
      good.map(() => 100),
    );
    expect(noteDrift(notified, 1).drift).toBeUndefined();
  });
});

test("a sample that the version cannot judge is forgotten: its hosts are not there any more", () => {
  const memory = taken([word("x"), word("y")]);
  const { samples } = noteEvaluated(memory, notEvaluated(memory), [null, 50]);
  expect(samples.map(({ jobId: job, predictedGbs }) => [job, predictedGbs])).toEqual([["y", 50]]);
});

describe("training is due", () => {
  const kept = (count: number): readonly KeptSample[] =>
    Array.from({ length: count }, (_, at) => ({
      run: `r${at}`,
      window: 0,
      jobId: jobId(`j${at}`),
      gpus: gpus(["a", at + 1], ["b", 1]),
      gbs: 100,
      atMs: at,
    }));
  const serving = { version: "v1", generation: 1 };
  const drift = { ratio: 0.3, samples: 8, atMs: 0 };
  const lastTraining = { atMs: 1_000, cause: "first", kind: "serves", reason: "" } as const;
  test.each<{ name: string; memory: Partial<ModelMemory>; at?: number; want: string | undefined }>([
    {
      name: "with too little to learn from",
      memory: { samples: kept(23), fresh: 23 },
      want: undefined,
    },
    { name: "for a first version", memory: { samples: kept(24), fresh: 24 }, want: "first" },
    {
      name: "not again with nothing new",
      memory: { samples: kept(40), fresh: 7 },
      want: undefined,
    },
    {
      name: "when enough is new",
      memory: { samples: kept(40), fresh: 25, serving },
      want: "samples",
    },
    { name: "not before", memory: { samples: kept(40), fresh: 24, serving }, want: undefined },
    {
      name: "earlier when something drifts",
      memory: { samples: kept(40), fresh: 6, serving, drift },
      want: "drift",
    },
    {
      name: "never while a rollback holds",
      memory: { samples: kept(40), fresh: 30, serving, drift, isHeld: true },
      want: undefined,
    },
    {
      name: "not within a minute of the last",
      memory: { samples: kept(40), fresh: 30, serving, lastTraining },
      at: 60_999,
      want: undefined,
    },
    {
      name: "a minute after the last",
      memory: { samples: kept(40), fresh: 30, serving, lastTraining },
      at: 61_000,
      want: "samples",
    },
  ])("$name", ({ memory, at = 0, want }) => {
    expect(trainingCause({ ...NO_MEMORY, ...memory }, at)).toBe(want);
  });
});
