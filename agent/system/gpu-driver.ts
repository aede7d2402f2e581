/**
 * @file Asks the machine's NVIDIA driver: by NVML, through the program of this installation (`agent/nvml/`, compiled by `tools/build.mjs`), else by `nvidia-smi`.
 *
 * Both answer the same words in the same form. NVML needs only the driver's library, and its interface is the one that its makers keep; `nvidia-smi` answers
 * whatever the program does not know, and wherever there is none, as on a machine without a C compiler.
 */

import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { hasErrorCode } from "../../lib/error-code.ts";

export interface DriverView {
  /** Where programs are looked for. */
  readonly path: string | undefined;
  /** The program that asks NVML; without one `nvidia-smi` alone is asked. */
  readonly nvml?: string;
  /** Where libraries are looked for first. */
  readonly libraries?: string;
}

export interface DriverAnswer {
  readonly by: "nvml" | "nvidia-smi";
  readonly text: string;
}

/** `auto` asks NVML where it is there, `off` asks `nvidia-smi` alone. */
export const NVML_VARIABLE = "ORBWEAVER_NVML";
/** How the program ends where the driver fails, as in `nvml.h`; its standard error says why. */
export const DRIVER_FAILS = 4;
const CHOICES: readonly string[] = ["auto", "off"];
const run = promisify(execFile);
/** A driver that hangs answers nobody. */
const PATIENCE_MS = 20_000;
const MOST_BYTES = 16 * 2 ** 20;

/** `root`: of the installation. Throws BAD_INPUT for a choice that there is not. */
export function driverView(env: NodeJS.ProcessEnv, root: string): DriverView {
  const asked = env[NVML_VARIABLE];
  const choice = asked === undefined || asked === "" ? "auto" : asked;
  if (!CHOICES.includes(choice))
    throw new OrbweaverError(
      "BAD_INPUT",
      `${NVML_VARIABLE} is ${JSON.stringify(choice)}; it may be ${CHOICES.join(", ")}`,
    );
  const libraries = env["LD_LIBRARY_PATH"];
  return {
    path: env["PATH"],
    ...(choice === "auto" && {
      nvml: join(root, "dist/agent/native", `nvml-${process.platform}-${process.arch}`),
    }),
    ...(libraries !== undefined && { libraries }),
  };
}

/** What the program that asks NVML sees of an environment. */
export const nvmlEnvironment = ({ libraries }: DriverView): NodeJS.ProcessEnv =>
  libraries === undefined ? {} : { LD_LIBRARY_PATH: libraries };

/** The driver's answer to words for `nvidia-smi`; undefined where there is no driver. Fails where it does. */
export async function askDriver(
  view: DriverView,
  words: readonly string[],
): Promise<DriverAnswer | undefined> {
  const { nvml, path } = view;
  let failure: Error | undefined;
  if (nvml !== undefined) {
    try {
      const text = await printed(nvml, words, nvmlEnvironment(view));
      return { by: "nvml", text };
    } catch (error) {
      failure = failureOf(error);
    }
  }
  const text = await askProgram(path, ["nvidia-smi", ...words]);
  if (text !== undefined) return { by: "nvidia-smi", text };
  if (failure !== undefined) throw failure;
  return undefined;
}

/** What a program of the machine's maker prints; undefined where there is none. Fails where it does. */
export async function askProgram(
  path: string | undefined,
  [program, ...words]: readonly [string, ...(readonly string[])],
): Promise<string | undefined> {
  try {
    return await printed(program, words, path === undefined ? {} : { PATH: path });
  } catch (error) {
    if (hasErrorCode(error, "ENOENT")) return undefined;
    throw error;
  }
}

const printed = async (
  program: string,
  words: readonly string[],
  env: NodeJS.ProcessEnv,
): Promise<string> =>
  (
    await run(program, words, {
      timeout: PATIENCE_MS,
      killSignal: "SIGKILL",
      maxBuffer: MOST_BYTES,
      env,
    })
  ).stdout;

/** Of the driver, which may also crash or hang. All other ends mean that the program cannot answer here. */
function failureOf(error: unknown): Error | undefined {
  if (!(error instanceof Error)) return undefined;
  if ("code" in error && error.code === DRIVER_FAILS)
    return new Error("stderr" in error ? String(error.stderr).trim() : error.message);
  if (!("signal" in error) || typeof error.signal !== "string") return undefined;
  return new Error(`NVML was asked, and its program ended by ${error.signal}`);
}
