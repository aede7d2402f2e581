/** @file The faults of a world: each strikes once and passes after its time; when the world gets calm, all of them are over. */

import type { HostId, JobId } from "../domain/values/ids.ts";
import { fullMask } from "../lib/bits.ts";
import { isFields } from "../lib/fields.ts";
import { FLEET } from "./shells/site.ts";
import type { Checker } from "./checker/checker.ts";
import type { Host } from "./hosts/host.ts";
import type { Kernel } from "./kernel/kernel.ts";
import { CALM, type Network } from "./kernel/network.ts";
import type { Process } from "./kernel/process.ts";
import type { Scenes } from "./scenes.ts";
import { tellNews } from "./news.ts";
import { sendStrange } from "./strangers.ts";
import type { DrawnJob, Fault, HostileFault } from "./settings.ts";
import type { Server, Signal } from "./temporal/server.ts";

export interface FaultPorts {
  readonly kernel: Kernel;
  readonly network: Network;
  readonly server: Server;
  readonly hosts: ReadonlyMap<HostId, Host>;
  /** The agents, by their hosts. */
  readonly machines: ReadonlyMap<HostId, Process>;
  /** Workers of the control plane. */
  readonly control: readonly Process[];
  readonly refusing: Set<HostId>;
  readonly jobs: readonly DrawnJob[];
  readonly checker: Checker;
  readonly scenes: Scenes;
}

export interface Faults {
  readonly strike: (fault: Fault) => void;
  /** Everything comes back, but what an operator has turned off. */
  readonly calm: () => void;
  /** The machine is without power: nothing runs on it. */
  readonly turnOff: (host: Host) => void;
  readonly turnOn: (host: Host) => void;
}

const REBOOT_MS = 3_000;
/** After its return. */
const COPIES_AFTER_MS = [500, 8_000, 25_000] as const;
const LOOK_MS = 250;

export function createFaults(ports: FaultPorts): Faults {
  const { kernel, network, server, hosts, machines, control, refusing } = ports;
  const all = [...control, ...machines.values()];
  /** How many operators have turned each host off: no fault turns it on, and one operator not under another. */
  const off = new Map<HostId, number>();
  let isCalm = false;

  const restart = (process: Process): void => {
    const host = [...machines].find(([, each]) => each === process)?.[0];
    if (host === undefined || !off.has(host)) process.start();
  };
  const powerOff = (host: Host): void => {
    machines.get(host.id)?.crash();
    host.reboot();
  };
  const powerOn = (host: Host): void => {
    if (!off.has(host.id)) machines.get(host.id)?.start();
  };

  function strike(fault: Fault): void {
    if (isCalm) return;
    const process = all[fault.target % all.length];
    const host = [...hosts.values()][fault.target % hosts.size];
    if (process === undefined || host === undefined) return;
    const over = (end: () => void, afterMs = fault.forMs): void => kernel.after(afterMs, end);
    const tell = (whom: string): void =>
      kernel.tell("a fault", whom, () => `${fault.kind} for ${(fault.forMs / 1_000).toFixed(1)} s`);
    switch (fault.kind) {
      case "crash":
        tell(process.name);
        process.crash();
        return over(() => restart(process));
      case "pause":
        tell(process.name);
        return process.pause(fault.forMs);
      case "late":
        tell(process.name);
        network.setLate(process.name, fault.forMs);
        return over(() => network.setLate(process.name, 0));
      case "server-down":
        tell("server");
        network.setServer(false);
        server.loseUpdates();
        return over(() => {
          network.setServer(true);
          server.flush();
        });
      case "cut":
        tell(process.name);
        network.cut(process.name, fault.direction);
        return over(() => {
          network.heal(process.name);
          server.flush();
        });
      case "weather":
        tell("network");
        network.setWeather(fault);
        return over(() => network.setWeather(CALM));
      case "reboot":
        tell(host.id);
        powerOff(host);
        return over(() => powerOn(host), REBOOT_MS);
      case "gone": {
        const lost = hosts.get(fault.host);
        if (lost === undefined) return;
        kernel.tell("a fault", lost.id, () => "gone for ever");
        return turnOff(lost);
      }
      case "lose-disk":
        tell(host.id);
        machines.get(host.id)?.crash();
        host.lose("disk");
        return over(() => powerOn(host));
      case "abandon":
        tell(host.id);
        machines.get(host.id)?.crash();
        ports.scenes.abandon(host, fault.target, fault.isCancelled);
        return over(() => powerOn(host));
      case "copies":
        tell(host.id);
        machines.get(host.id)?.crash();
        host.lose(fault.loses);
        for (const afterMs of COPIES_AFTER_MS)
          over(() => ports.scenes.sendCopies(host), fault.forMs + afterMs);
        return over(() => powerOn(host));
      case "refuse":
        tell(host.id);
        refusing.add(host.id);
        return over(() => void refusing.delete(host.id));
      case "clock":
        tell("server");
        return server.jumpClock(fault.byMs);
      case "end-fleet":
        tell("fleet");
        return server.lastRun(FLEET)?.run.terminate();
      case "end-lobby": {
        const lobbies = server.openIds("lobby");
        tell("lobby");
        return server
          .openRun(lobbies[fault.target % Math.max(1, lobbies.length)] ?? "")
          ?.terminate();
      }
      case "end-job": {
        const id = ports.jobs[fault.target % ports.jobs.length]?.id ?? "";
        const run = server.openRun(id);
        if (run === undefined) return;
        tell(id);
        ports.checker.noteOrder(id as JobId, "terminate"); // as drawn
        return run.terminate();
      }
      default:
        return strikeHostile(fault, host);
    }
  }

  function leaveAgent(fault: Extract<Fault, { readonly kind: "news" }>, host: Host): void {
    const agent = machines.get(host.id);
    if (agent === undefined) return;
    const fleet = { id: FLEET, name: "default" };
    if (tellNews({ server, fleet, host, agent }, fault))
      kernel.after(fault.forMs, () => restart(agent));
  }

  function strikeHostile(fault: HostileFault, host: Host): void {
    const over = (end: () => void, afterMs = fault.forMs): void => kernel.after(afterMs, end);
    const tell = (whom: string): void => kernel.tell("a fault", whom, () => fault.kind);
    switch (fault.kind) {
      case "disk":
        kernel.tell("a fault", host.id, () => `its disk is ${fault.how}`);
        host.disk.set(fault.how);
        return over(() => host.disk.set("well"));
      case "gpu": {
        const mask = 1 << (Math.floor(fault.target / hosts.size) % host.gpuCount);
        if ((host.brokenGpus | mask) === fullMask(host.gpuCount)) return;
        tell(host.id);
        host.brokenGpus |= mask;
        return over(() => void (host.brokenGpus &= ~mask));
      }
      case "torn":
        tell(host.id);
        if (fault.isPowerLost) powerOff(host);
        else machines.get(host.id)?.crash();
        host.tear(fault.pattern);
        return over(() => powerOn(host));
      case "host-clock":
        tell(host.id);
        host.setClocks(fault);
        return over(() => host.setClocks({ byMs: -fault.byMs, rate: 1 }));
      case "words":
        return sendStrange(server, FLEET, fault);
      case "news":
        return leaveAgent(fault, host);
      case "reset-job": {
        const ids = server.openIds("job");
        const id = ids[fault.target % Math.max(1, ids.length)];
        if (id === undefined) return;
        tell(id);
        ports.checker.noteOrder(id as JobId, "reset"); // as drawn
        return server.reset(id);
      }
      case "reset-later": {
        const ids = server.openIds("job");
        const told = (id: string): number => server.openRun(id)?.signals().length ?? 0;
        const [first] = [...ids].sort((a, b) => told(b) - told(a));
        const id = fault.isMostTold ? first : ids[fault.target % Math.max(1, ids.length)];
        if (id === undefined) return;
        tell(id);
        ports.checker.noteOrder(id as JobId, "reset"); // as drawn
        if (fault.share > 0) ports.checker.jobReset(id);
        return server.reset(id, fault.share);
      }
      case "reset-called":
        return resetCalled(kernel.nowMs() + fault.forMs);
      case "next-batch":
        return ports.scenes.sendNextBatch(fault.target);
      case "lead-away":
        tell(host.id);
        machines.get(host.id)?.crash();
        ports.scenes.leadAway(host, fault);
        return over(() => powerOn(host));
      case "lead-full":
        tell(host.id);
        host.disk.set("full");
        ports.scenes.leadAway(host, fault);
        return over(() => host.disk.set("well"));
    }
  }

  function resetCalled(untilMs: number): void {
    if (isCalm || kernel.nowMs() > untilMs) return;
    const id = server
      .openIds("job")
      .find((each) => server.openRun(each)?.signals().some(isLaterCall) === true);
    if (id === undefined) return kernel.after(LOOK_MS, () => resetCalled(untilMs));
    kernel.tell("a fault", id, () => "reset-called");
    ports.checker.noteOrder(id as JobId, "reset"); // of a job
    server.reset(id);
  }

  function turnOff(host: Host): void {
    off.set(host.id, (off.get(host.id) ?? 0) + 1);
    powerOff(host);
  }

  return {
    strike,
    turnOff,
    turnOn: (host) => {
      const others = (off.get(host.id) ?? 1) - 1;
      if (others > 0) off.set(host.id, others);
      else off.delete(host.id);
      powerOn(host);
    },
    calm: () => {
      isCalm = true;
      network.setServer(true);
      network.setWeather(CALM);
      refusing.clear();
      for (const host of hosts.values()) {
        host.disk.set("well");
        host.brokenGpus = 0;
      }
      for (const process of all) {
        network.heal(process.name);
        network.setLate(process.name, 0);
        restart(process);
      }
      server.flush();
    },
  };
}

function isLaterCall({ name, payload }: Signal): boolean {
  const seq = isFields(payload) ? payload["seq"] : undefined;
  return name === "call-in" && typeof seq === "number" && seq > 1;
}
