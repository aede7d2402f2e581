/** @file What a lobby's run is handed by somebody else: torn rows are left out one by one, and nobody is lost for them. */

import fc from "fast-check";
import { expect, it } from "vitest";
import { createLobbyStore } from "../../../activities/lobby-store.ts";
import { jobId, runId, tenantId } from "../../../domain/values/ids.ts";
import { lobbyRows } from "../../../machines/lobby/lobby-view.ts";
import { lobbyMachine, openLobby } from "../../../machines/lobby/lobby.ts";
import type { LobbyCommand } from "../../../machines/lobby/lobby-state.ts";
import type { CarriedLobby, LobbyInput, PackedRow } from "../../../protocol/lobby-contract.ts";
import { memoryStore } from "./played-lobby.ts";

const TRUE_ROW: PackedRow = [jobId("true"), runId("r1"), 1, "training", 0, 1_000, 1, 0];
const OTHER: PackedRow = [jobId("called"), runId("r2"), 1, "training", 0, 1_000, 1, 0];
const SAMPLE = [0, 0, 1_000, 0] as const;
const WHOLE: CarriedLobby = {
  queues: [
    {
      class: "training",
      rows: [TRUE_ROW],
      runs: [
        {
          directory: "d1",
          count: 3,
          at: 1,
          samples: [SAMPLE],
          bound: { round: 0, priority: 0, submittedAtMs: 2_000 },
        },
      ],
      leavers: [[jobId("left"), runId("r3"), 1]],
      storedLeavers: ["l1"],
      storedLeaverCount: 1,
    },
  ],
  credits: [{ number: 7, class: "training" }],
  called: [[{ number: 6, class: "training" }, OTHER, 500]],
  returned: [5],
  reported: { waiting: { inference: 0, interactive: 0, training: 3 } },
  reports: 4,
  unused: ["d0"],
  nextId: 9,
};
const open = (carried: unknown) =>
  openLobby(
    { fleet: "eu", tenant: tenantId("red"), carried } as LobbyInput, // as anybody begins one
    "run-1",
    2_000,
  );
/** Commands of its first steps; credits may be used, and news come. */
function firstSteps(carried: unknown): readonly LobbyCommand[] {
  let lobby = open(carried);
  const commands: LobbyCommand[] = [];
  const news = { rows: [], credits: [{ number: 70, class: "training" }] };
  for (const event of [{ kind: "tick" }, { kind: "news", news }, { kind: "tick" }] as const) {
    const step = lobbyMachine.step(lobby, event as never, 2_000); // news as junk comes
    lobby = step.state;
    commands.push(...step.commands);
  }
  return commands;
}

it("what a run of ours has handed on is read as it is", () => {
  const lobby = open(WHOLE);
  expect(lobby.isMusterDue).toBe(false);
  expect(lobby).toMatchObject({ credits: WHOLE.credits, returned: [5], reports: 4, nextId: 9 });
  expect([...lobby.called.keys()]).toEqual([6]);
  expect(lobby.queues.training.runs).toEqual(WHOLE.queues[0]?.runs);
  expect(lobby.reported).toEqual(WHOLE.reported);
  expect(open(undefined).isMusterDue).toBe(false);
});

const LISTS = ["queues", "credits", "called", "returned", "unused"] as const;
const QUEUE_LISTS = ["rows", "runs", "leavers", "storedLeavers"] as const;
const junk = fc.oneof(
  fc.jsonValue().filter((value) => typeof value !== "string" && typeof value !== "number"),
  fc.constant({ class: "training", rows: 1 }),
  fc.constant([null, null, -1, "training"]),
);

it("torn rows are left out, what is whole stays, and all who wait are asked", () => {
  fc.assert(
    fc.property(junk, fc.constantFrom(...LISTS), (torn, list) => {
      const carried = { ...WHOLE, [list]: [torn, ...WHOLE[list]] };
      expect(lobbyRows(open(carried)).jobs).toContain("true");
      expect(open(carried).isMusterDue).toBe(true);
      expect(firstSteps(carried).map(({ kind }) => kind)).toContain("muster");
    }),
  );
  fc.assert(
    fc.property(junk, fc.constantFrom(...QUEUE_LISTS), (torn, list) => {
      const [queue] = WHOLE.queues;
      const carried = {
        ...WHOLE,
        queues: [{ ...queue, [list]: [torn, ...(queue?.[list] ?? [])] }],
      };
      expect(lobbyRows(open(carried)).jobs).toContain("true");
      expect(firstSteps(carried).map(({ kind }) => kind)).toContain("muster");
    }),
  );
});

it("whatever else it is handed, it opens and asks all who wait", () => {
  fc.assert(
    fc.property(
      fc.oneof(fc.jsonValue(), fc.record({ queues: fc.jsonValue(), called: fc.jsonValue() })),
      (carried) => {
        expect(firstSteps(carried).map(({ kind }) => kind)).toContain("muster");
      },
    ),
  );
});

it("a lobby that stands where a false one was asks all who wait", () => {
  const asked = (input: Partial<LobbyInput>) =>
    openLobby({ fleet: "eu", tenant: tenantId("red"), ...input }, "run-1", 0).isMusterDue;
  expect(asked({ former: ["run-0"], isMusterDue: true })).toBe(true);
  expect(asked({ former: ["run-0"], carried: WHOLE })).toBe(false);
});

it("a merge removes what lobbies have put into the store, and nothing that lies beside", async () => {
  const store = memoryStore();
  const lobbies = createLobbyStore(store, () => undefined);
  const model = await store.put({ name: "model", layers: [1, 2] });
  const forged = await store.put({ name: "run-0 1", pages: [[model, 2], [1], null] });
  const { directory } = await lobbies.keepRows({ name: "run-1 1", rows: [TRUE_ROW] });
  const leavers = await lobbies.keepLeavers({ name: "run-1 2", leavers: [] });
  const unused = [model, forged, directory, leavers, "no such key"];
  await lobbies.mergeRows({ name: "run-1 3", runs: [], leavers: [], unused });
  expect(await store.get(model)).toBeDefined();
  expect(await store.get(directory)).toBeUndefined();
  expect(await store.get(leavers)).toBeUndefined();
  expect([...store.values.values()].filter((text) => text.includes("true"))).toEqual([]);
});

it("asks all who wait in its next run where its own was full before it could", () => {
  const input = {
    fleet: "eu",
    tenant: tenantId("red"),
    former: ["run-0"],
    isMusterDue: true,
  } as const;
  let lobby = openLobby(input, "run-1", 0);
  for (let word = 0; word < 2_000; word += 1)
    lobby = lobbyMachine.step(lobby, { kind: "news", news: word }, 0).state;
  const { state, commands } = lobbyMachine.step(lobby, { kind: "tick" }, 0);
  expect(commands).toEqual([]);
  expect(state.end?.next).toMatchObject({ isMusterDue: true });
});
