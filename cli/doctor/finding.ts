/** @file What `orbweaver doctor` found in one respect. */

export interface Finding {
  /** Of what: a word. */
  readonly check: string;
  /** `warning`: it works, but should be known. */
  readonly verdict: "ok" | "warning" | "problem";
  readonly text: string;
  readonly remedy?: string;
}

export const ok = (check: string, text: string): Finding => ({ check, verdict: "ok", text });

export const warning = (check: string, text: string, remedy: string): Finding => {
  return { check, verdict: "warning", text, remedy };
};

export const problem = (check: string, text: string, remedy: string): Finding => {
  return { check, verdict: "problem", text, remedy };
};

/** With its cause: the client says no more than which call failed. */
function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { message, cause } = error;
  return cause instanceof Error ? `${message} (${cause.message})` : message;
}

/** A check that throws is a problem with the thrown reason. */
export async function checked(
  check: string,
  remedy: string,
  look: () => Finding | Promise<Finding>,
): Promise<Finding> {
  try {
    return await look();
  } catch (error) {
    return problem(check, reasonOf(error), remedy);
  }
}
