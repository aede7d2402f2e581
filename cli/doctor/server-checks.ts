/**
 * @file What can be wrong with the Temporal server: whom it lets in, its search attributes, its clock.
 *
 * Whom it lets in is tried: a connection without credentials starts a workflow that nobody serves, and ends it. Its start, by the server's clock,
 * also tells how far that is from ours.
 */

import { isGrpcServiceError, type Client } from "@temporalio/client";
import { randomUUID } from "node:crypto";
import { SEARCH_ATTRIBUTES } from "../../domain/values/search-attributes.ts";
import { openClient, type ConnectionConfig } from "../../workers/connection.ts";
import { missingSearchAttributes } from "../../workers/server/index.ts";
import { checked, ok, problem, warning, type Finding } from "./finding.ts";

/** Tickets and heartbeats are of seconds. */
const MOST_SKEW_MS = 2_000;
const PROBE = "orbweaver-doctor";
/** These checks start a workflow, so they end with an error where none can be started. */
const STARTS_NOTHING = "look at the server's log, its database and its disk: it starts no workflow";

export async function serverFindings(
  client: Client,
  connection: ConnectionConfig,
): Promise<readonly Finding[]> {
  const { namespace } = connection;
  const attributes = `run \`orbweaver up\`, or have the server's administrator add them`;
  return [
    await checked("server", "check address, namespace and credentials", async () => {
      const { serverVersion } = await client.workflowService.getSystemInfo({});
      await client.workflowService.describeNamespace({ namespace });
      return ok(
        "server",
        `Temporal ${serverVersion} at ${connection.address}, namespace ${namespace}`,
      );
    }),
    await checked("authorisation", STARTS_NOTHING, () => authorisation(connection)),
    await checked("clock", STARTS_NOTHING, () => clock(client)),
    await checked("search attributes", attributes, async () => {
      const missing = await missingSearchAttributes(
        client.connection,
        namespace,
        SEARCH_ATTRIBUTES,
      );
      if (missing.length === 0)
        return ok("search attributes", `all ${SEARCH_ATTRIBUTES.length} are there`);
      const names = missing.map(({ name }) => name).join(", ");
      return problem("search attributes", `${names} are missing`, attributes);
    }),
  ];
}

async function authorisation(connection: ConnectionConfig): Promise<Finding> {
  // As a stranger who trusts the same authority and has no key.
  const tls = withoutKey(connection.options.tls);
  const { address } = connection;
  let stranger;
  try {
    stranger = await openClient({
      ...connection,
      options: { address, ...(tls !== undefined && { tls }) },
    });
  } catch {
    return ok("authorisation", "a connection without credentials is refused");
  }
  try {
    await probe(stranger.client);
  } catch (error) {
    if (!isGrpcServiceError(error)) throw error;
    return ok("authorisation", `without credentials nothing can be started (${error.details})`);
  } finally {
    await stranger.close();
  }
  return warning(
    "authorisation",
    `whoever reaches ${address} may start, signal and terminate workflows`,
    "keep its address from others, or give the server TLS with client certificates, or an authorizer (docs/security.md)",
  );
}

type Tls = ConnectionConfig["options"]["tls"];

function withoutKey(tls: Tls): Tls {
  if (typeof tls !== "object" || tls === null) return tls;
  const { clientCertPair: _pair, ...rest } = tls;
  return rest;
}

async function clock(client: Client): Promise<Finding> {
  const beforeMs = Date.now();
  const startedMs = await probe(client);
  const afterMs = Date.now();
  // The start lies between; what lies outside is the difference.
  const skewMs = Math.max(0, beforeMs - startedMs, startedMs - afterMs);
  const text = `the server's clock is ${skewMs === 0 ? "ours" : `${(skewMs / 1_000).toFixed(1)} s off`}, within ${afterMs - beforeMs} ms`;
  return skewMs <= MOST_SKEW_MS
    ? ok("clock", text)
    : problem("clock", text, "let the clocks of both machines follow one source (NTP)");
}

/** Starts and ends a workflow that nobody serves; when it started, by the server's clock. */
async function probe(client: Client): Promise<number> {
  const handle = await client.workflow.start(PROBE, {
    workflowId: `${PROBE}-${randomUUID()}`,
    taskQueue: PROBE,
    workflowExecutionTimeout: "10 s",
  });
  const { startTime } = await handle.describe();
  await handle.terminate("orbweaver doctor has what it wanted to know");
  return startTime.getTime();
}
