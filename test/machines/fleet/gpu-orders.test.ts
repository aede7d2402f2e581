/** @file Which orders about single GPUs a fleet refuses. */

import { describe, expect, it } from "vitest";
import { parseHostId } from "../../../domain/values/ids.ts";
import { appended } from "../../../lib/chain.ts";
import { refuseGpus, refuseOutdatedGpus } from "../../../machines/fleet/gpu-orders.ts";
import { UPDATE_ORDERS } from "../../../machines/fleet/update-orders.ts";
import { GPU_DRAIN_RULES } from "../../../scheduling/ledger/rules/gpu-drains.ts";
import { fleetShape, readyLedger } from "../../scheduling/builders.ts";
import { gpusDrained } from "../../scheduling/views.ts";

const LEDGER = readyLedger(fleetShape([{ hosts: [{}, { gpus: 4 }] }]));
const host = parseHostId("c0/h1");
const gpus = [{ host, mask: 0b110 }];

describe("refuseGpus", () => {
  it.each<[string, unknown, string | undefined]>([
    ["GPUs of the host", { gpus }, undefined],
    ["a GPU that it lacks", { gpus: [{ host, mask: 0b1_0000 }] }, "NOT_FOUND"],
    ["an unknown host", { gpus: [{ host: "c0/h9", mask: 1 }] }, "NOT_FOUND"],
    ["no GPU", { gpus: [] }, "BAD_INPUT"],
    ["what names no host", { gpus: [{ host: "", mask: 1 }] }, "BAD_INPUT"],
    ["no set of GPUs", { gpus: [{ host, mask: 0 }] }, "BAD_INPUT"],
    ["more than masks hold", { gpus: [{ host, mask: 2 ** 32 }] }, "BAD_INPUT"],
    ["a host twice", { gpus: [...gpus, ...gpus] }, "BAD_INPUT"],
    ["nothing", undefined, "BAD_INPUT"],
  ])("%s", (_, order, want) => {
    expect(refuseGpus({ name: "eu", ledger: LEDGER }, order)?.code).toBe(want);
  });

  it("takes the end of a drain of a GPU that the host had before it was described anew", () => {
    const ledger = gpusDrained(LEDGER, host, 0b1_0010);
    const code = (mask: number) =>
      refuseGpus({ name: "eu", ledger }, { gpus: [{ host, mask }], of: "test" })?.code;
    expect([0b1_0010, 0b10_0010].map(code)).toEqual([undefined, "NOT_FOUND"]);
  });

  it("refuses all under rules that know whole hosts alone", () => {
    const ledger = { ...LEDGER, applyVersion: GPU_DRAIN_RULES - 1 };
    expect(refuseGpus({ name: "eu", ledger }, { gpus })?.code).toBe("NOT_ALLOWED");
  });
});

describe("refuseOutdatedGpus", () => {
  const free = { ledger: LEDGER, deferred: undefined };
  const drained = { ...free, ledger: gpusDrained(LEDGER, "c0/h1", 0b10) };
  const order = UPDATE_ORDERS["drain-gpus"]({ gpus, reason: "test" });
  const soon = { ...free, deferred: appended(undefined, { kind: "order" as const, order }) };
  const [isNew, own, foreign] = [{ isNew: true }, { of: "te" }, { of: "GPU fault" }];
  it.each([
    { name: "a first drain", fleet: free, over: isNew, want: undefined },
    { name: "one of which a part is drained", fleet: drained, over: isNew, want: "NOT_ALLOWED" },
    { name: "one beside a drain to come", fleet: soon, over: isNew, want: "NOT_ALLOWED" },
    { name: "an operator's second one", fleet: drained, over: {}, want: undefined },
    { name: "the end of one's own to come", fleet: soon, over: own, want: undefined },
    { name: "the end of one's own in part", fleet: drained, over: own, want: "NOT_ALLOWED" },
    { name: "the end of another's", fleet: soon, over: foreign, want: "NOT_ALLOWED" },
  ])("$name", ({ fleet, over, want }) => {
    expect(refuseOutdatedGpus(fleet, { gpus, ...over })?.code).toBe(want);
  });
});
