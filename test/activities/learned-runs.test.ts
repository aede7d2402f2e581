/** @file What runs measured and sent reaches later decisions: asked for after those that could use it, seldom, and never to anybody's harm. */

import { expect, test, vi } from "vitest";
import type { KnownRuns } from "../../activities/decide-messages.ts";
import { runsLearner, type StepsOf } from "../../activities/learned-runs.ts";
import { serviceMark, type WeightsKeeper } from "../../domain/lease/kept-weights.ts";
import { parseHostId } from "../../domain/values/ids.ts";
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

const KEEPER: WeightsKeeper = {
  host: parseHostId("c0/h0"),
  services: [serviceMark({ tenant: "a", name: "pictures" })],
};

function learner(
  stepsOf: StepsOf,
  clusters: readonly string[],
  { areSteps = true, areMessages = false, areKeepers = false } = {},
) {
  const clock = { nowMs: 1_000 };
  const known: Omit<KnownRuns, "kind">[] = [];
  const asked: string[] = [];
  const learn = runsLearner({
    stepsOf: (of, signal) => {
      asked.push(`${of.fleet} ${of.cluster}`);
      return stepsOf(of, signal);
    },
    keepersOf: () => Promise.resolve([KEEPER]),
    messagesOf: ({ cluster }) => Promise.resolve(cluster === "c0" ? [SENT] : []),
    decider: {
      wanted: () =>
        areSteps || areMessages || areKeepers
          ? { clusters, areSteps, areMessages, areKeepers }
          : undefined,
      know: (runs) => known.push(runs),
    },
    nowMs: () => clock.nowMs,
  });
  return { learn, clock, known, asked };
}

test("a fleet that prices places asks all its clusters, and again after half a minute", async () => {
  const { learn, clock, known, asked } = learner(() => Promise.resolve([STEP]), ["c0", "c1"]);
  void learn("f");
  void learn("f");
  await vi.waitFor(() => expect(known).toEqual([{ fleet: "f", steps: [STEP, STEP] }]), {
    timeout: 60_000,
  });
  expect(asked).toEqual(["f c0", "f c1"]);
  clock.nowMs += 30_000;
  void learn("f");
  expect(asked).toHaveLength(4);
});

test("nobody is asked where no place was priced and no model was asked", () => {
  const { learn, asked } = learner(() => Promise.resolve([STEP]), ["c0"], { areSteps: false });
  void learn("f");
  expect(asked).toEqual([]);
});

test("a cluster without a model takes nothing from the others", async () => {
  const { learn, known } = learner(
    ({ cluster }) =>
      cluster === "c0" ? Promise.reject(new Error("none")) : Promise.resolve([STEP]),
    ["c0", "c1"],
  );
  void learn("f");
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
    void learn("f");
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
  void learn("f");
  await vi.waitFor(() => expect(known).toEqual([{ fleet: "f", messages: [SENT] }]), {
    timeout: 60_000,
  });
  expect(asked).toEqual([]);
});

test("a decision that places a served model is worth making again where hosts tell something new, and asks seldom", async () => {
  const { learn, clock, known } = learner(() => Promise.resolve([]), ["c0", "c1"], {
    areSteps: false,
    areKeepers: true,
  });
  expect(await learn("f")).toBe(true);
  expect(known).toEqual([{ fleet: "f", keepers: [KEEPER, KEEPER] }]);
  expect(learn("f")).toBeUndefined();
  clock.nowMs += 5_000;
  expect(await learn("f")).toBe(false);
  // Told again, because a thread may have begun anew.
  expect(known).toHaveLength(2);
});
