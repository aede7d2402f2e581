import { describe, expect, it } from "vitest";
import { createJsonOnce, readJson, replaceJson } from "../../../agent/folder/json-files.ts";
import { FakeMachine, type FileStep } from "../fakes.ts";

const PATH = "/launch/claim.json";

function machineWithFolder() {
  const machine = new FakeMachine();
  machine.system().files.makeFolder("/launch");
  return machine;
}

describe("a file that a killed program was writing", () => {
  it.each([
    { name: "is the old one or the new one", write: replaceJson, before: "old" },
    { name: "is absent or whole", write: createJsonOnce, before: undefined },
  ])("$name at every step", ({ write, before }) => {
    const steps: FileStep[] = [];
    for (let at = 0; at === 0 || at < steps.length; at += 1) {
      const machine = machineWithFolder();
      const { files } = machine.system();
      if (before !== undefined) replaceJson(files, PATH, before);
      steps.length = 0;
      machine.faultOf = (step) => {
        steps.push(step);
        return steps.length - 1 === at ? "cut" : undefined;
      };
      expect(() => write(files, PATH, "new")).toThrow();
      expect([before, "new"]).toContain(readJson(machine.system().files, PATH));
    }
  });
});

describe("of two programs that create one file", () => {
  it("one succeeds, whatever the other has left behind", () => {
    const machine = machineWithFolder();
    machine.faultOf = ({ kind }) => (kind === "link" ? "cut" : undefined);
    expect(() => createJsonOnce(machine.system().files, PATH, "killed")).toThrow();
    machine.faultOf = () => undefined;
    expect(createJsonOnce(machine.system().files, PATH, "first")).toBe(true);
    expect(createJsonOnce(machine.system().files, PATH, "second")).toBe(false);
    expect(readJson(machine.system().files, PATH)).toBe("first");
  });
});
