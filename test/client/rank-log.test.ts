/** @file Reading a rank's log: the whole of it, the last lines, as it grows, through rotation and before it exists. */

import { WorkflowUpdateFailedError, type Client } from "@temporalio/client";
import { ActivityFailure, ApplicationFailure, TimeoutFailure } from "@temporalio/common";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { prefixed } from "../../client/job-logs.ts";
import { openLogSession, type LogQuery, type LogSession } from "../../client/log-session.ts";
import { checkedChunk } from "../../client/log-chunk.ts";
import { merged } from "../../client/merged.ts";
import { lastLines, readRankLog, type RankLogOptions } from "../../client/rank-log.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { hostId, jobId, leaseId, token } from "../../domain/values/ids.ts";

const PLACE = { jobId: jobId("j"), host: hostId("c", "h"), leaseId: leaseId(token(1)), rank: 0 };

/** An agent's log of ASCII text; each read makes the next of `growth` arrive. */
function agent(
  text: string,
  { growth = [] as string[], droppedBytes = 0, maxChunk = 7 } = {},
): LogSession {
  let all = text;
  const coming = [...growth];
  return {
    read: ({ offset, maxBytes, waitMs }) => {
      if (waitMs > 0) all += coming.shift() ?? "";
      const asked = offset < 0 ? Math.max(0, all.length + offset) : offset;
      const from = Math.max(asked, droppedBytes);
      const chunk = all.slice(from, from + Math.min(maxBytes, maxChunk));
      const nextOffset = from + chunk.length;
      return Promise.resolve({
        text: chunk,
        nextOffset,
        droppedBytes: from - asked,
        isEnd: coming.length === 0 && nextOffset >= all.length,
      });
    },
    end: () => Promise.resolve(),
  };
}

async function textOf(session: LogSession, options: Partial<RankLogOptions>): Promise<string> {
  let text = "";
  const rest = { isFollowed: false, isOver: () => Promise.resolve(false), ...options };
  for await (const part of readRankLog(session, PLACE, rest)) text += part;
  return text;
}

const timedOut = new ActivityFailure(
  "Activity task timed out",
  ...(["readLogs", "1", "TIMEOUT", "session"] as const),
  new TimeoutFailure("activity ScheduleToStart timeout", undefined, "SCHEDULE_TO_START"),
);

const log = fc.stringMatching(/^[a-c\n]{0,80}$/);

describe("a rank's log", () => {
  it("is read whole, in pieces of any size", async () => {
    await fc.assert(
      fc.asyncProperty(log, fc.integer({ min: 1, max: 20 }), async (text, maxChunk) => {
        expect(await textOf(agent(text, { maxChunk }), {})).toBe(text);
      }),
    );
  });

  it("that is followed goes on at the same byte when its host answers again, and is told of once; it ends with its run", async () => {
    const whole = "one\ntwo\nthree\n";
    const gone = new OrbweaverError("NO_CONNECTION", "no worker answers");
    /** Answers reads by these words, one after the other, and then always. */
    const broken = (words: readonly boolean[]): LogSession => {
      const { read, end } = agent(whole);
      const left = [...words];
      return {
        end,
        read: (query) => ((left.shift() ?? true) ? read(query) : Promise.reject(gone)),
      };
    };
    let lost = 0;
    const options = { isFollowed: true, onLost: () => void (lost += 1) };
    expect(await textOf(broken([true, true, false, false]), options)).toBe(whole);
    expect(lost).toBe(1);
    lost = 0;
    // Begun while the host does not answer, with and without its last lines.
    expect(await textOf(broken([false, true]), options)).toBe(whole);
    const lastLine = { ...options, tailLines: 1 };
    expect(await textOf(broken([true, false]), lastLine)).toBe("three\n");
    expect(lost).toBe(2);
    const never = broken([true, true, ...Array<boolean>(99).fill(false)]);
    const isOver = () => Promise.resolve(true);
    await expect(textOf(never, { ...options, isOver })).rejects.toBe(gone);
    await expect(textOf(broken([false]), {})).rejects.toBe(gone);
  });

  it.each([
    // What is in flight there keeps its session; two questions are.
    ["that takes no question", 3, timedOut],
    [
      ...(["that the fleet does not know now", 1] as const),
      ApplicationFailure.nonRetryable("c/h has no agent now", "NOT_FOUND"),
    ],
  ])("that is followed waits for an agent %s", async (_name, sessions, silence) => {
    const { read } = agent("one\n");
    const answers = [undefined, silence, silence, undefined];
    let started = 0;
    const client = {
      withDeadline: (_untilMs: number, call: () => unknown) => call(),
      workflow: {
        start: () => {
          started += 1;
          return Promise.resolve({
            signal: () => Promise.resolve(),
            executeUpdate: async (_update: unknown, { args: [query] }: { args: [LogQuery] }) => {
              const failure = answers.shift();
              if (failure === undefined) return await read(query);
              throw new WorkflowUpdateFailedError("Workflow Update failed", failure);
            },
          });
        },
      },
    } as unknown as Client;
    const session = openLogSession(client, { jobId: PLACE.jobId, fleet: "f" }, () => {
      throw new OrbweaverError("NOT_FOUND", "no key");
    });
    expect(await textOf(session, { isFollowed: true })).toBe("one\n");
    expect(started).toBe(sessions);
  });

  it("ends with its last lines when only those are asked for", async () => {
    await fc.assert(
      fc.asyncProperty(log, fc.nat({ max: 10 }), async (text, tailLines) => {
        expect(await textOf(agent(text), { tailLines })).toBe(lastLinesPlain(text, tailLines));
      }),
    );
  });

  it("is followed to its end, after the last lines of what was there", async () => {
    const session = agent("1\n2\n3\n", { growth: ["4\n", "", "5\n"], maxChunk: 100 });
    expect(await textOf(session, { isFollowed: true, tailLines: 1 })).toBe("3\n4\n5\n");
  });

  it("of an agent that lies is refused or ends, whatever it answers", async () => {
    const number = fc.oneof(fc.integer(), fc.constantFrom(NaN, Infinity, 0.5, 2 ** 53), fc.nat(9));
    const lie = fc.oneof(
      fc.anything(),
      fc.record({
        text: fc.oneof(fc.constant(""), fc.string(), fc.constant("x".repeat(200_000))),
        nextOffset: number,
        droppedBytes: number,
        isEnd: fc.constant(false),
      }),
    );
    await fc.assert(
      fc.asyncProperty(lie, fc.option(fc.nat(5), { nil: undefined }), async (answer, tailLines) => {
        let reads = 0;
        const liar: LogSession = {
          read: (query) => {
            reads += 1;
            return Promise.resolve().then(() => checkedChunk(answer, query));
          },
          end: () => Promise.resolve(),
        };
        const tail = tailLines !== undefined && { tailLines };
        const text = await textOf(liar, tail || {}).catch((error: unknown) => {
          expect(error).toMatchObject({ code: "PAYLOAD_UNREADABLE" });
          return "";
        });
        // The same place is never read twice with text.
        expect(reads).toBeLessThanOrEqual(10);
        expect(text.length).toBeLessThanOrEqual(3 * 131_072);
      }),
    );
  });

  it.each([
    ["goes back", { text: "x", nextOffset: 9 }],
    ["stays", { text: "x", nextOffset: 10 }],
    ["is longer than was asked for", { text: "x".repeat(8), nextOffset: 18 }],
    ["moves on further than it says", { text: "x", nextOffset: 99 }],
    ["is no text", { text: { length: 1 }, nextOffset: 11 }],
    ["counts what nobody can", { text: "x", nextOffset: 1e300 }],
  ])("takes no answer that %s", (_name, answer) => {
    const query = { ...PLACE, offset: 10, maxBytes: 7, waitMs: 0 };
    const chunk = { droppedBytes: 0, isEnd: false, ...answer };
    expect(() => checkedChunk(chunk, query)).toThrow("cannot be its output");
  });

  it("tells what rotation has dropped", async () => {
    const dropped: number[] = [];
    const session = agent("0123456789", { droppedBytes: 4, maxChunk: 100 });
    expect(await textOf(session, { onDropped: (bytes) => dropped.push(bytes) })).toBe("456789");
    expect(dropped).toEqual([4]);
  });

  it("is waited for while its host does not know the run yet", async () => {
    const inner = agent("hello\n", { maxChunk: 100 });
    expect(await textOf(unknownAtFirst(inner, 1), { isFollowed: true })).toBe("hello\n");
  });

  it("is refused when the attempt is over and its host never knew the run", async () => {
    const session = unknownAtFirst(agent(""), Infinity);
    const options = { isFollowed: true, isOver: () => Promise.resolve(true) };
    await expect(textOf(session, options)).rejects.toMatchObject({ code: "RUN_UNKNOWN" });
  });
});

it.each([
  ["a\nb\nc\n", 2, "b\nc\n", true],
  ["a\nb\nc", 2, "b\nc", true],
  ["a\nb\n", 2, "a\nb\n", false],
  ["\n\n", 1, "\n", true],
  ["", 3, "", false],
  ["a", 0, "", true],
])("the last lines of %j, %i of them, are %j", (text, lines, wantText, wantEnough) => {
  expect(lastLines(text, lines)).toEqual({ text: wantText, isEnough: wantEnough });
});

it("puts a rank before whole lines only, a carriage return ends one, too, and closes the last one", async () => {
  const parts: string[] = [];
  for await (const part of prefixed(each(["a", "b\r\nc\n\nd", "e\r1%\r", "\n2%"]), "[3] "))
    parts.push(part);
  expect(parts.join("")).toBe("[3] ab\n[3] c\n[3] \n[3] de\n[3] 1%\n[3] 2%\n");
});

describe("several streams as one", () => {
  it("give every item once, each stream in its order", async () => {
    const items: string[] = [];
    for await (const item of merged([each(["a1", "a2"]), each([]), each(["b1"])])) items.push(item);
    expect(items.filter((item) => item.startsWith("a"))).toEqual(["a1", "a2"]);
    expect([...items].sort()).toEqual(["a1", "a2", "b1"]);
  });

  it("fail with the first that fails", async () => {
    const all = async () => {
      for await (const item of merged([each(["a"]), failing()])) expect(item).toBe("a");
    };
    await expect(all()).rejects.toThrow("broken");
  });
});

function unknownAtFirst(inner: LogSession, times: number): LogSession {
  let left = times;
  return {
    ...inner,
    read: (query) => {
      left -= 1;
      return left >= 0
        ? Promise.reject(new OrbweaverError("RUN_UNKNOWN", "not here"))
        : inner.read(query);
    },
  };
}

async function* each<T>(items: readonly T[]): AsyncGenerator<T> {
  for (const item of items) yield await Promise.resolve(item);
}

async function* failing(): AsyncGenerator<string> {
  yield await Promise.reject<string>(new Error("broken"));
}

/** The plain way: split, take, join. */
function lastLinesPlain(text: string, count: number): string {
  const lines = text.split(/(?<=\n)/);
  return count === 0 ? "" : lines.slice(-count).join("");
}
