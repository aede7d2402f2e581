/** Which secrets a tenant may name on a host with a policy, and which variables its jobs may set. */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { readHostPolicy, trustRefusal, type HostPolicy } from "../../access/host-trust.ts";
import { ownIdentity } from "../../access/own-identity.ts";

const dir = mkdtempSync(join(tmpdir(), "orbweaver-policy-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const { publicKey } = ownIdentity({ ORBWEAVER_IDENTITY: join(dir, "identity.pem") });

function policyWith(more: string): HostPolicy {
  const file = join(dir, "agent.yaml");
  const submitters = `submitters: [{ name: ada, key: "${publicKey}" }]`;
  writeFileSync(file, `${submitters}\n${more}\n`, { mode: 0o600 });
  return readHostPolicy(file);
}

const refusal = (policy: HostPolicy, tenant: string, secrets: Record<string, string>) =>
  trustRefusal(
    { kind: "policy", file: "agent.yaml", policy },
    { publicKey, name: "ada", signedAtMs: 0 },
    {
      ...{ tenant, command: ["true"], env: {}, secrets },
      agent: { name: "svc", isRoot: false },
    },
  );

describe("a host policy", () => {
  const policy = policyWith(
    'secrets: { research: ["file:/srv/research/", "file:~/", "env:HF_TOKEN", "command:vault read a/"], "*": ["file:/srv/all"] }',
  );

  it.each([
    ["research", "file:/srv/research/token", true],
    ["research", "file:/srv/research/a/b", true],
    ["research", "file:~/token", true],
    ["research", "env:HF_TOKEN", true],
    ["research", "command:vault read a/", true],
    ["research", "file:/srv/vision/token", false],
    ["research", "file:/srv/research/../vision/token", false],
    ["research", "file:/srv/researchers", false],
    ["research", "file:/root/.ssh/id", false],
    ["research", "env:HF_TOKEN2", false],
    ["research", "command:vault read a/; cat /root/.ssh/id", false],
    ["research", "file:/srv/all", false],
    ["vision", "file:/srv/all", true],
    ["vision", "file:/srv/research/token", false],
    ["constructor", "file:/srv/research/token", false],
  ])("lets %s name %s: %s", (tenant, reference, isAllowed) => {
    const found = refusal(policy, tenant, { TOKEN: reference });
    if (isAllowed) expect(found).toBeUndefined();
    else expect(found).toContain(`names no secret ${JSON.stringify(reference)}`);
  });

  it("names none where it says nothing, and denies variables that change what a program loads", () => {
    expect(refusal(policyWith(""), "research", { TOKEN: "file:/srv/all" })).toContain("no secret");
    expect(refusal(policyWith(""), "research", {})).toBeUndefined();
    expect(refusal(policy, "vision", { LD_PRELOAD: "file:/srv/all" })).toContain("LD_PRELOAD");
  });

  it.each([["srv/all"], ["env:"], ["env:ORBWEAVER_API_TOKEN"], ["file:/a/../b"]])(
    "with %s among its secrets is refused whole",
    (rule) => {
      expect(() => policyWith(`secrets: { research: ["${rule}"] }`)).toThrow(/no file:/);
    },
  );
});

describe("variables of a job", () => {
  const given = (policy: HostPolicy, env: Record<string, string>) =>
    trustRefusal(
      { kind: "policy", file: "agent.yaml", policy },
      { publicKey, name: "ada", signedAtMs: 0 },
      { tenant: "research", command: ["sh"], env, agent: { name: "svc", isRoot: false } },
    );
  const DENIED = [
    "LD_PRELOAD",
    "ENV=/tmp/x",
    "PATH=/tmp/mine:",
    "A B",
    "",
    "A\0B",
    "SSH_AUTH_SOCK",
  ];

  it.each(DENIED)("%j is denied by each policy", (name) => {
    expect(given(policyWith("deniedEnv: [SSH_AUTH_SOCK]"), { [name]: "1" })).toContain(
      `denies the environment variable ${JSON.stringify(name)}`,
    );
  });

  it.each([
    ...["PATH", "HOME", "PYTHONPATH", "ZDOTDIR", "CUDA_INJECTION64_PATH", "NCCL_NET_PLUGIN"],
    ...[
      "NCCL_CONF_FILE",
      "OMP_TOOL_LIBRARIES",
      "FI_PROVIDER_PATH",
      "OMPI_MCA_plm_rsh_agent",
      "LUA_INIT_5_4",
    ],
  ])("%s is denied where the policy names commands, and nowhere else", (name) => {
    const env = { [name]: "/tmp/mine" };
    expect(given(policyWith("commands: [sh]"), env)).toContain(name);
    expect(given(policyWith(""), env)).toBeUndefined();
  });

  it("others are allowed", () => {
    const env = { OMP_NUM_THREADS: "4", NCCL_DEBUG: "INFO", FI_PROVIDER: "efa", _x1: "" };
    expect(given(policyWith("commands: [sh]"), env)).toBeUndefined();
  });
});
