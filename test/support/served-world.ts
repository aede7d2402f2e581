/** @file A world whose fleet file admits users, whose hosts start what a submit service has signed, and the options of that service. */

import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ownIdentity } from "../../access/own-identity.ts";
import { apiKeyFiles, makeRoleKeys } from "../../access/role-keys.ts";
import type { ServiceOptions } from "../../api/service.ts";
import type { Access } from "../../domain/fleet/access-schema.ts";
import { parseFleetYaml } from "../../domain/fleet/fleet-file.ts";
import { isRoot } from "./as-user.ts";
import { SMALL_FLEET, startWorld, type World } from "./world.ts";

export interface ServedWorld {
  readonly world: World;
  /** What `access:` of the file says. */
  readonly access: Access | undefined;
  /** Of a service that keeps all in the folder, and looks at `readAccess` or, without it, at `access`. */
  readonly options: ServiceOptions;
}

interface ServedWorldRequest {
  readonly address: string;
  /** Of the test's own; other users may look into it. */
  readonly dir: string;
  /** The `access:` of the fleet file. */
  readonly yaml: string;
  readonly readAccess?: () => Access | undefined;
}

export async function startServedWorld({
  address,
  dir,
  yaml,
  readAccess,
}: ServedWorldRequest): Promise<ServedWorld> {
  chmodSync(dir, 0o755);
  const policy = join(dir, "agent.yaml");
  const [apiKey = ""] = makeRoleKeys(apiKeyFiles());
  const submitters = [
    { name: "api", key: apiKey },
    { name: "own", key: ownIdentity().publicKey },
  ];
  const users = isRoot ? { "*": "nobody" } : undefined;
  writeFileSync(policy, JSON.stringify({ submitters, ...(users && { users }) }), { mode: 0o600 });
  const world = await startWorld({
    ...{ address, fleetYaml: SMALL_FLEET },
    agentArgs: ["--policy", policy],
  });
  const file = join(dir, "fleet.yaml");
  writeFileSync(file, `${SMALL_FLEET}${yaml}`, { mode: 0o600 });
  const parsed = parseFleetYaml(`${SMALL_FLEET}${yaml}`, {
    file,
    read: () => ({ kind: "missing", reason: "is not needed" }),
  });
  if (parsed.kind === "refused") throw new Error(JSON.stringify(parsed.problems));
  const { access } = parsed.fleet;
  return {
    world,
    access,
    options: {
      ...{ fleet: world.fleet, temporal: world.temporal, client: world.orbweaver, file },
      readAccess: readAccess ?? (() => access),
      auditFile: join(dir, "audit.jsonl"),
      revokedFile: join(dir, "revoked-orders"),
      sessionFile: join(dir, "sessions.jsonl"),
      folderStore: join(dir, "folders"),
      ...{ ownFolder: join(dir, "own"), sharedFolder: join(dir, "all") },
      tcp: { host: "127.0.0.1", port: 0 },
      ...{ version: "0.0.0", say: () => undefined },
    },
  };
}
