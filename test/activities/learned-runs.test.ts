/** @file What runs measured and sent reaches later decisions: asked for after those that could use it, seldom, and never to anybody's harm. */

import { expect, test, vi } from "vitest";
import type { KnownRuns } from "../../activities/decide-messages.ts";
import { runsLearner, type StepsOf } from "../../activities/learned-runs.ts";
import type { KeptMessages } from "../../domain/bandwidth/sent-messages.ts";
import type { KeptStep } from "../../domain/model/step-record.ts";

const STEP: KeptStep = {
  ...{ model: "m", gpuType: "H100", plan: "DP 8", run: "r", tenant: "a", predictedMs: 1 },
  ...{ computeMs: 1, communicationMs: 0, otherMs: 0, measuredMs: 2, atMs: 1 },
};

const SENT: KeptMessages = {
  ...{ run: "j", tenant: "a", class: "training", name: "n", gpus: 8, atMs: 1 },
  sent: [{ collective: "all_gather", bytes: 2 ** 28, share: 1 }],
};

function learner(
  stepsOf: StepsOf,
  clusters: readonly string[],
  { areSteps = true, areMessages = false } = {},
) {
  const clock = { nowMs: 1_000 };
  const known: Omit<KnownRuns, "kind">[] = [];
  const asked: string[] = [];
  const learn = runsLearner({
    stepsOf: (of, signal) => {
      asked.push(`${of.fleet} ${of.cluster}`);
      return stepsOf(of, signal);
    },
    messagesOf: ({ cluster }) => Promise.resolve(cluster === "c0" ? [SENT] : []),
    decider: {
      wanted: () => (areSteps || areMessages ? { clusters, areSteps, areMessages } : undefined),
      know: (runs) => known.push(runs),
    },
    nowMs: () => clock.nowMs,
  });
  return { learn, clock, known, asked };
}

test("a fleet that prices places asks all its clusters, and again after half a minute", async () => {
  const { learn, clock, known, asked } = learner(() => Promise.resolve([STEP]), ["c0", "c1"]);
  learn("f");
  learn("f");
  await vi.waitFor(() => expect(known).toEqual([{ fleet: "f", steps: [STEP, STEP] }]), {
    timeout: 60_000,
  });
  expect(asked).toEqual(["f c0", "f c1"]);
  clock.nowMs += 30_000;
  learn("f");
  expect(asked).toHaveLength(4);
});

test("nobody is asked where no place was priced and no model was asked", () => {
  const { learn, asked } = learner(() => Promise.resolve([STEP]), ["c0"], { areSteps: false });
  learn("f");
  expect(asked).toEqual([]);
});

test("a cluster without a model takes nothing from the others", async () => {
  const { learn, known } = learner(
    ({ cluster }) =>
      cluster === "c0" ? Promise.reject(new Error("none")) : Promise.resolve([STEP]),
    ["c0", "c1"],
  );
  learn("f");
  await vi.waitFor(() => expect(known).toEqual([{ fleet: "f", steps: [STEP] }]), {
    timeout: 60_000,
  });
});

test("a cluster that answers no more is taken at its last word, one that forgets is believed", async () => {
  const answers = [[STEP], undefined, []];
  const { learn, clock, known } = learner(() => {
    const answer = answers.shift();
    return answer === undefined ? Promise.reject(new Error("late")) : Promise.resolve(answer);
  }, ["c0"]);
  for (const times of [1, 2, 3]) {
    learn("f");
    await vi.waitFor(() => expect(known).toHaveLength(times), { timeout: 60_000 });
    clock.nowMs += 30_000;
  }
  expect(known.map(({ steps }) => steps)).toEqual([[STEP], [STEP], []]);
});

test("where models were asked for bandwidths, what jobs sent is known later, whatever becomes of the steps", async () => {
  const { learn, known, asked } = learner(() => Promise.resolve([STEP]), ["c0", "c1"], {
    areSteps: false,
    areMessages: true,
  });
  learn("f");
  await vi.waitFor(() => expect(known).toEqual([{ fleet: "f", messages: [SENT] }]), {
    timeout: 60_000,
  });
  expect(asked).toEqual([]);
});
