/**
 * @file How much GPUs are used, on a live fleet of this machine with a stand-in for its driver: in `status`, in the metrics, on the console's stream;
 * and a job that leaves its GPUs idle is told of and suspended by its tenant's rule.
 */

import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { NVML_VARIABLE } from "../../agent/system/gpu-driver.ts";
import { cliOf } from "../support/own-cli.ts";
import { standInNvidiaSmi } from "../support/stand-in-nvidia-smi.ts";
import { removeFolder } from "../support/remove-folder.ts";

const HOST = hostname();
let dir = "";
const path = process.env["PATH"];
const cli = cliOf("used", () => join(dir, "state"));
const fleetFile = (): string => `name: used
clusters:
  - name: lab
    site: here
    jurisdiction: EU
    silence: 9s
    hosts:
      - { name: "${HOST}", gpus: 2, type: H100 }
tenants:
  - { name: wasteful, idle: { after: 12s, then: suspend } }
notify:
  - { name: book, on: [gpu-idle], command: [sh, -c, "cat >> '${join(dir, "told")}'"] }
`;

/** Of the GPUs of the stand-in, the first of which is the working job's. */
function use(...lines: readonly string[]): void {
  standInNvidiaSmi(join(dir, "bin"), {
    gpus: lines.map((line) => ({ device: "NVIDIA H100 80GB HBM3", use: line })),
  });
}

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "orbweaver-use-"));
  use("93, 60000, 81559, 612", "0, 4, 81559, 70.1");
  process.env["PATH"] = `${join(dir, "bin")}:${path ?? ""}`;
  process.env[NVML_VARIABLE] = "off";
  writeFileSync(join(dir, "fleet.yaml"), fleetFile());
  await cli("up", "--always-on", join(dir, "fleet.yaml"));
});
afterAll(async () => {
  process.env["PATH"] = path;
  delete process.env[NVML_VARIABLE];
  await cli("down", "--stop-jobs").catch(() => undefined);
  removeFolder(dir);
});

async function until<Found>(look: () => Promise<Found | undefined>): Promise<Found> {
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    await new Promise((wake) => setTimeout(wake, 500));
  }
}

async function submit(name: string, tenant: string): Promise<void> {
  const file = join(dir, `${name}.yaml`);
  const run = { command: ["sh", "-c", "sleep 600"] };
  writeFileSync(file, JSON.stringify({ name, tenant, gang: 1, run }));
  await cli("submit", "--key", name, file);
}

interface Status {
  readonly state: string;
  readonly live: readonly {
    readonly gpuUse?: readonly { readonly gpu: number; readonly use: number }[];
  }[];
}

const status = async (job: string): Promise<Status> =>
  JSON.parse(await cli("status", job, "--json")) as Status;

it("is seen everywhere, and an idle job of a tenant that wants none is told of and gives its GPUs back", async () => {
  await submit("worker", "diligent");
  const used = await until(async () => (await status("worker")).live[0]?.gpuUse?.[0]);
  expect(used).toMatchObject({ gpu: 0, use: 0.93, watts: 612 });
  // A host that a busy machine keeps from answering for a moment has no use to tell in that moment.
  await expect
    .poll(() => cli("status", "worker"))
    .toMatch(/GPU use +93 % of 1 GPU, memory 74 %, 612 W/);
  const console_ =
    /console: (http:\S+)/.exec(await cli("up", "--always-on", join(dir, "fleet.yaml")))?.[1] ?? "";
  const metrics = async (): Promise<readonly string[]> =>
    (await (await fetch(new URL("metrics", `${console_}/`))).text()).split("\n");
  await expect
    .poll(metrics)
    .toEqual(
      expect.arrayContaining([
        `orbweaver_host_gpu_use_ratio{cluster="lab",host="${HOST}"} 0.465`,
        'orbweaver_leased_gpu_use_ratio{class="training",tenant="diligent"} 0.93',
      ]),
    );
  await submit("idler", "wasteful");
  await until(async () => ((await status("idler")).state === "held" ? true : undefined));
  // The shell makes the file before `cat` writes to it.
  const told = await until(() => {
    const text = existsSync(join(dir, "told")) ? readFileSync(join(dir, "told"), "utf8") : "";
    return Promise.resolve(text.endsWith("}\n") || text.endsWith("}") ? text : undefined);
  });
  expect(JSON.parse(told)).toMatchObject({
    event: "gpu-idle",
    job: { id: "idler", tenant: "wasteful", gpus: 1 },
  });
  expect((await status("worker")).state).toBe("running");
});
