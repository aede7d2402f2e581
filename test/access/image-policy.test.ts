/** @file Which images and mounts a host policy allows: what it does not name is refused. */

import { writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { readHostPolicy, trustRefusal, type PolicyQuestion } from "../../access/host-trust.ts";
import type { ImageMount, ImageRule } from "../../domain/job/job-image.ts";
import { ms } from "../../domain/values/units.ts";

const BY = { publicKey: "ed25519:k", name: "ada", signedAtMs: 0 };
let dir = "";

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), "orbweaver-policy-"));
});
afterAll(() => rm(dir, { recursive: true, force: true }));

function refusal(
  containers: string | undefined,
  change: Partial<ImageRule>,
  asked: Partial<PolicyQuestion> = {},
): string | undefined {
  const file = join(dir, "agent.yaml");
  writeFileSync(file, containers === undefined ? "{}" : `containers: ${containers}`, {
    mode: 0o600,
  });
  const policy = {
    ...readHostPolicy(file),
    submitters: [{ name: BY.name, key: BY.publicKey }],
  };
  const image: ImageRule = {
    ...{ image: "nvcr.io/nvidia/pytorch:25.01", runtime: "auto", mounts: [], user: "host" },
    pullTimeoutMs: ms(1_000),
    ...change,
  };
  return trustRefusal({ kind: "policy", file: "the policy", policy }, BY, {
    ...{ tenant: "research", command: ["true"], env: {}, image },
    agent: { name: "runner", isRoot: false },
    ...asked,
  });
}

const mounts = (
  source: string,
  isReadOnly: boolean,
): { readonly mounts: readonly ImageMount[] } => ({
  mounts: [{ source, target: "/x", isReadOnly }],
});
const OPEN = "{ images: [nvcr.io/nvidia/], mounts: [/data/, /scratch/:rw, /etc/hosts] }";

it.each([
  ["nothing named", undefined, {}, /allows no images/],
  ["nothing listed", "{}", {}, /does not allow the image nvcr\.io/],
  ["an image that is listed", OPEN, {}, undefined],
  ["another registry", OPEN, { image: "docker.io/nvidia/x" }, /not allow the image docker/],
  ["a folder that begins alike", OPEN, { image: "nvcr.io/nvidia-evil/x" }, /not allow the image/],
  ["reading an open folder", OPEN, mounts("/data/set", true), undefined],
  ["reading the folder itself", OPEN, mounts("/data", true), undefined],
  [
    "writing into it",
    OPEN,
    mounts("/data/set", false),
    /\/data\/set for writing; mount it with :ro/,
  ],
  ["writing where one may", OPEN, mounts("/scratch/ada", false), undefined],
  ["a file that is named", OPEN, mounts("/etc/hosts", true), undefined],
  [
    "a file beside it",
    OPEN,
    mounts("/etc/shadow", true),
    /does not allow the mount \/etc\/shadow$/,
  ],
  ["a way out", OPEN, mounts("/data/../etc", true), /does not allow the mount/],
  [
    "another runtime",
    "{ runtimes: [podman], images: [nvcr.io/] }",
    { runtime: "docker" },
    /docker/,
  ],
  ["a runtime that is listed", "{ runtimes: [podman], images: [nvcr.io/] }", {}, undefined],
] as const)("%s", (_case, containers, change, want) => {
  const found = refusal(containers, change);
  if (want === undefined) expect(found).toBeUndefined();
  else expect(found).toMatch(want);
});

it.each([
  "APPTAINER_BIND",
  "APPTAINERENV_LD_PRELOAD",
  "SINGULARITY_BIND",
  "ENROOT_MOUNT_HOME",
  "DOCKER_HOST",
  "CONTAINER_HOST",
  "CONTAINERS_CONF",
  "BUILDAH_ISOLATION",
  "PODMAN_USERNS",
  "XDG_CONFIG_HOME",
])("a job in an image does not set %s, and no secret has its name", (name) => {
  const policy = "{ images: [nvcr.io/nvidia/] }";
  expect(refusal(policy, {}, { env: { [name]: "/:/host" } })).toContain(name);
  const secrets = { [name]: "env:KEY" };
  expect(refusal(`${policy}\nsecrets: { "*": ["env:KEY"] }`, {}, { secrets })).toContain(name);
  expect(refusal(policy, {}, { env: { DATA: "/x" } })).toBeUndefined();
});

it("the job's own folders are mounted for writing, so a policy must open them so", () => {
  const asked = (path: string) => refusal(OPEN, {}, { folders: [path] });
  expect(asked("/scratch/ada")).toBeUndefined();
  expect(asked("/data/set")).toMatch(/mount \/data\/set for writing/);
  expect(asked("/etc")).toMatch(/does not allow the mount \/etc/);
});
