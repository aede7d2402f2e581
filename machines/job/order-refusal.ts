/** @file Why a job or an array does not carry out an order. */

export interface OrderRefusal {
  readonly code: "BAD_INPUT" | "NOT_ALLOWED";
  readonly message: string;
}

export const notAllowed = (message: string): OrderRefusal => ({ code: "NOT_ALLOWED", message });
