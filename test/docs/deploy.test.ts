/** The units and the manifest of deploy/: what they run is what the command takes, and their parts fit each other. */

import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { parseAllDocuments } from "yaml";
import { identityFile } from "../../access/own-identity.ts";
import { fleetKeyFiles } from "../../access/role-keys.ts";
import { stateRoot } from "../../workers/state.ts";
import { run } from "../cli/run.ts";
import { ROOT } from "./pages.ts";
import { removeFolder } from "../support/remove-folder.ts";

const UNITS = join(ROOT, "deploy/systemd");
const units = readdirSync(UNITS).filter((name) => name.endsWith(".service"));
const MANIFEST = readFileSync(join(ROOT, "deploy/kubernetes/orbweaver.yaml"), "utf8");

interface Mounts {
  readonly name: string;
  readonly command: readonly string[];
  readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
  readonly ports?: readonly { readonly containerPort: number }[];
}
interface Resource {
  readonly kind: string;
  readonly apiVersion: string;
  readonly metadata: { readonly name: string; readonly namespace: string };
  readonly data?: Readonly<Record<string, string>>;
  readonly spec?: {
    readonly replicas?: number;
    readonly accessModes?: readonly string[];
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

/** What a unit says of the user and the folders of its process. */
function unitNamed(name: string) {
  const text = readFileSync(join(UNITS, name), "utf8");
  const of = (key: string): string | undefined => new RegExp(`^${key}=(.*)$`, "m").exec(text)?.[1];
  const pairs = (of("Environment") ?? "").split(" ").map((pair) => pair.split("="));
  const env = Object.fromEntries(pairs) as Readonly<Record<string, string>>;
  return {
    name,
    text,
    user: of("User"),
    stateFolder: `/var/lib/${of("StateDirectory") ?? ""}`,
    env,
  };
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

  it("users without a home have state, keys and identity in the folder that is made for them", () => {
    const ofUser = units.map(unitNamed).filter(({ user }) => user !== undefined);
    expect(ofUser).toHaveLength(3);
    for (const { name, stateFolder, env } of ofUser) {
      const { privateFile } = fleetKeyFiles(env);
      for (const file of [identityFile(env), privateFile, stateRoot(env)])
        expect([name, `${file}/`]).toEqual([name, expect.stringMatching(`^${stateFolder}/`)]);
    }
  });

  it("every folder of /etc that they read is made by the steps of the guide, before it is written to", () => {
    const guide = readFileSync(join(ROOT, "docs/production.md"), "utf8");
    const folders = new Set(
      units.flatMap((name) =>
        [...unitNamed(name).text.matchAll(/^\w.*?[ =](\/etc\/[\w-]+)\//gm)].map(
          ([, folder]) => folder,
        ),
      ),
    );
    expect([...folders]).toEqual(["/etc/orbweaver"]);
    for (const folder of folders) {
      const made = guide.indexOf(`install -d ${String(folder)}\n`);
      expect(made).toBeGreaterThan(0);
      expect(made).toBeLessThan(guide.indexOf(`> ${String(folder)}/`));
    }
  });

  it("root and the user have no folder of state in common: it would go to whoever starts last", () => {
    const owners = new Map<string, Set<string>>();
    for (const { stateFolder, user = "root" } of units.map(unitNamed))
      owners.set(stateFolder, (owners.get(stateFolder) ?? new Set()).add(user));
    for (const users of owners.values()) expect([...users]).toHaveLength(1);
  });

  it("the agent lies in a subgroup, so that the groups of its launches can be limited", () => {
    const { text } = unitNamed("orbweaver-agent@.service");
    expect(text).toMatch(/^Delegate=yes\nDelegateSubgroup=\w+$/m);
  });

  const version = spawnSync("systemd-analyze", ["--version"], { encoding: "utf8" });
  const hasSystemd = version.status === 0;
  const knowsSubgroups = Number(/^systemd (\d+)/.exec(version.stdout)?.[1]) >= 254;
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
        const own = stderr
          .split("\n")
          .filter((line) => line.includes(folder))
          .filter((line) => knowsSubgroups || !/Unknown key.*DelegateSubgroup/.test(line));
        expect([name, status, own]).toEqual([name, 0, []]);
      }
    } finally {
      removeFolder(folder);
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

  it("every pod has the folders of its environment, and the roles that use the store have one", () => {
    const environment = resources.find(({ kind }) => kind === "ConfigMap")?.data ?? {};
    const { ORBWEAVER_KEYS: keys = "", ORBWEAVER_IDENTITY: identity = "" } = environment;
    const folders = [keys, dirname(identity), environment["ORBWEAVER_STATE_DIR"]];
    const stores: string[] = [];
    for (const { metadata, spec } of withPods) {
      const { containers = [], volumes = [] } = spec?.template?.spec ?? {};
      for (const { volumeMounts } of containers) {
        const paths = volumeMounts.map(({ mountPath }) => mountPath);
        expect([metadata.name, paths]).toEqual([metadata.name, expect.arrayContaining(folders)]);
      }
      if (volumes.some((each) => each.persistentVolumeClaim?.claimName === "store"))
        stores.push(metadata.name);
    }
    expect(stores).toEqual(["fleet-file", "fleet", "solver"]);
    const shared = resources.filter(({ spec }) => spec?.accessModes?.includes("ReadWriteMany"));
    expect(shared.map(({ metadata }) => metadata.name)).toEqual(["store"]);
  });

  it("a claim that one machine alone can write is of one pod", () => {
    const ofMany = withPods.filter(({ spec }) => (spec?.replicas ?? 1) > 1);
    const claims = ofMany.flatMap(({ spec }) =>
      (spec?.template?.spec.volumes ?? []).flatMap((each) => each.persistentVolumeClaim ?? []),
    );
    expect(ofMany.length).toBeGreaterThan(0);
    expect(new Set(claims.map(({ claimName }) => claimName))).toEqual(new Set(["store"]));
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
