import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { createAddressOrder } from "../../../controller/spiffe/address-order.ts";

const addresses = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map((address) => ({ address, family: 4 }));

describe("order of addresses", () => {
  const arranged = (order: ReturnType<typeof createAddressOrder>) =>
    order.arrange(addresses).map(({ address }) => address);

  it("is the resolver's own until one fails", () => {
    assert.deepEqual(arranged(createAddressOrder()), ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
  });

  it("puts those that failed last, the latest at the very end, so that each gets its turn", () => {
    const order = createAddressOrder();
    order.failed("10.0.0.1");
    assert.deepEqual(arranged(order), ["10.0.0.2", "10.0.0.3", "10.0.0.1"]);
    order.failed("10.0.0.2");
    order.failed("10.0.0.3");
    assert.deepEqual(arranged(order), ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
    order.failed("10.0.0.1");
    assert.deepEqual(arranged(order), ["10.0.0.2", "10.0.0.3", "10.0.0.1"]);
  });

  it("forgives an address that works again", () => {
    const order = createAddressOrder();
    order.failed("10.0.0.1");
    order.succeeded("10.0.0.1");
    assert.deepEqual(arranged(order), ["10.0.0.1", "10.0.0.2", "10.0.0.3"]);
  });
});
