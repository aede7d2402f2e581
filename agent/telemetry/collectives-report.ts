/**
 * @file Reports the times of running jobs' steps to the tuners, and writes the policy that follows beside the processes.
 *
 * The host whose process writes the rewards (rank 0's) reports. It looks every `everyMs`; new steps go to the tuner in one update, whose answer
 * is the current policy. A newer policy replaces the file by rename, and the ranks adopt it by a vote (docs/collectives-plugin.md). While
 * a policy explores every look reports; after that once in `SETTLED_MS`, and the rest at the run's end. An update that fails is repeated
 * with the steps since: the tuner counts each step once.
 */

import { join } from "node:path";
import type {
  CollectiveReward,
  PublishedPolicy,
} from "../../domain/bandwidth/collective-evidence.ts";
import { MAX_REPORTED_REWARDS } from "../../protocol/messages.ts";
import type { RunOrder } from "../../protocol/agent-contract.ts";
import { extraText } from "../../domain/lease/launch-extras.ts";
import { readRewards, type SeenFile } from "../folder/rewards-file.ts";
import {
  ORDER_FILE,
  POLICY_FILE,
  readCollectiveOrder,
  REWARDS_FILE,
  type AskTuner,
  type CollectiveOrder,
} from "../../protocol/collective-files.ts";
import { parsedJson } from "../../lib/parsed-json.ts";
import type { Files } from "../ports/files.ts";
import type { System } from "../ports/system.ts";
import type { AgentHost } from "../runs/agent-host.ts";
import { launchFiles } from "../folder/launch-files.ts";
import { phaseOf } from "../runs/local-run.ts";
import { extrasDir } from "../folder/extra-files.ts";

export interface CollectivesReporting {
  readonly hosts: Iterable<AgentHost>;
  readonly ask: AskTuner<AbortSignal>;
  readonly closing: AbortSignal;
  readonly system: System;
  readonly everyMs?: number;
}

export interface CollectivesReports {
  /** The run of this order has ended: the steps that are left are reported. */
  ended(order: RunOrder): Promise<void>;
  /** Resolves when the agent ends. */
  readonly done: Promise<void>;
}

const EVERY_MS = 1_000;
const SETTLED_MS = 30_000;

/** One run that reports. */
interface Account {
  readonly order: CollectiveOrder;
  readonly run: string;
  readonly launchDir: string;
  seen: SeenFile | undefined;
  lastStep: number;
  version: number;
  isExploring: boolean;
  notifiedAtMs: number;
}

export function reportCollectives(options: CollectivesReporting): CollectivesReports {
  const { ask, closing, system, everyMs = EVERY_MS } = options;
  const { files, clock } = system;
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
      launchDir,
      seen: undefined,
      lastStep: 0,
      version: 0,
      isExploring: true,
      notifiedAtMs: 0,
    };
    accounts.set(run, made);
    return made;
  };

  const tell = async (account: Account): Promise<void> => {
    const found = readRewards(
      files,
      join(extrasDir(account.launchDir), REWARDS_FILE),
      account.seen,
    );
    const fresh = (found?.rewards ?? []).filter(({ step }) => step > account.lastStep);
    if (found === undefined || fresh.length === 0) return;
    const rewards = wholeSteps(fresh, MAX_REPORTED_REWARDS);
    account.notifiedAtMs = clock.nowMs();
    const policy = await ask(account.order, { run: account.run, rewards });
    account.lastStep = rewards.reduce((most, { step }) => Math.max(most, step), account.lastStep);
    if (rewards.length === fresh.length) account.seen = found.seen;
    account.isExploring = policy.isExploring;
    writePolicy(files, account, policy);
  };

  const look = async (): Promise<void> => {
    for (const host of hosts) {
      for (const run of host.open.values()) {
        const order = run.stored?.order;
        if (order?.launchExtras === undefined || phaseOf(run).kind !== "running") continue;
        const account = accountOf(order, run.files.dir);
        if (account === undefined) continue;
        if (!account.isExploring && clock.nowMs() - account.notifiedAtMs < SETTLED_MS) continue;
        await tell(account).catch(() => undefined);
      }
    }
  };

  const run = async (): Promise<void> => {
    while (!closing.aborted) {
      await clock.pause(everyMs, closing);
      if (!closing.aborted) await look();
    }
  };

  return {
    async ended(order) {
      if (order.launchExtras === undefined) return;
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

/** At most `most`, and no step in part: a step has one time for all its rows. */
function wholeSteps(
  rewards: readonly CollectiveReward[],
  most: number,
): readonly CollectiveReward[] {
  const cut = rewards[most]?.step;
  const first = rewards.slice(0, most);
  const whole = first.filter(({ step }) => step !== cut);
  return whole.length > 0 ? whole : first;
}

/** Undefined for a run without a policy, and for one whose file our provider cannot have written: nobody signs it. */
function tunerIn({ launchExtras }: RunOrder): CollectiveOrder | undefined {
  const text = extraText(launchExtras, ORDER_FILE);
  return text === undefined ? undefined : readCollectiveOrder(parsedJson(text));
}

/** A process that looks while it is replaced sees the old one or the new one. */
function writePolicy(files: Files, account: Account, { version, text }: PublishedPolicy): void {
  if (version <= account.version || text === "") return;
  // As in extra-files.ts: beside the processes the job's user may have put a link.
  const aside = files.asideOf(join(account.launchDir, `given-${POLICY_FILE}`));
  files.write(aside, text, { isShared: true });
  files.rename(aside, join(extrasDir(account.launchDir), POLICY_FILE));
  account.version = version;
}
