import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import {
  CHECK_FAILED,
  keepChecking,
  type CheckResult,
  type HealthCheckPorts,
} from "../../../agent/health/health-checks.ts";
import { runCheckProgram } from "../../../agent/system/check-program.ts";
import { readHealthRules } from "../../../workers/health-file.ts";
import { nodeClock } from "../../../agent/system/node-clock.ts";

const CHECK = { prefix: CHECK_FAILED, name: "check", everyMs: 60_000 };
const passed: CheckResult = { kind: "passed" };
const bad: CheckResult = { kind: "failed", why: "ended with exit code 2: no GPU" };

interface PlayOptions {
  readonly roundMs?: number;
  /** Drains of other kinds that have ended by this round. */
  readonly endedBy?: (round: number) => number;
}

/** Runs the rounds one after the other, without waiting, and returns what the fleet was told and the pauses. */
async function play(
  rounds: readonly CheckResult[],
  isFleetThere: (round: number) => boolean,
  { roundMs = 1_000, endedBy = () => 0 }: PlayOptions = {},
) {
  const told: string[] = [];
  const pauses: number[] = [];
  const closing = new AbortController();
  let over: () => void = () => undefined;
  const ended = new Promise<void>((resolve) => {
    over = resolve;
  });
  let at = -1;
  const tell = (word: string): Promise<void> => {
    if (!isFleetThere(at)) return Promise.reject(new Error("no answer"));
    told.push(`${at} ${word}`);
    return Promise.resolve();
  };
  const ports: HealthCheckPorts = {
    clock: {
      ...nodeClock,
      nowMs: () => at * 1_000,
      elapsedMs: () => at * roundMs,
      pause: (forMs) => {
        pauses.push(forMs);
        if (at === rounds.length - 1) {
          closing.abort();
          over();
        }
        return Promise.resolve();
      },
    },
    closing: closing.signal,
    onNote: () => undefined,
    runCheck: () => {
      at += 1;
      return Promise.resolve(rounds[at] ?? passed);
    },
    drain: (reason) => tell(`drain ${reason}`),
    undrain: (prefix) => tell(`undrain ${prefix}`),
    ended: () => endedBy(at),
  };
  await keepChecking(CHECK, ports);
  await ended;
  return { told, pauses };
}

const DRAIN = `drain ${CHECK_FAILED} since 1970-01-01T00:00:01Z: check ended with exit code 2: no GPU`;

describe("an operator's check", () => {
  it("drains the hosts while it fails, with why and since when, and brings them back", async () => {
    const { told } = await play([passed, bad, bad, passed, passed], () => true);
    expect(told).toEqual([
      // A former agent of these hosts may have left a drain.
      `0 undrain ${CHECK_FAILED} since `,
      `1 ${DRAIN}`,
      `3 undrain ${CHECK_FAILED} since `,
    ]);
  });

  it("that goes on failing looks at the ledger every five minutes, for somebody may have undrained a host", async () => {
    const { told } = await play([bad, bad, bad, bad, bad, bad], () => true, { roundMs: 120_000 });
    expect(told.map((word) => word.split(" ").slice(0, 2).join(" "))).toEqual([
      "0 drain",
      "3 drain",
    ]);
  });

  it("that goes on failing drains a host again once a drain of another kind has ended", async () => {
    const endedBy = (round: number): number => (round < 2 ? 0 : 1);
    const { told } = await play([bad, bad, bad, bad], () => true, { endedBy });
    expect(told.map((word) => word.slice(0, 7))).toEqual(["0 drain", "2 drain"]);
  });

  it("whose verdict is about something else tells the fleet at once, with what is found now", async () => {
    const of = (scope: string): CheckResult => ({ kind: "failed", why: `heat on ${scope}`, scope });
    const rounds = [of("0"), of("0"), of("0,1"), of("0,1"), passed, of("0,1")];
    const { told } = await play(rounds, (round) => round !== 2);
    expect(told).toEqual([
      `0 drain ${CHECK_FAILED} since 1970-01-01T00:00:00Z: check heat on 0`,
      `3 drain ${CHECK_FAILED} since 1970-01-01T00:00:02Z: check heat on 0,1`,
      `4 undrain ${CHECK_FAILED} since `,
      `5 drain ${CHECK_FAILED} since 1970-01-01T00:00:05Z: check heat on 0,1`,
    ]);
  });

  it("tells a fleet that did not answer again soon", async () => {
    const { told, pauses } = await play([passed, bad, bad], (round) => round !== 1);
    expect(told).toEqual([`0 undrain ${CHECK_FAILED} since `, `2 ${DRAIN}`]);
    expect(pauses.slice(0, 3)).toEqual([20_000, 60_000, 5_000]);
  });

  it("tells one that goes on refusing ever later, and checks at its time at the latest", async () => {
    const { pauses } = await play([bad, bad, bad, bad, bad, bad], () => false);
    expect(pauses.slice(0, 6)).toEqual([20_000, 5_000, 10_000, 20_000, 40_000, 60_000]);
  });

  it("that takes for ever holds the agent up for a bounded time", async () => {
    const waits: number[] = [];
    await keepChecking(CHECK, {
      clock: {
        ...nodeClock,
        pause: (forMs) => {
          waits.push(forMs);
          return Promise.resolve();
        },
      },
      closing: new AbortController().signal,
      onNote: () => undefined,
      runCheck: () => new Promise(() => undefined),
      drain: () => Promise.resolve(),
      undrain: () => Promise.resolve(),
      ended: () => 0,
    });
    expect(waits).toEqual([20_000]);
  });
});

describe("a check program", () => {
  const run = (line: string, timeoutMs = 60_000) =>
    runCheckProgram({ command: ["sh", "-c", line], timeoutMs }, new AbortController().signal);

  it.each([
    ["passes with status 0", "echo fine", 60_000, passed],
    [
      "fails with another, and its last line says why",
      "echo first; echo 'GPU 3 is gone' >&2; exit 4",
      60_000,
      { kind: "failed", why: "ended with exit code 4: GPU 3 is gone" },
    ],
    ["fails by a signal", "kill -9 $$", 60_000, { kind: "failed", why: "was killed by SIGKILL" }],
    [
      "fails at its time limit",
      "sleep 600",
      50,
      { kind: "failed", why: "took longer than 0.05 s" },
    ],
    ["is not held up by what it left behind", "sleep 600 & exit 0", 60_000, passed],
  ])("%s", async (_, line, timeoutMs, want) => {
    expect(await run(line, timeoutMs)).toEqual(want);
  });

  it.each([
    ["it is missing", ["/no/such/check"]],
    ["a word cannot be given to a program", ["true", "a\0b"]],
  ])("fails where %s", async (_, command) => {
    const missing = { command, everyMs: 1, timeoutMs: 1_000 };
    expect(await runCheckProgram(missing, new AbortController().signal)).toMatchObject({
      kind: "failed",
      why: expect.stringContaining("could not be started") as string,
    });
  });
});

describe("a health file", () => {
  const dir = mkdtempSync(join(tmpdir(), "orbweaver-health-"));
  afterAll(() => {
    rmSync(dir, { recursive: true, force: true });
  });
  const rulesOf = (text: string, mode = 0o644) => {
    const file = join(dir, "health.yaml");
    writeFileSync(file, text);
    chmodSync(file, mode);
    return readHealthRules({ ORBWEAVER_HEALTH: file });
  };

  it("names a check, and whether hosts are set aside", () => {
    expect(rulesOf("check: [/bin/check, --all]\nevery: 5m\nsetAside: false\n")).toEqual({
      check: { command: ["/bin/check", "--all"], everyMs: 300_000, timeoutMs: 30_000 },
      isSetAside: false,
      isGpuChecked: true,
    });
    expect(rulesOf("")).toEqual({ isSetAside: true, isGpuChecked: true });
    expect(rulesOf("gpus: false")).toEqual({ isSetAside: true, isGpuChecked: false });
  });

  it("names programs around each launch, with a time of their own", () => {
    expect(rulesOf("prologue: [/bin/a, -x]\nepilogue: [/bin/b]\nleaseTimeout: 5s\n")).toEqual({
      prologue: { command: ["/bin/a", "-x"], timeoutMs: 5_000 },
      epilogue: { command: ["/bin/b"], timeoutMs: 5_000 },
      isSetAside: true,
      isGpuChecked: true,
    });
    expect(rulesOf("epilogue: [/bin/b]\n").epilogue?.timeoutMs).toBe(30_000);
  });

  it.each([
    ["that others may write", "check: [a]", 0o666, /belong to root/],
    ["with a line for a shell", "check: a b", 0o644, /check/],
    ["with a time and no check", "every: 1m", 0o644, /without check/],
    ["with a check that may take for ever", "check: [a]\ntimeout: 1h", 0o644, /timeout .*10m/],
    ["with a pause of weeks", "check: [a]\nevery: 50d", 0o644, /every .*a day/],
    ["with a time for no program", "leaseTimeout: 5s", 0o644, /without prologue/],
    ["for which a gang waits long", "prologue: [a]\nleaseTimeout: 5m", 0o644, /leaseTimeout .*1m/],
    ["with a time without a unit", "check: [a]\nevery: 5", 0o644, /every/],
  ])("%s is refused", (_, text, mode, want) => {
    expect(() => rulesOf(text, mode)).toThrow(want);
  });

  it("that is named and missing is refused", () => {
    expect(() => readHealthRules({ ORBWEAVER_HEALTH: join(dir, "none") })).toThrow(/ENOENT/);
  });
});
