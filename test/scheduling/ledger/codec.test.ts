/** @file Packed ledgers: what they refuse, and that they stay small. Round trips of random ledgers are in ledger.test.ts. */
import { expect, test } from "vitest";
import { apply, emptyLedger } from "../../../scheduling/ledger/apply/apply.ts";
import { decide } from "../../../scheduling/cycle/decide.ts";
import { packLedger, unpackLedger } from "../../../scheduling/ledger/codec.ts";
import { NEWEST_RULES, type Ledger } from "../../../scheduling/ledger/ledger.ts";
import {
  applyPlan,
  ask,
  end,
  fleetShape,
  gpus,
  hello,
  host,
  inbox,
  leased,
  readyLedger,
} from "../builders.ts";

const READY = readyLedger(fleetShape([{ hosts: [{}, {}] }]));

const throughJson = (ledger: Ledger): Ledger =>
  unpackLedger(JSON.parse(JSON.stringify(packLedger(ledger))) as ReturnType<typeof packLedger>);

test("a ledger of other rules is refused, and the message says what to do", () => {
  const packed = { ...packLedger(READY), applyVersion: 99 };
  const known = `version 99 of the rules, this program versions 1 to ${NEWEST_RULES}`;
  expect(() => unpackLedger(packed)).toThrow(new RegExp(`${known}.*release that wrote it`, "u"));
});

const marked = {
  job: "a",
  name: "\u007f",
  run: "b1946ac9-2492-4d23-8d6e-0123456789ab",
  gpus: 8,
  requestedAtMs: 0.1,
  submittedAtMs: 1e15,
};
test.each([
  { name: "an empty one", ledger: emptyLedger(fleetShape([]), "sha256-x") },
  {
    name: "times that differences would blur",
    ledger: inbox(READY, [ask(marked), ask({ job: "b", submittedAtMs: 0.3 })]).ledger,
  },
  {
    name: "agents whose queues carry their epoch, or the mark that stands for it",
    ledger: inbox(READY, [
      hello(["c0/h0"], { epoch: "0f3c6a52-1111-4222-8333-444455556666" }),
      hello(["c0/h1"], { epoch: "\u007fx" }),
    ]).ledger,
  },
  {
    name: "leases in every state, with words from hosts before and after the end",
    ledger: inbox(
      leased(
        leased(READY, { job: "a", gpus: 2 }, gpus(["c0/h0", 1], ["c0/h1", 1])),
        { job: "b", gpus: 2 },
        gpus(["c0/h0", 2], ["c0/h1", 2]),
      ),
      [
        end("a", { unconfirmed: ["c0/h1"] }),
        { kind: "vacated", lease: "lease-2", hosts: [host("c0/h0")] },
      ],
    ).ledger,
  },
  {
    name: "hosts that the fleet has no more, and dead letters",
    ledger: apply(
      inbox(leased(READY, { job: "a" }, gpus(["c0/h1", 1])), [
        "junk",
        ask({ job: "c", avoidHosts: [host("c7/h7")] }),
      ]).ledger,
      {
        kind: "fleet-changed",
        shape: fleetShape([]),
        nowMs: 0,
      },
    ).ledger,
  },
])("$name comes back from JSON as it was", ({ ledger }) => {
  expect(throughJson(ledger)).toEqual(ledger);
});

test("a reason whose message holds the mark comes back as it was", () => {
  const asked = inbox(READY, [ask({ job: "a", gpus: 99 })]).ledger;
  const request = { jobId: "a", runId: "a-run1", seq: 1 } as Parameters<
    typeof applyPlan
  >[1]["pending"][number]["request"];
  const reason = {
    code: "OnHold",
    message: "a \u007f a",
    numbers: { x: 0.1 },
    holders: [],
    wakeOn: ["timer"],
  } as const;
  const { ledger } = applyPlan(asked, { ...decide(asked, 0), pending: [{ request, reason }] });
  expect(ledger.reasons.size).toBe(1);
  expect(throughJson(ledger)).toEqual(ledger);
});

test("a waiting request takes about its id and run id, however much it has in common with others", () => {
  const constraints = { gpuTypes: ["H100"], jurisdictions: ["EU"], isSameFabric: true };
  const jobs = Array.from(
    { length: 1_000 },
    (_, at) => `train-model-${String(at).padStart(6, "0")}`,
  );
  const run = (at: number): string => `b1946ac9-2492-4d23-8d6e-${String(at).padStart(12, "0")}`;
  const asked = inbox(
    READY,
    jobs.map((job, at) =>
      ask({
        job,
        run: run(at),
        gpus: 17,
        constraints,
        submittedAtMs: 1_780_000_000_000 + 137 * at,
        requestedAtMs: 1_780_000_000_000,
      }),
    ),
    1_780_000_000_000,
  );
  let ledger = asked.ledger;
  for (let cycle = 0; cycle < 5; cycle += 1) ledger = applyPlan(ledger, decide(ledger, 0)).ledger;
  expect(ledger.reasons.size).toBe(1_000);
  const bytes =
    JSON.stringify(packLedger(ledger)).length - JSON.stringify(packLedger(READY)).length;
  expect(bytes / 1_000).toBeLessThan(92);
});
