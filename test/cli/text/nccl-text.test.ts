/** @file What `status` says of hosts whose NCCL has not loaded the plugin. */

import { expect, test } from "vitest";
import { ncclText } from "../../../cli/text/nccl-text.ts";
import type { JobView } from "../../../client/index.ts";
import type { HostPlugins } from "../../../domain/bandwidth/collective-evidence.ts";
import { parseHostId } from "../../../domain/values/ids.ts";

const attempt = (ncclPlugins?: readonly HostPlugins[]) =>
  ({ ...(ncclPlugins !== undefined && { ncclPlugins }) }) as unknown as JobView["attempts"][number];
const [A, B] = [parseHostId("eu-1/a"), parseHostId("eu-1/b")];

test.each([
  { name: "nothing is known", attempts: [attempt()], live: [{}, { host: A }], want: undefined },
  {
    name: "all have both",
    attempts: [attempt()],
    live: [{ host: A, ncclPlugins: "both" as const }],
    want: undefined,
  },
  {
    name: "running hosts, one without a tuner, one without a profiler",
    attempts: [attempt()],
    live: [
      { host: B, ncclPlugins: "none" as const },
      { host: A, ncclPlugins: "tuner" as const },
    ],
    want: /^loads no tuner on eu-1\/b, .*; loads no profiler on eu-1\/a, /,
  },
  {
    name: "the last run, which has ended, by host",
    attempts: [
      attempt([{ host: A, plugins: "tuner" }]),
      attempt([
        { host: B, plugins: "none" },
        { host: A, plugins: "none" },
      ]),
    ],
    live: [],
    want: /^loads no tuner on eu-1\/a, eu-1\/b, [^;]*$/,
  },
  { name: "no run", attempts: [], live: [], want: undefined },
])("$name", ({ attempts, live, want }) => {
  const text = ncclText({ attempts }, live);
  if (want === undefined) expect(text).toBeUndefined();
  else expect(text).toMatch(want);
});
