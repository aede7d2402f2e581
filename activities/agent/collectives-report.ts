/**
 * @file Tells the tuners what the steps of running jobs took, and lays the policy that follows beside the processes.
 *
 * Of the host whose process writes the rewards (rank 0's). Looks every `everyMs`; what is new goes to the tuner in one update, whose answer is
 * the policy that is right by now: a newer one replaces the file by rename, and the ranks take it by a vote (docs/collectives-plugin.md). While
 * a policy explores every look reports; after that once in `SETTLED_MS`, and what is left at the run's end. An update that fails is said again
 * with what came since: the tuner counts each step once.
 */

import { renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { CollectiveReward, PublishedPolicy } from "../../domain/collective-evidence.ts";
import { MAX_REPORTED_REWARDS } from "../../workflows/messages.ts";
import type { RunOrder } from "../agent-contract.ts";
import { readRewards, type SeenFile } from "../collectives/rewards-file.ts";
import {
  ORDER_FILE,
  POLICY_FILE,
  REWARDS_FILE,
  type AskTuner,
  type CollectiveOrder,
} from "../collectives/run-files.ts";
import { abortablePause } from "./abortable-pause.ts";
import type { AgentHost } from "./agent-host.ts";
import { launchFiles } from "./launch.ts";
import { phaseOf } from "./local-run.ts";
import { outfitDir } from "./outfit-files.ts";

export interface CollectivesReporting {
  readonly hosts: Iterable<AgentHost>;
  readonly ask: AskTuner;
  readonly closing: AbortSignal;
  readonly nowMs: () => number;
  readonly everyMs?: number;
}

export interface CollectivesReports {
  /** The run of this order has ended: what is left is told. */
  ended(order: RunOrder): Promise<void>;
  /** Resolves when the agent ends. */
  readonly done: Promise<void>;
}

const EVERY_MS = 1_000;
const SETTLED_MS = 30_000;

/** What is known of one run that reports. */
interface Account {
  readonly order: CollectiveOrder;
  readonly run: string;
  readonly dir: string;
  seen: SeenFile | undefined;
  lastStep: number;
  version: number;
  isExploring: boolean;
  toldAtMs: number;
}

export function reportCollectives(options: CollectivesReporting): CollectivesReports {
  const { ask, closing, nowMs, everyMs = EVERY_MS } = options;
  const hosts = [...options.hosts];
  const accounts = new Map<string, Account>();

  const accountOf = (order: RunOrder, launchDir: string): Account | undefined => {
    const run = `${order.leaseId} ${order.holder.runId}`;
    const former = accounts.get(run);
    if (former !== undefined) return former;
    const to = tunerIn(order);
    if (to === undefined) return undefined;
    const made: Account = {
      order: to,
      run,
      dir: outfitDir(launchDir),
      seen: undefined,
      lastStep: 0,
      version: 0,
      isExploring: true,
      toldAtMs: 0,
    };
    accounts.set(run, made);
    return made;
  };

  const tell = async (account: Account): Promise<void> => {
    const found = readRewards(join(account.dir, REWARDS_FILE), account.seen);
    const fresh = (found?.rewards ?? []).filter(({ step }) => step > account.lastStep);
    if (found === undefined || fresh.length === 0) return;
    const rewards = wholeSteps(fresh, MAX_REPORTED_REWARDS);
    account.toldAtMs = nowMs();
    const policy = await ask(account.order, { run: account.run, rewards });
    account.lastStep = rewards.reduce((most, { step }) => Math.max(most, step), account.lastStep);
    if (rewards.length === fresh.length) account.seen = found.seen;
    account.isExploring = policy.isExploring;
    lay(account, policy);
  };

  const look = async (): Promise<void> => {
    for (const host of hosts) {
      for (const run of host.open.values()) {
        const order = run.stored?.order;
        if (order?.outfit === undefined || phaseOf(run.files).kind !== "running") continue;
        const account = accountOf(order, run.files.dir);
        if (account === undefined) continue;
        if (!account.isExploring && nowMs() - account.toldAtMs < SETTLED_MS) continue;
        await tell(account).catch(() => undefined);
      }
    }
  };

  const run = async (): Promise<void> => {
    while (!closing.aborted) {
      await abortablePause(everyMs, closing);
      if (!closing.aborted) await look();
    }
  };

  return {
    async ended(order) {
      if (order.outfit === undefined) return;
      const host = hosts.find(({ id }) => id === order.host);
      if (host === undefined) return;
      const { dir } = launchFiles(host.layout.leaseDir(order.leaseId));
      const account = accountOf(order, dir);
      if (account === undefined) return;
      accounts.delete(account.run);
      await tell(account).catch(() => undefined);
    },
    done: run(),
  };
}

/** At most so many, and of no step a part: a step has one time for all its rows. */
function wholeSteps(
  rewards: readonly CollectiveReward[],
  most: number,
): readonly CollectiveReward[] {
  const cut = rewards[most]?.step;
  const first = rewards.slice(0, most);
  const whole = first.filter(({ step }) => step !== cut);
  return whole.length > 0 ? whole : first;
}

/** Undefined for a run without a policy. */
function tunerIn({ outfit }: RunOrder): CollectiveOrder | undefined {
  const file = outfit?.files.find(({ name }) => name === ORDER_FILE);
  // Our own provider wrote it; the order came through the job's history.
  return file === undefined ? undefined : (JSON.parse(file.text) as CollectiveOrder);
}

/** A process that looks while it is replaced sees the old one or the new one. */
function lay(account: Account, { version, text }: PublishedPolicy): void {
  if (version <= account.version || text === "") return;
  const file = join(account.dir, POLICY_FILE);
  writeFileSync(`${file}.new`, text, { mode: 0o644 });
  renameSync(`${file}.new`, file);
  account.version = version;
}
