export type Owner = { readonly uid: number; readonly gid: number };

/**
 * Who has to become the owner of a workload's socket; undefined if it may stay ours. Throws if an entry names a uid
 * that we cannot give it to: served as our own, somebody else would get that identity.
 */
export function socketOwner(uid: number | null, own: Owner): Owner | undefined {
  if (uid === null || uid === own.uid) return undefined;
  if (own.uid !== 0) throw new Error(`only root can serve uid ${uid}, this runs as uid ${own.uid}`);
  return { uid, gid: own.gid };
}
