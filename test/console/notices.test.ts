/** @file Notices: what recorded fleets have to tell, each once; how they are sent; and that a target that fails loses none and holds up no other. */

import { historyFromJSON } from "@temporalio/common/lib/proto-utils.js";
import { createHmac } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import type { Server } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, afterEach, describe, expect, it, vi } from "vitest";
import type { Folded } from "../../console/follow/fleet-run.ts";
import { openFollowedRun } from "../../console/follow/followed-run.ts";
import {
  openHistory,
  type HistoryDatabase,
  type JobRecord,
  type NoticeRow,
} from "../../console/history/database.ts";
import { createKeeper } from "../../console/history/keeper.ts";
import { createDelivery } from "../../console/notices/deliver.ts";
import { createOutbox, OLDEST_MS } from "../../console/notices/outbox.ts";
import { createSender } from "../../console/notices/send.ts";
import { parseFleetYaml } from "../../domain/fleet/fleet-file.ts";
import { formatProblem } from "../../domain/values/file-problem.ts";
import { NOTICE_EVENTS, type NoticeTarget } from "../../domain/fleet/notify-schema.ts";
import { ms } from "../../domain/values/units.ts";
import { createConverters } from "../../workers/codec/converters.ts";
import { hookServer } from "../support/hook-server.ts";
import { foldedOf } from "../support/recorded-fleet.ts";

const FOLDER = path.join(import.meta.dirname, "../histories");
const files = readdirSync(FOLDER).filter((file) => /^fleet\..*\.json$/.test(file));
const codecs = createConverters().worker.payloadCodecs ?? [];
const scratch = mkdtempSync(path.join(tmpdir(), "orbweaver-notices-"));
let opened = 0;
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

const open = async (): Promise<HistoryDatabase> =>
  openHistory(path.join(scratch, `${String((opened += 1))}.db`), { isNew: true });

const targetOf = (name: string, rest: Partial<NoticeTarget> = {}): NoticeTarget => {
  return { name, on: [...NOTICE_EVENTS], waiting: ms(1), webhook: "http://127.0.0.1/", ...rest };
};

const rowsOf = (database: HistoryDatabase): readonly (NoticeRow & { readonly event: string })[] =>
  database
    .all<NoticeRow>("SELECT id, target, atMs, body FROM notices ORDER BY id, target", {})
    .map((row) => ({ ...row, event: (JSON.parse(row.body) as { event: string }).event }));

const RECORD: JobRecord = {
  ...{ job: "j", run: "r", name: "n", tenant: "red", class: "training", user: "ada" },
  ...{
    gpus: 8,
    tasks: 0,
    submittedMs: 0,
    endedMs: 5_000,
    outcome: "failed",
    why: "COMMAND_FAILED",
  },
};

async function recorded(file: string) {
  const history = historyFromJSON(JSON.parse(readFileSync(path.join(FOLDER, file), "utf8")));
  const events = history.events ?? [];
  const run = await openFollowedRun("run-1", events[0] ?? {}, codecs);
  const ledger = run.ledger();
  const folded = await foldedOf(run, events);
  return { ledger, startedAtMs: run.startedAtMs, folded };
}

/** Leases that turned held while no other of their job was, and those that were evicted. */
function expected(folded: readonly Folded[]): {
  readonly started: number;
  readonly preempted: number;
} {
  const started = new Set<string>();
  const preempted = new Set<string>();
  for (const { before, ledger } of folded)
    for (const [id, lease] of ledger.leases) {
      const former = before.leases.get(id);
      const others = [...ledger.leases.values()].filter(
        ({ jobId, state, id: other }) => jobId === lease.jobId && state === "held" && other !== id,
      );
      if (former?.state === "granted" && lease.state === "held" && others.length === 0)
        started.add(id);
      if (former && !former.eviction && lease.eviction) preempted.add(id);
    }
  return { started: started.size, preempted: preempted.size };
}

describe("notices of recorded fleets", () => {
  it.each(files)("of %s are told once, however its history is read", async (file) => {
    const { ledger, startedAtMs, folded } = await recorded(file);
    const endMs = folded.at(-1)?.event.nowMs ?? startedAtMs;
    const database = await open();
    for (const size of [1_000, 7]) {
      const targets = [targetOf("a"), targetOf("b", { on: ["preempted"] })];
      const keeper = createKeeper(database, () => Promise.resolve(undefined), {
        outbox: createOutbox({
          fleet: "f",
          targets: () => targets,
          sinceMs: 0,
          nowMs: () => endMs,
        }),
      });
      keeper.begin(ledger, startedAtMs);
      for (let at = 0; at < folded.length; at += size) {
        folded.slice(at, at + size).forEach(keeper.fold);
        keeper.now(folded.at(-1)?.ledger ?? ledger);
        await keeper.keep(endMs);
      }
      const rows = rowsOf(database);
      const count = (target: string, event: string): number =>
        rows.filter((row) => row.target === target && row.event === event).length;
      const { started, preempted } = expected(folded);
      expect(count("a", "started")).toBe(started);
      expect(count("a", "preempted")).toBe(preempted);
      expect(count("b", "preempted")).toBe(preempted);
      expect(rows.filter(({ target, event }) => target === "b" && event !== "preempted")).toEqual(
        [],
      );
    }
    database.close();
  });

  it("tells of single GPUs that are drained, with the reason, and of their return", async () => {
    const texts = async (file: string): Promise<readonly string[]> => {
      const { ledger, startedAtMs, folded } = await recorded(file);
      const outbox = createOutbox({
        ...{ fleet: "f", targets: () => [targetOf("a")], sinceMs: 0, nowMs: () => startedAtMs },
      });
      expect(ledger.hosts.size).toBeGreaterThan(0);
      const rows = folded.flatMap(({ event, before, ledger: after }) =>
        outbox.ofEvent({ event, before, ledger: after }),
      );
      return rows.map(({ body }) => (JSON.parse(body) as { text: string }).text);
    };
    expect(await texts("fleet.gpu-drained.json")).toContainEqual(
      expect.stringMatching(/: GPUs drained, /),
    );
    expect(await texts("fleet.gpu-undrained.json")).toContainEqual(
      expect.stringMatching(/: GPUs back$/),
    );
  });

  it("tells a job's end to those whom it concerns, a failure also as an end", async () => {
    const targets = [
      targetOf("ends", { on: ["ended"] }),
      targetOf("failures", { on: ["failed"], tenants: ["red"] }),
      targetOf("blue", { on: ["failed"], tenants: ["blue"] }),
      targetOf("inference", { on: ["ended"], classes: ["inference"] }),
    ];
    const asked = vi.fn(() => targets);
    const outbox = createOutbox({ fleet: "f", targets: asked, sinceMs: 0, nowMs: () => 6_000 });
    const toldOf = async (record: JobRecord): Promise<readonly string[]> =>
      (await outbox.ofEnd(record)).map(({ target }) => target);
    expect(await toldOf(RECORD)).toEqual(["ends", "failures"]);
    // The file of the targets is looked at once for each event.
    expect(asked).toHaveBeenCalledTimes(1);
    expect(await toldOf({ ...RECORD, outcome: "completed" })).toEqual(["ends"]);
    expect(JSON.parse((await outbox.ofEnd(RECORD))[0]?.body ?? "")).toMatchObject({
      event: "failed",
      text: "j failed: COMMAND_FAILED",
      job: { id: "j", user: "ada", tenant: "red", gpus: 8 },
    });
  });

  it("has the key that consoles with databases of their own give the same notice, and no other fleet or time", async () => {
    const keyBy = async (fleet: string, nowMs: number, more: Partial<JobRecord> = {}) => {
      const targets = () => [targetOf("t", { on: ["ended"] })];
      const outbox = createOutbox({ fleet, targets, sinceMs: 0, nowMs: () => nowMs });
      const [row] = await outbox.ofEnd({ ...RECORD, ...more });
      return (JSON.parse(row?.body ?? "") as { readonly key: string }).key;
    };
    const key = await keyBy("f", 6_000);
    expect(key).toMatch(/^[0-9a-f]{32}$/);
    expect(await keyBy("f", 9_000)).toBe(key);
    expect(await keyBy("g", 6_000)).not.toBe(key);
    expect(await keyBy("f", 6_000, { endedMs: RECORD.endedMs + 1 })).not.toBe(key);
  });

  it("tells nothing of before anybody was to be told, nor of more than a day ago", async () => {
    const told = async (sinceMs: number, nowMs: number): Promise<number> =>
      (
        await createOutbox({
          fleet: "f",
          targets: () => [targetOf("a")],
          sinceMs,
          nowMs: () => nowMs,
        }).ofEnd(RECORD)
      ).length;
    expect(await told(5_000, 6_000)).toBe(1);
    expect(await told(5_001, 6_000)).toBe(0);
    expect(await told(0, 5_000 + OLDEST_MS)).toBe(1);
    expect(await told(0, 5_001 + OLDEST_MS)).toBe(0);
  });
});

describe("delivery", () => {
  const ended = new AbortController();
  const round = async (
    database: HistoryDatabase,
    nowMs: number,
    send: (target: string, id: string) => boolean,
  ): Promise<readonly string[]> => {
    const said: string[] = [];
    await createDelivery({
      database,
      send: ({ name }, { id }) =>
        send(name, id) ? Promise.resolve() : Promise.reject(new Error("no answer")),
      nowMs: () => nowMs,
      signal: ended.signal,
      say: (line) => said.push(line),
    }).round([targetOf("down"), targetOf("up")]);
    return said;
  };
  const put = (database: HistoryDatabase, count: number): void =>
    database.write({
      leases: [],
      due: [],
      notices: ["down", "up"].flatMap((target) =>
        Array.from({ length: count }, (_, at) => ({ id: `n${at}`, target, atMs: at, body: "{}" })),
      ),
    });

  it("goes on with other targets, and tries what failed ever later, until a day has passed", async () => {
    const database = await open();
    put(database, 3);
    const sent: string[] = [];
    const tried: number[] = [];
    let said: readonly string[] = [];
    for (let nowMs = 0; nowMs < OLDEST_MS + 7_200_000; nowMs += 5_000)
      said = [
        ...said,
        ...(await round(database, nowMs, (target, id) => {
          if (target === "up") sent.push(id);
          else if (id === "n0") tried.push(nowMs);
          return target === "up";
        })),
      ];
    expect(sent).toEqual(["n0", "n1", "n2"]);
    expect(tried.slice(0, 5)).toEqual([0, 5_000, 15_000, 35_000, 75_000]);
    const gaps = tried.slice(1).map((at, index) => at - (tried[index] ?? 0));
    expect(Math.max(...gaps)).toBe(3_600_000);
    expect(said.filter((line) => line.includes("n0"))).toEqual([
      "console: down was not told of n0: no answer; it is tried again",
      "console: down was not told of n0: no answer; it is given up",
    ]);
    expect(database.dueNotices("down", { nowMs: Infinity, most: 10 })).toEqual([]);
    database.close();
  });

  it("is not held up by a target that takes long", async () => {
    const database = await open();
    put(database, 2);
    const sent: string[] = [];
    let free: () => void = () => undefined;
    const held = new Promise<void>((resolve) => (free = resolve));
    const { round: go } = createDelivery({
      ...{ database, signal: ended.signal, nowMs: () => 10, say: () => undefined },
      send: async ({ name }, { id }) => {
        if (name === "down") await held;
        sent.push(`${name} ${id}`);
      },
    });
    const targets = [targetOf("down"), targetOf("up")];
    const first = go(targets);
    await new Promise((resolve) => setImmediate(resolve));
    put(database, 3);
    await go(targets);
    expect(sent).toEqual(["up n0", "up n1", "up n2"]);
    free();
    await first;
    expect(sent.slice(3)).toEqual(["down n0", "down n1"]);
    database.close();
  });

  it("sends each notice once from two consoles that share the database, and what a dead one had claimed a minute later", async () => {
    const database = await open();
    put(database, 3);
    const sent: string[] = [];
    const consoleAt = (nowMs: number, send: (id: string) => Promise<void>) =>
      createDelivery({
        ...{ database, signal: ended.signal, nowMs: () => nowMs, say: () => undefined },
        send: (_target, { id }) => send(id),
      }).round([targetOf("up")]);
    const soon = (id: string): Promise<void> =>
      new Promise((resolve) => setImmediate(() => resolve(void sent.push(id))));
    await Promise.all([consoleAt(10, soon), consoleAt(10, soon)]);
    await consoleAt(10, soon);
    expect([...sent].sort()).toEqual(["n0", "n1", "n2"]);
    put(database, 4);
    // It dies while it sends.
    void consoleAt(20, () => new Promise(() => undefined));
    await consoleAt(59_000, soon);
    expect(sent.length).toBe(3);
    await consoleAt(61_000, soon);
    expect(sent.slice(3)).toEqual(["n3"]);
    database.close();
  });

  it("lets the next console send at once what one that was ended had claimed", async () => {
    const database = await open();
    put(database, 1);
    const ending = new AbortController();
    await createDelivery({
      ...{ database, signal: ending.signal, nowMs: () => 10, say: () => undefined },
      send: () => {
        ending.abort();
        return Promise.reject(new Error("aborted"));
      },
    }).round([targetOf("up")]);
    expect(database.dueNotices("up", { nowMs: 10, most: 9 }).map(({ id }) => id)).toEqual(["n0"]);
    database.close();
  });

  it("sends nothing again where only the noting failed", async () => {
    const database = await open();
    put(database, 2);
    const sent: string[] = [];
    let isFull = true;
    const { round: go } = createDelivery({
      database: {
        dueNotices: database.dueNotices,
        claimNotice: database.claimNotice,
        noteSent(one) {
          if (isFull) throw new Error("disk full");
          database.noteSent(one);
        },
      },
      ...{ signal: ended.signal, nowMs: () => 10, say: () => undefined },
      send: (_target, { id }) => Promise.resolve(void sent.push(id)),
    });
    for (let times = 0; times < 3; times += 1)
      await expect(go([targetOf("up")])).rejects.toThrow("disk full");
    expect(sent).toEqual(["n0"]);
    isFull = false;
    await go([targetOf("up")]);
    expect(sent).toEqual(["n0", "n1"]);
    database.close();
  });

  it("sends what a former console left, and nothing twice that is noted", async () => {
    const database = await open();
    put(database, 2);
    const sent: string[] = [];
    const take = (target: string, id: string): boolean => sent.push(`${target} ${id}`) > 0;
    await round(database, 10, take);
    put(database, 3);
    await round(database, 20, take);
    expect([...sent].sort()).toEqual(["down n0", "down n1", "down n2", "up n0", "up n1", "up n2"]);
    database.forgetNotices(21);
    expect(rowsOf(database)).toEqual([]);
    expect([database.noticesSince(7), database.noticesSince(9)]).toEqual([7, 7]);
    database.close();
  });
});

describe("sending", () => {
  const servers: Server[] = [];
  afterEach(() => servers.splice(0).forEach((server) => server.close()));
  const row: NoticeRow = {
    ...{ id: "ended:j:r", target: "t", atMs: 0 },
    body: JSON.stringify({ key: "k1", fleet: "eu", text: "<!channel> j & k failed" }),
  };
  const signal = new AbortController().signal;

  async function listen(status: number, headers?: Record<string, string>) {
    const { got, port } = await hookServer(servers, status, headers);
    return { got, url: `http://127.0.0.1:${port}/hook` };
  }

  it("signs a webhook's body with the time", async () => {
    const { got, url } = await listen(204);
    writeFileSync(path.join(scratch, "hook.secret"), "s3cret\n");
    const target = targetOf("t", { webhook: url, secretFile: "hook.secret" });
    await createSender(scratch, signal)(target, row, 12_345);
    const sum = createHmac("sha256", "s3cret").update(`12.${row.body}`).digest("hex");
    expect(got).toMatchObject([
      {
        body: row.body,
        headers: {
          ...{ "x-orbweaver-notice": row.id, "idempotency-key": "k1" },
          "x-orbweaver-signature": `t=12,v1=${sum}`,
        },
      },
    ]);
  });

  it("fails with the status, and follows no redirect", async () => {
    const elsewhere = await listen(200);
    const redirecting = await listen(307, { location: elsewhere.url });
    const broken = await listen(503);
    const send = createSender(scratch, signal);
    await expect(send(targetOf("t", { webhook: redirecting.url }), row, 0)).rejects.toThrow("307");
    await expect(send(targetOf("t", { webhook: broken.url }), row, 0)).rejects.toThrow("503");
    expect(elsewhere.got).toEqual([]);
  });

  it("escapes words for Slack, and keeps Slack's address out of errors", async () => {
    const { got, url } = await listen(200);
    const { webhook: _webhook, ...rest } = targetOf("t", { slackFile: "slack.url" });
    const send = createSender(scratch, signal);
    await expect(send(rest, row, 0)).rejects.toThrow("slack.url cannot be read (ENOENT)");
    writeFileSync(path.join(scratch, "slack.url"), `${url}\n`);
    await send(rest, row, 0);
    expect(JSON.parse(got[0]?.body ?? "")).toEqual({
      text: "eu: &lt;!channel&gt; j &amp; k failed",
    });
    writeFileSync(path.join(scratch, "slack.url"), "no address with s3cret");
    await expect(send(rest, row, 0)).rejects.toThrow(/^it cannot be reached \(ERR_INVALID_URL\)$/);
  });

  it("gives a command the document, and fails where the command does", async () => {
    const { webhook: _webhook, ...rest } = targetOf("t");
    const send = createSender(scratch, signal);
    await send({ ...rest, command: ["sh", "-c", "cat > got.json"] }, row, 0);
    expect(readFileSync(path.join(scratch, "got.json"), "utf8")).toBe(row.body);
    await send({ ...rest, command: ["true"] }, { ...row, body: "x".repeat(1 << 20) }, 0);
    const failing = { ...rest, command: ["sh", "-c", "exit 3"] };
    await expect(send(failing, row, 0)).rejects.toThrow("it ended with 3");
    await expect(send({ ...rest, command: ["/no/such"] }, row, 0)).rejects.toThrow("ENOENT");
    const ending = new AbortController();
    const long = { ...rest, command: ["sh", "-c", "sleep 600 & wait"] };
    const cut = createSender(scratch, ending.signal)(long, row, 0);
    ending.abort();
    await expect(cut).rejects.toThrow("SIGKILL");
  });
});

describe("notify: of a fleet file", () => {
  const problemsOf = (notify: string): readonly string[] => {
    const parsed = parseFleetYaml(
      `clusters:\n  - {name: c, site: s, jurisdiction: EU, hosts: [{name: h, gpus: 1, type: H100}]}\nnotify:\n${notify}`,
      { file: "fleet.yaml", read: () => ({ kind: "missing", reason: "is none" }) },
    );
    return parsed.kind === "parsed" ? [] : parsed.problems.map(formatProblem);
  };

  it.each([
    ["  - {name: a, command: [x], on: [failed]}", []],
    ["  - {name: a, on: [failed]}", [/nothing says how it is told; write one of webhook/]],
    ["  - {name: a, command: [x], slackFile: y, on: [failed]}", [/told by slackFile and command/]],
    ["  - {name: a, slackFile: y, secretFile: z, on: [failed]}", [/only a webhook's notices/]],
    ["  - {name: a, webhook: 'ftp://x', on: [failed]}", [/"ftp:\/\/x" is no address of a web/]],
    ["  - {name: a, webhook: 'https://u:p@x', on: [failed]}", [/without a user or password/]],
    ["  - {name: a, command: [x], on: [waiting]}", [/needs the time after which/]],
    ["  - {name: a, command: [x], on: [failed], waiting: 2h}", [/on does not name it/]],
    ["  - {name: a, command: [x], on: [host-back], tenants: [t]}", [/neither tenant nor class/]],
    ["  - {name: a, command: [x], on: [soon]}", [/soon/]],
    [
      "  - {name: a, command: [x], on: [failed]}\n  - {name: a, command: [x], on: [failed]}",
      [/"a" is there twice, first at notify\[0\]/],
    ],
  ])("%s", (notify, expected) => {
    const problems = problemsOf(notify);
    expect(problems.length).toBe(expected.length);
    expected.forEach((pattern, at) => expect(problems[at]).toMatch(pattern));
  });
});
