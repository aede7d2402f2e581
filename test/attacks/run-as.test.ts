/** @file Level 2, an admitted submitter on an agent of root: its processes are those of its tenant's user, and see and reach no more than that user. */

import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ownIdentity } from "../../access/own-identity.ts";
import type { JobHandle } from "../../client/index.ts";
import { isRoot, NOBODY } from "../support/as-user.ts";
import { serverAddress } from "../support/server-address.ts";
import { SMALL_FLEET, startWorld, type World } from "../support/world.ts";
import { removeFolder } from "../support/remove-folder.ts";

describe.runIf(isRoot)("level 2: an agent of root with a policy", () => {
  let dir = "";
  /** Outside of `/tmp`, which a job does not see. */
  let open = "";
  let world: World;
  beforeAll(async () => {
    dir = mkdtempSync(join(tmpdir(), "orbweaver-run-as-"));
    open = mkdtempSync("/var/tmp/orbweaver-run-as-");
    chmodSync(open, 0o777);
    const policy = join(dir, "agent.yaml");
    writeFileSync(
      policy,
      `submitters: [{ name: root, key: "${ownIdentity().publicKey}" }]
users: { research: nobody }
limits: { openFiles: 4096 }
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
    for (const each of [dir, open]) removeFolder(each);
  });

  const run = async (script: string, env: object = {}): Promise<string> => {
    const file = join(dir, "job.json");
    const job = { name: "as-nobody", tenant: "research", gang: { gpus: 2 } };
    writeFileSync(file, JSON.stringify({ ...job, run: { command: ["sh", "-c", script], env } }));
    const { code, stdout, stderr } = await world.cli(["submit", file, "--json", "--wait"]);
    const { jobId = "" } = JSON.parse(stdout || "{}") as { jobId?: string };
    expect([code, stderr]).toEqual([0, expect.any(String)]);
    return (await world.cli(["logs", jobId, "--rank", "0"])).stdout;
  };

  it("gives a job its user, no way back to root, and a /tmp and folders of its own", async () => {
    const secret = join(dir, "roots-own");
    writeFileSync(secret, "secret", { mode: 0o600 });
    const said = await run(
      `id -u; id -g; umask; ulimit -n; ulimit -c; grep -E "CapEff|CapBnd|NoNewPrivs" /proc/self/status | tr -s "\\t\\n" "  "; echo
echo "home $HOME"; echo "tmp $(ls -A /tmp | grep -vc orbweaver)"; cat ${secret} /etc/shadow 2>&1 | grep -c enied
echo x > here && echo x > "$ORBWEAVER_CHECKPOINT_DIR/$ORBWEAVER_TOKEN/c" && echo x > /tmp/mine && echo wrote
ls ${world.stateDir} 2>&1 | grep -c enied`,
    );
    const lines = said.trim().split("\n");
    expect(lines.slice(0, 5)).toEqual([String(NOBODY), String(NOBODY), "0077", "4096", "0"]);
    expect(lines[5]).toMatch(/CapEff: 0{16} CapBnd: 0{16} NoNewPrivs: 1/);
    expect(said).toMatch(/^home \/nonexistent$/m);
    expect(lines).toContain("wrote");
    expect(existsSync("/tmp/mine")).toBe(false);
    expect(lines.at(-1)).toBe("1");
    expect(said).toMatch(/^1$/m);
  });

  it("does not look as root at folders that a job names: neither whether they are there, nor what is in them", async () => {
    const closed = join(open, "closed");
    mkdirSync(join(closed, "inside"), { recursive: true });
    chmodSync(closed, 0o700);
    writeFileSync(join(closed, "hidden-name"), "of root");
    const shared = join(open, "checkpoints");
    mkdirSync(shared);
    chmodSync(shared, 0o777);
    symlinkSync(closed, join(shared, "999999"));
    const started = async (name: string, more: object): Promise<JobHandle> =>
      world.orbweaver.job(
        (
          await world.orbweaver.submit({
            ...{ name, tenant: "research", gang: { gpus: 1 } },
            run: { command: ["sh", "-c", 'echo "from $ORBWEAVER_CHECKPOINT"'], ...more },
          })
        ).jobId,
      );
    const said = await Promise.all(
      [join(closed, "inside"), join(closed, "none"), join(open, "none")].map(
        async (workdir, at) => {
          const job = await started(`at-${String(at)}`, { workdir });
          for (;;) {
            const view = await job.view();
            const text = JSON.stringify(view);
            const [found] =
              /refuses [^"]*the working folder \S+ does not exist there/.exec(text) ?? [];
            if (found !== undefined) {
              // It may have ended by its refusal.
              await job.cancel().catch(() => undefined);
              return found.replace(/^.*the working folder \S+/, "");
            }
            if (view.state === "completed") return "it ran there";
            await new Promise((resolve) => setTimeout(resolve, 200));
          }
        },
      ),
    );
    expect(new Set(said)).toEqual(new Set([" does not exist there"]));
    const checkpoint = { dir: shared, signal: "USR1" };
    const job = await started("links", { checkpoint });
    expect((await job.outcome()).kind).toBe("completed");
    const { stdout } = await world.cli(["logs", job.jobId, "--rank", "0"]);
    expect([stdout, JSON.stringify(await job.view())].join()).not.toContain("hidden-name");
  });

  it("runs the tasks of an array, which have no folder for checkpoints without a rule", async () => {
    const task = ["--array", "2", "--tenant", "research", "--gpus", "1"];
    const ended = await world.cli(["submit", "--wait", ...task, "--", "sh", "-c", "id -u"]);
    expect([ended.code, ended.stderr]).toEqual([0, expect.any(String)]);
  });

  it("looks its command up as the user: a program in its PATH by the name of a tool of ours runs as nobody", async () => {
    for (const tool of ["unshare", "setpriv", "mount", "sh", "mkdir"])
      writeFileSync(join(open, tool), `#!/bin/sh\nid -u > ${join(open, "loot")}\n`, {
        mode: 0o755,
      });
    await run("id -u", { PATH: `${open}:/usr/bin:/bin` });
    expect(readFileSync(join(open, "loot"), "utf8").trim()).toBe(String(NOBODY));
  });
});
