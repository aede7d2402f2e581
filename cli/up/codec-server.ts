/** @file The codec server that `up` starts for the Web UI of its own Temporal server: where it listens, and whom it answers. */

import type { UpServer } from "../../workers/state.ts";
import { portOf } from "./server.ts";

/** The words after `orbweaver codec-server`; undefined when there is no UI of ours, or one that was started without it. */
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
