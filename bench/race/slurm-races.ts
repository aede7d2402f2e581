/** @file The races as Slurm runs them: scripts of its own commands, with its own lists asked ten times a second for the end. */

import { GPUS_PER_HOST } from "../live/fleet.ts";
import type { Contestant } from "./races.ts";
import { HOSTS, type SlurmCluster } from "./slurm.ts";

const ALL_HOSTS = `-N${String(HOSTS)} --ntasks-per-node=1`;
const ALL_GPUS = `${ALL_HOSTS} --gres=gpu:${String(GPUS_PER_HOST)}`;
const CLIENTS = 8;
/** A host that has just been left is not idle yet. */
const UNTIL_IDLE = `until [ "$(sinfo -h -N -p low -t idle -o %N | wc -l)" = ${String(HOSTS)} ]; do sleep 0.1; done`;
const NOW = "$(( $(date +%s%N) / 1000 ))";
/** Jobs whose nodes are being cleaned have ended. */
const untilEnded = (which: string): string =>
  `while [ -n "$(squeue -h ${which} -t PD,CF,R,S,RQ -o %i)" ]; do sleep 0.1; done`;
const checkCompleted = (which: string, count: number, files: string): string => `
${UNTIL_IDLE}
completed=$(scontrol -o show job ${which} | grep -c 'JobState=COMPLETED.* ExitCode=0:0' || true)
[ "$completed" = ${String(count)} ] || { echo "Slurm completed $completed of ${String(count)}" >&2; exit 1; }
kept=$(ls out | grep -c "^${files}" || true)
[ "$kept" = ${String(count)} ] || { echo "Slurm kept $kept of ${String(count)} outputs" >&2; exit 1; }
`;

export function slurmContestant(cluster: SlurmCluster): Contestant {
  let race = 0;
  const timed = async (script: (tag: string) => string): Promise<number> => {
    race += 1;
    const said = await cluster.run(`${UNTIL_IDLE}\n${script(`r${String(race)}`)}`);
    return msOf(said);
  };
  return {
    name: `Slurm, ${cluster.settings.name}`,
    array: (tasks) =>
      timed(
        (tag) => `
began=${NOW}
job=$(sbatch --parsable --array=0-${String(tasks - 1)} -n1 --gres=gpu:1 -o out/${tag}-%a --wrap true)
${untilEnded("-j $job")}
ended=${NOW}
${checkCompleted("$job", tasks, `${tag}-`)}
echo $(( ended - began ))`,
      ),
    gangs: (count) =>
      timed(
        (tag) => `
began=${NOW}
job=$(sbatch --parsable --array=0-${String(count - 1)} ${ALL_GPUS} -o out/${tag}-%a --wrap 'srun true')
${untilEnded("-j $job")}
ended=${NOW}
${checkCompleted("$job", count, `${tag}-`)}
echo $(( ended - began ))`,
      ),
    jobs: (count) =>
      timed(
        (tag) => `
began=${NOW}
seq ${String(count)} | xargs -P ${String(CLIENTS)} -I{} sbatch --parsable -J ${tag} -n1 --gres=gpu:1 -o out/${tag}-{} --wrap true > ids-${tag}
${untilEnded(`-n ${tag}`)}
ended=${NOW}
[ "$(wc -l < ids-${tag})" = ${String(count)} ]
${UNTIL_IDLE}
scontrol -o show job | grep "JobName=${tag} " > all-${tag}
completed=$(grep -c 'JobState=COMPLETED.* ExitCode=0:0' all-${tag} || true)
[ "$completed" = ${String(count)} ] || { echo "Slurm completed $completed of ${String(count)}" >&2; exit 1; }
echo $(( ended - began ))`,
      ),
    start: () =>
      timed(
        (tag) => `
began=${NOW}
job=$(sbatch --parsable -n1 --gres=gpu:1 -o out/${tag} --wrap 'date +%s%N')
until [ -s out/${tag} ]; do sleep 0.1; done
${untilEnded("-j $job")}
echo $(( $(cat out/${tag}) / 1000 - began ))`,
      ),
    preempt: () =>
      timed(
        (tag) => `
victim=$(sbatch --parsable -p low ${ALL_GPUS} -o out/${tag}-victim --wrap 'echo runs; exec sleep 600')
until [ -s out/${tag}-victim ]; do sleep 0.1; done
sleep 2
began=${NOW}
job=$(sbatch --parsable -p high ${ALL_GPUS} -o out/${tag} --wrap 'date +%s%N')
until [ -s out/${tag} ]; do sleep 0.1; done
scancel $victim
${untilEnded("-j $job")}
echo $(( $(cat out/${tag}) / 1000 - began ))`,
      ),
    queue: async (jobs, lists) => {
      const fillMs = await timed(
        (tag) => `
sbatch -p low ${ALL_GPUS} -o out/${tag} --wrap 'echo runs; exec sleep 86400' >/dev/null
until [ -s out/${tag} ]; do sleep 0.1; done
began=${NOW}
seq ${String(jobs)} | xargs -P ${String(CLIENTS)} -I{} sbatch -J ${tag} -n1 --gres=gpu:1 -o out/${tag}-{} --wrap true >/dev/null
echo $(( ${NOW} - began ))`,
      );
      const said = await cluster.run(`
began=${NOW}
for list in $(seq ${String(lists)}); do squeue > listed; done
ended=${NOW}
# A heading, and the job that all wait for.
[ "$(wc -l < listed)" = ${String(jobs + 2)} ] || { echo "Slurm lists $(wc -l < listed) lines" >&2; exit 1; }
echo $(( ended - began ))`);
      return { fillMs, listMs: msOf(said) };
    },
  };
}

/** A script's last line is the time in microseconds. */
function msOf(said: string): number {
  const last = said.trim().split("\n").at(-1) ?? "";
  if (!/^\d+$/.test(last))
    throw new Error(`a script of Slurm's said ${JSON.stringify(last)}, which is no time`);
  return Number(last) / 1_000;
}
