/**
 * @file Xids as the driver tells them to whoever asks through NVML, for an agent that may not read the kernel log: lines in that log's form, from a program
 * that runs as long as the log is open.
 *
 * Unlike the kernel log it has nothing of before its start. A program that ends, as with the driver, is started again a minute later at the earliest.
 */

import { spawn, type ChildProcess } from "node:child_process";
import type { Clock } from "../ports/clock.ts";
import { DRIVER_FAILS, nvmlEnvironment, type DriverView } from "./gpu-driver.ts";
import type { KernelLog, KernelRecord } from "./kernel-log.ts";

export interface XidLogPorts {
  readonly clock: Pick<Clock, "elapsedMs">;
  /** Once for each reason why there are none. */
  readonly onNote: (note: string) => void;
}

const AGAIN_MS = 60_000;
/** Between two reads; the driver tells of few, and more than that is one fault again and again. */
const MOST_RECORDS = 1_000;
const MOST_REST = 8_192;

export function openXidLog(view: DriverView, { clock, onNote }: XidLogPorts): KernelLog {
  let records: KernelRecord[] = [];
  let child: ChildProcess | undefined;
  let startedAtMs: number | undefined;
  let isClosed = false;
  let said = "";

  const ended = (why: string): void => {
    child = undefined;
    if (isClosed || why === said) return;
    said = why;
    onNote(`no Xid is seen through NVML: ${why}`);
  };

  const start = (program: string): void => {
    startedAtMs = clock.elapsedMs();
    let rest = "";
    let why = "";
    // Its standard input is closed with this process, whatever ends that, and the program ends then.
    const started = spawn(program, ["xids"], {
      env: nvmlEnvironment(view),
      stdio: "pipe",
    });
    child = started;
    started.stdout.setEncoding("utf8").on("data", (text: string) => {
      const lines = (rest + text).split("\n");
      rest = (lines.pop() ?? "").slice(-MOST_REST);
      records = [...records, ...lines.map((line) => ({ text: line }))].slice(-MOST_RECORDS);
    });
    started.stderr.setEncoding("utf8").on("data", (text: string) => {
      why = (why + text).slice(-MOST_REST);
    });
    let failure = "";
    started.once("error", (error) => (failure = String(error)));
    // Also of one that could not be started.
    started.once("close", (code) => {
      if (code === DRIVER_FAILS) failure = why.trim();
      ended(failure === "" ? `its program ended with status ${String(code)}` : failure);
    });
  };

  return {
    read: () => {
      const { nvml } = view;
      const isDue = startedAtMs === undefined || clock.elapsedMs() - startedAtMs >= AGAIN_MS;
      if (nvml === undefined) ended("it is not asked");
      else if (child === undefined && isDue && !isClosed) start(nvml);
      const read = records;
      records = [];
      return read;
    },
    close: () => {
      isClosed = true;
      child?.kill("SIGKILL");
    },
  };
}
