/**
 * @file The rooms of the code and what each may import: the one table behind the lint rules and `test/structure/walls.test.ts`.
 *
 * Rooms stand from the top floor down. A room imports itself and the rooms named in `may`, type imports included. `packages`: the outside
 * packages that it may load; absent: any. `isPure`: no I/O, no clock, no global randomness, no Node globals.
 */

const GROUND = ["domain", "lib"];

/** The brain, from the top floor down: each room may import those that come after it. */
const SCHEDULING = [
  "explain",
  "forecast",
  "cycle",
  "reservation",
  "preemption",
  "reasons",
  "admission",
  "capacity",
  "queue",
  "fairness",
  "estimates",
  "placement",
  "pick",
  "ledger",
].map((name) => `scheduling/${name}`);
/** Serving counts a transformer's layers as training does. */
const PLANNING = [
  ["planning/serving", ["planning/parallelism"]],
  ["planning/parallelism", []],
  ["planning/inference", []],
  ["tuning", []],
];
const BRAIN = [...SCHEDULING, ...PLANNING.map(([room]) => room)];

const pure = (may, packages = []) => ({ may, packages, isPure: true });

export const ROOMS = {
  workers: {
    may: [
      "workflows",
      "activities",
      "agent",
      "console",
      "client",
      "access",
      "streams",
      "protocol",
      "simulator",
      ...BRAIN,
      "models",
      "solvers",
      ...GROUND,
    ],
  },
  // It follows the fleet's history with the fleet's machine, and answers from the followed ledger with the brain.
  console: {
    may: [
      "page",
      "client",
      "access",
      "workflows",
      "machines",
      "protocol",
      ...SCHEDULING,
      ...GROUND,
    ],
  },
  // It packs the followed fleet's ledger for its clients.
  api: { may: ["client", "access", "streams", "protocol", "scheduling/ledger", ...GROUND] },
  // Its stores and activities are models; machines and brain are the product's.
  world: pure(["machines", "protocol", ...SCHEDULING, ...GROUND]),
  // Runs in a browser.
  page: { may: GROUND, packages: ["preact", "preact/hooks"], hasNoNode: true },
  agent: { may: ["access", "streams", "protocol", ...GROUND] },
  // A client reads a fleet's ledger, and asks the brain whether a job could ever start.
  client: { may: ["access", "streams", "protocol", ...SCHEDULING, ...GROUND] },
  workflows: {
    may: ["machines", "protocol", "scheduling/ledger", ...GROUND],
    packages: ["@temporalio/workflow", "@temporalio/common"],
    hasNoNode: true,
  },
  machines: pure(["protocol", "scheduling/ledger", ...GROUND]),
  activities: { may: ["access", "protocol", ...BRAIN, "models", "solvers", ...GROUND] },
  access: { may: GROUND },
  // Bytes between a user and a host; it knows nothing of jobs.
  streams: { may: ["lib"], packages: ["ws"] },
  protocol: pure(GROUND, ["@temporalio/workflow"]),
  simulator: pure([...BRAIN, ...GROUND], ["d3-scale", "d3-shape"]),
  ...Object.fromEntries(
    SCHEDULING.map((room, floor) => [room, pure([...SCHEDULING.slice(floor + 1), ...GROUND])]),
  ),
  ...Object.fromEntries(PLANNING.map(([room, may]) => [room, pure([...may, ...GROUND])])),
  models: { may: GROUND, packages: ["onnxruntime-node", "protobufjs"] },
  solvers: { may: GROUND },
  domain: pure(["lib"], ["zod", "yaml", "@dagrejs/graphlib"]),
  lib: pure([]),
};

/** May import everything; `cli` reaches `bench` through its own verb alone. */
export const OPEN_ROOMS = ["cli", "bench", "test", "tools", "examples"];
