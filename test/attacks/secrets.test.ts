/** @file Levels 2 and 3, a submitter and a reader of everything: secrets by reference are in no history, log, file or process but the job's own. */

import { execFileSync } from "node:child_process";
import {
  chmodSync,
  lstatSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { inflateSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { hasErrorCode } from "../../lib/error-code.ts";
import { ownIdentity } from "../../access/own-identity.ts";
import { isRoot, NOBODY } from "../support/as-user.ts";
import { serverAddress } from "../support/server-address.ts";
import { SMALL_FLEET, startWorld, type World } from "../support/world.ts";
import { removeFolder } from "../support/remove-folder.ts";

const VALUE = "the-value-that-nobody-else-may-see";
const DIGEST = createHash("sha256").update(VALUE).digest("hex");
const SHOW = 'printf %s "$TOKEN" | sha256sum | cut -c1-64';

let dir = "";
let world: World;

const jobFile = (env: object, script = SHOW): string => {
  const file = join(dir, "job.json");
  const job = { name: "with-secret", tenant: "research", gang: { gpus: 2 } };
  writeFileSync(file, JSON.stringify({ ...job, run: { command: ["sh", "-c", script], env } }));
  return file;
};
async function submit(env: object, script?: string) {
  const ended = await world.cli(["submit", jobFile(env, script), "--json", "--wait"]);
  const { jobId = "" } = JSON.parse(ended.stdout || "{}") as { jobId?: string };
  return { ...ended, jobId };
}

/** Whether bytes, or what they hold compressed, have the value. */
function hasValue(value: unknown): boolean {
  if (value instanceof Uint8Array) {
    const bytes = Buffer.from(value);
    if (bytes.includes(VALUE)) return true;
    try {
      return inflateSync(bytes).includes(VALUE);
    } catch {
      return false;
    }
  }
  if (typeof value === "string") return value.includes(VALUE);
  return typeof value === "object" && value !== null && Object.values(value).some(hasValue);
}

/** Of a living fleet: what has gone between the list and the look has nothing any more. */
const leaks = (folder: string): readonly string[] =>
  namesIn(folder).flatMap((name) => {
    const path = join(folder, name);
    const fact = lstatSync(path, { throwIfNoEntry: false });
    if (fact?.isDirectory() === true) return leaks(path);
    return fact?.isFile() === true && bytesOf(path).includes(VALUE) ? [path] : [];
  });
const namesIn = (folder: string): readonly string[] => ifThere(() => readdirSync(folder)) ?? [];
const bytesOf = (path: string): Buffer => ifThere(() => readFileSync(path)) ?? Buffer.alloc(0);
function ifThere<Found>(look: () => Found): Found | undefined {
  try {
    return look();
  } catch (error) {
    if (hasErrorCode(error, "ENOENT")) return undefined;
    throw error;
  }
}

/** The processes of which a file in `/proc` has the value, with their users. */
const processesWith = (file: string): readonly { readonly pid: string; readonly uid: number }[] =>
  readdirSync("/proc").flatMap((pid) => {
    try {
      if (!/^\d+$/.test(pid) || !readFileSync(`/proc/${pid}/${file}`).includes(VALUE)) return [];
      return [{ pid, uid: statSync(`/proc/${pid}`).uid }];
    } catch {
      return [];
    }
  });

describe.runIf(isRoot)("on an agent of root with a policy", () => {
  let mine = "";
  let roots = "";
  beforeAll(async () => {
    // Outside of `/tmp`, which a job does not see.
    dir = mkdtempSync("/var/tmp/orbweaver-secrets-");
    chmodSync(dir, 0o755);
    const folder = (name: string, owner: number): string => {
      const path = join(dir, name);
      execFileSync("mkdir", ["-m", "0700", path]);
      writeFileSync(join(path, "token"), `${VALUE}\n`, { mode: 0o600 });
      execFileSync("chown", ["-R", `${String(owner)}:${String(owner)}`, path]);
      return path;
    };
    mine = folder("research", NOBODY);
    roots = folder("roots", 0);
    symlinkSync(join(roots, "token"), join(mine, "link"));
    const policy = join(dir, "agent.yaml");
    writeFileSync(
      policy,
      `submitters: [{ name: root, key: "${ownIdentity().publicKey}" }]
users: { research: nobody, vision: nobody }
secrets: { research: ["file:${mine}/", "file:${roots}/", "command:cat ${roots}/token"] }
`,
      { mode: 0o644 },
    );
    world = await startWorld({
      address: serverAddress(),
      fleetYaml: SMALL_FLEET,
      agentArgs: ["--policy", policy],
    });
  });

  afterAll(async () => {
    await world.stop();
    removeFolder(dir);
  });

  it("a job has its secret, and nothing else does: no history, file, argument or answer", async () => {
    // Holds its processes, with nothing of the value in their arguments, until they have been looked at.
    const script = `${SHOW}; while [ -e ${join(mine, "held")} ]; do sleep 0.1; done`;
    writeFileSync(join(mine, "held"), "", { mode: 0o644 });
    const running = submit({ TOKEN: { secret: `file:${join(mine, "token")}` } }, script);
    // A step of util-linux is root's for a moment; then the processes of the job's user alone have it.
    const isOnlyTheirs = (found = processesWith("environ")): boolean =>
      found.length > 0 && found.every(({ uid }) => uid === NOBODY);
    while (!isOnlyTheirs()) await new Promise((wake) => setTimeout(wake, 50));
    expect(processesWith("cmdline")).toEqual([]);
    rmSync(join(mine, "held"));
    const { code, stdout, stderr, jobId } = await running;
    expect([code, stderr]).toEqual([0, expect.any(String)]);

    const logs = (await world.cli(["logs", jobId, "--rank", "0"])).stdout;
    expect(logs.trim().endsWith(DIGEST)).toBe(true);
    const said = [stdout, stderr, logs];
    for (const verb of ["status", "explain", "audit"])
      said.push(
        JSON.stringify(
          await world.cli([verb, ...(verb === "audit" ? ["--job"] : []), jobId, "--json"]),
        ),
      );
    expect(said.filter((text) => text.includes(VALUE))).toEqual([]);
    expect(said.join("")).toContain(`file:${join(mine, "token")}`);

    let histories = 0;
    // Their names alone: other tests on this server encrypt what workflows say of themselves.
    const { executions } = await world.temporal.workflowService.listWorkflowExecutions({
      namespace: "default",
      pageSize: 1_000,
    });
    for (const { execution } of executions) {
      const [workflowId, runId] = [execution?.workflowId ?? "", execution?.runId ?? ""];
      if (!workflowId.includes(world.fleet) && workflowId !== jobId) continue;
      histories += 1;
      const handle = world.temporal.workflow.getHandle(workflowId, runId);
      expect([workflowId, hasValue(await handle.fetchHistory())]).toEqual([workflowId, false]);
    }
    expect(histories).toBeGreaterThan(1);
    expect(leaks(world.stateDir)).toEqual([]);
  });

  it.each([
    ["root's file", () => `file:${roots}/token`],
    ["a link to root's file", () => `file:${mine}/link`],
    ["a command that reads root's file", () => `command:cat ${roots}/token`],
  ])("%s is not read by the agent's privilege", async (_what, reference) => {
    const { code, jobId, stdout, stderr } = await submit({ TOKEN: { secret: reference() } });
    expect(code).toBe(1);
    expect(await world.orbweaver.job(jobId).outcome()).toMatchObject({
      ...{ kind: "failed", failure: { code: "SECRET_UNAVAILABLE" } },
    });
    expect(`${stdout}${stderr}`).not.toContain(VALUE);
    expect(leaks(world.stateDir)).toEqual([]);
  });

  it.each([
    ["a file that its policy does not name", "file:/etc/shadow", "research"],
    ["a variable of root's agent", "env:HOME", "research"],
    ["a command that its policy does not name", "command:id", "research"],
    ["another tenant's folder", "TOKEN", "vision"],
  ])("%s is refused", async (_what, reference, tenant) => {
    const secret = reference === "TOKEN" ? `file:${mine}/token` : reference;
    const file = jobFile({ TOKEN: { secret } });
    const submitted = await world.cli(["submit", file, "--tenant", tenant, "--json", "--wait"]);
    const { jobId = "" } = JSON.parse(submitted.stdout || "{}") as { jobId?: string };
    const outcome = await world.orbweaver.job(jobId).outcome();
    expect(outcome).toMatchObject({ kind: "failed", failure: { code: "NOT_ALLOWED" } });
    expect(JSON.stringify(outcome)).toContain(`for tenant ${tenant}`);
    const audit = await world.cli(["audit", "--job", jobId, "--json"]);
    const { history } = JSON.parse(audit.stdout) as { readonly history: readonly unknown[] };
    const why = expect.stringContaining(`for tenant ${tenant}`) as string;
    expect(history).toContainEqual(expect.objectContaining({ act: "run refused", why }));
  });
});
