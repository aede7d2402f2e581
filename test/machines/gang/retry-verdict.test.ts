/** @file The decision after a run that did not complete. */

import { describe, expect, it } from "vitest";
import { hostId, type HostId } from "../../../domain/values/ids.ts";
import { ms } from "../../../domain/values/units.ts";
import {
  afterStart,
  MOST_REFUSING_HOSTS,
  retryVerdict,
  verdictOn,
  MAX_UNCHARGED_FAILURES,
  type RunAccount,
} from "../../../machines/gang/retry-verdict.ts";

const retry = { attempts: 3, backoffMs: ms(10_000) };
const NONE: RunAccount = { charged: 0, uncharged: 0 };

describe("retryVerdict", () => {
  it.each([
    {
      name: "a failed process is tried again and charged",
      code: "PROCESS_EXITED" as const,
      before: NONE,
      want: { kind: "again", backoffMs: 10_000, account: { charged: 1, uncharged: 0 } },
    },
    {
      name: "the last attempt is final",
      code: "PROCESS_SIGNALLED" as const,
      before: { charged: 2, uncharged: 5 },
      want: { kind: "final" },
    },
    {
      name: "a command that does not exist is final at once",
      code: "COMMAND_NOT_FOUND" as const,
      before: NONE,
      want: { kind: "final" },
    },
    {
      name: "a time limit is final at once",
      code: "TIME_LIMIT" as const,
      before: NONE,
      want: { kind: "final" },
    },
    {
      name: "a refusing host is not charged",
      code: "HOST_REFUSED" as const,
      before: { charged: 2, uncharged: 0 },
      want: { kind: "again", backoffMs: 1_000, account: { charged: 2, uncharged: 1 } },
    },
    {
      name: "the pause doubles",
      code: "HOST_LOST" as const,
      before: { charged: 0, uncharged: 3 },
      want: { kind: "again", backoffMs: 8_000, account: { charged: 0, uncharged: 4 } },
    },
    {
      name: "up to a minute",
      code: "GANG_NOT_READY" as const,
      before: { charged: 0, uncharged: 8 },
      want: { kind: "again", backoffMs: 60_000, account: { charged: 0, uncharged: 9 } },
    },
  ])("$name", ({ code, before, want }) => {
    expect(retryVerdict(code, before, retry)).toEqual(want);
  });

  it("ends after ten starts that hosts refused or lost", () => {
    let account = NONE;
    let runs = 1;
    for (
      let verdict = retryVerdict("HOST_REFUSED", account, retry);
      verdict.kind === "again";
      verdict = retryVerdict("HOST_REFUSED", account, retry)
    ) {
      account = verdict.account;
      runs += 1;
    }
    expect(runs).toBe(MAX_UNCHARGED_FAILURES);
  });
});

describe("a job with an image", () => {
  const unfetched = (account: RunAccount) => retryVerdict("IMAGE_UNAVAILABLE", account, retry);

  it("ends after three hosts in a row that could not get it", () => {
    const first = unfetched(NONE);
    const second = first.kind === "again" ? unfetched(first.account) : first;
    expect([first, second]).toMatchObject([
      { account: { unfetched: 1 } },
      { account: { unfetched: 2 } },
    ]);
    expect(second.kind === "again" && unfetched(second.account)).toEqual({ kind: "final" });
  });

  it("outlives one failed fetch after hosts that were lost, and counts anew after a start", () => {
    expect(unfetched({ charged: 0, uncharged: 5 }).kind).toBe("again");
    expect(afterStart({ charged: 1, uncharged: 2, unfetched: 2 })).toEqual({
      charged: 1,
      uncharged: 2,
    });
  });
});

describe("a job that asks for processors or memory", () => {
  const spec = { run: { resources: { per: "gpu" as const, cpus: 8 } }, retry };
  const host = (at: number) => hostId("eu-1", `h${String(at)}`);
  /** How many starts are refused until the job gives up, in a fleet whose hosts all refuse. */
  function refusals(hosts: number, of: Parameters<typeof verdictOn>[1]): number {
    let [account, avoidHosts, runs] = [NONE, [] as readonly HostId[], 0];
    for (;;) {
      if (avoidHosts.length === hosts) avoidHosts = [];
      const cause = { code: "HOST_REFUSED" as const, host: host(avoidHosts.length) };
      const verdict = verdictOn({ cause, account, avoidHosts }, of);
      runs += 1;
      if (verdict.kind === "final") return runs;
      [account, avoidHosts] = [verdict.account, [...avoidHosts, cause.host]];
    }
  }

  it("comes to the host that has them past twenty that have not", () => {
    expect(refusals(20, spec)).toBeGreaterThan(20);
    expect(refusals(20, { ...spec, run: {} })).toBe(MAX_UNCHARGED_FAILURES);
  });

  it("gives up all the same: after ten rounds, or ten refusals past the most of one", () => {
    expect(refusals(20, spec)).toBe(9 * 20 + 1);
    expect(refusals(10_000, spec)).toBe(MOST_REFUSING_HOSTS + 9);
  });

  it("counts other failures of hosts as ever", () => {
    const lost = { cause: { code: "HOST_LOST" as const, host: host(1) }, account: NONE };
    expect(verdictOn({ ...lost, avoidHosts: [host(0)] }, spec)).toMatchObject({
      account: { uncharged: 1 },
    });
    expect(verdictOn({ cause: undefined, account: NONE, avoidHosts: [] }, spec)).toMatchObject({
      account: { uncharged: 1 },
    });
  });
});
