/** @file Whom a host obeys by the runs that the server tells of: a session that was continued, and who takes the id of a job that has ended. */

import { Context } from "@temporalio/activity";
import { generateKeyPairSync } from "node:crypto";
import { join } from "node:path";
import { afterEach, expect, it, vi } from "vitest";
import { signJob } from "../../access/job-proof.ts";
import { ownIdentity, publicKeyText } from "../../access/own-identity.ts";
import { signTicket, TICKET_MS } from "../../access/ticket.ts";
import { PROOF_MEMO, READER_CONTENT } from "../../protocol/signed-job.ts";
import { fleetWorkflowId, logSessionId } from "../../protocol/messages.ts";
import { orderCheck } from "../../workers/order-check.ts";
import { folder, orderOf, removeFolders, stopOf } from "../agent/fixture.ts";

afterEach(() => {
  vi.restoreAllMocks();
  removeFolders();
});

interface Run {
  readonly first: string;
  readonly continued?: string;
}

/** A server that knows these runs, and a host that asks it; `as`: the run that gives the next order. */
function hostWith(runs: Readonly<Record<string, Run>>, memo: Readonly<Record<string, string>>) {
  let sender = { workflowId: "", runId: "" };
  vi.spyOn(Context, "current").mockImplementation(
    () => ({ info: { workflowExecution: sender } }) as Context,
  );
  const history = ({ execution }: { readonly execution: { readonly runId: string } }) => {
    const run = runs[execution.runId];
    const attributes = run && {
      firstExecutionRunId: run.first,
      continuedExecutionRunId: run.continued ?? "",
    };
    const events = attributes && [{ workflowExecutionStartedEventAttributes: attributes }];
    return Promise.resolve({ history: { events: events ?? [] } });
  };
  const client = {
    options: { namespace: "default" },
    withAbortSignal: (_: AbortSignal, call: () => unknown) => call(),
    workflow: {
      getHandle: () => ({
        describe: () => Promise.resolve({ memo, startTime: new Date(), raw: {} }),
      }),
    },
    workflowService: { getWorkflowExecutionHistory: history },
  };
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const identity = ownIdentity({ ORBWEAVER_IDENTITY: join(folder(), "own.pem") });
  const trust = { kind: "own-user", publicKey: identity.publicKey, name: "ada" } as const;
  const access = { fleet: "f", trust: () => trust, believed: () => [publicKeyText(publicKey)] };
  const check = orderCheck(client as never, access);
  return {
    ...{ access, privateKey, identity },
    lease: (workflowId: string, runId: string, ...given: Parameters<typeof check.lease>) => {
      sender = { workflowId, runId };
      return check.lease(...given);
    },
    logs: (workflowId: string, runId: string, ...given: Parameters<typeof check.logs>) => {
      sender = { workflowId, runId };
      return check.logs(...given);
    },
  };
}

it("a log session reads on after it was continued, and not when it was begun again", async () => {
  const { jobId, host, leaseId } = orderOf("true");
  const session = logSessionId(jobId, "0123456789");
  const memo: Record<string, string> = {};
  const runs = {
    one: { first: "one" },
    two: { first: "one", continued: "one" },
    reset: { first: "one", continued: "one" },
    anew: { first: "anew" },
  };
  const { logs, identity } = hostWith(runs, memo);
  memo[PROOF_MEMO] = signJob({ jobId: session, content: READER_CONTENT }, identity, Date.now());
  const query = { jobId, host, leaseId, rank: 0, offset: 0, maxBytes: 9, waitMs: 0 };
  const said: unknown[] = [];
  for (const run of ["one", "one", "two", "two", "one", "reset", "anew"])
    said.push(await logs(session, run, query, undefined));
  const over = expect.stringContaining("its session is over") as string;
  expect(said).toEqual([undefined, undefined, undefined, undefined, over, over, over]);
});

it("a job's launch ticket is of no use to a later workflow of its id; a stop ticket is to everybody", async () => {
  const stored = orderOf("true", { workflowRunId: "one" });
  const { jobId, leaseId, token, host } = stored;
  const runs = { one: { first: "one" }, reset: { first: "one" }, later: { first: "later" } };
  const { lease, access, privateKey } = hostWith(runs, {});
  const of = { fleet: fleetWorkflowId(access.fleet), job: jobId, lease: leaseId, token };
  const until = Date.now() + TICKET_MS;
  const launch = signTicket({ kind: "launch", ...of, gpus: [[host, 1]], until }, privateKey);
  const stop = signTicket({ kind: "stop", ...of }, privateKey);
  const told = (run: string, ticket?: string): Promise<string | undefined> =>
    lease(jobId, run, { ...stopOf(stored), ...(ticket !== undefined && { ticket }) }, stored);
  expect([await told("one"), await told("reset"), await told("later", stop)]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
  expect(await told("later")).toContain("no ticket");
  expect(await told("later", launch)).toContain("a later workflow with the id of");
  // The host has not heard of the lease yet.
  const unknown = { ...stopOf(stored), ticket: launch };
  expect(await lease(jobId, "later", unknown, undefined)).toBeUndefined();
});
