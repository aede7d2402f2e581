/** @file What can be wrong on this machine: keys, rights of files, a full disk, the host policy, payloads in the clear where users share it. Changes nothing. */

import { createPublicKey } from "node:crypto";
import { existsSync, lstatSync, readdirSync, readFileSync, statfsSync } from "node:fs";
import { join } from "node:path";
import { identityFile, ownIdentity, publicKeyText } from "../../access/own-identity.ts";
import { MIN_FREE_BYTES } from "../../agent/health/disk-check.ts";
import { believedKeys, fleetKeyFiles, signingKey } from "../../access/role-keys.ts";
import { readHostPolicy } from "../../access/host-trust.ts";
import { HOST_POLICY_FILE } from "../command/host-trust.ts";
import type { Environment } from "../../workers/server/environment.ts";
import type { UpTrust } from "../../workers/state.ts";
import { certificateChecks } from "./certificate-check.ts";
import { checked, ok, problem, warning, type Finding } from "./finding.ts";

const OTHERS = 0o077;
const MOST_NAMED = 3;
/** Users of people begin here; the last id is nobody's. */
const FIRST_PERSON = 1_000;
const NOBODY = 65_534;

export interface MachinePlace {
  readonly env: Environment;
  readonly stateDir: string;
  readonly isEncrypted: boolean;
  /** The machine's own policy, which comes before all that agents are given. */
  readonly policyFile?: string;
  /** Whose jobs agents here start by what they were given. */
  readonly trust?: UpTrust | undefined;
  readonly usersFile?: string;
  readonly nowMs?: () => number;
}

export async function machineFindings(place: MachinePlace): Promise<readonly Finding[]> {
  const { env, stateDir, policyFile = HOST_POLICY_FILE } = place;
  const inForce = existsSync(policyFile) ? policyFile : (givenTo(place.trust) ?? policyFile);
  return await Promise.all([
    checked("identity", "correct or remove the file; a new identity signs new jobs only", () =>
      identity(env),
    ),
    checked("fleet keys", "orbweaver keys fleet --rotate", () => fleetKeys(env)),
    checked("files", `chmod -R go= ${stateDir}`, () => files(stateDir)),
    checked("disk", `make room for ${stateDir}`, () => disk(stateDir)),
    checked("host policy", `correct ${inForce}; docs/security.md has its form`, () =>
      policy(policyFile, place.trust),
    ),
    ...certificateChecks(env, place.nowMs?.() ?? Date.now()),
    checked("payloads", "orbweaver keys new FILE, then orbweaver up --encryption-keys FILE", () =>
      payloads(place),
    ),
  ]);
}

function identity(env: Environment): Finding {
  const file = identityFile(env);
  if (!existsSync(file)) return ok("identity", "none yet; the first submission makes one");
  return ok("identity", `${ownIdentity(env).publicKey} in ${file}`);
}

function fleetKeys(env: Environment): Finding {
  const found = fleetKeyFiles(env);
  if (!existsSync(found.privateFile) && !existsSync(found.publicFile))
    return ok("fleet keys", "none yet; the first worker makes them");
  const believed = believedKeys(found)();
  if (!existsSync(found.privateFile))
    return ok("fleet keys", `${believed.length} believed; another machine signs`);
  const own = publicKeyText(createPublicKey(signingKey(found)()));
  if (believed.includes(own)) return ok("fleet keys", `${own} signs, ${believed.length} believed`);
  return problem(
    "fleet keys",
    `${found.privateFile} signs by ${own}, which ${found.publicFile} does not list, so hosts refuse all orders`,
    `orbweaver keys fleet --rotate, and copy ${found.publicFile} to the hosts`,
  );
}

/** The state folder and what lies right in it. */
function files(stateDir: string): Finding {
  if (!existsSync(stateDir)) return ok("files", `no state of this fleet in ${stateDir}`);
  const open = [stateDir, ...readdirSync(stateDir).map((name) => join(stateDir, name))].filter(
    (file) => {
      const found = lstatSync(file, { throwIfNoEntry: false });
      return found !== undefined && !found.isSymbolicLink() && (found.mode & OTHERS) !== 0;
    },
  );
  if (open.length === 0) return ok("files", `${stateDir} is readable by its owner alone`);
  const rest = open.length > MOST_NAMED ? ` and ${open.length - MOST_NAMED} more` : "";
  return warning(
    "files",
    `other users may read ${open.slice(0, MOST_NAMED).join(", ")}${rest}`,
    `chmod -R go= ${stateDir}`,
  );
}

/** Where `up` keeps the server's database and the hosts' state. */
function disk(stateDir: string): Finding {
  if (!existsSync(stateDir)) return ok("disk", `no state of this fleet in ${stateDir}`);
  const { bavail, bsize } = statfsSync(stateDir);
  const text = `${Math.floor((bavail * bsize) / 2 ** 20)} MiB are free for ${stateDir}`;
  if (bavail * bsize >= MIN_FREE_BYTES) return ok("disk", text);
  return problem(
    "disk",
    `${text}, so hosts here start nothing, and a server here may stop answering`,
    "make room; jobs that run go on, and their ends are told then",
  );
}

function policy(machineFile: string, trust: UpTrust | undefined): Finding {
  const given = givenTo(trust);
  if (existsSync(machineFile) || given !== undefined) {
    const file = existsSync(machineFile) ? machineFile : (given ?? machineFile);
    const { submitters } = readHostPolicy(file);
    return ok("host policy", `${file} names ${submitters.length} submitters`);
  }
  const whose = trust === "namespace" ? "everybody in the namespace" : "their own user";
  return ok("host policy", `none at ${machineFile}; agents start the jobs of ${whose}`);
}

const givenTo = (trust: UpTrust | undefined): string | undefined =>
  typeof trust === "object" ? trust.policy : undefined;

function payloads({ isEncrypted, usersFile = "/etc/passwd" }: MachinePlace): Finding {
  if (isEncrypted) return ok("payloads", "encrypted");
  const people = readFileSync(usersFile, "utf8")
    .split("\n")
    .map((line) => line.split(":"))
    .filter(([, , uid = "", , , , shell = ""]) => {
      const id = Number(uid);
      return id >= FIRST_PERSON && id < NOBODY && !/\/(?:nologin|false)$/.test(shell);
    })
    .map(([name = ""]) => name);
  if (people.length < 2) return ok("payloads", "not encrypted; this machine has one user");
  return warning(
    "payloads",
    `not encrypted, and ${people.length} people have accounts here: job files and results can be read by whoever reaches the Temporal server`,
    "orbweaver keys new FILE, then orbweaver up --encryption-keys FILE",
  );
}
