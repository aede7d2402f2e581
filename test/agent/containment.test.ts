/**
 * @file Processes that try to get away from their launch, with each kind of container that works here. As root these are cgroups; a container
 * that this machine or user lacks is skipped by name.
 */

import { execFileSync } from "node:child_process";
import { chmodSync, existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import {
  containerFor,
  groupsOf,
  readContainer,
  type ContainerKind,
  type Containment,
} from "../../agent/containment/container.ts";
import { findContainment } from "../../agent/system/find-containment.ts";
import { nodeSystem } from "../../agent/system/node-system.ts";
import { asUser, isRoot, NOBODY } from "../support/as-user.ts";
import {
  builtEntry,
  builtNative,
  builtShim,
  eventually,
  folder,
  orderOf,
  outputOf,
  removeFolders,
  stopOf,
  testAgent,
} from "./fixture.ts";

afterEach(removeFolders);

let tags = 0;
/** A number of seconds that no other process of the machine sleeps. */
const newTag = (): string => `4${process.pid}.${(tags += 1)}`;

/** The pids of the processes whose words hold the tag. */
const tagged = (tag: string): string =>
  execFileSync("sh", ["-c", `grep -lsF -- '${tag}' /proc/[0-9]*/cmdline | cut -d/ -f3 || true`], {
    encoding: "utf8",
  })
    .split("\n")
    .filter((pid) => pid !== "" && Number(pid) !== process.pid && !isGrep(pid))
    .join(" ");

const isGrep = (pid: string): boolean => !existsSync(`/proc/${pid}`);

/** Forks and ends again and again, so that no list of pids is ever right; for two minutes at most, whatever becomes of the test. */
const comet = (tag: string): string =>
  `perl -e 'my $end = time + 120; while (time < $end) { my $p = fork; exit if $p; select(undef, undef, undef, 0.003) } # ${tag}'`;

const ESCAPES = [
  { way: "an empty environment and a session of its own", line: (tag: string) => `sleep ${tag}` },
  {
    way: "two forks behind a parent that ends",
    line: (tag: string) => `sh -c "(setsid sleep ${tag} &) ; setsid sleep ${tag} & exit 0"`,
  },
  { way: "forking on and on", line: comet },
] as const;

const KINDS: readonly ContainerKind[] = ["cgroup2", "cgroup1", "subreaper"];
const found = KINDS.map((kind): { kind: ContainerKind; containment: Containment } => ({
  kind,
  containment: findContainment([kind]),
}));

for (const { kind, containment } of found) {
  describe.skipIf(containment.kind !== kind)(`a launch in a ${kind}`, () => {
    // A subreaper sends signals to what a look at the processes has found, which is too late for a comet.
    const ends = kind !== "subreaper";
    it.each(ESCAPES.filter(({ line }) => ends || line !== comet))(
      "ends with what escaped by $way",
      async ({ line }) => {
        const tag = newTag();
        const agent = testAgent({ containment });
        const order = orderOf(`env -i PATH="$PATH" setsid ${line(tag)} & sleep 0.5`);
        const report = await agent.runs.run(order);
        expect(report.end).toBe("completed");
        expect(tagged(tag)).toBe("");
      },
    );

    it("is stopped with what escaped from it", async () => {
      const tag = newTag();
      const agent = testAgent({ containment });
      const escape = ends ? comet(tag) : `sleep ${tag}`;
      const order = orderOf(
        `env -i PATH="$PATH" setsid ${escape} & env -i setsid sleep ${tag} & exec sleep 300`,
      );
      const report = agent.runs.run(order);
      await eventually(() => tagged(tag) !== "" && agent.task.beats.at(-1)?.phase === "running");
      await agent.orders.stop(stopOf(order));
      expect(tagged(tag)).toBe("");
      expect(await report).toMatchObject({ end: "stopped" });
    });

    // A subreaper bounds nothing, which `fleet show` says of it.
    if ("bound" in containment)
      it("forks no more than its bound", async () => {
        const tag = newTag();
        const { bound } = containment;
        const agent = testAgent({
          containment: { ...containment, ...(bound && { bound: { ...bound, pids: 40 } }) },
        });
        const order = orderOf(
          `i=0; while [ $i -lt 200 ]; do sleep ${tag} & i=$((i+1)); done; echo all forked`,
        );
        const report = await agent.runs.run(order);
        expect(report).toMatchObject({ end: "failed", cause: { code: "PROCESS_EXITED" } });
        expect(await outputOf(agent, order)).not.toContain("all forked");
        expect(tagged(tag)).toBe("");
      });

    it("is in each of its groups when its program begins", async () => {
      const agent = testAgent({ containment });
      const order = orderOf("cat /proc/self/cgroup");
      await agent.runs.run(order);
      const groups = groupsOf(readContainer(nodeSystem.files, agent.filesOf(order)));
      // A line for each hierarchy. Where a container sees its host's names, they begin otherwise than the folders here; all groups of a launch end alike.
      const end = groups[0]?.split("/").slice(-3).join("/") ?? "none";
      const lines = (await outputOf(agent, order)).split("\n");
      expect(lines.filter((line) => line.endsWith(`/${end}`))).toHaveLength(groups.length);
    });

    it("leaves no group behind", async () => {
      const agent = testAgent({ containment });
      const order = orderOf("true");
      await agent.runs.run(order);
      const groups = groupsOf(readContainer(nodeSystem.files, agent.filesOf(order)));
      for (const group of groups) await eventually(() => !existsSync(group));
      expect(groups).toEqual(
        groupsOf(
          containerFor(containment, {
            owner: agent.host.owner,
            launchDir: agent.filesOf(order).dir,
          }),
        ),
      );
    });

    it("gives a missing program and a program that may not run the codes of a shell", async () => {
      const run = (command: readonly string[]) =>
        testAgent({ containment }).runs.run(orderOf("", { run: { command } }));
      expect((await run(["/no/such/program"])).ranks[0]?.exitCode).toBe(127);
      expect((await run(["no-such-program"])).ranks[0]?.exitCode).toBe(127);
      expect((await run(["/etc/passwd"])).ranks[0]?.exitCode).toBe(126);
      expect((await run(["/etc"])).ranks[0]?.exitCode).toBe(126);
    });
  });
}

describe("an agent of a user without privileges", () => {
  it.runIf(isRoot)("also ends what escaped, by a means that it names", async () => {
    const tag = newTag();
    const program = builtEntry("test/agent/contained-agent.ts");
    const shim = builtShim();
    const native = builtNative() ?? "";
    for (const path of [program, shim]) openToAll(dirname(dirname(path)));
    if (native !== "") openToAll(dirname(native));
    const shared = folder();
    chmodSync(shared, 0o777);
    const stateDir = join(shared, "state");
    const order = orderOf(
      `env -i setsid sh -c "(setsid sleep ${tag} &); sleep ${tag}" & env -i setsid sleep ${tag} & sleep 0.5`,
    );
    const words = [process.execPath, program, stateDir, shim, native, JSON.stringify(order)];
    const { stdout, stderr } = await asUser(NOBODY, words);
    expect({ stdout, stderr }).toMatchObject({
      stdout: expect.stringMatching(/^{"kind":"(cgroup2|subreaper)","end":"completed"}$/) as string,
    });
    expect(tagged(tag)).toBe("");
  });

  /** Built programs lie in folders of their own user. */
  const openToAll = (dir: string): void => {
    for (let path = dir; path !== "/tmp" && path !== "/"; path = dirname(path))
      chmodSync(path, 0o755);
  };
});
