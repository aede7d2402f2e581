/** @file What a doctor finds on a machine, without a server: keys that do not fit, files that others read, a full disk, payloads in the clear. */

import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, expect, it } from "vitest";
import { fleetKeyFiles, makeRoleKeys } from "../../access/role-keys.ts";
import { machineFindings, type MachinePlace } from "../../cli/doctor/machine-checks.ts";

const scratch = mkdtempSync(path.join(tmpdir(), "orbweaver-doctor-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));
let made = 0;

function placeOf(rest: Partial<MachinePlace> = {}): MachinePlace {
  const folder = path.join(scratch, String((made += 1)));
  mkdirSync(folder, { mode: 0o700 });
  const users = path.join(folder, "passwd");
  writeFileSync(users, "root:x:0:0::/root:/bin/sh\nada:x:1000:1000::/home/ada:/bin/sh\n");
  return {
    env: { ORBWEAVER_KEYS: path.join(folder, "keys"), XDG_CONFIG_HOME: folder },
    stateDir: path.join(folder, "state"),
    isEncrypted: false,
    policyFile: path.join(folder, "agent.yaml"),
    usersFile: users,
    ...rest,
  };
}

async function verdicts(place: MachinePlace): Promise<Readonly<Record<string, string>>> {
  const findings = await machineFindings(place);
  for (const { verdict, remedy } of findings) expect(remedy === undefined).toBe(verdict === "ok");
  return Object.fromEntries(findings.map(({ check, verdict }) => [check, verdict]));
}

const SOUND = {
  ...{ identity: "ok", "fleet keys": "ok", files: "ok", payloads: "ok" },
  "host policy": "ok",
  disk: "ok",
};

it("finds nothing wrong where nothing is yet, and makes nothing", async () => {
  const place = placeOf();
  expect(await verdicts(place)).toEqual(SOUND);
  expect(await verdicts(place)).toEqual(SOUND);
});

it("finds a disk without room for a launch", async () => {
  // A file system that has no room by nature.
  const { disk } = await verdicts({ ...placeOf(), stateDir: "/proc" });
  expect(disk).toBe("problem");
});

it("finds a private key that others may read, and one whose public half is not believed", async () => {
  const open = placeOf();
  makeRoleKeys(fleetKeyFiles(open.env));
  expect(await verdicts(open)).toEqual(SOUND);
  chmodSync(fleetKeyFiles(open.env).privateFile, 0o644);
  expect(await verdicts(open)).toEqual({ ...SOUND, "fleet keys": "problem" });
  const other = placeOf();
  const [stranger = ""] = makeRoleKeys(fleetKeyFiles(placeOf().env));
  makeRoleKeys(fleetKeyFiles(other.env));
  writeFileSync(fleetKeyFiles(other.env).publicFile, `${stranger}\n`);
  expect(await verdicts(other)).toEqual({ ...SOUND, "fleet keys": "problem" });
});

it("finds state that others may read, a wrong policy, and payloads in the clear among several users", async () => {
  const place = placeOf();
  mkdirSync(place.stateDir, { mode: 0o700 });
  writeFileSync(path.join(place.stateDir, "temporal.db"), "", { mode: 0o600 });
  expect(await verdicts(place)).toEqual(SOUND);
  chmodSync(path.join(place.stateDir, "temporal.db"), 0o640);
  writeFileSync(place.policyFile ?? "", "submitters: 7\n", { mode: 0o600 });
  const wrong = { ...SOUND, files: "warning", "host policy": "problem" };
  expect(await verdicts(place)).toEqual(wrong);
  writeFileSync(
    place.usersFile ?? "",
    "ada:x:1000:1000::/home/ada:/bin/sh\nbob:x:1001:1001::/home/bob:/bin/bash\nsvc:x:1002:1002::/:/usr/sbin/nologin\n",
  );
  expect(await verdicts(place)).toEqual({ ...wrong, payloads: "warning" });
  expect(await verdicts({ ...place, isEncrypted: true })).toEqual(wrong);
});

it("looks at the policy that agents here were given, where the machine has none of its own", async () => {
  const [given, machine] = [path.join(scratch, "given.yaml"), path.join(scratch, "machine.yaml")];
  const place = placeOf({ policyFile: machine, trust: { policy: given } });
  const found = async (): Promise<string> => {
    const findings = await machineFindings(place);
    const { verdict = "", text = "" } = findings.find(({ check }) => check === "host policy") ?? {};
    return `${verdict}: ${text}`;
  };
  expect(await found()).toMatch(/^problem: .*given.yaml/);
  writeFileSync(given, "submitters: 7\n", { mode: 0o600 });
  expect(await found()).toMatch(/^problem: .*given.yaml/);
  writeFileSync(given, "submitters: []\n", { mode: 0o600 });
  expect(await found()).toMatch(/^ok: .*given.yaml names 0 submitters/);
  writeFileSync(machine, "submitters: 7\n", { mode: 0o600 });
  expect(await found()).toMatch(/^problem: .*machine.yaml/);
  const open = await machineFindings(placeOf({ trust: "namespace" }));
  expect(open.find(({ check }) => check === "host policy")?.text).toContain("everybody");
});
