/** @file The command line while a host is silent: who is named, what is refused, and a fence by hand that moves the job. */

import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { JobResult } from "../../protocol/messages.ts";
import { serverAddress } from "../support/server-address.ts";
import { startWorld, type World } from "../support/world.ts";
import { removeFolder } from "../support/remove-folder.ts";

const cluster = (name: string): string => `
  - name: ${name}
    site: here
    jurisdiction: EU
    simulated: true
    silence: 15s
    fence: 10m
    hosts:
      - { name: h1, gpus: 2, type: H100 }
`;

let world: World;
let notes: string;
beforeAll(async () => {
  notes = mkdtempSync(path.join(tmpdir(), "orbweaver-fence-verb-"));
  const fleetYaml = `name: fenced\nclusters:${cluster("east")}${cluster("west")}`;
  world = await startWorld({ address: serverAddress(), fleetYaml });
});
afterAll(async () => {
  await world.stop();
  removeFolder(notes);
});

it("a silent host is named with its times; answering hosts are refused; a fence by hand moves the job at once", async () => {
  const note = path.join(notes, "runs");
  const { jobId } = await world.orbweaver.submit({
    name: "moves",
    gang: { gpus: 2 },
    run: {
      launch: "per-host",
      command: ["sh", "-c", `echo $$ >> ${note}; [ "$(wc -l < ${note})" -gt 1 ] || exec sleep 600`],
    },
  });
  const noted = (): string => readFileSync(note, { encoding: "utf8", flag: "a+" }).trim();
  await expect.poll(noted).not.toBe("");
  const pid = Number(noted());
  const { leases } = await world.ledger();
  const host = [...leases.values()][0]?.gpus[0]?.host ?? "";

  const early = await world.cli(["fence", host]);
  expect(early.code).toBe(1);
  expect(early.stderr).toMatch(/NOT_ALLOWED: no host was fenced: .* answered within the last 15 s/);

  await world.kill(`agent-${host.split("/")[0] ?? ""}`);
  await world.until("the fleet has heard of the silence", ({ hosts }) =>
    [...hosts].some(([id, { silentSinceMs }]) => id === host && silentSinceMs !== undefined),
  );
  const shown = await world.cli(["fleet", "show"]);
  expect(shown.stdout).toContain(`\n  ${host}: silent for `);
  expect(shown.stdout).toMatch(/ fenced in (10m00|9m\d\d)s \(1 lease, 2 GPUs\)\n/);
  expect(shown.stdout).toContain(" h1 %%");
  for (const verb of ["explain", "status"]) {
    const { code, stdout } = await world.cli([verb, jobId]);
    expect(code).toBe(0);
    expect(stdout).toMatch(new RegExp(`\\nsilent +${host}: silent for .* fenced in `));
  }

  const fenced = await world.cli(["fence", host, "--json"]);
  expect(fenced.code).toBe(0);
  expect(JSON.parse(fenced.stdout)).toMatchObject({
    fenced: [{ host, wasAnswering: false, gpus: 2, leases: [{ jobId, becomes: "moves" }] }],
  });
  const result = (await world.temporal.workflow.getHandle(jobId).result()) as JobResult;
  expect(result.attempts).toBe(2);
  expect(result.hosts).not.toContain(host);
  expect((await world.cli(["fleet", "show"])).stdout).toMatch(
    new RegExp(`\\n {2}${host}: fenced \\S+s ago, used again when its agent registers\\n`),
  );
  // The fence was a lie, for the test's sake: the first run's shim has gone on.
  process.kill(pid, "SIGKILL");
});
