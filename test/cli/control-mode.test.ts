/** @file Who starts the control plane's workers, by flags, server and what runs. */

import { expect, it } from "vitest";
import { controlMode } from "../../cli/up/control-plane.ts";
import type { UpControl, UpState, UpWorker } from "../../workers/state.ts";

const former = (roles: readonly UpWorker["role"][], mode?: UpControl["mode"]): UpState => ({
  fleet: "f",
  fleetFile: "/f.yaml",
  ...(mode !== undefined && { control: { mode, idleMs: 1 } }),
  workers: roles.map((role) => ({ role, bootId: "b", pid: 1, started: "1", logFile: "l" })),
});

it.each([
  ["on a server of our own", {}, true, undefined, "controller"],
  ["on a configured server", {}, false, undefined, "always-on"],
  ["on a configured server when asked to", { isOnDemand: true }, false, undefined, "supervisor"],
  [
    "on a server of our own when told to keep them",
    { isAlwaysOn: true },
    true,
    undefined,
    "always-on",
  ],
  ["where workers of an older release run", {}, true, former(["fleet", "jobs"]), "always-on"],
  [
    "where they were kept before",
    {},
    true,
    former(["fleet", "jobs", "agent"], "always-on"),
    "always-on",
  ],
  ["where a supervisor runs", {}, false, former(["supervisor"], "supervisor"), "supervisor"],
  ["after a down", {}, true, former([], "always-on"), "controller"],
  [
    "against what runs, when asked to",
    { isOnDemand: true },
    true,
    former(["fleet"], "always-on"),
    "controller",
  ],
] as const)("%s", (_what, flags, isOwnServer, state, want) => {
  const settings = { isAlwaysOn: false, isOnDemand: false, ...flags };
  expect(controlMode(settings, { isOwnServer, former: state })).toBe(want);
});
