/**
 * @file Plays a fleet's machine, the machines of its lobbies and minimal jobs against each other, in simulated time.
 *
 * Every command is carried out at once, in the order in which it was given, so a run is the same each time. Jobs speak to the fleet in batches
 * of 500 entries, as jobs' workers do. Time advances to the next end of a job or the next time that a machine waits for.
 */

import type { InboxEntry } from "../../domain/lease/inbox-entry.ts";
import type { TenantId } from "../../domain/values/ids.ts";
import type { FleetCommand, FleetEvent } from "../../machines/fleet/events.ts";
import { fleetMachine, openFleet } from "../../machines/fleet/fleet.ts";
import type { FleetState } from "../../machines/fleet/state.ts";
import type { CallOrder, LobbyStoreActivities } from "../../protocol/lobby-contract.ts";
import type { LobbyNews } from "../../protocol/lobby.ts";
import type { Delivery, DeliveryReport } from "../../protocol/control-contract.ts";
import type { Tick } from "../../machines/machine.ts";
import { packLedger } from "../../scheduling/ledger/codec.ts";
import { emptyLedger } from "../../scheduling/ledger/apply/apply.ts";
import { cheapPlan, crowdShape, helloOf } from "./fleet.ts";
import { CANCELLED, DONE, idOf, indexOf, runOf, RUNS, WAITS, type Jobs } from "./jobs.ts";
import { createLobbyPlay, type LobbyPlay } from "./lobby-play.ts";

const FLEET = "crowd";
const RUN_MS = 60_000;
const ENTRIES_A_SIGNAL = 500;
/** Jobs submitted between two steps, ten milliseconds apart: far more in a second than a server can start. */
const SUBMITTED_AT_ONCE = 1_000;

export interface CrowdTerms {
  readonly gpus: number;
  readonly places: number;
  readonly tenants: ReadonlySet<TenantId>;
  readonly store: LobbyStoreActivities;
}

export class Crowd {
  /** Jobs in the order of their starts. */
  readonly started: Uint32Array;
  nowMs = 0;
  /** Jobs that have started. */
  startCount = 0;
  /** Jobs that can run and have neither run nor been cancelled. */
  left: number;
  /** The largest input of a further run of the fleet, as JSON. */
  fleetBytes = 0;
  private readonly jobs: Jobs;
  private readonly store: LobbyStoreActivities;
  private submitted = 0;
  private inbox: InboxEntry[];
  private fleet: FleetState;
  private open: FleetCommand[] = [];
  /** Running jobs by their ends, which come in this order. */
  private readonly ends: { readonly atMs: number; readonly job: number }[] = [];
  private ended = 0;
  private readonly lobbies = new Map<TenantId, LobbyPlay>();

  constructor(jobs: Jobs, { gpus, places, tenants, store }: CrowdTerms) {
    const shape = crowdShape(gpus, places, tenants);
    this.jobs = jobs;
    this.store = store;
    this.started = new Uint32Array(jobs.count);
    this.inbox = [helloOf(shape)];
    this.fleet = openFleet({ name: FLEET, ledger: packLedger(emptyLedger(shape)) }, 0, 0);
    this.left = jobs.count;
    for (let job = 0; job < jobs.count; job += 1) if (jobs.isImpossible(job)) this.left -= 1;
  }

  outside(): number {
    return [...this.lobbies.values()].reduce((sum, lobby) => sum + lobby.waiting(), 0);
  }

  lobbyBytes(): number {
    return Math.max(0, ...[...this.lobbies.values()].map((lobby) => lobby.carriedBytes()));
  }

  /** Goes one step on; false when nothing is this.left to happen. */
  async step(): Promise<boolean> {
    this.submit();
    while (this.ended < this.ends.length && (this.ends[this.ended]?.atMs ?? Infinity) <= this.nowMs)
      this.end(this.ends[this.ended++]?.job);
    for (let from = 0; from < this.inbox.length; from += ENTRIES_A_SIGNAL)
      this.stepFleet({ kind: "inbox", batch: this.inbox.slice(from, from + ENTRIES_A_SIGNAL) });
    this.inbox = [];
    this.playFleet();
    for (const lobby of this.lobbies.values()) await lobby.play(this.nowMs);
    if (
      this.inbox.length > 0 ||
      this.submitted < this.jobs.count ||
      fleetMachine.dueAtMs(this.fleet) <= this.nowMs
    ) {
      this.nowMs += this.submitted < this.jobs.count ? 10 : 1;
      return true;
    }
    const next = Math.min(
      this.ends[this.ended]?.atMs ?? Infinity,
      fleetMachine.dueAtMs(this.fleet),
      ...[...this.lobbies.values()].map((lobby) => lobby.dueAtMs()),
    );
    this.nowMs = Math.max(this.nowMs + 1, next);
    return next < Infinity;
  }

  private submit(): void {
    // A client's start waits for the fleet's server; so what the fleet has not folded holds it up.
    if (this.fleet.held.size > 0 || this.fleet.isBacklogged) return;
    const until = Math.min(this.jobs.count, this.submitted + SUBMITTED_AT_ONCE);
    for (; this.submitted < until; this.submitted += 1) {
      this.jobs.state[this.submitted] = WAITS;
      this.inbox.push({ kind: "request", request: this.jobs.requestOf(this.submitted) });
    }
    // Some of those before change their minds.
    const from = Math.max(0, until - 3 * SUBMITTED_AT_ONCE);
    for (let job = from; job < until - 2 * SUBMITTED_AT_ONCE; job += 1)
      if (this.jobs.isCancelled(job) && this.jobs.state[job] === WAITS) this.cancel(job);
  }

  private cancel(job: number): void {
    this.jobs.state[job] = CANCELLED;
    if (!this.jobs.isImpossible(job)) this.left -= 1;
    this.inbox.push(endOf(job));
    this.lobbies.get(this.jobs.tenantOf(job))?.feed(
      {
        kind: "leave",
        leave: { jobId: idOf(job), runId: runOf(job), seq: 1, class: this.jobs.classOf(job) },
      },
      this.nowMs,
    );
  }

  private end(job: number | undefined): void {
    if (job === undefined) return;
    this.jobs.state[job] = DONE;
    this.left -= 1;
    this.inbox.push(endOf(job));
  }

  private stepFleet(event: FleetEvent | Tick): void {
    const next = fleetMachine.step(this.fleet, event, this.nowMs);
    this.fleet = next.state;
    this.open.push(...next.commands);
  }

  private playFleet(): void {
    for (;;) {
      const commands = this.open;
      this.open = [];
      for (const command of commands) this.carryOut(command);
      if (fleetMachine.dueAtMs(this.fleet) <= this.nowMs) this.stepFleet({ kind: "tick" });
      else if (commands.length === 0) return;
    }
  }

  private carryOut(command: FleetCommand): void {
    switch (command.kind) {
      case "check":
        this.stepFleet({ kind: "checked", id: command.id, verdicts: { refused: [] } });
        return;
      case "decide":
        this.stepFleet({
          kind: "decided",
          id: command.id,
          plan: cheapPlan(this.fleet.ledger, this.jobs),
        });
        return;
      case "deliver": {
        const { grants, lobbies: news, evictions } = command.post;
        const report: DeliveryReport = {
          accepted: grants.filter((delivery) => this.grant(delivery)).map(({ lease }) => lease.id),
          gone: grants
            .filter(({ lease }) => !this.isRunning(lease.jobId))
            .map(({ lease }) => lease.id),
          ...(evictions !== undefined && { evictions: { sent: [], gone: [] } }),
          ...(news !== undefined && { lobbies: news.map((each) => this.tellLobby(each)) }),
        };
        this.stepFleet({ kind: "delivered", id: command.id, report });
        return;
      }
      case "audit":
        this.stepFleet({ kind: "audited", id: command.id, report: { closed: [] } });
        return;
      case "recover":
        this.stepFleet({ kind: "recovered", id: command.id });
        return;
      // Nothing here keeps a ledger.
      case "decide-next":
        this.stepFleet({ kind: "stale", id: command.id });
        return;
      case "estimate-starts":
      case "repair":
        this.stepFleet({ kind: "failed", id: command.id });
        return;
      case "finish-handlers":
        this.stepFleet({ kind: "handlers-finished" });
        return;
      case "continue-as-new":
      case "begin-anew":
        this.fleetBytes = Math.max(this.fleetBytes, JSON.stringify(command.input).length);
        this.fleet = openFleet(command.input, this.nowMs, this.nowMs);
        return;
      case "record":
        return;
    }
  }

  private grant({ lease }: Delivery): boolean {
    const job = indexOf(lease.jobId);
    if (this.jobs.state[job] === RUNS) return true;
    if (this.jobs.state[job] !== WAITS) return false;
    this.jobs.state[job] = RUNS;
    this.jobs.starts[job] = (this.jobs.starts[job] ?? 0) + 1;
    this.started[this.startCount] = job;
    this.startCount += 1;
    this.ends.push({ atMs: this.nowMs + RUN_MS, job });
    return true;
  }

  private isRunning(id: Delivery["lease"]["jobId"]): boolean {
    return this.jobs.state[indexOf(id)] === RUNS;
  }

  private tellLobby(news: LobbyNews): TenantId {
    const { tenant } = news;
    let lobby = this.lobbies.get(tenant);
    if (lobby?.isOver() !== false) {
      lobby = createLobbyPlay({
        fleet: FLEET,
        tenant,
        store: this.store,
        callIn: (call) => this.callIn(call),
        tell: (entry) => void this.inbox.push(entry),
      });
      this.lobbies.set(tenant, lobby);
    }
    lobby.feed({ kind: "news", news }, this.nowMs);
    return tenant;
  }

  private callIn({ jobId, credit, round }: CallOrder): boolean {
    const job = indexOf(jobId);
    if (this.jobs.state[job] !== WAITS) return false;
    const request = this.jobs.requestOf(job, { credit, ...(round > 0 && { round }) });
    this.inbox.push({ kind: "request", request });
    return true;
  }
}

const endOf = (job: number): InboxEntry => ({
  kind: "end",
  jobId: idOf(job),
  runId: runOf(job),
  seq: 1,
  unconfirmedHosts: [],
});
