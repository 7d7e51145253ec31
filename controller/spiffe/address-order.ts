import type { LookupAddress } from "node:dns";

/** In which order to try the addresses of a name, for one that dials it again and again. */
export type AddressOrder = {
  /** Those that did not fail first, then the others, the one that failed longest ago before the rest. */
  arrange(addresses: readonly LookupAddress[]): LookupAddress[];
  failed(address: string): void;
  succeeded(address: string): void;
};

export function createAddressOrder(): AddressOrder {
  // A Set keeps the order in which addresses failed.
  const failures = new Set<string>();
  return {
    arrange: (addresses) => {
      const order = [...failures];
      return addresses.toSorted((a, b) => order.indexOf(a.address) - order.indexOf(b.address));
    },
    failed: (address) => {
      failures.delete(address);
      failures.add(address);
    },
    succeeded: (address) => {
      failures.delete(address);
    },
  };
}
