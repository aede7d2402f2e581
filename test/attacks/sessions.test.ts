/**
 * @file Interactive sessions by a submit service on a live fleet: what its users do, and what nobody does with another's job, a ticket of another session,
 * or a port of another process.
 */

import { createPublicKey } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { connect, createServer } from "node:net";
import { join } from "node:path";
import { userInfo } from "node:os";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readAuditLog } from "../../access/audit-log.ts";
import { startService, type Service, type ServiceOptions } from "../../api/service.ts";
import { forwardPort } from "../../cli/sessions/forwarded-port.ts";
import { openServiceClient } from "../../client/index.ts";
import type { DisbelievedSender } from "../../client/disbelieved.ts";
import type { ServiceAddress } from "../../client/service-client.ts";
import type { Access } from "../../domain/fleet/access-schema.ts";
import { openUserSession, type SessionRequest, type UserSession } from "../../client/session.ts";
import { JOB_TASK_QUEUE, SESSION_WORKFLOW } from "../../protocol/messages.ts";
import type { SessionExit } from "../../protocol/session-contract.ts";
import { WebSocketServer } from "ws";
import { contentHash } from "../../access/job-proof.ts";
import { publicKeyText } from "../../access/own-identity.ts";
import { apiKeyFiles, signingKey } from "../../access/role-keys.ts";
import { signSessionTicket } from "../../access/session-ticket.ts";
import { carry, dialRelay, type RelayWord } from "../../streams/carry.ts";
import { createLink } from "../../streams/link.ts";
import { createRelay, RELAY } from "../../streams/relay.ts";
import { AGENT_PATH, CHANNEL, CLIENT_PATH, wordBytes } from "../../streams/words.ts";
import { isRoot } from "../support/as-user.ts";
import { serverAddress } from "../support/server-address.ts";
import { type World } from "../support/world.ts";
import { startServedWorld } from "../support/served-world.ts";
import { standInIssuer } from "../../bench/interactive/stand-in-issuer.ts";
import { removeFolder } from "../support/remove-folder.ts";

let dir = "";
let world: World;
let service: Service;
let options: ServiceOptions;
let job = "";
/** What `access:` says while a test has changed it. */
let changed: Access | undefined;
const issuer = standInIssuer();

const ACCESS = `
access:
  principals:
    - { name: ada, subject: ada, issuer: company }
    - { name: bob, subject: bob, issuer: company }
    - { name: vera, subject: vera, issuer: company }
  grants:
    - { to: [ada, bob], role: user, tenants: [research] }
    - { to: [vera], role: viewer }
  issuers:
    ${issuer.line}
`;
/** Answers each connection at a free port with a word, once it has written which. */
const SERVER =
  'open F,">port.tmp"; $s=IO::Socket::INET->new(Listen=>5,LocalAddr=>"127.0.0.1") or die; print F $s->sockport; close F; rename "port.tmp","port"; while($c=$s->accept){print $c "job\\n"; close $c}';

beforeAll(async () => {
  dir = mkdtempSync("/tmp/ow-");
  let access: Access | undefined;
  ({ world, options, access } = await startServedWorld({
    ...{ address: serverAddress(), dir, yaml: ACCESS },
    readAccess: () => changed ?? access,
  }));
  service = await startService(options);
  job = `${world.fleet}-served`;
  const command = ["perl", "-MIO::Socket::INET", "-e", SERVER];
  const run = { command, env: { SECRET: "of-ada" } };
  await openServiceClient(addressOf("ada"), world.fleet).submit(
    { name: "served", tenant: "research", gang: { gpus: 1 }, run },
    { idempotencyKey: job },
  );
  await world.until("the job runs", ({ leases }) =>
    [...leases.values()].some((lease) => lease.jobId === job),
  );
  for (;;) {
    const found = await exec("ada", ["cat", "port"]).catch((error: unknown) => error);
    if (typeof found === "object" && found !== null && "text" in found && found.text !== "") return;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
});
afterAll(async () => {
  try {
    await service.close();
    await world.orbweaver.job(job).cancel({ isForced: true });
    await world.orbweaver.job(job).outcome();
  } finally {
    await world.stop();
    removeFolder(dir);
  }
});

function addressOf(sub: string): ServiceAddress {
  return { url: new URL(`http://127.0.0.1:${String(service.port)}`), token: issuer.tokenOf(sub) };
}

interface Attached {
  readonly session: UserSession;
  readonly text: () => string;
  readonly until: (part: string) => Promise<void>;
}

function open(
  who: string,
  command: readonly string[],
  more: Partial<SessionRequest> = {},
): Attached {
  let text = "";
  const waiting = new Set<() => void>();
  const start = { command, idleMs: 600_000 };
  const session = openUserSession(
    addressOf(who),
    { job, rank: 0, verb: "exec", start, ...more },
    {
      onData(_channel, bytes, taken) {
        text += bytes.toString();
        taken();
        for (const look of waiting) look();
      },
      onRoom: () => undefined,
    },
  );
  session.over.catch(() => undefined);
  return {
    session,
    text: () => text,
    until: (wanted) =>
      new Promise((resolve) => {
        const look = (): void => {
          if (text.includes(wanted)) resolve();
        };
        waiting.add(look);
        look();
      }),
  };
}

async function exec(
  who: string,
  command: readonly string[],
): Promise<{ readonly exit: SessionExit | undefined; readonly text: string }> {
  const { session, text } = open(who, command);
  session.end(CHANNEL.input);
  return { exit: await session.over, text: text() };
}

/** The service, at the same port. `meanwhile`: when it is away. */
async function startAgain(meanwhile: () => unknown = () => undefined): Promise<void> {
  const { port = 0 } = service;
  await service.close();
  meanwhile();
  service = await startService({ ...options, tcp: { host: "127.0.0.1", port } });
}

/** Read again by the service. */
const touch = (file: string): void => writeFileSync(file, `${readFileSync(file, "utf8")}\n`);

const lines = () => readAuditLog(options.auditFile).lines;

describe("a session with a rank", () => {
  it("runs a command as the job's user, in its folder, with its environment and GPUs, and ends with its status", async () => {
    const user = isRoot ? "nobody" : userInfo().username;
    const script =
      'id -un; echo "$SECRET $CUDA_VISIBLE_DEVICES $RANK"; ls port; echo no >&2; exit 7';
    const { exit, text } = await exec("ada", ["sh", "-c", script]);
    expect(exit).toEqual({ exitCode: 7 });
    const said = text.split("\n");
    expect(said).toEqual(expect.arrayContaining([user, "no", "port"]));
    expect(said.find((line) => line.startsWith("of-ada"))).toMatch(/^of-ada \d 0$/);
    expect(lines().at(-1)).toMatchObject({ who: "ada", act: "exec", job, verdict: "accepted" });
  });

  it("passes input and signals on, and tells how a signal ended it", async () => {
    const { session, until } = open("ada", [
      "sh",
      "-c",
      "read word; echo got $word; exec sleep 600",
    ]);
    session.write(CHANNEL.input, Buffer.from("hello\n"));
    await until("got hello");
    session.say({ signal: "TERM" });
    expect(await session.over).toEqual({ signal: "SIGTERM" });
  });

  it("has a terminal whose size follows, and a status, where it asks for one", async () => {
    const script = "stty size; read word; stty size; test -t 0 && test -t 1 && exit 9";
    const command = ["sh", "-c", script];
    const terminal = { rows: 33, columns: 99, name: "xterm" };
    const start = { command, idleMs: 600_000, terminal };
    const { session, until } = open("ada", command, { start });
    await until("33 99");
    session.say({ size: { rows: 44, columns: 111 } });
    session.write(CHANNEL.input, Buffer.from("\n"));
    await until("44 111");
    expect(await session.over).toEqual({ exitCode: 9 });
  });

  it("says that a command is missing", async () => {
    const { exit, text } = await exec("ada", ["no-such-command"]);
    // The step that becomes another user says 126, as for what may not be executed.
    expect([126, 127]).toContain(exit?.exitCode);
    expect(text).toContain("no-such-command");
  });

  it("goes on where it was when the service was started again; the job runs on", async () => {
    const { session, until, text } = open("ada", ["cat"]);
    session.write(CHANNEL.input, Buffer.from("before "));
    await until("before ");
    await startAgain(() => session.write(CHANNEL.input, Buffer.from("after")));
    await until("after");
    session.end(CHANNEL.input);
    expect([await session.over, text()]).toEqual([{ exitCode: 0 }, "before after"]);
    const { state } = await world.orbweaver.job(job).view();
    expect(state).toBe("running");
  });

  it.each<readonly [string, Partial<Access>, string]>([
    ["the grant", { grants: [] }, "may not submit"],
    ["the name", { principals: [] }, "access.principals has no ada"],
  ])(
    "ends when %s is withdrawn by which it was opened, with a line in the audit",
    async (_what, part, why) => {
      const { session, until } = open("ada", ["sh", "-c", "echo here; exec sleep 600"]);
      await until("here");
      const before = options.readAccess("");
      changed = { ...before, ...part };
      touch(options.file);
      await expect(session.over).rejects.toMatchObject({
        code: "NOT_ALLOWED",
        message: expect.stringContaining(why) as string,
      });
      const line = { who: "ada", act: "exec", job, verdict: "failed" };
      expect(lines().at(-1)).toMatchObject({
        ...line,
        why: expect.stringContaining(why) as string,
      });
      changed = undefined;
      touch(options.file);
      await expect.poll(() => exec("ada", ["true"]).catch(() => undefined)).toBeDefined();
    },
  );

  it("ends when nothing passes for its idle time", async () => {
    const start = { command: ["sleep", "600"], idleMs: 1_000 };
    const { session } = open("ada", start.command, { start });
    expect(await session.over).toEqual({ reason: "idle" });
  });
});

describe("a forwarded port", () => {
  async function ask(remote: number, says: (text: string) => void): Promise<string> {
    const start = { idleMs: 600_000 };
    const request = { job, rank: 0, verb: "port-forward", port: remote, start } as const;
    const forwarded = await forwardPort(
      0,
      (events) => openUserSession(addressOf("ada"), request, events),
      says,
    );
    const socket = connect(forwarded.port, "127.0.0.1");
    let text = "";
    socket.on("data", (bytes) => (text += bytes.toString()));
    socket.on("error", () => undefined);
    await once(socket, "close");
    forwarded.session.close();
    forwarded.close();
    await forwarded.session.over;
    return text;
  }

  it("is one on which a process of the job listens", async () => {
    const port = Number((await exec("ada", ["cat", "port"])).text);
    expect(await ask(port, () => undefined)).toBe("job\n");
    expect(lines().at(-1)).toMatchObject({ act: "port-forward", job, verdict: "accepted" });
  });

  it("is none on which another process listens", async () => {
    let calls = 0;
    const server = createServer(() => (calls += 1)).listen(0, "127.0.0.1");
    await once(server, "listening");
    const address = server.address();
    const port = typeof address === "object" && address !== null ? address.port : 0;
    const said: string[] = [];
    expect(await ask(port, (text) => said.push(text))).toBe("");
    server.close();
    expect([calls, said]).toEqual([0, [expect.stringContaining("no process of the job listens")]]);
    expect(lines().at(-1)).toMatchObject({
      ...{ who: "ada", act: "port-forward", job, verdict: "accepted" },
      why: `rank 0, port ${String(port)}`,
    });
  });
});

describe("nobody", () => {
  it.each(["bob", "vera"])("enters another's job: %s", async (who) => {
    await expect(exec(who, ["id"])).rejects.toMatchObject({ code: "NOT_ALLOWED" });
    expect(lines().at(-1)).toMatchObject({ who, act: "exec", job, verdict: "refused" });
  });

  it("enters a rank that is not there, or a job that does not run", async () => {
    // Refusals of a minute beyond the first few are counted; a service that has just begun has had none.
    await startAgain();
    const { session } = open("ada", ["id"], { rank: 9 });
    await expect(session.over).rejects.toMatchObject({ code: "NOT_FOUND" });
    const line = { who: "ada", act: "exec", verdict: "refused" };
    expect(lines().at(-1)).toMatchObject({ ...line, job });
    const held = `${world.fleet}-held`;
    await openServiceClient(addressOf("ada"), world.fleet).submit(
      { name: "h", tenant: "research", gang: { gpus: 1 }, hold: true, run: { command: ["true"] } },
      { idempotencyKey: held },
    );
    const waiting = open("ada", ["id"], { job: held });
    await expect(waiting.session.over).rejects.toMatchObject({ code: "NOT_ALLOWED" });
    expect(lines().at(-1)).toMatchObject({ ...line, job: held });
  });

  it("uses a ticket again, at a host or at the relay", async () => {
    const { ticket, close } = await ticketOf("ada");
    const { attempts } = await world.orbweaver.job(job).view();
    const [part] = attempts.at(-1)?.gpus ?? [];
    const order = { jobId: job, host: part?.host, leaseId: attempts.at(-1)?.leaseId, ticket };
    const again = world.temporal.workflow.execute(SESSION_WORKFLOW, {
      workflowId: `session-again-${world.fleet}`,
      ...{ taskQueue: JOB_TASK_QUEUE, args: [{ rules: 1, fleet: world.fleet, order }] },
    });
    await expect(again).rejects.toMatchObject({
      cause: { cause: { message: expect.stringContaining("used before") as string } },
    });
    const agents = lines().length;
    expect(await statusAt(ticket)).toBe(401);
    expect(await statusAt(`${ticket.slice(0, -4)}AAAA`)).toBe(401);
    await close();
    expect(await statusAt(ticket)).toBe(401);
    await startAgain();
    expect(await statusAt(ticket)).toBe(401);
    const left = lines()
      .slice(agents)
      .filter(({ act }) => act === "session-agent");
    // The host's own agent may dial once more while the session ends.
    const eachWhy = left.filter(({ why }, at) => left.findIndex((line) => line.why === why) === at);
    expect(eachWhy).toMatchObject([
      {
        who: "unknown",
        job,
        verdict: "refused",
        why: "the ticket of ada is in use by another agent",
      },
      { who: "unknown", verdict: "refused", why: "its ticket is forged" },
      { who: "unknown", job, verdict: "refused", why: "the session of ada is over" },
    ]);
  });

  it("takes an agent's place with its ticket when the service was started again", async () => {
    const { ticket, close } = await ticketOf("ada");
    await startAgain();
    expect(await statusAt(ticket)).toBe(401);
    const why = "the ticket of ada is in use by another agent";
    expect(lines()).toContainEqual(expect.objectContaining({ act: "session-agent", job, why }));
    await close();
  });
});

it("lets nobody who signs a ticket past the service hide words in the size of a terminal, which the host's policy does not look at", async () => {
  const sockets = new WebSocketServer({ noServer: true });
  const relay = createRelay({ ...RELAY, graceMs: 2_000 });
  const server = createHttpServer();
  server.on("upgrade", (request, socket, first) => {
    const side = request.url === AGENT_PATH ? "agent" : "client";
    sockets.handleUpgrade(request, socket, first, (end) => relay.join("own", side, end));
  });
  const socket = join(dir, "own.sock");
  server.listen(socket);
  await once(server, "listening");
  let text = "";
  const link = createLink({
    onData(_channel, bytes, taken) {
      text += bytes.toString();
      taken();
    },
    onEnd: () => undefined,
    onRoom: () => undefined,
  });
  for (const channel of Object.values(CHANNEL)) link.open(channel);
  const rows = "1; echo from the size; stty rows 1";
  const terminal = { rows, columns: 80, name: "xterm" };
  const start = { command: ["true"], terminal, idleMs: 600_000 };
  link.write(CHANNEL.words, wordBytes({ start }));
  const { attempts } = await world.orbweaver.job(job).view();
  const [part] = attempts.at(-1)?.gpus ?? [];
  const leaseId = attempts.at(-1)?.leaseId ?? "";
  const now = Date.now();
  const privateKey = signingKey(apiKeyFiles())();
  const claims = {
    ...{ principal: "ada", job, lease: leaseId, host: part?.host ?? "", rank: 0 },
    ...{ verb: "exec" as const, hash: contentHash(start), nonce: "n".repeat(24) },
    ...{ relays: [`unix:${socket}`], until: now + 60_000, ends: now + 60_000 },
  };
  const ticket = signSessionTicket(claims, {
    ...{ name: "api", file: "", privateKey, publicKey: publicKeyText(createPublicKey(privateKey)) },
  });
  const order = { jobId: job, host: part?.host, leaseId, ticket };
  const over = carry(link, {
    ...{ place: () => ({ socket }), path: CLIENT_PATH, graceMs: 20_000 },
    closed: new AbortController().signal,
  });
  await world.temporal.workflow.execute(SESSION_WORKFLOW, {
    workflowId: `session-own-${world.fleet}`,
    ...{ taskQueue: JOB_TASK_QUEUE, args: [{ rules: 1, fleet: world.fleet, order }] },
  });
  expect(await over).toMatchObject({ kind: "lost" });
  expect(text).toBe("");
  await expect
    .poll(async () => {
      const { stdout } = await world.cli(["audit", "--json"]);
      return (JSON.parse(stdout) as { readonly words: readonly DisbelievedSender[] }).words;
    })
    .toContainEqual(
      expect.objectContaining({
        sender: `session-own-${world.fleet}`,
        what: `dial of ${job}`,
        why: "what is to be started has another form",
      }),
    );
  relay.close();
  server.close();
});

/** The ticket of a session whose agent has come. */
async function ticketOf(
  who: string,
): Promise<{ readonly ticket: string; readonly close: () => Promise<void> }> {
  const { url, token = "" } = addressOf(who);
  const socket = dialRelay({ url, headers: { Authorization: `Bearer ${token}` } }, CLIENT_PATH);
  await once(socket, "open");
  const start = { command: ["true"], idleMs: 600_000 };
  let ticket = "";
  const paired = new Promise<void>((resolve) => {
    socket.on("message", (data: Buffer, isBinary: boolean) => {
      if (isBinary) return;
      const word = JSON.parse(data.toString()) as RelayWord;
      ticket = word.ticket ?? ticket;
      if (word.paired !== undefined) resolve();
    });
  });
  socket.send(JSON.stringify({ open: { job, rank: 0, verb: "exec", start } }));
  await paired;
  const closed = once(socket, "close");
  return {
    ticket,
    async close() {
      socket.close(1_000);
      await closed;
    },
  };
}

/** How the relay answers somebody who comes as an agent. */
async function statusAt(ticket: string): Promise<number> {
  const headers = { "X-Orbweaver-Ticket": ticket, "X-Orbweaver-Key": "another" };
  const { url } = addressOf("ada");
  const socket = dialRelay({ url, headers }, AGENT_PATH);
  socket.on("error", () => undefined);
  return await new Promise((resolve) => {
    socket.once("unexpected-response", (_request, response) => {
      resolve(response.statusCode ?? 0);
      socket.terminate();
    });
    socket.once("open", () => {
      resolve(101);
      socket.terminate();
    });
  });
}
