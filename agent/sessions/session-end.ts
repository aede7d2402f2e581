/** @file What an agent's part of a session is to the link that carries it: exec and port-forward have one form. */

export interface SessionPart {
  readonly onWord: (word: unknown) => void;
  readonly onData: (channel: number, bytes: Buffer, taken: () => void) => void;
  readonly onEnd: (channel: number) => void;
  readonly onRoom: (channel: number) => void;
  /** The session is over, or the client has been away for too long: nothing of it is left when this returns, or soon after. */
  readonly hangUp: () => void;
}

/** What a part says through its link. */
export interface SessionVoice {
  readonly say: (word: object) => void;
  readonly write: (channel: number, bytes: Buffer) => boolean;
  readonly end: (channel: number) => void;
  readonly open: (channel: number) => void;
  readonly drop: (channel: number) => void;
}
