/** @file The verbs that find, change and repeat jobs, on a real server: what the command line prints is what has happened. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { userName } from "../../access/own-identity.ts";
import type { JobFile, JobFilter } from "../../client/index.ts";
import { serverAddress } from "../support/server-address.ts";
import { ROOT, SMALL_FLEET, startWorld, type World } from "../support/world.ts";

let world: World;
beforeAll(async () => {
  world = await startWorld({ address: serverAddress(), fleetYaml: SMALL_FLEET });
});
afterAll(() => world.stop());

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
  await expect.poll(ids, { interval: 200 }).toEqual([...wantIds].sort());
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
    [{ tenant: "default", class: "training" }, [one, two, three]],
    [{ tenant: "nobody" }, []],
    [{ class: "inference" }, []],
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
    await expect
      .poll(() => orbweaver(["list", "--name", "train*", "-o", "csv"]))
      .toMatch(new RegExp(`^job,name,.*\n${three()},sleep,.*,training,default,7,running,1,H100,`));
    expect(await orbweaver(["status", one()])).toMatch(/labels +sweep=lr-7, team=vision/);
  });
});

/** What the command line has printed so far, and how it ends at Ctrl-C. */
function watching(words: readonly string[]) {
  const cli = path.join(ROOT, "dist/cli/main.js");
  const child = spawn(process.execPath, [cli, ...words], { env: world.env });
  let text = "";
  child.stdout.setEncoding("utf8").on("data", (part: string) => {
    text += part;
  });
  const end = async (): Promise<number | null> => {
    const exited = once(child, "exit");
    child.kill("SIGINT");
    return ((await exited) as [number | null])[0];
  };
  return { text: () => text, end };
}

it("list --watch prints a changed line once into a pipe, and ends at Ctrl-C", async () => {
  const id = `watched-${world.fleet}`;
  const columns = ["--columns", "job,state"];
  await sleeper(id, { hold: true });
  await untilListed({ name: "watched-*" }, [id]);
  const watch = watching(["list", "--name", "watched-*", ...columns, "--watch"]);
  await expect.poll(watch.text).toMatch(/ held\n/);
  await orbweaver(["release", id]);
  await expect.poll(watch.text).toMatch(/ running\n/);
  expect(await watch.end()).toBe(130);
  const lines = watch.text().trimEnd().split("\n");
  expect(new Set(lines).size).toBe(lines.length);
  await orbweaver(["kill", id]);
});

it("every verb of jobs and fleets answers in YAML as in JSON", async () => {
  const id = `yaml-${world.fleet}`;
  const yaml = async (...words: readonly string[]): Promise<unknown> =>
    parse(await orbweaver([...words, "-o", "yaml"]));
  const said = ["--gpus", "1", "--key", id, "--hold", "-o", "yaml", "--", "sleep", "600"];
  const submitted: unknown = parse(await orbweaver(["submit", ...said]));
  expect(submitted).toEqual({ jobId: id, isNew: true });
  for (const words of [["update", "--priority", "2"], ["release"], ["kill"]]) {
    const [verb = "", ...flags] = words;
    expect(await yaml(verb, id, ...flags), verb).toMatchObject({ jobs: [{ jobId: id }] });
  }
  expect(await world.orbweaver.job(id).outcome()).toEqual({ kind: "cancelled" });
  for (const words of [
    ...["usage", "audit", "fleet links", "cron list", "model list", "collectives list", "doctor"],
    ...["queue hold", "queue release", "drain alpha/a3", "undrain alpha/a3"],
    ...["house", `support-bundle ${world.stateDir}/bundle`, `init ${world.stateDir}/fleet.yaml`],
    ...[`retry ${id}`, `kill ${id}-r1`],
    // Of an ended job: the error is the document.
    ...["top", "hold", "suspend", "resume", "requeue", "logs"].map((verb) => `${verb} ${id}`),
    ...[`move ${id} --fleet other`, `port-forward ${id} 80`, "backup /", "restore /nowhere"],
    ...["fleet check /nowhere", "fleet apply /nowhere", "model show alpha", "cron pause none"],
  ]) {
    const said = await world.cli([...words.split(" "), "-o", "yaml"]);
    expect([words, said.stderr, typeof parse(said.stdout)]).toEqual([words, said.stderr, "object"]);
  }
  const { history } = JSON.parse(await orbweaver(["audit", "--job", id, "--json"])) as {
    readonly history: readonly unknown[];
  };
  expect(history[0]).toMatchObject({ act: "start", signer: { name: userName() } });
});

/** A job of one GPU that runs until it is cancelled, or waits on hold. */
const sleeper = (key: string, more: Partial<JobFile> = {}) =>
  world.orbweaver.submit({
    name: "sleeper",
    idempotencyKey: key,
    gang: 1,
    run: { command: ["sleep", "600"] },
    ...more,
  });

describe("many jobs at once", () => {
  it("cancel by label ends what waits and what runs, and nothing else", async () => {
    const ids = ["a", "b", "other"].map((name) => `bulk-${name}-${world.fleet}`);
    const [running = "", held = "", other = ""] = ids;
    await sleeper(running, { labels: { bulk: "yes" } });
    await sleeper(held, { labels: { bulk: "yes" }, hold: true });
    await sleeper(other, { labels: { bulk: "no" }, hold: true });
    await untilListed({ labels: ["bulk"] }, ids);
    const said = await orbweaver(["cancel", "--label", "bulk=yes", "--yes", "--json"]);
    const { jobs } = JSON.parse(said) as { readonly jobs: readonly object[] };
    expect(jobs).toHaveLength(2);
    expect(jobs).toEqual(
      expect.arrayContaining([running, held].map((jobId) => ({ jobId, state: "cancelling" }))),
    );
    for (const id of [running, held])
      expect(await world.orbweaver.job(id).outcome()).toEqual({ kind: "cancelled" });
    expect((await world.orbweaver.job(other).view()).state).toBe("held");
    await world.orbweaver.job(other).cancel();
  });

  it.each([[["kill"]], [["cancel", "--force"]]])(
    "%j ends a job at once that a graceful cancel leaves running for its whole grace",
    async (words) => {
      const id = `stubborn-${words.length}-${world.fleet}`;
      const { jobId } = await world.orbweaver.submit({
        name: "stubborn",
        idempotencyKey: id,
        gang: 1,
        run: {
          command: ["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.1; done"],
          grace: "1h",
        },
      });
      const job = world.orbweaver.job(jobId);
      await expect
        .poll(() => world.cli(["logs", id]).then(({ stdout }) => stdout))
        .toContain("deaf");
      await orbweaver(["cancel", id]);
      await expect.poll(async () => (await job.view()).state).toBe("stopping");
      expect(await orbweaver([...words, id])).toBe(`${id}  killing\n`);
      // The grace is an hour, so an end within the test's time is the kill's.
      expect(await job.outcome()).toEqual({ kind: "cancelled" });
      await world.until("it holds nothing", ({ leases }) =>
        [...leases.values()].every((lease) => lease.jobId !== jobId),
      );
    },
  );
});

describe("retry", () => {
  it("of an ended job is a new job of the same file, and the same one when it is asked for twice", async () => {
    const id = `again-${world.fleet}`;
    await world.cli(["submit", "--key", id, "--gpus", "2", "-l", "a=b", "--wait", "--", "false"]);
    const said = JSON.parse(await orbweaver(["retry", id, "--json"])) as object;
    const again = { jobId: `${id}-r1`, isNew: true };
    expect(said).toMatchObject({ jobs: [{ jobId: id, again }] });
    expect(await orbweaver(["retry", id])).toBe(`${id}  again as ${id}-r1\n`);
    expect(await world.orbweaver.job(`${id}-r1`).outcome()).toMatchObject({ kind: "failed" });
    const { spec } = await world.orbweaver.job(`${id}-r1`).view();
    expect(spec).toEqual((await world.orbweaver.job(id).view()).spec);
    expect(await orbweaver(["retry", `${id}-r1`])).toBe(`${id}-r1  again as ${id}-r2\n`);
  });

  it("of an ended array runs its failed tasks alone", async () => {
    const id = `array-${world.fleet}`;
    const mark = `${world.stateDir}/mended`;
    // Tasks 1 and 3 fail until the mark is there.
    const script = `[ -e ${mark} ] || [ $((ARRAY_INDEX % 2)) = 0 ]`;
    const words = ["--gpus", "1", "--array", "5", "--wait", "--", "sh", "-c", script];
    expect((await world.cli(["submit", "--key", id, ...words])).code).not.toBe(0);
    expect((await world.cli(["retry", "--key", "x", `${id}-none`])).code).toBe(3);
    writeFileSync(mark, "");
    expect(await orbweaver(["retry", id])).toBe(`${id}  again as ${id}-r1, tasks 1,3\n`);
    expect(await world.orbweaver.job(`${id}-r1`).outcome()).toMatchObject({
      kind: "completed",
      result: { tasks: { completed: 2, cancelled: 3 } },
    });
  });

  it("of a job that runs is refused", async () => {
    const id = `runs-${world.fleet}`;
    await sleeper(id, { hold: true });
    const { code, stderr } = await world.cli(["retry", id]);
    expect({ code, stderr }).toEqual({
      code: 1,
      stderr: expect.stringMatching(/^error NOT_ALLOWED: job .* has not ended/) as string,
    });
    await world.orbweaver.job(id).cancel();
  });
});

it("a batch script of Slurm runs where it was submitted, with the names that it knows", async () => {
  const file = `${world.stateDir}/train.sbatch`;
  const options = "#SBATCH --gpus=2 --time=10 --array=3,5%1\n";
  const script = 'echo "task $SLURM_ARRAY_TASK_ID" > "$SLURM_ARRAY_TASK_ID.txt"\n';
  writeFileSync(file, `#!/bin/sh\n${options}#SBATCH --chdir=${world.stateDir}\n${script}`);
  const id = (await orbweaver(["submit", "--wait", file])).trim();
  for (const task of ["3", "5"])
    expect(readFileSync(`${world.stateDir}/${task}.txt`, "utf8")).toBe(`task ${task}\n`);
  expect(await orbweaver(["status", id])).toMatch(/^tasks +3,5 of 0 to 5, at most 1 at once; the/m);
});
