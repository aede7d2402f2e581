/** @file The page's what-if: for any job file an answer with numbers, and the ledger stays as it is. */

import { describe, expect, it } from "vitest";
import { whatIfAnswer } from "../../console/view/what-if.ts";
import { packLedger } from "../../scheduling/ledger/codec.ts";
import { fleetShape, readyLedger } from "../scheduling/builders.ts";

const NOW_MS = 1_000_000;
const ledger = readyLedger(fleetShape([{ hosts: [{ gpus: 8 }, { gpus: 8 }] }]));
const job = (gpus: number): string =>
  `name: trial\ngang: { gpus: ${String(gpus)} }\nrun: { command: [train] }\n`;

describe("what if a job were submitted", () => {
  it("names the GPUs of one that starts", () => {
    const before = packLedger(ledger);
    const answer = whatIfAnswer(ledger, job(8), NOW_MS);
    expect(answer).toMatchObject({ name: "trial", kind: "starts" });
    expect(answer.gpus?.map(([, mask]) => mask)).toEqual([0xff]);
    expect(packLedger(ledger)).toEqual(before);
  });

  it("says why one never starts, without the stand-in's id", () => {
    const answer = whatIfAnswer(ledger, job(64), NOW_MS);
    expect(answer.kind).toBe("never");
    expect(answer.message).toMatch(/64/);
    expect(JSON.stringify(answer)).not.toContain("orbweaver-what-if");
  });

  it("gives every problem of a file that is none", () => {
    const answer = whatIfAnswer(ledger, "gang: { gpus: -1 }\nrnu: {}\n", NOW_MS);
    expect(answer.kind).toBe("wrong");
    expect(answer.message).toContain("gang.gpus");
    expect(answer.message).toContain("rnu");
  });
});
