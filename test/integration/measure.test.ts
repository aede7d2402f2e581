/** @file A measuring run on a simulated fleet: its cost first, then killed and gone on with, its tables in the fleet's store. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { directoryStore, type FleetDetails } from "../../activities/store.ts";
import type { BandwidthTable } from "../../domain/bandwidth/bandwidth-table.ts";
import { parseReadingLine, sharesKey } from "../../domain/bandwidth/measuring.ts";
import { serverAddress } from "../support/server-address.ts";
import { ROOT, startWorld, type World } from "../support/world.ts";

const FLEET = `
name: measured
clusters:
  - name: alpha
    site: here
    jurisdiction: EU
    simulated: true
    hosts:
      - { name: "a[1-2]", gpus: 4, type: H100 }
`;
/** Of four GPUs: 15 sets less the four of one GPU. */
const INSIDE = 11;
const BETWEEN = 4;
const STAND_IN = ["intra_host_16MB.csv", "h100_inter_host_16MB.csv"]
  .map((name) => path.join(ROOT, "data/bandpilot", name))
  .join(",");
const MEASURE = ["fleet", "measure", "--between", String(BETWEEN), "--stand-in", STAND_IN];

let world: World;
beforeAll(async () => {
  world = await startWorld({ address: serverAddress(), fleetYaml: FLEET });
});
afterAll(() => world.stop());

const readings = async (): Promise<readonly string[]> => {
  const file = path.join(world.stateDir, world.fleet, "measured/alpha.log");
  const text = await readFile(file, "utf8").catch(() => "");
  return text
    .split("\n")
    .flatMap((line) => parseReadingLine(line) ?? [])
    .map(({ shares }) => sharesKey(shares));
};

describe("fleet measure", () => {
  it("says what it would take, beside the paper, and does nothing", async () => {
    const { code, stdout } = await world.cli([...MEASURE, "--dry-run", "--json"]);
    expect(code).toBe(0);
    const { cost } = JSON.parse(stdout) as {
      cost: { hosts: { sets: number; paperSeconds: number }[]; groups: { sets: number }[] };
    };
    expect(cost.hosts.map(({ sets, paperSeconds }) => [sets, paperSeconds])).toEqual([
      [INSIDE, 1_288],
      [INSIDE, 1_288],
    ]);
    expect(cost.groups.map(({ sets }) => sets)).toEqual([BETWEEN]);
    expect((await world.ledger()).requests.size).toBe(0);
    expect(await readings()).toEqual([]);
  });

  it("killed in the middle, command and agent alike, it goes on and measures nothing twice", async () => {
    const cli = path.join(ROOT, "dist/cli/main.js");
    const command = spawn(process.execPath, [cli, ...MEASURE, "--stand-in-delay", "2000"], {
      env: world.env,
      stdio: "ignore",
    });
    await expect.poll(readings, { interval: 100 }).not.toEqual([]);
    const gone = once(command, "exit");
    command.kill("SIGKILL");
    await gone;
    await world.kill("agent-alpha");
    const before = await readings();
    expect(before.length).toBeLessThan(2 * INSIDE);
    await world.startAgent("alpha");

    const { code, stdout, stderr } = await world.cli([...MEASURE, "--json"]);
    expect(stderr).toContain("of an earlier command");
    expect(code).toBe(0);
    const answer = JSON.parse(stdout) as { sets: number; failures: unknown[]; detailsHash: string };
    expect(answer).toMatchObject({ sets: 2 * INSIDE + BETWEEN, failures: [] });
    const after = await readings();
    expect(after.slice(0, before.length)).toEqual(before);
    // A doubted set has three readings, any other one.
    const counts = new Map<string, number>();
    for (const key of after) counts.set(key, (counts.get(key) ?? 0) + 1);
    expect([...counts.values()].filter((count) => count !== 1 && count !== 3)).toEqual([]);

    const ledger = await world.ledger();
    expect(ledger.detailsHash).toBe(answer.detailsHash);
    const store = directoryStore(path.join(world.stateDir, world.fleet, "store"));
    const details = await store.get<FleetDetails>(answer.detailsHash);
    const tables = details?.hosts.map(([, { bandwidth }]) => bandwidth?.gbsByMask) ?? [];
    expect(tables.map((table) => table?.filter((gbs) => gbs !== null).length)).toEqual([
      INSIDE,
      INSIDE,
    ]);
    // H100_26 reads 206.5 there, with the stand-in's noise of half a per cent.
    expect(Math.abs((tables[0]?.[3] ?? 0) / 206.5 - 1)).toBeLessThan(0.03);
    const inter = details?.interHost[0]?.[1] as BandwidthTable;
    expect(inter.hosts).toEqual(["alpha/a1", "alpha/a2"]);
    expect(inter.sets).toHaveLength(BETWEEN);
  });

  it("has nothing left to measure then, and holds nothing", async () => {
    const { code, stdout } = await world.cli(MEASURE);
    expect(code).toBe(0);
    expect(stdout).toContain("every set is measured already");
    await world.until("the GPUs are free", ({ leases }) => leases.size === 0);
  });
});
