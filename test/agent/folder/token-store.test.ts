import { describe, expect, it } from "vitest";
import { openTokenStore } from "../../../agent/folder/token-store.ts";
import { token } from "../../../domain/values/ids.ts";
import { FakeMachine, Killed, type FileStep } from "../fakes.ts";

const PATH = "/host/tokens.json";

/** A machine whose GPU 0 has seen token 5. */
async function machineAt5() {
  const machine = new FakeMachine();
  const { files } = machine.system();
  files.makeFolder("/host");
  await openTokenStore(files, PATH, 2).admit(token(5), 0b1);
  return machine;
}

const stepsOf = async (act: (machine: FakeMachine) => Promise<unknown>): Promise<FileStep[]> => {
  const machine = await machineAt5();
  const steps: FileStep[] = [];
  machine.faultOf = (step) => (steps.push(step), undefined);
  await act(machine);
  return steps;
};

const admit7 = (machine: FakeMachine) =>
  openTokenStore(machine.system().files, PATH, 2).admit(token(7), 0b11);

describe("the token store of an agent that is killed", () => {
  it("at any step of a write keeps every promise that was given, and opens again", async () => {
    const steps = await stepsOf(admit7);
    expect(steps.map(({ kind }) => kind)).toEqual(["write", "rename", "sync"]);
    for (const at of steps.keys()) {
      const machine = await machineAt5();
      let count = -1;
      machine.faultOf = () => ((count += 1) === at ? "cut" : undefined);
      await expect(admit7(machine)).rejects.toBeInstanceOf(Killed);
      machine.faultOf = () => undefined;

      const after = openTokenStore(machine.system().files, PATH, 2);
      expect(after.refusalOf(token(4), 0b1)).toBeDefined();
      // The promise of 7 was not given: either answer is right, but both GPUs must have the same.
      expect([5, 7]).toContain(after.highest());
      expect(after.refusalOf(token(6), 0b10) !== undefined).toBe(after.highest() === 7);
    }
  });
});

describe("the token store on a full disk", () => {
  it("promises nothing, and promises when there is room again", async () => {
    const machine = await machineAt5();
    const store = openTokenStore(machine.system().files, PATH, 2);
    machine.faultOf = () => "ENOSPC";
    await expect(store.admit(token(8), 0b10)).rejects.toMatchObject({ code: "ENOSPC" });
    machine.faultOf = () => undefined;
    expect(await store.admit(token(8), 0b10)).toBeUndefined();
    expect(openTokenStore(machine.system().files, PATH, 2).highest()).toBe(8);
  });
});
