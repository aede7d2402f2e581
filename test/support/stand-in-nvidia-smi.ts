/** @file A stand-in for `nvidia-smi`: a script that answers `-q -x`, `-L`, `topo -m` and how much its GPUs are used as the driver does, and nothing else. */

import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export interface StandInGpu {
  readonly device: string;
  /** By which its id and bus address go, where that is not its place in the list. */
  readonly number?: number;
  readonly memory?: string;
  readonly watts?: string;
  /** Instances of MIG, each with memory of its own: how many, all of one profile, or the profile of each. */
  readonly instances?: number;
  readonly profile?: string | readonly string[];
  /** As the driver answers: percent, MiB, MiB, watts. */
  readonly use?: string;
  /** Processes that compute on it. */
  readonly computing?: readonly number[];
  /** Errors of its memory that could not be corrected, since the driver was loaded. */
  readonly uncorrected?: number;
}

const instance = (index: number): string => `
				<mig_device>
					<index>${index}</index>
					<gpu_instance_id>${index + 7}</gpu_instance_id>
					<compute_instance_id>0</compute_instance_id>
					<fb_memory_usage>
						<total>9856 MiB</total>
					</fb_memory_usage>
				</mig_device>`;

/** The elements that are read, in the order and among neighbours as the driver (550) prints them. */
export const deviceQuery = (gpus: readonly StandInGpu[]): string => `<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
	<driver_version>550.54.15</driver_version>
	<attached_gpus>${gpus.length}</attached_gpus>
${gpus
  .map(
    (
      { device, memory = "81559 MiB", watts = "700.00 W", instances = 0, uncorrected = 0, number },
      place,
    ) => `	<gpu id="00000000:${(number ?? place) + 1}8:00.0">
		<product_name>${device}</product_name>
		<mig_mode>
			<current_mig>${instances > 0 ? "Enabled" : "Disabled"}</current_mig>
		</mig_mode>
		<mig_devices>${instances > 0 ? Array.from({ length: instances }, (_, index) => instance(index)).join("") : "\n			None"}
		</mig_devices>
		<uuid>GPU-0000000${number ?? place}-1111-2222-3333-444444444444</uuid>
		<fb_memory_usage>
			<total>${memory}</total>
			<used>4 MiB</used>
		</fb_memory_usage>
		<ecc_errors>
			<volatile>
				<dram_correctable>0</dram_correctable>
				<dram_uncorrectable>${uncorrected}</dram_uncorrectable>
			</volatile>
		</ecc_errors>
		<gpu_power_readings>
			<default_power_limit>${watts}</default_power_limit>
		</gpu_power_readings>
	</gpu>`,
  )
  .join("\n")}
</nvidia_smi_log>
`;

/** As `nvidia-smi -L`. */
const deviceList = (gpus: readonly StandInGpu[]): string =>
  gpus
    .map(({ device, instances = 0, profile = "1g.10gb" }, at) =>
      [
        `GPU ${at}: ${device} (UUID: GPU-0000000${at}-1111-2222-3333-444444444444)\n`,
        ...Array.from(
          { length: instances },
          (_, index) =>
            `  MIG ${(typeof profile === "string" ? profile : (profile[index] ?? "")).padEnd(12)} Device ${String(index).padStart(2)}: (UUID: ${migUuid(at, index)})\n`,
        ),
      ].join(""),
    )
    .join("");

export const migUuid = (gpu: number, index: number): string =>
  `MIG-0000000${gpu}-aaaa-bbbb-cccc-00000000000${index}`;

const useLines = (gpus: readonly StandInGpu[]): string =>
  gpus
    .map(
      ({ use = "0, 4, 81559, 70.12", number }, place) =>
        `${use}, GPU-0000000${number ?? place}-1111-2222-3333-444444444444\n`,
    )
    .join("");

const computingLines = (gpus: readonly StandInGpu[]): string =>
  gpus
    .flatMap(({ computing = [] }, at) =>
      computing.map((pid) => `GPU-0000000${at}-1111-2222-3333-444444444444, ${pid}\n`),
    )
    .join("");

export const NV4_PAIR = "\tGPU0\tGPU1\nGPU0\t X \tNV4\nGPU1\tNV4\t X \n";

/** Makes it in the folder, which belongs on the PATH; again to change its answers. */
export function standInNvidiaSmi(
  bin: string,
  {
    gpus,
    topology = NV4_PAIR,
  }: { readonly gpus: readonly StandInGpu[]; readonly topology?: string },
): void {
  mkdirSync(bin, { recursive: true });
  const path = join(bin, "nvidia-smi");
  const say = (text: string): string => `/bin/cat <<'EOF'\n${text}EOF`;
  writeFileSync(
    path,
    `#!/bin/sh\ncase "$*" in\n"-q -x")\n${say(deviceQuery(gpus))}\n;;\n"-L")\n${say(deviceList(gpus))}\n;;\n"topo -m")\n${say(topology)}\n;;\n--query-gpu=utilization*)\n${say(useLines(gpus))}\n;;\n--query-compute-apps=*)\n${say(computingLines(gpus))}\n;;\n*) exit 3 ;;\nesac\n`,
  );
  chmodSync(path, 0o755);
}
