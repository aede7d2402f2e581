/** @file A job that somebody moves to another fleet: what leaves with it, when the other fleet hears of it, and what cannot be moved. */
import { describe, expect, test } from "vitest";
import { SERVICE_LABEL } from "../../../domain/job/serving-env.ts";
import { jobView } from "../../../machines/job/job-view.ts";
import { moveProblem } from "../../../machines/job/moved.ts";
import { noteOf, playJob, START_MS, type Play, type PlayedJob } from "./builders.ts";

const ORDER = { by: "ada", fleet: "us" };
const CHECKPOINT = { signal: "USR1", grace: "5s" };
const SHARED = { run: { command: ["true"], checkpoint: { ...CHECKPOINT, dir: "/shared" } } };

const move = (played: PlayedJob, fleet = "us"): void =>
  played.feed({ kind: "move", order: { ...ORDER, fleet } });
const running = (play?: Play): PlayedJob => {
  const played = playJob(play);
  played.feed(played.grant(1));
  return played;
};
/** Its hosts have stopped the run, which began so long before. */
const stop = (played: PlayedJob, ranMs = 0): void => {
  played.stopped();
  played.ran({ end: "stopped", startedAtMs: played.now() - ranMs });
};
/** Its fleet has heard all of it, and has let go. */
const letGo = (played: PlayedJob): void => {
  played.deliver();
  while (played.stage() === "holding") played.wait();
  played.deliver();
  played.feed({ kind: "forgotten", id: played.open("until-forgotten").at(-1)?.id ?? 0 });
  played.deliver();
};
const asked = (played: PlayedJob): readonly string[] =>
  played.told.map(({ fleet, entry }) =>
    entry.kind === "request"
      ? `${fleet} request ${String(entry.request.seq)}`
      : `${fleet} ${entry.kind}`,
  );

describe("a waiting job that is moved", () => {
  test("asks the other fleet once its own holds nothing of it, with its age, and says who moved it", () => {
    const played = playJob();
    move(played);
    // The update has to be durable before the fleet hears of it.
    expect(played.open("tell")).toEqual([]);
    expect(jobView(played.job())).toMatchObject({ fleet: "eu", moving: { to: "us", by: "ada" } });
    played.wait();
    played.deliver();
    expect(asked(played)).toEqual(["eu end"]);
    letGo(played);
    expect(asked(played)).toEqual(["eu end", "us request 2"]);
    expect(played.requests()[0]).toMatchObject({ submittedAtMs: START_MS });
    expect(played.requests()[0]).not.toHaveProperty("patienceMs");
    const view = jobView(played.job());
    expect(view).not.toHaveProperty("moving");
    expect(view).toMatchObject({
      fleet: "us",
      cells: {
        home: "eu",
        ring: ["eu", "us"],
        moves: [{ from: "eu", to: "us", code: "Ordered", by: "ada", atMs: START_MS + 1 }],
      },
    });
    expect(played.open("mark").map(({ mark }) => mark)).toContainEqual({ fleet: "us", home: "eu" });
  });

  test("gives a grant that comes together with the order back, and starts nothing on it", () => {
    const played = playJob();
    played.together({ kind: "move", order: ORDER }, played.grant(1));
    letGo(played);
    expect(asked(played)).toEqual(["eu end", "us request 2"]);
    expect(played.open("run")).toEqual([]);
    // One that was on its way is given back at both.
    played.feed(played.grant(1));
    played.deliver();
    expect(asked(played).slice(2)).toEqual(["eu end", "us end"]);
  });

  test("leaves a fleet that is not there, and stays where it was sent although its file names fleets", () => {
    const away = playJob({ notified: { kind: "no-fleet", message: "not found" } });
    move(away);
    letGo(away);
    expect(asked(away).at(-1)).toBe("us request 2");
    const ring = playJob({ file: { fleets: ["eu", "us", "ap"], patience: "1m" } });
    move(ring, "ap");
    letGo(ring);
    ring.feed(noteOf(2, "PatienceOver"));
    expect([ring.stage(), asked(ring).at(-1)]).toEqual(["waiting", "ap request 2"]);
  });

  test("that is held is held there, and asks there once it is released", () => {
    const played = playJob({ file: { hold: true } });
    move(played);
    letGo(played);
    expect([played.stage(), played.requests().length]).toEqual(["held", 0]);
    played.feed({ kind: "release" });
    played.deliver();
    expect(asked(played).at(-1)).toBe("us request 2");
  });

  test("that is cancelled on its way ends, and asks nobody else", () => {
    const played = playJob();
    move(played);
    played.wait();
    played.deliver();
    played.feed({ kind: "cancel" });
    played.deliver();
    expect(played.outcome()).toEqual({ kind: "cancelled" });
    expect(asked(played).every((word) => word.startsWith("eu end"))).toBe(true);
  });
});

describe("a running job that is moved", () => {
  test("stops with a checkpoint, tells its fleet that it does not return, and goes on from what its runs left", () => {
    const played = running({ file: { ...SHARED, timeLimit: "1h" } });
    move(played);
    expect(played.open("stop")).toMatchObject([
      { order: { isCheckpointFirst: true, reason: "moved" } },
    ]);
    played.feed(noteOf(1, "WaitingForGpus"));
    stop(played, 60_000);
    letGo(played);
    expect(asked(played)).toEqual(["eu end", "eu end", "us request 3"]);
    expect(played.told[0]?.entry).not.toHaveProperty("returns");
    played.feed(played.grant(3));
    expect(played.open("run").at(-1)?.order).toMatchObject({
      ranMs: 60_000,
      formerTokens: [1],
      token: 3,
    });
    expect(jobView(played.job()).attempts).toMatchObject([
      { end: "stopped", givenUp: { kind: "move", by: "ada" } },
      { attempt: 2 },
    ]);
  });

  test("says nothing of former runs where all were in one fleet", () => {
    const played = running({ file: SHARED });
    played.feed({ kind: "requeue", order: ORDER });
    stop(played);
    played.deliver();
    played.feed(played.grant(2));
    expect(played.open("run").at(-1)?.order).not.toHaveProperty("formerTokens");
  });

  test("that completes meanwhile has completed", () => {
    const played = running();
    move(played);
    played.ran({});
    played.stopped();
    played.deliver();
    expect(played.outcome()).toMatchObject({ kind: "completed" });
    expect(played.requests()).toEqual([]);
  });

  test("and suspended on its way is held at the other fleet", () => {
    const played = running({ file: SHARED });
    move(played);
    played.feed({ kind: "suspend", order: ORDER });
    stop(played);
    letGo(played);
    expect([played.stage(), jobView(played.job()).fleet]).toEqual(["held", "us"]);
  });
});

test.each<{ name: string; play?: Play; order?: unknown; ran?: true; want: string }>([
  { name: "a waiting job", want: "" },
  { name: "a job that runs with shared checkpoints", play: { file: SHARED }, ran: true, want: "" },
  {
    name: "a job whose checkpoints lie with its hosts",
    play: { file: { run: { command: ["true"], checkpoint: CHECKPOINT } } },
    ran: true,
    want: "NOT_ALLOWED",
  },
  {
    name: "the same before its first run",
    play: { file: { run: { command: ["true"], checkpoint: CHECKPOINT } } },
    want: "",
  },
  {
    name: "a replica of a service",
    play: { spec: { labels: { [SERVICE_LABEL]: "chat" } } },
    want: "NOT_ALLOWED",
  },
  { name: "an array", play: { file: { array: { count: 3 } } }, want: "NOT_ALLOWED" },
  { name: "a job to its own fleet", order: { ...ORDER, fleet: "eu" }, want: "NOT_ALLOWED" },
  { name: "a job that is being read", play: { isEntering: true }, want: "NOT_ALLOWED" },
  { name: "a job by nobody", order: { fleet: "us" }, want: "BAD_INPUT" },
  { name: "a job to no fleet", order: { by: "ada", fleet: "a fleet" }, want: "BAD_INPUT" },
])("$name: $want", ({ play, order = ORDER, ran, want }) => {
  const played = ran === true ? running(play) : playJob(play);
  expect(moveProblem(played.job(), order)?.code ?? "").toBe(want);
});

test("a job of former rules, one that is ended, and one on its way are not moved", () => {
  const job = playJob().job();
  expect(moveProblem({ ...job, rules: 4 }, ORDER)?.message).toContain("know no moves");
  expect(moveProblem({ ...job, reason: "cancelled" }, ORDER)?.message).toContain("being ended");
  const moving = playJob();
  move(moving);
  expect(moveProblem(moving.job(), { ...ORDER, fleet: "ap" })?.message).toContain("to fleet us");
});
