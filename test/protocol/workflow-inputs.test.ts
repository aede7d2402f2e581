/** @file What anybody may start a workflow with, by its type. The tests on a server start them so (`test/attacks/strange-inputs.test.ts`). */

import { describe, expect, it } from "vitest";
import { packLedger } from "../../scheduling/ledger/codec.ts";
import { inputProblem } from "../../protocol/workflow-inputs.ts";
import { fleetShape, readyLedger } from "../scheduling/builders.ts";

const LEDGER = packLedger(readyLedger(fleetShape([{ hosts: [{}] }])));
const AGENT = { epoch: "e", runQueue: "r", orderQueue: "o", address: "a" };
const LOBBY = { queues: [], credits: [], called: [], returned: [], unused: [] };
const FLEET = { fleet: "eu" };
const DRAIN = { fleetWorkflowId: "orbweaver-fleet-eu", host: "c0/h0", reason: "fan", proof: "p" };
const SWEEP = { ...FLEET, jobId: "a", lease: "lease-1", hosts: ["c0/h0"] };

/** With a field of each that is wrong. */
const TYPES = [
  ["fleet", { name: "eu", ledger: LEDGER }, { ledger: {} }],
  ["fleet", { name: "eu", ledger: LEDGER }, { ledger: { ...LEDGER, shape: { clusters: [1] } } }],
  ["presence", { ...FLEET, cluster: "c0" }, { agents: [null] }],
  [
    "presence",
    { ...FLEET, cluster: "c0", agents: [{ agent: AGENT, hosts: ["c0/h0"] }] },
    { cluster: 1 },
  ],
  ["lobby", { ...FLEET, tenant: "t" }, { former: [1] }],
  ["lobby", { ...FLEET, tenant: "t", carried: LOBBY, former: ["r"] }, { carried: { queues: 1 } }],
  ["sweep", SWEEP, { hosts: [null] }],
  ["session", { ...FLEET, order: { host: "c0/h0" } }, { order: [] }],
  ["log-session", { ...FLEET, idleMs: 1 }, { idleMs: "soon" }],
  ["link-monitor", FLEET, { memory: [] }],
  ["bandwidth-model", { ...FLEET, cluster: "c0" }, { memory: {} }],
  ["collective-tuner", { ...FLEET, topology: {} }, { topology: null }],
  ["cron", { ...FLEET, cron: "nightly" }, { fleet: null }],
  ["timed-drain", DRAIN, { host: undefined }],
] as const;

describe.each(TYPES)("the input of a %s", (type, good, wrong) => {
  it("is taken as its senders write it", () => {
    expect(inputProblem(type, good)).toBeUndefined();
  });

  it.each([null, undefined, "x", 1, [], {}, { kind: "unreadable", encoding: "json/plain" }])(
    "is not %j",
    (input) => {
      expect(inputProblem(type, input)).toContain(`the input of a ${type} is`);
    },
  );

  it("has no field of another form, and the reason names it", () => {
    const [name] = Object.keys(wrong);
    expect(inputProblem(type, { ...good, ...wrong })).toContain(`\`${name ?? ""}\` needs`);
  });
});

it.each(["job", "wake", "nobody-knows"])("a %s takes any input", (type) => {
  expect(inputProblem(type, null)).toBeUndefined();
});
