/** @file More requests than the fleet may put outside at once: they reach their lobbies without the ledger, and no flood keeps a run from its end. */
import { expect, it } from "vitest";
import { DEFAULT_POLICY } from "../../../domain/fleet/fleet.ts";
import type { FleetCommand, FleetEvent } from "../../../machines/fleet/events.ts";
import { fleetMachine, openFleet } from "../../../machines/fleet/fleet.ts";
import type { FleetState } from "../../../machines/fleet/state.ts";
import type { Post } from "../../../protocol/control-contract.ts";
import { packLedger } from "../../../scheduling/ledger/codec.ts";
import { ask, end, fleetShape, planOf, readyLedger } from "../../scheduling/builders.ts";
import { play, type Played } from "../harness.ts";

type Fleet = Played<FleetState, FleetEvent, FleetCommand>;

const SHAPE = { ...fleetShape([{ hosts: [{}] }]), policy: { ...DEFAULT_POLICY, places: 100 } };
const started = (): Fleet => {
  const input = { name: "eu", ledger: packLedger(readyLedger(SHAPE)) };
  return play(fleetMachine, { state: openFleet(input, 0, 0), commands: [] });
};

const asked = (from: number, count: number) =>
  Array.from({ length: count }, (_, at) => ask({ job: `job-${from + at}`, tenant: "crowd" }));

/** Lets the fleet come to rest; lobbies hear what `isHeard` lets through. Ends with the run. */
function settle(fleet: Fleet, isHeard: (post: Post) => boolean = () => true): readonly Post[] {
  const posts: Post[] = [];
  for (let turns = 0; turns < 2_000; turns += 1) {
    const command = fleet.open.shift();
    if (command === undefined) {
      const dueAtMs = fleetMachine.dueAtMs(fleet.state());
      if (dueAtMs > 5_000) return posts;
      fleet.feed({ kind: "tick" }, dueAtMs);
      continue;
    }
    if (command.kind === "decide")
      fleet.feed({ kind: "decided", id: command.id, plan: planOf([]) });
    if (command.kind === "finish-handlers") fleet.feed({ kind: "handlers-finished" });
    if (command.kind === "continue-as-new") {
      fleet.open.unshift(command);
      return posts;
    }
    if (command.kind === "recover") fleet.feed({ kind: "recovered", id: command.id });
    if (command.kind !== "deliver") continue;
    const { post, id } = command;
    const isThere = isHeard(post);
    if (isThere) posts.push(post);
    const lobbies = isThere ? (post.lobbies ?? []).map(({ tenant }) => tenant) : [];
    fleet.feed({ kind: "delivered", id, report: { accepted: [], gone: [], lobbies } });
  }
  throw new Error("the fleet does not come to rest");
}

const toldOf = (posts: readonly Post[]): readonly string[] =>
  posts.flatMap(({ lobbies = [] }) => lobbies.flatMap(({ rows }) => rows.map((row) => row.jobId)));

it("all of a flood is inside or with a lobby, each job once, and each entry is folded once", () => {
  const fleet = started();
  for (let at = 0; at < 10; at += 1)
    fleet.feed({ kind: "inbox", batch: asked(500 * at, 500), bytes: 100_000 });
  let folded = 0;
  const posts = settle(fleet, () => {
    for (let at = 0; at < fleet.open.length; at += 1) {
      const command = fleet.open[at];
      if (command?.kind === "record" && command.event.kind === "inbox")
        folded += command.event.entries.length;
    }
    return true;
  });
  const { ledger, held } = fleet.state();
  const told = toldOf(posts);
  expect(new Set(told).size).toBe(told.length);
  expect(told.length + ledger.requests.size).toBe(5_000);
  expect(held.size).toBe(0);
  expect(folded).toBeLessThanOrEqual(5_000);
  expect(posts.every(({ lobbies = [] }) => lobbies.every(({ rows }) => rows.length <= 700))).toBe(
    true,
  );
  // Each lobby's jobs hear why they wait, once a delivery.
  expect(posts.flatMap(({ outside = [] }) => outside)).toMatchObject(
    posts
      .flatMap(({ lobbies = [] }) => lobbies)
      .filter(({ rows }) => rows.length > 0)
      .map(({ tenant }) => ({ tenant, reason: { code: "QueueFull" } })),
  );
});

it("what did not reach a lobby goes again", () => {
  const fleet = started();
  fleet.feed({ kind: "inbox", batch: asked(0, 2_000), bytes: 100_000 });
  let lost = 0;
  const posts = settle(fleet, ({ lobbies = [] }) => {
    if (lobbies.length === 0 || lost >= 3) return true;
    lost += 1;
    return false;
  });
  expect(lost).toBe(3);
  const told = toldOf(posts);
  expect(new Set(told).size).toBe(told.length);
  expect(told.length + fleet.state().ledger.requests.size).toBe(2_000);
});

it("a run that was flooded takes no more requests, but all else, and its next run asks all jobs", () => {
  const fleet = started();
  fleet.feed({ kind: "inbox", batch: asked(0, 1), bytes: 13 * 2 ** 20 }, 0);
  fleet.feed({ kind: "inbox", batch: [...asked(1, 2), end("job-0")], sender: "mallory" });
  fleet.feed({ kind: "inbox", batch: asked(3, 1), bytes: 100, sender: "mallory" });
  settle(fleet);
  const { input } = fleet.take("continue-as-new");
  expect(fleet.state().ledger.requests.size).toBe(0);
  expect(fleet.state().ledger.deadLetters).toMatchObject([
    { code: "EntryTooLarge" },
    { code: "LedgerFull", times: 3, sender: "mallory" },
  ]);
  const next = play(fleetMachine, { state: openFleet(input, 0, 0), commands: [] });
  settleUntil(next, "recover");
  expect(next.take("recover").order).toMatchObject({ isLedgerLost: false, areWordsLost: true });
});

it("a run that was flooded without an end ends, whatever it has not folded", () => {
  const fleet = started();
  for (let at = 0; at < 400; at += 1)
    fleet.feed({ kind: "inbox", batch: [end(`nobody-${at}`)], bytes: 2 ** 18 }, 0);
  settle(fleet);
  expect(fleet.state().isBacklogged).toBe(true);
  expect(fleet.take("continue-as-new").input.recoverAtMs).toHaveLength(1);
});

it("more than the machine holds is forgotten and asked for", () => {
  const fleet = started();
  for (let at = 0; at < 64; at += 1)
    fleet.feed({ kind: "inbox", batch: asked(500 * at, 500), bytes: 1_000 });
  for (let turns = 0; turns < 200 && fleet.state().inbox.batches.size > 0; turns += 1) {
    fleet.feed({ kind: "tick" });
    const decision = fleet.open.find(({ kind }) => kind === "decide");
    if (decision !== undefined)
      fleet.feed({ kind: "decided", id: fleet.take("decide").id, plan: planOf([]) });
  }
  expect(fleet.state().held.size).toBeLessThanOrEqual(30_000);
  expect(fleet.state().isOverrun).toBe(true);
});

function settleUntil(fleet: Fleet, kind: FleetCommand["kind"]): void {
  for (let turns = 0; turns < 20; turns += 1) {
    if (fleet.open.some((command) => command.kind === kind)) return;
    const decision = fleet.open.some((command) => command.kind === "decide");
    if (decision) fleet.feed({ kind: "decided", id: fleet.take("decide").id, plan: planOf([]) });
    else fleet.tick();
  }
}
