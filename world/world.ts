/**
 * @file One world: the product's machines, a model of Temporal, of hosts and of the network, played from a seed until everything has ended.
 *
 * The same settings give the same events. Faults stop at `CALM_AT_MS`; all processes come back, and everything that can end has to within
 * `BOUND_MS`, and the time that the longest array takes. The first violation ends the world.
 */

import type { HostId, JobId } from "../domain/values/ids.ts";
import type { FleetState } from "../machines/fleet/state.ts";
import { randomFrom } from "../lib/random.ts";
import { decide } from "../scheduling/cycle/decide.ts";
import { emptyLedger } from "../scheduling/ledger/apply/apply.ts";
import { packLedger } from "../scheduling/ledger/codec.ts";
import { createChecker, type Violation } from "./checker/checker.ts";
import { unsettled } from "./checker/settled.ts";
import { createFaults } from "./faults.ts";
import { AGENT_RULES } from "./hosts/agent-rules.ts";
import { agentLife } from "./hosts/agent.ts";
import type { Agents } from "./hosts/agents.ts";
import { createHost, type Host } from "./hosts/host.ts";
import { createKernel, type StoryLine } from "./kernel/kernel.ts";
import { createNetwork } from "./kernel/network.ts";
import { createProcess, type Process } from "./kernel/process.ts";
import { resetFleetSettings, undrainLeft, updateFleet } from "./operators.ts";
import { giveOrder, release, submit, type People } from "./people.ts";
import type { Planted } from "./planted.ts";
import { randomPlanner } from "./planner.ts";
import { createScenes } from "./scenes.ts";
import { BOUND_MS, CALM_AT_MS, STRANGE_BATCH, type Settings } from "./settings.ts";
import { registerFleet, type FleetRun } from "./shells/fleet.ts";
import { registerHosts } from "./shells/hosts.ts";
import { createInbox, reviveFleet } from "./shells/inbox.ts";
import { registerJob } from "./shells/job.ts";
import { decidedOf, type JobRun } from "./shells/job-life.ts";
import { registerLobby } from "./shells/lobby.ts";
import { FLEET, FLEET_QUEUE, JOB_QUEUE, type Site } from "./shells/site.ts";
import { startActivity, type Activity } from "./temporal/activity.ts";
import { createServer } from "./temporal/server.ts";

export interface Outcome {
  readonly events: number;
  readonly jobs: number;
  readonly faults: number;
  readonly leases: number;
  readonly replays: number;
  /** Virtual time until everything had ended. */
  readonly lastedMs: number;
  readonly violation?: Violation;
  /** Empty unless it was asked for. */
  readonly story: readonly StoryLine[];
}

export interface PlayOptions {
  readonly isTold?: boolean;
  readonly planted?: Planted;
  /** Under former rules of the ledger; absent: under the newest. */
  readonly rules?: number;
}

const LOOK_MS = 2_000;
/** Of what a seed draws. */
const LONGEST_DRAIN_MS = 65_000;
/** A world that plays more events than this runs in circles. */
const MOST_EVENTS = 400_000;

export function play(settings: Settings, options: PlayOptions = {}): Outcome {
  const world = buildWorld(settings, options);
  const { kernel, checker, isSettled } = world;
  const untilMs = CALM_AT_MS + BOUND_MS + longestMs(settings);
  let lookedAtMs = 0;
  while (checker.violation() === undefined && kernel.playNext(untilMs)) {
    if (kernel.events() > MOST_EVENTS) checker.violate("liveness", "the world runs in circles");
    if (kernel.nowMs() < lookedAtMs + LOOK_MS) continue;
    lookedAtMs = kernel.nowMs();
    if (kernel.nowMs() > CALM_AT_MS && isSettled()) break;
  }
  if (checker.violation() === undefined && !isSettled())
    checker.violate("liveness", `left after ${untilMs / 1_000} s: ${world.left().join("; ")}`);
  const violation = checker.violation();
  return {
    events: kernel.events(),
    jobs: settings.jobs.length,
    faults: settings.faults.length,
    leases: checker.leases(),
    replays: world.replays(),
    lastedMs: kernel.nowMs(),
    ...(violation !== undefined && { violation }),
    story: kernel.story,
  };
}

/** What the longest array takes that gets one place alone. */
const longestMs = ({ jobs }: Settings): number =>
  Math.max(0, ...jobs.map(({ spec, runMs }) => (spec.array?.count ?? 0) * runMs));

/** A process may be paused, or hear everything late, for longer than faults strike. */
const calmAfter = ({ faults }: Settings, kind: "pause" | "late"): number =>
  Math.max(CALM_AT_MS, ...faults.map((each) => (each.kind === kind ? each.atMs + each.forMs : 0)));

function buildWorld(
  settings: Settings,
  { isTold = false, planted = {}, rules: version }: PlayOptions,
) {
  const { seed, shape, jobs } = settings;
  const kernel = createKernel(seed, isTold);
  const network = createNetwork(kernel);
  const hosts = new Map<HostId, Host>();
  const checker = createChecker(
    {
      nowMs: kernel.nowMs,
      calmAtMs: calmAfter(settings, "pause"),
      heardAtMs: calmAfter(settings, "late"),
    },
    () => hosts,
    jobs,
  );
  const jobRuns = new Map<string, JobRun>();
  const activities = new Map<string, Set<Activity>>();
  let fleet: FleetRun | undefined;
  const isRecovering = ({ ledger, recovery }: FleetState): boolean =>
    ledger.recovery !== undefined || recovery.quietUntilMs > 0 || recovery.recoverAtMs.length > 0;
  const server = createServer({
    kernel,
    network,
    onViolation: checker.violate,
    onSignal: (kind, id, { name, payload, isBroken }) => {
      if (kind === "lobby")
        checker.lobbyTold(id, {
          name,
          payload,
          atMs: server.clockMs(),
          ...(isBroken && { isBroken }),
        });
      if (kind === "fleet" && isBroken !== true) checker.fleetTold(payload);
    },
    onChange: (kind, run) => {
      const state = kind === "fleet" && run.runId === fleet?.runId ? fleet.state() : undefined;
      if (state !== undefined) checker.ledgerChanged(state.ledger, isRecovering(state));
      if (kind !== "job") return;
      checker.runBegan(run.runId);
      const id = run.workflowId as JobId; // of a job
      const life = jobRuns.get(id)?.state();
      const decided = life && decidedOf(life);
      if (decided !== undefined)
        checker.jobDecided(id, decided.kind, server.clockMs() - run.startedAtMs);
      const end = run.end();
      if (end !== undefined) checker.jobEnded(id, end.kind);
    },
  });
  const inboxes = new Map<string, ReturnType<typeof createInbox>>();
  const site: Site = {
    kernel,
    network,
    server,
    planted,
    fleetOf: (id) => (id === FLEET && fleet?.isOpen() === true ? fleet.state() : undefined),
    lastFleetOf: (id) => (id === FLEET ? fleet?.state() : undefined),
    jobOf: (id) => jobRuns.get(id),
    noteCall: checker.called,
    tellFleet: (from, to, entry) => {
      const inbox = inboxes.get(from.name) ?? createInbox(server, network, from);
      inboxes.set(from.name, inbox);
      return inbox.tell(to, entry);
    },
    activity: (run, order) => {
      const activity = startActivity(server, run, order);
      const all = activities.get(run.workflowId) ?? new Set();
      activities.set(run.workflowId, all.add(activity));
      for (const each of all) if (!each.isOpen()) all.delete(each);
      return activity;
    },
    beatsOf: (id) => [...(activities.get(id) ?? [])].flatMap((each) => each.details() ?? []),
  };
  const rules = { ...AGENT_RULES, ...planted.agent };
  const { witness } = checker;
  for (const { id, gpuCount } of shape.clusters.flatMap((cluster) => cluster.hosts))
    hosts.set(id, createHost({ kernel, wallMs: server.clockMs, rules, witness }, id, gpuCount));
  const refusing = new Set<HostId>();
  const taskStarts = new Map<string, number>();
  const agents: Agents = {
    site: () => site,
    fleet: "default",
    hosts,
    rules,
    witness,
    taken: [],
    orderGpus: (client, order) => updateFleet({ site, client, fleet: () => fleet }, order),
    mayBreakGpus: settings.faults.some(({ kind }) => kind === "gpu"),
    isRefusing: (host) => refusing.has(host),
    fateOf: ({ jobId, attempt, taskBatch }, task) => {
      if ((taskBatch?.seq ?? 0) >= STRANGE_BATCH) return { afterMs: 1, isGood: false };
      const job = jobs.find(({ id }) => id === jobId);
      const { runMs = 1_000, failures = 0 } = job ?? {};
      if (task === undefined) return { afterMs: runMs, isGood: attempt > failures };
      const key = `${jobId} ${task}`;
      const starts = (taskStarts.get(key) ?? 0) + 1;
      taskStarts.set(key, starts);
      return { afterMs: runMs, isGood: task % 3 !== 0 || starts > failures };
    },
  };
  const dice = randomPlanner(randomFrom(seed, "plans"), () => kernel.nowMs() > CALM_AT_MS);
  registerFleet(site, settings.isDeciding ? decide : dice, (run) => (fleet = run));
  registerJob(site, agents, (run) => void jobRuns.set(run.workflowId, run));
  registerLobby(site);
  registerHosts(site, agents);

  const control = [
    createProcess(kernel, "fleet-worker", (process) => server.poll(FLEET_QUEUE, process)),
    ...["jobs-worker-1", "jobs-worker-2"].map((name) =>
      createProcess(kernel, name, (process) => server.poll(JOB_QUEUE, process)),
    ),
  ];
  const machines = new Map<HostId, Process>(
    [...hosts.values()].map((host) => [
      host.id,
      createProcess(kernel, `agent-${host.id}`, (process) =>
        process.spawn(agentLife(agents, host, process)),
      ),
    ]),
  );
  const client = createProcess(kernel, "client", () => undefined);
  client.start();
  const faults = createFaults({
    kernel,
    network,
    server,
    hosts,
    machines,
    control,
    refusing,
    jobs,
    checker,
    scenes: createScenes({ server, agents, machines, checker }),
  });
  const people: People = {
    site,
    client,
    checker,
    jobs,
    hosts,
    shape,
    fleet: () => fleet,
    jobRun: (id) => jobRuns.get(id),
    turnOff: faults.turnOff,
    turnOn: faults.turnOn,
  };
  const empty = emptyLedger(shape);
  const ledger = packLedger({
    ...empty,
    applyVersion: version ?? settings.rules ?? empty.applyVersion,
  });
  server.start("fleet", FLEET, { name: "default", ledger });
  for (const process of [...control, ...machines.values()]) process.start();
  for (const job of jobs) kernel.after(job.atMs, () => client.spawn(submit(people, job)));
  for (const fault of settings.faults) kernel.after(fault.atMs, () => faults.strike(fault));
  for (const order of settings.orders)
    kernel.after(order.atMs, () => client.spawn(giveOrder(people, order)));
  kernel.after(CALM_AT_MS, () => {
    faults.calm();
    // Whoever has ended a fleet runs `up` again: where nobody has a word for it, nothing else starts it.
    reviveFleet(server, FLEET);
    // Whoever was held is let go.
    for (const { id } of jobs) client.spawn(release(people, id as JobId)); // as drawn
    // A fleet that was ended may have lost what operators told it last: they look again.
    if (settings.orders.some(({ kind }) => kind === "hold-queue" || kind === "limits"))
      client.spawn(resetFleetSettings(people));
  });
  kernel.after(CALM_AT_MS + LONGEST_DRAIN_MS, () => client.spawn(undrainLeft(people)));
  const left = (): readonly string[] => unsettled({ jobs, jobRuns, hosts, fleet: fleet?.state() });
  return {
    kernel,
    checker,
    replays: server.replays,
    left,
    isSettled: () => left().length === 0,
  };
}
