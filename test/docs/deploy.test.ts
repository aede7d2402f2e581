/** The units and the manifest of deploy/: what they run is what the command takes, and their parts fit each other. */

import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { run } from "../cli/run.ts";
import { ROOT } from "./pages.ts";

const UNITS = join(ROOT, "deploy/systemd");
const units = readdirSync(UNITS).filter((name) => name.endsWith(".service"));
const MANIFEST = readFileSync(join(ROOT, "deploy/kubernetes/orbweaver.yaml"), "utf8");

interface Mounts {
  readonly name: string;
  readonly command: readonly string[];
  readonly volumeMounts: readonly { readonly name: string }[];
  readonly ports?: readonly { readonly containerPort: number }[];
}
interface Resource {
  readonly kind: string;
  readonly apiVersion: string;
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly spec?: {
    readonly selector?: unknown;
    readonly ports?: readonly { readonly targetPort: number }[];
    readonly template?: {
      readonly metadata: { readonly labels: Readonly<Record<string, string>> };
      readonly spec: {
        readonly initContainers: readonly Mounts[];
        readonly containers: readonly Mounts[];
        readonly volumes: readonly {
          readonly name: string;
          readonly secret?: { readonly secretName: string };
          readonly configMap?: { readonly name: string };
          readonly persistentVolumeClaim?: { readonly claimName: string };
        }[];
      };
    };
  };
}
const resources = parseAllDocuments(MANIFEST).map((each) => each.toJS() as Resource);
const withPods = resources.filter(({ spec }) => spec?.template !== undefined);

/** Asserts that the verb has each flag that is given to it. */
async function checkWords(words: readonly string[]): Promise<void> {
  const [verb = "", ...rest] = words;
  const { code, stdout } = await run([verb, "--help"]);
  expect([verb, code]).toEqual([verb, 0]);
  for (const flag of rest.filter((word) => word.startsWith("--")))
    expect(stdout, `${verb} ${flag}`).toContain(`${flag} `);
}

describe("units of systemd", () => {
  it.each(units)("%s starts a command that there is", async (name) => {
    const text = readFileSync(join(UNITS, name), "utf8");
    const [, line = ""] = /^ExecStart=\/usr\/local\/bin\/orbweaver (.*)$/m.exec(text) ?? [];
    await checkWords(line.replaceAll("%i", "jobs").split(" "));
  });

  it("what an agent has started outlives it, and what the control plane's did", () => {
    for (const name of ["orbweaver-agent@.service", "orbweaver-control.service"])
      expect(readFileSync(join(UNITS, name), "utf8")).toMatch(/^KillMode=process$/m);
  });

  const hasSystemd = spawnSync("systemd-analyze", ["--version"]).status === 0;
  it.skipIf(!hasSystemd)("systemd can read them (skipped without systemd-analyze)", () => {
    const folder = mkdtempSync(join(tmpdir(), "orbweaver-units-"));
    try {
      for (const name of units) {
        const text = readFileSync(join(UNITS, name), "utf8");
        const file = join(folder, name.replace("@.", "@jobs."));
        writeFileSync(file, text.replaceAll("/usr/local/bin/orbweaver", "/bin/true"));
        const { status, stderr } = spawnSync("systemd-analyze", ["verify", "--man=no", file], {
          encoding: "utf8",
        });
        const own = stderr.split("\n").filter((line) => line.includes(folder));
        expect([name, status, own]).toEqual([name, 0, []]);
      }
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

describe("the manifest of Kubernetes", () => {
  it("has workers of each role, the submit service and the console", () => {
    const names = resources.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
    expect(new Set(names).size).toBe(names.length);
    for (const part of ["fleet", "jobs", "solver", "api", "console"])
      expect(names).toContain(`Deployment ${part}`);
    for (const { metadata } of resources) expect(metadata.namespace).toBe("orbweaver");
  });

  it("its commands are ours", async () => {
    const commands = withPods.flatMap(({ spec }) =>
      (spec?.template?.spec.containers ?? []).map(({ command }) => command.join(" ")),
    );
    const lines = commands.flatMap((line) => line.split(" && "));
    expect(lines.length).toBeGreaterThan(withPods.length);
    for (const line of lines) {
      const [, words = ""] = /^(?:sh -c )?node_modules\/\.bin\/orbweaver (.*)$/.exec(line) ?? [];
      await checkWords(words.split(" "));
    }
  });

  it("its parts name each other", () => {
    const claims = resources.filter(({ kind }) => kind === "PersistentVolumeClaim");
    /** What the comment at its head has made before. */
    const made = (what: string) => expect.stringContaining(what) as unknown;
    for (const { metadata, spec } of withPods) {
      const { template, selector } = spec ?? {};
      const labels = template?.metadata.labels;
      if (selector !== undefined) expect(selector).toEqual({ matchLabels: labels });
      const { volumes = [], containers = [], initContainers = [] } = template?.spec ?? {};
      const names = volumes.map(({ name }) => name);
      for (const { volumeMounts } of [...containers, ...initContainers])
        for (const { name } of volumeMounts)
          expect([metadata.name, names]).toEqual([metadata.name, expect.arrayContaining([name])]);
      for (const { secret, configMap, persistentVolumeClaim } of volumes) {
        if (secret !== undefined) expect(MANIFEST).toEqual(made(` ${secret.secretName} --`));
        if (configMap !== undefined)
          expect(MANIFEST).toEqual(made(`configmap ${configMap.name} --`));
        if (persistentVolumeClaim !== undefined)
          expect(claims.map((claim) => claim.metadata.name)).toContain(
            persistentVolumeClaim.claimName,
          );
      }
    }
  });

  it("each service leads to a port that its pods have", () => {
    const services = resources.filter(({ kind }) => kind === "Service");
    expect(services.map(({ metadata }) => metadata.name)).toEqual(["api", "console"]);
    for (const { spec } of services) {
      const pod = withPods.find(
        ({ spec: of }) =>
          JSON.stringify(of?.template?.metadata.labels) === JSON.stringify(spec?.selector),
      );
      const ports = pod?.spec?.template?.spec.containers.flatMap((each) => each.ports ?? []);
      expect(ports?.map(({ containerPort }) => containerPort)).toEqual(
        spec?.ports?.map(({ targetPort }) => targetPort),
      );
    }
  });
});
