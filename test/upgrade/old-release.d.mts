export interface OldRelease {
  readonly root: string;
  readonly from: "commit" | "packed";
  readonly remove: () => void;
}

export declare const OLD_COMMIT: string;
export declare const PACKED: string;
export declare function provideOldRelease(): OldRelease;
export declare function buildFromCommit(root: string): boolean;
