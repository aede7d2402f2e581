/** @file The word of an agent's hosts about the GPUs of its launches: walled off, told by id, or neither. */
import { expect, it } from "vitest";
import { hostContainment } from "../../workers/host-containment.ts";

const gpu = { index: 0, uuid: "GPU-a", nodes: [] };
const wordOf = (gpus: readonly (typeof gpu & { readonly devices: readonly string[] })[]): string =>
  hostContainment({ hosts: [{ gpus }] }, undefined).word;

it("GPUs of which the machine says ids alone are told by id, and there is no wall", () => {
  expect(wordOf([{ ...gpu, devices: [] }])).toBe(`${wordOf([])}+ids`);
});
