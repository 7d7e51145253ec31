import * as real from "../../../controller/record/record-codec.ts";
import { withMore } from "./with-more.ts";

export const { decodeRecord, sameRecord } = real;

/** Stands in the place of the real one. */
export const encodeRecord: typeof real.encodeRecord = (record, writer) => {
  const value: unknown = JSON.parse(Buffer.from(real.encodeRecord(record, writer)).toString());
  return Buffer.from(JSON.stringify(withMore(value)));
};
