/** @file The fleet of `bench swap`: five hosts with an agent each, a gang over four of them, and jobs of one host that want every GPU besides. */

import type { ChildProcess } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { untilHostsKnown } from "../../cli/up/agents.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { parseHostId, type HostId } from "../../domain/values/ids.ts";
import type { BenchRequest } from "../bench.ts";
import { endNow } from "../live/processes.ts";
import { untilIn, type Until } from "../live/until.ts";
import { openWorld, type BenchWorld } from "../live/world.ts";

export const GANG_HOSTS = 4;
const GPUS_PER_HOST = 2;
const CLUSTER = "row";
const NAMES = ["r1", "r2", "r3", "r4", "r5"];
export const HOSTS: readonly HostId[] = NAMES.map((name) => parseHostId(`${CLUSTER}/${name}`));

const FLEET = `
name: swap
clusters:
  - name: ${CLUSTER}
    site: here
    jurisdiction: EU
    simulated: true
    fabric: { bandwidth: 100 Gbps }
    hosts:
      - { name: "r[1-5]", gpus: ${String(GPUS_PER_HOST)}, type: H100 }
`;

/** One rank of a gang, as it has said at its start. */
export interface Started {
  readonly host: string;
  readonly lease: string;
  /** What it found in its checkpoint; 0 without one. */
  readonly step: number;
  readonly pid: number;
}

export interface SwapSite {
  readonly world: BenchWorld;
  readonly ledger: () => Promise<Ledger>;
  readonly until: Until;
  readonly submitGang: (name: string) => Promise<string>;
  /** A job of one whole host. */
  readonly submitSmall: (name: string) => Promise<string>;
  readonly cancel: (job: string) => Promise<void>;
  /** What the ranks of a gang have said, in order. */
  readonly startedOf: (name: string) => readonly Started[];
  /** Kills the agent of a host and these processes there, and fences it. */
  readonly lose: (host: HostId, pids: readonly number[]) => Promise<void>;
  readonly bringBack: (host: HostId) => Promise<void>;
  readonly close: () => Promise<void>;
}

export async function openSwapSite(request: BenchRequest): Promise<SwapSite> {
  const world = await openWorld({ request });
  const agents = new Map<HostId, ChildProcess>();
  const startAgent = async (host: HostId): Promise<void> => {
    const name = host.slice(CLUSTER.length + 1);
    agents.set(host, await world.startHost(`agent-${name}`, { cluster: CLUSTER, host: name }));
  };
  try {
    await world.startFleet(FLEET);
    await Promise.all([world.startRole("fleet"), world.startRole("jobs")]);
    await Promise.all(HOSTS.map(startAgent));
    await untilHostsKnown(world.orbweaver, HOSTS, Date.now);
  } catch (error) {
    await world.stop();
    throw error;
  }
  const notesOf = (name: string): string => join(world.dir, `${name}.txt`);
  return {
    world,
    ledger: () => world.orbweaver.fleet(),
    until: untilIn(world),
    submitGang: async (name) => {
      const dir = join(world.dir, `${name}-checkpoints`);
      mkdirSync(dir, { recursive: true });
      const { jobId } = await world.orbweaver.submit({
        name,
        gang: GANG_HOSTS * GPUS_PER_HOST,
        run: {
          launch: "per-host",
          command: ["sh", "-c", rankScript(notesOf(name))],
          grace: "1s",
          // Long for a rank that writes a line: a busy machine takes its time.
          checkpoint: { signal: "USR1", dir, grace: "20s" },
        },
      });
      return jobId;
    },
    submitSmall: async (name) => {
      const { jobId } = await world.orbweaver.submit({
        name,
        gang: GPUS_PER_HOST,
        constraints: { sameHost: true },
        run: { launch: "per-host", command: ["sleep", "100000"], grace: "1s" },
      });
      return jobId;
    },
    cancel: async (job) => {
      await world.orbweaver.job(job).cancel();
    },
    startedOf: (name) => readStarts(notesOf(name)),
    lose: async (host, pids) => {
      const agent = agents.get(host);
      if (agent !== undefined) await endNow(agent);
      for (const pid of pids) killIfThere(pid);
      await world.orbweaver.fence([host], { isForced: true });
    },
    bringBack: startAgent,
    close: () => world.stop(),
  };
}

/** Says where it runs and what it resumes from, and waits; on the order to checkpoint it saves one step more. */
const rankScript = (notes: string): string => `
n=0; [ -z "$ORBWEAVER_CHECKPOINT" ] || n=$(cat "$ORBWEAVER_CHECKPOINT")
save() {
  own="$ORBWEAVER_CHECKPOINT_DIR/$ORBWEAVER_TOKEN"
  echo $((n + 1)) > "$own/$RANK.tmp" && mv "$own/$RANK.tmp" "$own/step-$RANK"
}
trap save USR1
echo "$ORBWEAVER_HOST $ORBWEAVER_LEASE_ID $n $$" >> '${notes}'
while :; do sleep 0.1; done`;

function readStarts(file: string): readonly Started[] {
  let text = "";
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
  return text
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => {
      const [host = "", lease = "", step, pid] = line.split(" ");
      return { host, lease, step: Number(step), pid: Number(pid) };
    });
}

function killIfThere(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
