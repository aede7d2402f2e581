/**
 * @file Level 1, no access to the frontend: what users who reach only the submit service cannot do there. Each attempt leaves a line in the audit, but for
 * those that the kernel refuses before the service hears of them.
 */

import { spawn, type ChildProcess } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { userInfo } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { readAuditLog, type AuditLine } from "../../access/audit-log.ts";
import { claimedIn } from "../../access/job-proof.ts";
import { apiKeyFiles, makeRoleKeys } from "../../access/role-keys.ts";
import { HTTP_LIMITS } from "../../api/http.ts";
import { startService, type Service } from "../../api/service.ts";
import { EXIT } from "../../cli/terminal/exit-code.ts";
import { openServiceClient, type FleetClient } from "../../client/index.ts";
import type { Access, Grant } from "../../domain/fleet/access-schema.ts";
import type { JobFile } from "../../domain/job/job-file.ts";
import { shellQuoted } from "../../lib/shell-word.ts";
import { proofsIn } from "../../protocol/signed-job.ts";
import { asUser, isRoot, NOBODY } from "../support/as-user.ts";
import { serverAddress } from "../support/server-address.ts";
import { ROOT, type World } from "../support/world.ts";
import { startServedWorld } from "../support/served-world.ts";
import { standInIssuer, tokenPart } from "../../bench/interactive/stand-in-issuer.ts";
import { removeFolder } from "../support/remove-folder.ts";

/** The kernel has room for 107 bytes of a socket's path. */
let dir = "";
let world: World;
let service: Service;
/** With so little time for a request that tests of slow ones are short; nothing else is asked there. */
let hasty: Service;
const issuer = standInIssuer();
/** What `access:` of the fleet file says; the service looks at it when the file has changed. */
let access: Access | undefined;
const own = userInfo().username;

const ACCESS = `
access:
  principals:
    - { name: ada, subject: ada, issuer: company }
    - { name: bob, subject: bob, issuer: company }
    - { name: oscar, subject: oscar, issuer: company }
    - { name: rita, subject: rita, issuer: company }
    - { name: vera, subject: vera, issuer: company }
    - { name: nobby, user: nobody }
  grants:
    - { to: [ada, bob, nobby], role: user, tenants: [research], classes: [training], priority: 0 }
    - { to: [rita], role: user, tenants: [research], priority: 5 }
    - { to: [oscar], role: operator }
    - { to: [vera], role: viewer }
  issuers:
    ${issuer.line}
`;

beforeAll(async () => {
  dir = mkdtempSync("/tmp/ow-");
  const address = serverAddress();
  const served = await startServedWorld({ address, dir, yaml: ACCESS, readAccess: () => access });
  ({ world, access } = served);
  const { options } = served;
  service = await startService(options);
  hasty = await startService({
    ...options,
    auditFile: join(dir, "hasty.jsonl"),
    ownFolder: join(dir, "own-hasty"),
    sharedFolder: join(dir, "all-hasty"),
    limits: { ...HTTP_LIMITS, requestMs: 2_000 },
  });
});
afterAll(async () => {
  try {
    await Promise.all([service.close(), hasty.close()]);
  } finally {
    await world.stop();
    removeFolder(dir);
  }
});

const { tokenOf } = issuer;
const url = (): URL => new URL(`http://127.0.0.1:${String(service.port)}`);
const clientOf = (sub: string, token = tokenOf(sub)): FleetClient =>
  openServiceClient({ url: url(), token }, world.fleet);

const pause = (): Promise<void> => new Promise((wake) => setTimeout(wake, 50));

const lines = (name = "audit.jsonl"): readonly AuditLine[] => {
  const { lines: found, brokenAt } = readAuditLog(join(dir, name));
  expect(brokenAt).toBeUndefined();
  return found;
};
/** Asserts that the attempt is refused with the code, and what it has left in the audit. */
async function refusedLine(attempt: Promise<unknown>, code = "NOT_ALLOWED"): Promise<AuditLine> {
  const before = lines().length;
  await expect(attempt).rejects.toMatchObject({ code });
  const line = lines().slice(before).at(-1);
  if (line === undefined) throw new Error("the attempt left no line");
  expect(["refused", "failed"]).toContain(line.verdict);
  return line;
}

let count = 0;
const newKey = (): string => `${world.fleet}-${String((count += 1))}`;
const file = (more: object = {}): JobFile =>
  ({
    name: "job",
    tenant: "research",
    gang: 1,
    run: { command: ["sh", "-c", "echo work; sleep 300"], env: { TOKEN: "s3cret" } },
    ...more,
  }) as JobFile;

describe("level 1: with a token", () => {
  it("an admitted user submits in its own name, sees, reads and ends its job", async () => {
    const ada = clientOf("ada");
    const key = newKey();
    await ada.submit(file({ run: { command: ["sh", "-c", "id -un; echo done"] } }), {
      idempotencyKey: key,
    });
    const job = ada.job(key);
    expect(await job.outcome()).toMatchObject({ kind: "completed" });
    let text = "";
    for await (const part of job.logs()) text += part;
    expect(text).toBe(`${isRoot ? "nobody" : own}\ndone\n`);
    const handle = world.temporal.workflow.getHandle(key);
    const user = (await handle.describe()).typedSearchAttributes.getAll();
    expect(user.map(({ key: { name }, value }) => [name, value])).toContainEqual([
      "OrbweaverUser",
      "ada",
    ]);
    expect(lines().filter(({ job: named }) => named === key)).toMatchObject([
      { who: "ada", act: "submit", verdict: "accepted", from: "token:company 127.0.0.1" },
    ]);
  });

  it.each([
    ["forged", () => tokenOf("oscar", {}, generateKeyPairSync("ed25519").privateKey), "no key of"],
    ["expired", () => tokenOf("oscar", { exp: 1 }), "expired"],
    ["of another audience", () => tokenOf("oscar", { aud: "wiki" }), "another audience"],
    ["of another issuer", () => tokenOf("oscar", { iss: "https://evil.example" }), "believes"],
    [
      "without a signature",
      () => `${tokenPart({ alg: "none" })}.${tokenPart({ sub: "oscar" })}.`,
      "header",
    ],
  ])("one that is %s opens nothing", async (_what, token, why) => {
    const line = await refusedLine(clientOf("x", token()).fleet());
    expect(line).toMatchObject({ who: "unknown", from: "127.0.0.1", act: "GET /v1/ledger" });
    expect(line.why).toContain(why);
  });

  it("a user whom no grant names sees nothing", async () => {
    const line = await refusedLine(clientOf("eve").fleet());
    expect(line).toMatchObject({ who: "company:eve", act: "ledger" });
  });

  it.each([
    ["another tenant", { tenant: "finance" }, "not for tenant finance"],
    ["no tenant", { tenant: undefined }, "not for tenant default"],
    ["another class", { class: "inference" }, "class training"],
    ["a higher priority", { priority: 1 }, "priority 0 at most"],
    ["another fleet", { fleets: ["elsewhere"] }, "may not submit to fleet elsewhere"],
  ])("a submitter who claims %s starts nothing", async (_what, more, why) => {
    const key = newKey();
    const attempt = clientOf("ada").submit(file(more), { idempotencyKey: key });
    expect((await refusedLine(attempt)).why).toContain(why);
    await expect(world.temporal.workflow.getHandle(key).describe()).rejects.toThrow(/not found/i);
  });

  it("an id of the fleet's own workflows is no job's, even to an operator", async () => {
    const oscar = clientOf("oscar");
    const submitted = oscar.submit(file(), { idempotencyKey: "orbweaver-lobby-x" });
    await refusedLine(submitted, "BAD_INPUT");
    await refusedLine(oscar.job(`orbweaver-fleet-${world.fleet}`).cancel(), "NOT_FOUND");
    await refusedLine(oscar.job("../hosts/fence").cancel(), "NOT_FOUND");
  });

  it("another user's job is neither seen nor read nor changed nor submitted again", async () => {
    const key = newKey();
    await clientOf("ada").submit(file(), { idempotencyKey: key });
    const job = clientOf("bob").job(key);
    const log = async (): Promise<void> => {
      for await (const _text of job.logs());
    };
    const attempts: readonly (readonly [string, () => Promise<unknown>])[] = [
      ["status", () => job.view()],
      ["explain", () => job.explain()],
      ["progress", () => job.progress()],
      ["tasks", () => job.tasks({ from: 0, count: 1 })],
      ["logs", log],
      ["cancel", () => job.cancel()],
      ["cancel", () => job.cancel({ isForced: true })],
      ["hold", () => job.hold()],
      ["release", () => job.release()],
      ["tasks-cancel", () => job.cancelTasks("0")],
      ["tasks-retry", () => job.retryTasks("0")],
      ["retry", () => job.rerun()],
    ];
    for (const [act, attempt] of attempts)
      expect(await refusedLine(attempt())).toMatchObject({ who: "bob", act, job: key });
    const listed: string[] = [];
    for await (const { jobId } of clientOf("bob").list({ all: true })) listed.push(jobId);
    expect(listed).not.toContain(key);
    const { isCancelAsked } = await clientOf("ada").job(key).ending();
    expect(isCancelAsked).toBe(false);
    await clientOf("oscar").job(key).cancel({ isForced: true });
    expect(lines().at(-1)).toMatchObject({ who: "oscar", act: "cancel", verdict: "accepted" });
  });

  it("the key of another user's job tells nothing of it", async () => {
    const key = newKey();
    await clientOf("ada").submit(file({ hold: true }), { idempotencyKey: key });
    for (const guess of [file({ hold: true }), file({ hold: true, priority: -5 })]) {
      const attempt = clientOf("bob").submit(guess, { idempotencyKey: key });
      const line = await refusedLine(
        attempt.catch((error: unknown) => {
          expect(JSON.stringify(error)).not.toMatch(/s3cret|priority/);
          throw error;
        }),
        "IDEMPOTENCY_CONFLICT",
      );
      expect(line.job).toBe(key);
    }
    await clientOf("ada").job(key).cancel();
  });

  it("a time limit is signed as the submitter's job is, and the owner's jobs are signed by the owner alone", async () => {
    const key = newKey();
    await clientOf("ada").submit(file({ hold: true, timeLimit: "2h" }), { idempotencyKey: key });
    const { changes } = await clientOf("ada").job(key).amend({ timeLimit: "1h" });
    expect(changes).toMatchObject([{ setting: "timeLimitMs", after: 3_600_000 }]);
    const { memo = {} } = await world.temporal.workflow.getHandle(key).describe();
    const [, amended] = proofsIn(memo);
    const [apiKey = ""] = makeRoleKeys(apiKeyFiles());
    expect(claimedIn(amended)?.publicKey).toBe(apiKey);
    await clientOf("ada").job(key).cancel();
    const owners = newKey();
    await world.orbweaver.submit(file({ hold: true }), { idempotencyKey: owners });
    await refusedLine(clientOf("oscar").job(owners).amend({ timeLimit: "1h" }));
    await clientOf("oscar").job(owners).amend({ priority: 1 });
    await clientOf("oscar").job(owners).cancel();
  });

  it("only operators give orders about hosts", async () => {
    const ada = clientOf("ada");
    const refused = await refusedLine(ada.drain(["alpha/a1"], "mine"));
    expect(refused).toMatchObject({ act: "drain", job: "alpha/a1" });
    await refusedLine(ada.undrain(["alpha/a1"]));
    await refusedLine(ada.fence(["alpha/a1"], { isForced: true }));
    expect(await clientOf("oscar").drain(["alpha/a3"], "fan")).toEqual(["alpha/a3"]);
    expect(lines().at(-1)).toMatchObject({ who: "oscar", job: "alpha/a3", why: "fan" });
  });
});

describe("level 1: with a grant that was taken away", () => {
  const grantRita = async (grant: Grant): Promise<void> => {
    const others = access?.grants?.filter(({ to }) => !to.includes("rita")) ?? [];
    access = { ...access, grants: [...others, grant] };
    const path = join(dir, "fleet.yaml");
    writeFileSync(path, `${readFileSync(path, "utf8")}# ${JSON.stringify(grant)}\n`);
    const headers = { Authorization: `Bearer ${tokenOf("rita")}` };
    for (let said = ""; !said.includes(JSON.stringify(grant));)
      said = await pause().then(
        async () => await (await fetch(new URL("/v1/me", url()), { headers })).text(),
      );
  };
  const full: Grant = { to: ["rita"], role: "user", tenants: ["research"], priority: 5 };

  it("an old job neither goes on nor starts again, and can still be ended", async () => {
    const rita = clientOf("rita");
    const keys = { held: newKey(), runs: newKey(), array: newKey(), ended: newKey() };
    await rita.submit(file({ hold: true, priority: 5 }), { idempotencyKey: keys.held });
    await rita.submit(file(), { idempotencyKey: keys.runs });
    await rita.submit(file({ array: { count: 2 } }), { idempotencyKey: keys.array });
    await rita.submit(file({ run: { command: ["true"] } }), { idempotencyKey: keys.ended });
    await rita.job(keys.ended).outcome();
    while ((await rita.job(keys.runs).view()).state !== "running") await pause();
    const attempts: readonly (readonly [string, string, () => Promise<unknown>])[] = [
      ["release", keys.held, () => rita.job(keys.held).release()],
      ["requeue", keys.runs, () => rita.job(keys.runs).requeue()],
      ["tasks-retry", keys.array, () => rita.job(keys.array).retryTasks("0")],
      ["retry", keys.ended, () => rita.job(keys.ended).rerun()],
      ["amend", keys.held, () => rita.job(keys.held).amend({ priority: 1 })],
    ];
    await grantRita({ to: ["rita"], role: "viewer" });
    for (const [act, job, attempt] of attempts)
      expect(await refusedLine(attempt())).toMatchObject({
        ...{ who: "rita", act, job, why: "rita may not submit jobs" },
      });
    await grantRita({ ...full, tenants: ["finance"] });
    for (const [, , attempt] of attempts)
      expect((await refusedLine(attempt())).why).toContain("not for tenant research");
    await grantRita({ ...full, priority: 0 });
    expect((await refusedLine(rita.job(keys.held).release())).why).toContain("priority 0 at most");
    expect((await rita.job(keys.held).view()).state).toBe("held");
    await grantRita(full);
    expect(await rita.job(keys.held).release()).not.toBe("held");
    await grantRita({ to: ["rita"], role: "viewer" });
    for (const key of [keys.held, keys.runs, keys.array])
      await rita.job(key).cancel({ isForced: true });
    expect(lines().at(-1)).toMatchObject({ act: "cancel", verdict: "accepted", why: "by force" });
  });
});

describe("level 1: attached at a terminal", () => {
  interface Attached {
    readonly child: ChildProcess;
    readonly text: () => string;
    readonly code: Promise<number | null>;
    readonly until: (part: string) => Promise<void>;
  }
  /** `orbweaver attach` of the build; `terminal`: at one of its own, by `script`. */
  function attach(who: string, args: readonly string[], { terminal = false } = {}): Attached {
    const words = [process.execPath, join(ROOT, "dist/cli/main.js"), "attach", ...args];
    const [file = "", ...rest] = terminal
      ? ["script", "-qfec", words.map(shellQuoted).join(" "), "/dev/null"]
      : words;
    const child = spawn(file, rest, {
      env: { ...world.env, ORBWEAVER_API: url().href, ORBWEAVER_API_TOKEN: tokenOf(who) },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let text = "";
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding("utf8").on("data", (part: string) => (text += part));
    return {
      child,
      text: () => text,
      code: once(child, "close").then(([code]) => code as number | null),
      until: async (part) => {
        while (!text.includes(part)) {
          if (child.exitCode !== null) throw new Error(`it has ended: ${text}`);
          await pause();
        }
      },
    };
  }
  const submitted = async (script: string): Promise<string> => {
    const key = newKey();
    const run = { command: ["sh", "-c", script] };
    await clientOf("ada").submit(file({ run }), { idempotencyKey: key });
    return key;
  };
  /** `perl` alone waits without processes of its own. */
  const STAYS = "echo first; exec perl -e 'sleep 600'";

  it("another user's job is not shown, neither while it runs nor once it has ended", async () => {
    const key = await submitted(STAYS);
    const before = lines().length;
    const running = attach("bob", [key]);
    expect(await running.code).toBe(EXIT.failure);
    await clientOf("ada").job(key).cancel({ isForced: true });
    await clientOf("ada").job(key).outcome();
    const ended = attach("bob", [key]);
    expect(await ended.code).toBe(EXIT.failure);
    expect([running.text(), ended.text()].join()).not.toContain("first");
    const line = { who: "bob", act: "status", job: key, verdict: "refused" };
    const left = lines().slice(before);
    expect(left.filter(({ who }) => who === "bob")).toMatchObject([line, line]);
  });

  it("a viewer gets no output, and its signals end nothing; others who look on are not disturbed", async () => {
    const key = await submitted(STAYS);
    const before = lines().length;
    const [stays, leaves, viewer] = [
      attach("ada", [key]),
      attach("ada", [key]),
      attach("vera", [key]),
    ];
    await Promise.all([
      stays.until("first"),
      leaves.until("first"),
      viewer.until("cannot be followed"),
    ]);
    viewer.child.kill("SIGTERM");
    await viewer.until("cannot be cancelled");
    await viewer.code;
    leaves.child.kill("SIGHUP");
    expect(await leaves.code).toBe(EXIT.hungUp);
    expect(viewer.text()).not.toContain("first");
    expect((await clientOf("ada").job(key).view()).state).toBe("running");
    const by = { who: "vera", job: key, verdict: "refused" };
    expect(
      lines()
        .slice(before)
        .filter(({ who }) => who === "vera"),
    ).toMatchObject([
      { ...by, act: "logs" },
      { ...by, act: "cancel" },
    ]);
    await clientOf("ada").job(key).cancel({ isForced: true });
    expect(await stays.code).toBe(EXIT.interrupted);
    expect(stays.text().match(/first/g)).toHaveLength(1);
  });

  it("an operator's terminal shows the control characters in a job's output, and obeys them only where it is told to", async () => {
    const key = await submitted("printf '\\033]0;mine\\007\\033[2Jwords\\n'");
    await clientOf("ada").job(key).outcome();
    const shown = attach("oscar", [key], { terminal: true });
    expect(await shown.code).toBe(0);
    expect(shown.text()).toContain("\\x1b]0;mine\\x07\\x1b[2Jwords");
    expect(shown.text()).not.toMatch(/\u001b\]0;mine|\u001b\[2J/);
    const raw = attach("oscar", ["--raw", key], { terminal: true });
    expect(await raw.code).toBe(0);
    expect(raw.text()).toContain("\u001b]0;mine\u0007\u001b[2Jwords");
  });
});

describe("level 1: at the door", () => {
  /** What comes back until the service closes the connection. */
  const said = async (text: string): Promise<string> =>
    await new Promise((resolve, reject) => {
      const socket = connect(hasty.port ?? 0, "127.0.0.1", () => socket.write(text));
      let answer = "";
      socket.setEncoding("utf8").on("data", (part: string) => (answer += part));
      socket.once("close", () => resolve(answer));
      socket.once("error", reject);
    });
  const head = (length: number): string =>
    `POST /v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer ${tokenOf("ada")}\r\nContent-Length: ${String(length)}\r\n\r\n`;

  it.each([
    ["that says nothing", () => "", "", "connect"],
    ["that does not end its head", () => "GET /v1/me HTTP/1.1\r\nHost:", "408", "connect"],
    ["that does not end its body", () => `${head(1_000)}{`, "408", "connect"],
    ["that sends a body of a terabyte", () => head(1e12), "413", "submit"],
    ["that speaks no HTTP", () => "\u0000\u0001\u0002\r\n\r\n", "400", "connect"],
  ])("a client %s is cut off", async (_what, text, status, act) => {
    const before = lines("hasty.jsonl").length;
    expect(await said(text())).toContain(status);
    const left = lines("hasty.jsonl").slice(before);
    expect(left.map((line) => [line.act, line.verdict])).toContainEqual([act, "refused"]);
  });

  it("a body that grows is refused where it becomes too large", async () => {
    const job = `x: ${"y".repeat(HTTP_LIMITS.bodyBytes)}`;
    await refusedLine(clientOf("ada").submit(job), "REQUEST_TOO_LARGE");
  });
});

describe.runIf(isRoot)("level 1: another user of the machine", () => {
  const openAs = async (uid: number, path: string): Promise<string> => {
    const script = `require("net").connect(${JSON.stringify(path)}, () => { console.log("open"); process.exit() }).on("error", (e) => console.log(e.code))`;
    return (await asUser(uid, [process.execPath, "-e", script])).stdout.trim();
  };

  it("opens its own socket alone; the kernel refuses every other one", async () => {
    const path = service.sockets().get("nobody") ?? "";
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(await openAs(NOBODY, path)).toBe("open");
    expect(await openAs(1, path)).toBe("EACCES");
    expect(await openAs(NOBODY, service.sockets().get(own) ?? "")).toBe("EACCES");
  });

  it("cannot put a socket where users look for the service", async () => {
    const script = `require("net").createServer().on("error", (e) => console.log(e.code)).listen(${JSON.stringify(join(dir, "all", "ada.sock"))})`;
    expect((await asUser(NOBODY, [process.execPath, "-e", script])).stdout.trim()).toBe("EACCES");
  });

  it("is known by its socket, whatever token it shows", async () => {
    const path = service.sockets().get("nobody") ?? "";
    const nobby = openServiceClient({ socket: path, token: tokenOf("oscar") }, world.fleet);
    const line = await refusedLine(nobby.drain(["alpha/a1"], "mine"));
    expect(line).toMatchObject({ who: "nobby", from: "socket" });
  });
});
