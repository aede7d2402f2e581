export interface Room {
  readonly may: readonly string[];
  readonly packages?: readonly string[];
  readonly isPure?: boolean;
  readonly hasNoNode?: boolean;
}
export const ROOMS: Readonly<Record<string, Room>>;
export const OPEN_ROOMS: readonly string[];
