/** @file The verbs that find, change and repeat jobs, on a real server: what the command line prints is what has happened. */

import { afterAll, beforeAll, describe, expect, inject, it } from "vitest";
import { userName } from "../../access/own-identity.ts";
import type { JobFilter } from "../../client/index.ts";
import { SMALL_FLEET, startWorld, type World } from "../support/world.ts";

let world: World;
beforeAll(async () => {
  world = await startWorld({ address: inject("temporalAddress"), fleetYaml: SMALL_FLEET });
});
afterAll(() => world.stop());

const WITHIN_MS = 20_000;

/** Runs the command and returns its standard output; any other end than the wanted one fails with what it said. */
async function orbweaver(words: readonly string[], wantCode = 0): Promise<string> {
  const { code, stdout, stderr } = await world.cli(words);
  expect({ code, stderr }, words.join(" ")).toEqual({ code: wantCode, stderr });
  return stdout;
}

/** Visibility is eventually consistent, so a list is asked until it says what it should. */
async function untilListed(filter: JobFilter, wantIds: readonly string[]): Promise<void> {
  const ids = async (): Promise<readonly string[]> => {
    const found: string[] = [];
    for await (const job of world.orbweaver.list(filter)) found.push(job.jobId);
    return found.sort();
  };
  await expect.poll(ids, { timeout: WITHIN_MS, interval: 200 }).toEqual([...wantIds].sort());
}

describe("lists", () => {
  const ids = ["probe-1", "probe-2", "train"].map((name) => (): string => `${name}-${world.fleet}`);
  const [one = () => "", two = () => "", three = () => ""] = ids;

  beforeAll(async () => {
    const submit = (key: string, ...words: readonly string[]) =>
      orbweaver(["submit", "--key", key, "--gpus", "1", ...words, "--", "sleep", "600"]);
    await submit(one(), "--name", "probe", "-l", "team=vision", "-l", "sweep=lr-7");
    await submit(two(), "--name", "probe", "--label", "team=Vision", "--hold");
    await submit(three(), "--gpu-type", "H100", "--priority", "7");
    await world.until("two jobs run", ({ leases }) => leases.size === 2);
  });
  afterAll(async () => {
    await orbweaver(["cancel", one(), two(), three()]);
    await world.until("none holds GPUs", ({ leases }) => leases.size === 0);
  });

  it.each<[JobFilter, readonly (() => string)[]]>([
    [{ labels: ["team=vision"] }, [one]],
    [{ labels: ["team"] }, [one, two]],
    [{ labels: ["team=vision", "sweep=lr-7"] }, [one]],
    [{ labels: ["team=vision"], state: "held" }, []],
    [{ state: ["held", "running"], name: "probe*" }, [one, two]],
    [{ name: "probe" }, [one, two]],
    [{ name: "train-*" }, [three]],
    [{ gpuType: "H100" }, [one, three]],
    [{ user: userName() }, [one, two, three]],
    [{ user: "nobody-of-that-name" }, []],
    [{ submittedAfterMs: Date.now() - 3_600_000 }, [one, two, three]],
    [{ submittedBeforeMs: Date.now() - 3_600_000 }, []],
    [{ cluster: "alpha" }, [one, three]],
  ])("%j finds what it should", async (filter, wantIds) => {
    await untilListed(
      filter,
      wantIds.map((id) => id()),
    );
  });

  it("by the command's own flags too", async () => {
    const words = ["--me", "-l", "team", "--newer-than", "1h", "--state", "running,held"];
    const found = await orbweaver(["list", ...words, "--sort", "job", "-o", "name"]);
    expect(found).toBe(`${one()}\n${two()}\n`);
  });

  it("show labels, user, type and priority, in every form the same", async () => {
    const line = await orbweaver(["list", "--name", "probe-1*", "--columns", "user,type,labels"]);
    expect(line).toBe(
      `USER${" ".repeat(Math.max(0, userName().length - 4))}  TYPE  LABELS\n${userName().padEnd(4)}  H100  sweep=lr-7,team=vision\n`,
    );
    const csv = await orbweaver(["list", "--name", "train*", "-o", "csv"]);
    expect(csv).toMatch(
      new RegExp(`^job,name,.*\n${three()},sleep,.*,training,default,7,running,1,H100,`),
    );
    expect(await orbweaver(["status", one()])).toMatch(/labels +sweep=lr-7, team=vision/);
  });
});
