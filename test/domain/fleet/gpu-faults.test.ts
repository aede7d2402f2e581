/** @file Faults of GPUs: by the driver's answer, and by the lines that it writes to the kernel log. */
import { describe, expect, it } from "vitest";
import { parseGpuFaults } from "../../../domain/fleet/gpu-faults.ts";
import { parseXid, plainBusId, xidKind } from "../../../domain/fleet/xid.ts";

/** One GPU with these elements, in the names of release 550. */
const answer = (inside: string): string => `<?xml version="1.0" ?>
<nvidia_smi_log>
	<gpu id="00000000:3B:00.0">
		<product_name>NVIDIA H100 80GB HBM3</product_name>
		<mig_devices>
			<mig_device><ecc_error_count><volatile_count><sram_uncorrectable>9</sram_uncorrectable></volatile_count></ecc_error_count></mig_device>
		</mig_devices>
${inside}
	</gpu>
</nvidia_smi_log>
`;
const ecc = (volatile: string, aggregate = ""): string =>
  `<ecc_errors><volatile>${volatile}</volatile><aggregate>${aggregate}</aggregate></ecc_errors>`;
const fabric = (state: string, status: string): string =>
  `<fabric><state>${state}</state><status>${status}</status></fabric>`;
const rows = (pending: string, failure: string): string =>
  `<remapped_rows><remapped_row_corr>4</remapped_row_corr><remapped_row_unc>1</remapped_row_unc><remapped_row_pending>${pending}</remapped_row_pending><remapped_row_failure>${failure}</remapped_row_failure></remapped_rows>`;

describe("the driver's answer", () => {
  it.each<[string, string, { faults?: string[]; limits?: string[]; beyond?: string[] }]>([
    ["nothing", "", {}],
    ["a fabric that it has joined", fabric("Completed", "Success"), {}],
    ["no fabric", fabric("N/A", "N/A"), {}],
    [
      "a fabric that it has not joined",
      fabric("In Progress", "N/A"),
      { beyond: ["it is not in NVLink's fabric: In Progress"] },
    ],
    [
      "a fabric that does not work",
      fabric("Completed", "Insufficient Resources"),
      { beyond: ["NVLink's fabric: Insufficient Resources"] },
    ],
    [
      "corrected errors, errors of the past, and rows that were remapped",
      ecc(
        "<dram_correctable>7</dram_correctable><dram_uncorrectable>0</dram_uncorrectable>",
        "<dram_uncorrectable>3</dram_uncorrectable>",
      ) + rows("No", "No"),
      {},
    ],
    [
      "uncorrected errors",
      ecc(
        "<sram_uncorrectable_parity>1</sram_uncorrectable_parity><dram_uncorrectable>2</dram_uncorrectable>",
      ),
      { faults: ["3 uncorrected ECC errors"] },
    ],
    [
      "an uncorrected error, by an old driver",
      ecc("<double_bit><device_memory>1</device_memory><total>1</total></double_bit>"),
      { faults: ["1 uncorrected ECC error"] },
    ],
    ["errors that are not counted", ecc("<dram_uncorrectable>N/A</dram_uncorrectable>"), {}],
    ["a row that waits", rows("Yes", "No"), { limits: ["a row waits for a reset to be remapped"] }],
    ["a row that failed", rows("No", "Yes"), { faults: ["a bad row could not be remapped"] }],
    [
      "a page that waits",
      "<retired_pages><pending_blacklist>Yes</pending_blacklist></retired_pages>",
      { limits: ["a page waits for a reset to be retired"] },
    ],
    [
      "a slowdown by heat",
      "<clocks_event_reasons><clocks_event_reason_hw_thermal_slowdown>Active</clocks_event_reason_hw_thermal_slowdown></clocks_event_reasons>",
      { limits: ["hardware thermal slowdown"] },
    ],
    [
      "the same by an old driver, beside one by software",
      "<clocks_throttle_reasons><clocks_throttle_reason_sw_power_cap>Active</clocks_throttle_reason_sw_power_cap><clocks_throttle_reason_hw_power_brake_slowdown>Active</clocks_throttle_reason_hw_power_brake_slowdown></clocks_throttle_reasons>",
      { beyond: ["hardware power brake slowdown"] },
    ],
    [
      "the driver's word",
      "<gpu_recovery_action>Reset</gpu_recovery_action>",
      { limits: ["the driver asks for: Reset"] },
    ],
    [
      "the driver's word about more than the GPU",
      "<gpu_recovery_action>Reboot</gpu_recovery_action>",
      { beyond: ["the driver asks for: Reboot"] },
    ],
  ])("tells of %s", (_, inside, { faults = [], limits = [], beyond = [] }) => {
    expect(parseGpuFaults(answer(inside))).toEqual([{ busId: "0:3b:00", faults, limits, beyond }]);
  });

  it("is none where it has another form", () => {
    expect(parseGpuFaults("Unable to determine the device handle")).toBeUndefined();
  });
});

describe("a line of the kernel log", () => {
  it.each([
    [
      "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
      {
        busId: "0:3b:00",
        xid: 79,
        text: "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
      },
      "hardware",
    ],
    [
      "NVRM: Xid (PCI:0000:AF:00.0): 31, pid=417, name=python, Ch 00000008, MMU Fault",
      { busId: "0:af:00", xid: 31, text: "pid=417, name=python, Ch 00000008, MMU Fault" },
      "application",
    ],
    ["NVRM: Xid (PCI:0001:00:01): 63", { busId: "1:00:01", xid: 63, text: "" }, "other"],
  ])("%s", (line, want, kind) => {
    expect(parseXid(line)).toEqual(want);
    expect(xidKind(want.xid)).toBe(kind);
  });

  it.each(["", "usb 1-1: new device", "NVRM: loading NVIDIA UNIX x86_64 Kernel Module"])(
    "%j tells of none",
    (line) => {
      expect(parseXid(line)).toBeUndefined();
    },
  );

  it("names a device as the driver does", () => {
    expect(plainBusId("00000000:3B:00.0")).toBe(plainBusId("0000:3b:00"));
  });
});
