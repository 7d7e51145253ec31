import { describeAsking } from "./asking.ts";
import { describeCreating } from "./creating.ts";
import { describeLiving } from "./living.ts";
import type { OpenSandboxUnderTest } from "./under-test.ts";

/**
 * What we rely on of an OpenSandbox server: the real one and the fake do the same, to our client and without it. `make` is
 * called for each test.
 */
export function describeOpenSandbox(make: () => Promise<OpenSandboxUnderTest>): void {
  describeCreating(make);
  describeLiving(make);
  describeAsking(make);
}
