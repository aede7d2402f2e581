/** @file The arguments of the codec server that `up` starts for the Web UI of its own Temporal server. */

import type { UpServer } from "../../workers/state.ts";
import { portOf } from "./server.ts";

/**
 * The arguments of `orbweaver codec-server`; undefined without a UI of ours, or when the UI was started without a codec server.
 */
export function codecServerArgs(
  server: UpServer | undefined,
  fleet: string,
): readonly string[] | undefined {
  const port = portOf(server?.codecUrl);
  const uiPort = portOf(server?.uiUrl);
  if (port === undefined || uiPort === undefined) return undefined;
  const origins = ["127.0.0.1", "localhost"].map((name) => `http://${name}:${String(uiPort)}`);
  return ["--port", String(port), "--origin", origins.join(","), "--fleet", fleet];
}
