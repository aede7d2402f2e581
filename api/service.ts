/**
 * @file The submit service of one fleet: its doors, the keys it signs with, and the fleet file's `access:`, which it follows while it runs.
 *
 * Users of this machine have sockets; bearer tokens and client certificates come over TCP. The user who runs the service is an operator, because its keys and files are this
 * user's. A file that becomes wrong changes nothing: what was read last stays.
 */

import { createPublicKey } from "node:crypto";
import type { Server } from "node:http";
import { hostname } from "node:os";
import { join, resolve } from "node:path";
import { hostInUrl } from "../lib/url-host.ts";
import { openAuditLog } from "../access/audit-log.ts";
import { ownIdentity, publicKeyText, userName, type Identity } from "../access/own-identity.ts";
import type { Principal } from "../access/principal.ts";
import { apiKeyFiles, believedKeys, makeRoleKeys, signingKey } from "../access/role-keys.ts";
import { revokedOrders } from "../access/revoked-orders.ts";
import { hostUser } from "../access/run-as.ts";
import type { Access } from "../domain/fleet/access-schema.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import type { CronActivities } from "../protocol/cron.ts";
import type { KeysInUse } from "../protocol/seal.ts";
import { cronStarter } from "./cron-starts.ts";
import type { Door } from "./door.ts";
import { folderStore } from "./folders.ts";
import { createDoor, HTTP_LIMITS, type HttpLimits, type ServiceParts } from "./http.ts";
import { liveAccess } from "./live-access.ts";
import type { ServedFleet } from "./route.ts";
import { openSessionMemory } from "./session-memory.ts";
import { createSessionDoor } from "./sessions.ts";
import { followRevocations } from "./revocations.ts";
import { listenAt, prepareFolder, socketIn } from "./sockets.ts";
import { remoteSender } from "./remote-sender.ts";

export interface ServiceOptions extends Pick<ServedFleet, "fleet" | "temporal" | "client"> {
  /** The fleet file. */
  readonly file: string;
  /** Reads the `access:` of its text; throws BAD_INPUT when it is wrong. */
  readonly readAccess: (text: string) => Access | undefined;
  readonly auditFile: string;
  /** Of the standing signatures that were revoked. */
  readonly revokedFile: string;
  /** Of sessions that are open or over. */
  readonly sessionFile: string;
  /** Of the working folders that users send. */
  readonly folderStore: string;
  /** For the owner's own socket; private. */
  readonly ownFolder: string;
  /** For the sockets of other users. */
  readonly sharedFolder: string;
  readonly tcp?: {
    readonly host: string;
    readonly port: number;
    readonly tls?: Door["tls"];
    /** The list of revoked client certificates as it is now; throws where it is none. */
    readonly readCrl?: () => string;
  };
  /** Where agents elsewhere reach this service, where it is not its own name and port. */
  readonly relay?: string;
  readonly version: string;
  readonly say: (text: string) => void;
  readonly limits?: HttpLimits;
  /** Of the payloads, where there are any. */
  readonly keys?: KeysInUse;
}

export interface Service {
  /** Of the sockets, by the names of their users. */
  readonly sockets: () => ReadonlyMap<string, string>;
  readonly port: number | undefined;
  /** What schedules ask of it, for a worker of the fleet's schedules. */
  readonly cronActivities: CronActivities;
  readonly close: () => Promise<void>;
}

const LOOK_EVERY_MS = 2_000;
/** Of sessions, beside those when the file changes: keys are revoked and certificates expire, too. */
const REVIEW_EVERY_MS = 30_000;

export async function startService(options: ServiceOptions): Promise<Service> {
  const { say, tcp, keys } = options;
  const live = liveAccess(options);
  const audit = openAuditLog(options.auditFile);
  const served = servedFleet(options);
  let port: number | undefined;
  const relays = (): readonly string[] => relaysOf(options, port);
  const memory = openSessionMemory(options.sessionFile);
  const sessions = createSessionDoor({ ...{ served, access: live.access, audit }, memory, relays });
  const parts: ServiceParts = {
    ...{ served, access: live.access, audit, sessions, relays },
    folders: folderStore({ folder: options.folderStore }),
    version: options.version,
    limits: options.limits ?? HTTP_LIMITS,
  };
  const doors = openDoors(options, parts);
  try {
    await doors.follow(live.access());
    const tokens = tcp === undefined ? undefined : createDoor(tokenDoor(parts, tcp.tls), parts);
    if (tokens !== undefined && tcp !== undefined) await listenOn(tokens, tcp);
    const { tls, readCrl } = tcp ?? {};
    const followed = tokens && tls && readCrl && followRevocations(tokens, { tls, readCrl, say });
    const sayTrouble = (error: unknown): void =>
      say(error instanceof Error ? error.message : String(error));
    const review = (): void => void sessions.review().catch(sayTrouble);
    const looks = setInterval(() => {
      followed?.();
      if (!live.isChanged()) return;
      doors.follow(live.access()).catch(sayTrouble);
      review();
    }, LOOK_EVERY_MS);
    const reviews = setInterval(review, REVIEW_EVERY_MS);
    const address = tokens?.address();
    port = typeof address === "object" && address !== null ? address.port : undefined;
    return {
      sockets: doors.sockets,
      port,
      cronActivities: {
        startCron: cronStarter({ served, access: live.access, audit, ...(keys && { keys }) }),
      },
      async close() {
        clearInterval(looks);
        clearInterval(reviews);
        sessions.close();
        await Promise.all([doors.close(), ...(tokens === undefined ? [] : [closed(tokens)])]);
        audit.close();
      },
    };
  } catch (error) {
    await doors.close();
    audit.close();
    throw error;
  }
}

/** Where agents dial in: the owner's socket on this machine, and the port, if what crosses the network is encrypted. */
function relaysOf({ ownFolder, relay, tcp }: ServiceOptions, port: number | undefined): string[] {
  const own = `unix:${resolve(socketIn(ownFolder, userName()))}`;
  if (relay !== undefined) return [own, relay];
  if (tcp === undefined || port === undefined) return [own];
  const { host, tls } = tcp;
  const isAny = host === "0.0.0.0" || host === "::";
  const name = isAny ? hostname() : hostInUrl(host);
  if (tls === undefined && !["127.0.0.1", "[::1]", "localhost"].includes(name)) return [own];
  return [own, `${tls === undefined ? "http" : "https"}://${name}:${String(port)}`];
}

function servedFleet({ fleet, temporal, client, revokedFile }: ServiceOptions): ServedFleet {
  const files = apiKeyFiles();
  makeRoleKeys(files);
  const key = signingKey(files);
  const believed = believedKeys(files);
  const apiIdentity = (): Identity => {
    const privateKey = key();
    const publicKey = publicKeyText(createPublicKey(privateKey));
    return { name: "api", file: files.privateFile, privateKey, publicKey };
  };
  return {
    fleet,
    temporal,
    client,
    apiIdentity,
    ownIdentity: () => ownIdentity(),
    ownKeys: () => [...believed(), ownIdentity().publicKey],
    revoked: revokedOrders(revokedFile),
    signerOf: ({ name, isOwner }) => ({ ...(isOwner ? ownIdentity() : apiIdentity()), name }),
  };
}

interface Doors {
  /** Opens doors of users that came, closes those of users that went. */
  readonly follow: (access: Access) => Promise<void>;
  readonly sockets: () => ReadonlyMap<string, string>;
  readonly close: () => Promise<void>;
}

function openDoors({ ownFolder, sharedFolder, say }: ServiceOptions, parts: ServiceParts): Doors {
  const open = new Map<
    string,
    { readonly server: Server; readonly path: string; readonly name: string }
  >();
  const own = userName();

  async function openFor(user: string, name: string): Promise<void> {
    const isOwner = user === own;
    const uid = isOwner ? (process.getuid?.() ?? 0) : hostUser(user).uid;
    if (!isOwner && process.getuid?.() !== 0) {
      say(`user ${user} gets no socket: only a service of root can hand one over`);
      return;
    }
    const folder = isOwner ? ownFolder : sharedFolder;
    prepareFolder(folder, !isOwner);
    const path = socketIn(folder, user);
    const server = createDoor(socketDoor({ name, via: "socket", isOwner, groups: [] }), parts);
    await listenAt(server, path, uid);
    open.set(user, { server, path, name });
  }

  return {
    sockets: () => new Map([...open].map(([user, { path }]) => [user, path])),
    async follow({ principals = [] }) {
      const wanted = new Map([[own, own]]);
      for (const { user, name } of principals) if (user !== undefined) wanted.set(user, name);
      for (const [user, { server, name }] of open) {
        if (wanted.get(user) === name) continue;
        open.delete(user);
        await closed(server);
      }
      for (const [user, name] of wanted) {
        if (open.has(user)) continue;
        try {
          await openFor(user, name);
        } catch (error) {
          // Without a socket of its own the service is none; another user's may be mended in the file.
          if (user === own) throw error;
          say(
            `user ${user} gets no socket: ${error instanceof Error ? error.message : String(error)}`,
          );
        }
      }
    },
    async close() {
      await Promise.all([...open.values()].map(({ server }) => closed(server)));
      open.clear();
    },
  };
}

const socketDoor = (principal: Principal): Door => ({
  who: principal.name,
  fromOf: () => "",
  senderOf: async () => await Promise.resolve(principal),
});

const tokenDoor = ({ access }: ServiceParts, tls: Door["tls"]): Door => ({
  who: "unknown",
  fromOf: ({ remoteAddress = "" }) => remoteAddress,
  ...(tls !== undefined && { tls }),
  senderOf: remoteSender(access),
});

async function listenOn(
  server: Server,
  { host, port }: { readonly host: string; readonly port: number },
): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error) => {
      const message = `the submit service cannot listen on ${host} port ${String(port)}: ${error.message}. Name another with --port or --host.`;
      reject(new OrbweaverError("BAD_INPUT", message));
    });
    server.listen({ host, port }, resolve);
  });
}

async function closed(server: Server): Promise<void> {
  server.closeAllConnections();
  await new Promise<void>((resolve) => server.close(() => resolve()));
}

/** The audit of the service of a fleet, in its folder of state. */
export const auditFileIn = (stateDir: string): string => join(stateDir, "audit.jsonl");
