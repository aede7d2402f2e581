/** @file `bench interactive`: how soon a terminal answers, how many bytes a second a session carries, and a hundred sessions at once. */

import { size, type Bench } from "./bench.ts";

export const interactiveBench: Bench = {
  name: "interactive",
  summary: "sessions with a running job: how soon a key is echoed, bytes a second, many at once",
  description:
    "Starts a Temporal server, workers, an agent and a submit service as real processes, and a job of one GPU. Opens sessions with it as `orbweaver exec` does,\n" +
    "from one client over TCP of 127.0.0.1. A key that is typed goes to a program at a terminal, which sends it back. Bulk output and input are of\n" +
    "random bytes and are compared by their hashes. Then many sessions are open together, and keys are typed at all of them in the same time.",
  options: [
    {
      kind: "text",
      name: "address",
      value: "host:port",
      what: "use this Temporal server, which has no other Orbweaver workers",
    },
    size("keys", "keys typed at one terminal", { usual: 500 }),
    size("megabytes", "size of bulk output and of bulk input, in millions of bytes", {
      usual: 128,
    }),
    size("rounds", "times of bulk output and input, in turns; medians count", { usual: 5 }),
    size("sessions", "sessions that are open at once", { usual: 100 }),
    size("session-keys", "keys typed at each of them", { usual: 20 }),
  ],
  examples: [
    ["orbweaver bench interactive", "everything; about a minute"],
    ["orbweaver bench interactive --sessions 10 --rounds 1", "a quick look"],
    ["orbweaver bench interactive --json", "for a machine"],
  ],
  run: async (request) => (await import("./interactive/run.ts")).runInteractive(request),
};
