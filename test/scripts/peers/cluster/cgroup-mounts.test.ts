import assert from "node:assert/strict";
import { describe, it } from "mocha";
import { parseCgroupMounts } from "../../../../scripts/peers/cluster/cgroup-mounts.ts";

describe("the mounts of cgroups", () => {
  it("are told by controller in version 1, also where two share a hierarchy, with version 2 beside them", () => {
    const mounts = parseCgroupMounts(
      [
        "24 22 0:21 / /sys/fs/cgroup rw,nosuid - tmpfs tmpfs rw,mode=755",
        "25 24 0:22 / /sys/fs/cgroup/unified rw,nosuid - cgroup2 cgroup2 rw,nsdelegate",
        "26 24 0:23 / /sys/fs/cgroup/systemd rw,nosuid shared:9 - cgroup cgroup rw,xattr,name=systemd",
        "27 24 0:24 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct",
        "28 24 0:25 / /sys/fs/cgroup/net_cls rw - cgroup cgroup rw,net_cls",
        "",
      ].join("\n"),
    );
    assert.deepEqual(
      [...mounts.v1],
      [
        ["systemd", "/sys/fs/cgroup/systemd"],
        ["cpu", "/sys/fs/cgroup/cpu,cpuacct"],
        ["cpuacct", "/sys/fs/cgroup/cpu,cpuacct"],
      ],
    );
    assert.deepEqual(mounts.v2, ["/sys/fs/cgroup/unified"]);
  });

  it("have none of version 1 where there is only version 2", () => {
    const mounts = parseCgroupMounts("30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n");
    assert.deepEqual([...mounts.v1], []);
    assert.deepEqual(mounts.v2, ["/sys/fs/cgroup"]);
  });
});
