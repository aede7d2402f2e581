/**
 * @file Debian's Slurm in a throw-away root: one controller and four hosts of 8 fake GPUs, all on this machine.
 *
 * Clusters of several settings may run side by side, on ports of their own; those that have nothing to do cost next to nothing. Jobs
 * are tracked by cgroup, as the product's are; there is no accounting, whose database is more than a scheduler needs.
 */

import { join } from "node:path";
import { GPUS_PER_HOST } from "../live/fleet.ts";
import type { ThrowawayRoot } from "./throwaway-root.ts";

export interface SlurmSettings {
  readonly name: string;
  /** Lines of slurm.conf beside what four hosts with GPUs need. */
  readonly lines: readonly string[];
}

const EAGER =
  "batch_sched_delay=0,sched_min_interval=0,sched_interval=1,bf_interval=1,default_queue_depth=1000";
const QUIET = ["SlurmctldDebug=error", "SlurmdDebug=error"] as const;

export const DEFAULTS: SlurmSettings = { name: "defaults", lines: [] };
/** Each race takes the one that is fastest in it. */
export const TUNED: readonly SlurmSettings[] = [
  { name: "eager", lines: [`SchedulerParameters=${EAGER}`, "MaxJobCount=50000"] },
  {
    name: "eager, deferred",
    lines: [`SchedulerParameters=defer,${EAGER}`, "MaxJobCount=50000", ...QUIET],
  },
  {
    name: "eager, no backfill, quiet",
    lines: ["SchedulerType=sched/builtin", `SchedulerParameters=${EAGER}`, "MaxJobCount=50000", ...QUIET], // prettier-ignore
  },
];

export const HOSTS = 4;
const PORTS_EACH = HOSTS + 1;
const FIRST_PORT = 26_817;

/** Installs the packages; the version of Slurm. Throws with the reason when that cannot be done here. */
export async function installSlurm(root: ThrowawayRoot): Promise<string> {
  // Daemons of packages must not start by themselves.
  return (
    await root.run(`
command -v apt-get >/dev/null || { echo "there is no apt-get: Debian's packages cannot be installed" >&2; exit 1; }
export DEBIAN_FRONTEND=noninteractive
printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d
chmod +x /usr/sbin/policy-rc.d
apt-get update -qq >/dev/null
apt-get install -qq -y --no-install-recommends slurmctld slurmd slurm-client munge >/dev/null
mkdir -p /run/munge
munged --force 2>/dev/null
grep -q " $(hostname -s)$" /etc/hosts || echo "127.0.0.1 $(hostname -s)" >> /etc/hosts
slurmctld -V
`)
  ).trim();
}

export interface SlurmCluster {
  readonly settings: SlurmSettings;
  /** Runs a script of bash with Slurm's commands in the cluster's folder. */
  run(script: string): Promise<string>;
  stop(): Promise<void>;
}

let clusters = 0;

/** Starts a fresh cluster below `folder`, which must be shared between root and machine; all hosts are idle when it returns. */
export async function startSlurm(
  root: ThrowawayRoot,
  folder: string,
  settings: SlurmSettings,
): Promise<SlurmCluster> {
  clusters += 1;
  const name = `race${String(clusters)}`;
  const dir = join(folder, name);
  const port = FIRST_PORT + clusters * PORTS_EACH;
  await root.run(startScript({ dir, name, port, settings }));
  return {
    settings,
    run: (script) => root.run(`export SLURM_CONF=${dir}/slurm.conf\ncd ${dir}\n${script}`),
    stop: async () => {
      await root.run(`
for file in ${dir}/*.pid; do kill -9 "$(cat "$file")" 2>/dev/null || true; done
pkill -9 -f 'slurmstepd.*' || true
`);
    },
  };
}

function startScript(of: {
  readonly dir: string;
  readonly name: string;
  readonly port: number;
  readonly settings: SlurmSettings;
}): string {
  const { dir, name, port, settings } = of;
  const last = String(HOSTS - 1);
  return `
mkdir -p ${dir}/{state,spool,log,out}
for gpu in $(seq 0 ${String(GPUS_PER_HOST - 1)}); do mknod ${dir}/gpu$gpu c 195 $gpu; done
cat > ${dir}/slurm.conf <<CONF
ClusterName=${name}
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort=${String(port)}
StateSaveLocation=${dir}/state
SlurmdSpoolDir=${dir}/spool/%n
SlurmctldPidFile=${dir}/controller.pid
SlurmdPidFile=${dir}/%n.pid
SlurmctldLogFile=${dir}/log/controller.log
SlurmdLogFile=${dir}/log/%n.log
ProctrackType=proctrack/cgroup
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
GresTypes=gpu
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=${name}n[0-${last}] NodeHostname=$(hostname -s) NodeAddr=127.0.0.1 Port=[${String(port + 1)}-${String(port + HOSTS)}] CPUs=16 RealMemory=1000 Gres=gpu:${String(GPUS_PER_HOST)} State=UNKNOWN
PartitionName=low Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=0
PartitionName=high Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF GraceTime=0
${settings.lines.join("\n")}
CONF
cat > ${dir}/gres.conf <<CONF
AutoDetect=off
NodeName=${name}n[0-${last}] Name=gpu File=${dir}/gpu[0-${String(GPUS_PER_HOST - 1)}]
CONF
printf 'CgroupMountpoint=/sys/fs/cgroup\\nCgroupAutomount=no\\n' > ${dir}/cgroup.conf
export SLURM_CONF=${dir}/slurm.conf
slurmctld >/dev/null 2>&1
for host in $(seq 0 ${last}); do
  mkdir -p ${dir}/spool/${name}n$host
  slurmd -N ${name}n$host -f ${dir}/slurm.conf >/dev/null 2>&1
done
for try in $(seq 300); do
  [ "$(sinfo -h -N -p low -t idle -o %N 2>/dev/null | wc -l)" = ${String(HOSTS)} ] && exit 0
  sleep 0.2
done
echo "hosts of Slurm did not become idle within 60 s: $(tail -n 2 ${dir}/log/*n0.log | tr '\\n' ' ')" >&2
exit 1
`;
}
