/** Timers and the clock of this page; a test has one that it moves by hand. */
export interface ITimers {
  /** Milliseconds since 1970. */
  now(): number;
  after(milliseconds: number, call: () => void): number;
  cancel(timer: number): void;
}

export const pageTimers: ITimers = {
  now: () => Date.now(),
  after: (milliseconds, call) => window.setTimeout(call, milliseconds),
  cancel: timer => window.clearTimeout(timer)
};

/** Whether anybody can see the page, and word of when that changes. */
export interface IPageVisibility {
  visible(): boolean;
  onChange(call: () => void): void;
}

export const documentVisibility: IPageVisibility = {
  visible: () => document.visibilityState !== 'hidden',
  onChange: call => document.addEventListener('visibilitychange', call)
};
