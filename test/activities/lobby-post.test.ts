/** @file To which run a fleet's news for a lobby goes, and what a lobby that is opened for it begins with, through a stand-in for Temporal's server. */

import { WorkflowNotFoundError, type Client } from "@temporalio/client";
import { defaultPayloadConverter, type Payload } from "@temporalio/common";
import { expect, test } from "vitest";
import { tellLobby } from "../../activities/lobby-post.ts";
import { tenantId } from "../../domain/values/ids.ts";
import type { LobbyInput } from "../../protocol/lobby-contract.ts";
import {
  JOB_TASK_QUEUE,
  LOBBY_WORKFLOW,
  lobbyWorkflowId,
  type LobbyNews,
} from "../../protocol/messages.ts";

type Status = "RUNNING" | "COMPLETED" | "FAILED" | "TERMINATED";

interface Run {
  readonly runId: string;
  readonly type: string;
  readonly taskQueue: string;
  readonly input: Payload;
  readonly heard: unknown[];
  status: Status;
}

const FLEET = "eu";
const TENANT = tenantId("red");
const ID = lobbyWorkflowId(FLEET, TENANT);
const newsOf = (id: number): LobbyNews =>
  ({
    fleet: FLEET,
    tenant: TENANT,
    rows: [],
    credits: [{ id, class: "training" }],
  }) as unknown as LobbyNews;
const NEWS = newsOf(1);
const payloadOf = (value: unknown): Payload => defaultPayloadConverter.toPayload(value) ?? {};
const TORN: Payload = {
  metadata: { encoding: Buffer.from("json/plain") },
  data: Buffer.from("{"),
};

/** A server that keeps the runs of one workflow id; each is the first of its chain. */
class Server {
  readonly runs: Run[] = [];
  /** What was called, in order. */
  readonly calls: string[] = [];
  /** Resolves before each description is handed over. */
  described: () => Promise<void> = () => Promise.resolve();

  namesFirst = true;
  isHistoryAway = false;

  add(
    status: Status,
    input: Payload,
    { type = LOBBY_WORKFLOW, taskQueue = JOB_TASK_QUEUE } = {},
  ): Run {
    const run: Run = {
      runId: `run-${String(this.runs.length + 1)}`,
      type,
      taskQueue,
      input,
      status,
      heard: [],
    };
    this.runs.push(run);
    return run;
  }

  get open(): Run | undefined {
    return this.runs.find(({ status }) => status === "RUNNING");
  }

  tell(news: LobbyNews): Promise<void> {
    return tellLobby({ client: this.#client, askedBy: () => Promise.resolve("nothing") }, news);
  }

  /** The open run's. */
  get input(): LobbyInput {
    return defaultPayloadConverter.fromPayload(this.open?.input ?? {});
  }

  readonly #client = {
    options: { namespace: "default" },
    workflow: {
      getHandle: (_id: string, runId?: string, { firstExecutionRunId = runId } = {}) => ({
        describe: async () => {
          this.calls.push("describe");
          const last = this.runs.at(-1);
          if (last === undefined) throw gone();
          const { status, ...run } = last;
          await this.described();
          const raw = { workflowExecutionInfo: { firstRunId: this.namesFirst ? run.runId : "" } };
          return { ...run, status: { name: status }, raw };
        },
        signal: (_name: unknown, news: unknown) => {
          this.calls.push("signal");
          if (this.open === undefined) return Promise.reject(gone());
          this.open.heard.push(news);
          return Promise.resolve();
        },
        terminate: () => {
          this.calls.push("terminate");
          const { open } = this;
          if (open === undefined || (firstExecutionRunId ?? open.runId) !== open.runId)
            return Promise.reject(gone());
          open.status = "TERMINATED";
          return Promise.resolve();
        },
      }),
      signalWithStart: (type: string, order: SignalWithStart) => {
        this.calls.push("start");
        if (order.workflowIdConflictPolicy === "TERMINATE_EXISTING" && this.open !== undefined)
          this.open.status = "TERMINATED";
        const { taskQueue } = order;
        const run = this.open ?? this.add("RUNNING", payloadOf(order.args[0]), { type, taskQueue });
        run.heard.push(order.signalArgs[0]);
        return Promise.resolve();
      },
    },
    workflowService: {
      getWorkflowExecutionHistory: ({
        execution,
      }: {
        readonly execution: { readonly runId: string };
      }) => {
        this.calls.push("input");
        if (this.isHistoryAway) return Promise.reject(away());
        const input = this.runs.find(({ runId }) => runId === execution.runId)?.input;
        const started = { input: { payloads: [input] } };
        return Promise.resolve({
          history: { events: [{ workflowExecutionStartedEventAttributes: started }] },
        });
      },
    },
  } as unknown as Client;
}

interface SignalWithStart {
  readonly taskQueue: string;
  readonly args: readonly unknown[];
  readonly signalArgs: readonly unknown[];
  readonly workflowIdConflictPolicy: string;
}

const gone = () => new WorkflowNotFoundError("no such run", ID, undefined);
const away = () =>
  Object.assign(new Error("14 UNAVAILABLE"), { code: 14, details: "", metadata: {} });
const OWN = { fleet: FLEET, tenant: TENANT };
const CARRIED = { queues: [], credits: [], called: [], returned: [], unused: [] };

test("an open lobby is told, and what it began with is read once", async () => {
  const server = new Server();
  const lobby = server.add("RUNNING", payloadOf({ ...OWN, carried: CARRIED }));
  await server.tell(NEWS);
  await server.tell(newsOf(2));
  expect(lobby.heard).toEqual([NEWS, newsOf(2)]);
  expect(server.calls).toEqual(["describe", "input", "signal", "describe", "signal"]);
});

test.each<[string, Status | undefined, Partial<LobbyInput>, readonly string[]]>([
  ["never was", undefined, {}, ["describe", "start"]],
  ["has completed", "COMPLETED", {}, ["describe", "start"]],
  [
    "was ended by hand",
    "TERMINATED",
    { carried: CARRIED as never, former: ["run-0", "run-1"] },
    ["describe", "input", "start"],
  ],
])("a lobby that %s is opened", async (_what, status, more, calls) => {
  const server = new Server();
  if (status !== undefined)
    server.add(
      status,
      payloadOf({ ...OWN, carried: CARRIED, former: ["run-0"], isProofAsked: true }),
    );
  await server.tell(NEWS);
  expect(server.input).toEqual({ ...OWN, ...more });
  expect(server.open?.heard).toEqual([NEWS]);
  expect(server.calls).toEqual(calls);
});

test.each([
  ["junk for what a run hands on", payloadOf({ ...OWN, carried: { queues: 1 } })],
  ["a list of numbers for former runs", payloadOf({ ...OWN, former: [1] })],
  ["a number for former runs", payloadOf({ ...OWN, former: 1 })],
  ["another fleet's name", payloadOf({ ...OWN, fleet: "us", carried: CARRIED })],
  ["another tenant's name", payloadOf({ ...OWN, tenant: "blue", carried: CARRIED })],
  ["torn JSON", TORN],
])(
  "of a run that somebody began with %s, the next lobby takes what it was told alone",
  async (_what, input) => {
    const server = new Server();
    server.add("FAILED", input);
    await server.tell(NEWS);
    // With which rows a true lobby may have been ended before, nobody knows.
    expect(server.input).toEqual({ ...OWN, former: ["run-1"], isMusterDue: true });
  },
);

test.each([
  ["of another type", { type: "mine" }, OWN],
  ["on another task queue", { taskQueue: "mine" }, OWN],
  ["that is another fleet's lobby", {}, { ...OWN, fleet: "us" }],
])(
  "an open workflow %s is ended, and the lobby is told what came to it",
  async (_what, kind, input) => {
    const server = new Server();
    const squatter = server.add("RUNNING", payloadOf(input), kind);
    await server.tell(NEWS);
    expect(squatter).toMatchObject({ status: "TERMINATED", heard: [] });
    // With which rows a true lobby may have been ended before, nobody knows.
    expect(server.input).toEqual({ ...OWN, former: ["run-1"], isMusterDue: true });
    expect(server.open?.heard).toEqual([NEWS]);
  },
);

// A worker without the key, of a release that packs it otherwise: the run ends by itself if it is junk.
test.each([
  ["that cannot be read", TORN],
  ["of another form", payloadOf({ ...OWN, carried: { queues: 1 } })],
])("an open lobby with an input %s is left alone", async (_what, input) => {
  const server = new Server();
  const lobby = server.add("RUNNING", input);
  await server.tell(NEWS);
  expect(lobby).toMatchObject({ status: "RUNNING", heard: [NEWS] });
});

test.each([
  ["which hears both", true],
  ["also on a server that does not name the first run", false],
])(
  "two deliveries that have both seen a false workflow open one lobby, %s",
  async (_what, namesFirst) => {
    const server = new Server();
    server.namesFirst = namesFirst;
    server.add("RUNNING", payloadOf(OWN), { type: "mine" });
    let seeSecond = (): void => undefined;
    const late = new Promise<void>((resolve) => {
      seeSecond = resolve;
    });
    server.described = () => late;
    const second = server.tell(newsOf(2));
    server.described = () => Promise.resolve();
    await server.tell(NEWS);
    seeSecond();
    await second;
    expect(server.runs.map(({ status }) => status)).toEqual(["TERMINATED", "RUNNING"]);
    expect(server.open?.heard).toEqual([NEWS, newsOf(2)]);
    // With which rows a true lobby may have been ended before, nobody knows.
    expect(server.input).toEqual({ ...OWN, former: ["run-1"], isMusterDue: true });
  },
);

test("a lobby that is ended by hand between a look and a word is started again with what it had", async () => {
  const server = new Server();
  const lobby = server.add("RUNNING", payloadOf({ ...OWN, carried: CARRIED }));
  server.described = () => {
    lobby.status = "TERMINATED";
    return Promise.resolve();
  };
  await server.tell(NEWS);
  expect(server.input).toEqual({ ...OWN, carried: CARRIED, former: ["run-1"] });
});

test.each<Status>(["RUNNING", "TERMINATED"])(
  "what a %s lobby began with is not guessed while the server does not say it",
  async (status) => {
    const server = new Server();
    server.add(status, payloadOf({ ...OWN, carried: CARRIED }));
    server.isHistoryAway = true;
    await expect(server.tell(NEWS)).rejects.toThrow("UNAVAILABLE");
    expect(server.runs).toMatchObject([{ status, heard: [] }]);
  },
);
