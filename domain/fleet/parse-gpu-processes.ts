/** @file Reads which processes compute on the GPUs of a machine: the driver's answer to `GPU_PROCESS_WORDS`, a line for each process on each GPU. */

export interface GpuProcess {
  /** The GPU's; also of a process in one of its instances of MIG. */
  readonly uuid: string;
  readonly pid: number;
}

/** To `nvidia-smi`: the form that its makers keep for scripts. */
export const GPU_PROCESS_WORDS = [
  "--query-compute-apps=gpu_uuid,pid",
  "--format=csv,noheader",
] as const;

/** Lines of another form say nothing of a process. */
export const parseGpuProcesses = (answer: string): readonly GpuProcess[] =>
  [...answer.matchAll(/^(GPU-[0-9A-Fa-f-]+), *(\d{1,10})\s*$/gm)].map(([, uuid = "", pid]) => ({
    uuid,
    pid: Number(pid),
  }));
