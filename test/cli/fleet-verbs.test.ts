/** @file Verbs of the fleet's description and its picture: show, check, import. */

import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { fleetText } from "../../cli/text/fleet-map.ts";
import { placeAgents } from "../../cli/up/agents.ts";
import { coloursFor } from "../../cli/terminal/colour.ts";
import { parseFleetYaml } from "../../domain/fleet/fleet-file.ts";
import type { FleetShape } from "../../domain/fleet/fleet.ts";
import { hostId, jobId, leaseId, runId, tenantId, token } from "../../domain/values/ids.ts";
import type { Lease } from "../../domain/lease/lease.ts";
import { emptyLedger } from "../../scheduling/ledger/apply/apply.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { pendingRequest } from "../scheduling/views.ts";
import { run } from "./run.ts";

const FLEET = `
clusters:
  - name: eu-1
    site: frankfurt
    jurisdiction: EU
    simulated: true
    hosts: [{ name: "h[1-3]", gpus: 4, type: H100 }]
  - name: us-1
    site: ohio
    jurisdiction: US
    hosts: [{ name: "a[1-2]", gpus: 8, type: A100 }]
tenants:
  - { name: research, quota: { H100: 6, "*": 8 }, weight: 2, borrowing: 2 }
`;

function shapeOf(text: string): FleetShape {
  const parsed = parseFleetYaml(text, { file: "f", read: () => ({ kind: "missing", reason: "" }) });
  if (parsed.kind === "refused") throw new Error(JSON.stringify(parsed.problems));
  return parsed.fleet.shape;
}

function lease(
  number: number,
  more: Pick<Lease, "gpus"> & Partial<Lease>,
): readonly [Lease["id"], Lease] {
  const id = leaseId(token(number));
  return [
    id,
    {
      id,
      token: token(number),
      jobId: jobId(`j${String(number)}`),
      runId: runId("r"),
      seq: 1,
      class: "training",
      tenant: tenantId("research"),
      grantedAtMs: 0,
      requestedAtMs: 0,
      state: "held",
      ...more,
    },
  ];
}

const agent = { epoch: "e", runQueue: "r", orderQueue: "o", address: "a" };
const LEDGER: Ledger = {
  ...emptyLedger(shapeOf(FLEET)),
  hosts: new Map([
    [hostId("eu-1", "h1"), { agent, isDrained: false }],
    [hostId("eu-1", "h2"), { agent, isDrained: true, drainReason: "bad NVLink" }],
    [hostId("eu-1", "h3"), { agent, isDrained: false }],
    [hostId("us-1", "a1"), { agent, isDrained: false }],
  ]),
  leases: new Map([
    lease(1, {
      gpus: [
        { host: hostId("eu-1", "h1"), mask: 0b0011 },
        { host: hostId("us-1", "a1"), mask: 1 },
      ],
    }),
    lease(2, {
      gpus: [
        { host: hostId("eu-1", "h1"), mask: 0b0100 },
        { host: hostId("eu-1", "h3"), mask: 1 },
      ],
      state: "vacating",
      vacatingHosts: [hostId("eu-1", "h3")],
    }),
    lease(3, { gpus: [{ host: hostId("eu-1", "h2"), mask: 0b0001 }] }),
  ]),
};

const SHOWN = {
  fleet: () => Promise.resolve(LEDGER),
  plannedDrains: () => Promise.resolve([]),
};

describe("fleet show", () => {
  it("draws each GPU: held, vacating, free, drained, without agent; tenants with their quota", () => {
    const colours = coloursFor(process.stdout, { NO_COLOR: "1" });
    expect(fleetText("default", LEDGER, { width: 80, colours })).toBe(
      [
        "fleet default: 28 GPUs, 4 held, 12 free, 1 vacating, 3 drained, 8 without agent;",
        "    no job waits",
        "GPUs: # held  ~ vacating  . free  x drained  ? no agent",
        "",
        "eu-1 (frankfurt, EU, H100 80 GiB, simulated): 12 GPUs, 3 held, 5 free,",
        "    1 vacating, 3 drained",
        "  h1 ##..   h2 #xxx   h3 ~...",
        "",
        "us-1 (ohio, US, A100 80 GiB): 16 GPUs, 1 held, 7 free, 8 without agent",
        "  a1 #.......   a2 ????????",
        "",
        "TENANT    WEIGHT  HELD  WANTED  USE OF QUOTA",
        "research       2     5       0  H100 4/6, others 1/8, up to 2 more borrowed",
      ].join("\n"),
    );
  });

  it("keeps a grid of many hosts within 80 columns", () => {
    const shape = shapeOf(FLEET.replace("h[1-3]", "host[001-120]"));
    const text = fleetText("d", emptyLedger(shape), {
      width: 80,
      colours: coloursFor(process.stdout, { NO_COLOR: "1" }),
    });
    const grid = text.split("\n").filter((line) => line.startsWith("  host"));
    expect(grid).toHaveLength(Math.ceil(120 / 5));
    for (const line of grid) expect(line.length).toBeLessThanOrEqual(80);
  });

  it("says why hosts are drained", async () => {
    const { stdout } = await run(["fleet", "show"], {
      client: SHOWN,
    });
    expect(stdout).toMatch(/\n\nDrained hosts:\n {2}eu-1\/h2: bad NVLink\n$/);
  });

  it("tells kept GPUs from free ones, with for whom, where, until when and how many are missing", async () => {
    const ledger: Ledger = {
      ...LEDGER,
      requests: new Map([[jobId("gang"), pendingRequest({ job: "gang", gpus: 8 })]]),
      reservations: new Map([
        [
          jobId("gang"),
          {
            jobId: jobId("gang"),
            gpus: [
              { host: hostId("eu-1", "h1"), mask: 0b1000 },
              { host: hostId("us-1", "a1"), mask: 0b110 },
            ],
            sinceMs: 0,
            kind: "replace",
            untilMs: 300_000,
          },
        ],
      ]),
    };
    const client = { ...SHOWN, fleet: () => Promise.resolve(ledger) };
    const { stdout } = await run(["fleet", "show"], { client });
    expect(stdout).toContain("4 held, 9 free, 3 kept, 1 vacating,");
    expect(stdout).toContain("? no agent  k kept\n");
    expect(stdout).toContain("h1 ##.k");
    expect(stdout).toContain("a1 #kk.....");
    const [, list] = stdout.split("\n\nKept for gangs that have lost a host:\n");
    expect(list?.split("\n")[0]).toBe(
      "  gang: 3 GPUs on eu-1/h1, us-1/a1 until 1970-01-01T00:05:00.000Z; 5 are missing",
    );
    const document: unknown = JSON.parse(
      (await run(["fleet", "show", "--json"], { client })).stdout,
    );
    expect(document).toMatchObject({
      gpus: { free: 9, kept: 3 },
      keptHosts: [{ jobId: "gang", gpus: 3, missing: 5, until: "1970-01-01T00:05:00.000Z" }],
    });
  });

  it("tells reserved GPUs from those that anybody may get; they count as free", async () => {
    const gpus = [
      { host: hostId("eu-1", "h1"), mask: 0b1110 },
      { host: hostId("eu-1", "h2"), mask: 0b10 },
    ];
    const reservation = { jobId: jobId("big"), gpus, sinceMs: 0, kind: "backfill" as const };
    const ledger = { ...LEDGER, reservations: new Map([[jobId("big"), reservation]]) };
    const client = { ...SHOWN, fleet: () => Promise.resolve(ledger) };
    const { stdout } = await run(["fleet", "show"], { client });
    expect(stdout).toContain("4 held, 12 free (2 reserved), 1 vacating,");
    expect(stdout).toContain("? no agent  r reserved\n");
    // Held before free, and of a drained host nothing is to be had.
    expect(stdout).toContain("h1 ##rr   h2 #xxx");
    const said = (await run(["fleet", "show", "--json"], { client })).stdout;
    expect(JSON.parse(said)).toMatchObject({ gpus: { free: 12, reserved: 2 } });
  });

  it("has the same as JSON, with reasons and standings", async () => {
    const { stdout } = await run(["fleet", "show", "--json"], {
      client: SHOWN,
    });
    expect(JSON.parse(stdout)).toMatchObject({
      fleet: "default",
      gpus: { total: 28, held: 4, vacating: 1, free: 12, drained: 3, agentless: 8 },
      clusters: [
        { id: "eu-1", hosts: [{ id: "eu-1/h1" }, { id: "eu-1/h2", isDrained: true }, {}] },
        {},
      ],
      leases: [{ id: "lease-1" }, { id: "lease-2" }, { id: "lease-3" }],
      waiting: [],
    });
  });
});

it("a drain without a reason says that it was a person's", async () => {
  const reasons: string[] = [];
  const client = {
    drain: (_hosts: readonly string[], reason: string) => {
      reasons.push(reason);
      return Promise.resolve([hostId("eu-1", "h1")]);
    },
  };
  const { code, stdout } = await run(["drain", "eu-1/h1"], { client });
  expect({ code, stdout }).toEqual({ code: 0, stdout: "eu-1/h1  drained\n" });
  expect(reasons).toEqual(["drained by hand"]);
});

it("single GPUs are drained and come back by their numbers, without the options of a reboot", async () => {
  const named: unknown[] = [];
  const client = {
    drainGpus: (...given: readonly unknown[]) => Promise.resolve(void named.push(given)),
    undrainGpus: (given: unknown) => Promise.resolve(void named.push(given)),
  };
  const hosts = ["eu-1/h1"];
  const words = ["drain", ...hosts, "--gpu", "5,3", "--gpu", "3"];
  expect((await run(words, { client })).stdout).toBe("eu-1/h1 GPUs 3, 5  drained\n");
  expect((await run(["undrain", ...hosts, "--gpu", "3"], { client })).stdout).toBe(
    "eu-1/h1 GPU 3  in service\n",
  );
  expect(named).toEqual([[{ hosts, gpus: [3, 5] }, "drained by hand"], { hosts, gpus: [3] }]);
  for (const more of [["--reboot"], ["--command", "reboot"], ["--parallel", "2"], ["--at", "+1h"]])
    expect((await run([...words, ...more], { client })).stderr).toContain("of whole hosts");
  for (const gpus of ["", "3,", "-1", "x"])
    expect((await run(["drain", ...hosts, `--gpu=${gpus}`], { client })).code).toBe(2);
  expect(named).toHaveLength(2);
});

describe("fleet check", () => {
  const cwd = mkdtempSync(join(tmpdir(), "orbweaver-check-"));
  writeFileSync(join(cwd, "good.yaml"), FLEET);
  writeFileSync(
    join(cwd, "bad.yaml"),
    "clusters:\n  - nme: a\n    hosts: [{ name: h, gpus: 99, type: H100 }]\n",
  );

  it("says what it found in a good file", async () => {
    const { code, stdout } = await run(["fleet", "check", "good.yaml"], { cwd });
    expect(code).toBe(0);
    expect(stdout).toBe(
      "good.yaml: fine; 2 clusters, 5 hosts, 28 GPUs, 0 directed links, 1 tenant, topology of 0 hosts, bandwidth of 0 hosts\n",
    );
  });

  it("lists every problem with its place and ends with 2, like every wrong input", async () => {
    const { code, stdout, stderr } = await run(["fleet", "check", "bad.yaml"], { cwd });
    expect(code).toBe(2);
    expect(stdout).toMatch(/^bad\.yaml:2:5 .*`nme`/m);
    expect(stdout).toMatch(/^bad\.yaml:3:\d+ .*99/m);
    expect(stderr).toMatch(/^bad\.yaml: \d problems\n$/);
  });

  it("gives the problems as data when asked", async () => {
    const { code, stdout } = await run(["fleet", "check", "bad.yaml", "--json"], { cwd });
    expect(code).toBe(2);
    expect(JSON.parse(stdout)).toMatchObject({ file: "bad.yaml", isFine: false });
  });

  it("ends with 2 when there is nothing to check", async () => {
    const { code, stderr } = await run(["fleet", "check", "none.yaml"], { cwd });
    expect(code).toBe(2);
    expect(stderr).toBe("error BAD_INPUT: none.yaml does not exist. Name a fleet file.\n");
  });
});

describe("fleet import", () => {
  const cwd = mkdtempSync(join(tmpdir(), "orbweaver-import-"));
  const topology = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\t0-7\nGPU1\tNV4\t X \t0-7\n";
  writeFileSync(join(cwd, "topo.txt"), topology);

  it("writes a host entry with the count of its GPUs", async () => {
    const words = [
      "fleet",
      "import",
      "--name",
      "h100-1",
      "--type",
      "h100",
      "--topology",
      "topo.txt",
    ];
    const { code, stdout } = await run(words, { cwd });
    expect(code).toBe(0);
    expect(stdout).toBe("- name: h100-1\n  gpus: 2\n  type: H100\n  topology: topo.txt\n");
  });

  it("writes a whole fleet file that is fine", async () => {
    const words = [
      "fleet",
      "import",
      "--type",
      "H100",
      "--topology",
      "topo.txt",
      "--cluster",
      "eu",
      "--jurisdiction",
      "EU",
      "-o",
      "fleet.yaml",
    ];
    const made = await run(words, { cwd });
    expect(made).toEqual({ code: 0, stdout: "", stderr: "fleet.yaml: 1 host entry\n" });
    expect(readFileSync(join(cwd, "fleet.yaml"), "utf8")).toContain("name: topo");
    const checked = await run(["fleet", "check", "fleet.yaml"], { cwd });
    expect(checked.stdout).toContain("fine; 1 cluster, 1 host, 2 GPUs");
  });

  it.each([
    ["a file that is no topology", ["--topology", "fleet.yaml"], /fleet\.yaml:1/],
    ["a file that is not there", ["--topology", "no.txt"], /no\.txt does not exist/],
    [
      "names that do not match",
      ["--topology", "topo.txt", "--name", "a,b"],
      /2 names for 1 topology file/,
    ],
    [
      "a cluster without a law",
      ["--topology", "topo.txt", "--cluster", "a"],
      /needs --jurisdiction/,
    ],
  ])("refuses %s", async (_name, words, want) => {
    writeFileSync(join(cwd, "fleet.yaml"), "clusters: []\n");
    const { code, stdout, stderr } = await run(["fleet", "import", "--type", "H100", ...words], {
      cwd,
    });
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toMatch(want);
  });
});

it("agents of simulated clusters and of this machine start here, all others elsewhere", () => {
  const { here, elsewhere } = placeAgents(shapeOf(FLEET), "a2");
  expect(here).toEqual([
    { cluster: "eu-1", serves: ["eu-1/h1", "eu-1/h2", "eu-1/h3"] },
    { cluster: "us-1", host: "a2", serves: ["us-1/a2"] },
  ]);
  expect(elsewhere).toEqual(["us-1/a1"]);
});
