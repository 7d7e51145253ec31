/** What the demo and most tests run against. */
export const platformPeers = ["gitea", "gitea-runner", "nats-server", "spire-server", "spire-agent"] as const;

/** What a cluster consists of besides; it takes long to build. */
export const clusterPeers = [
  "etcd",
  "kube-apiserver",
  "kube-controller-manager",
  "kube-scheduler",
  "kubelet",
  "spire-controller-manager",
  "csi-stand-in",
] as const;

/** What `npm run test:pulumi` runs besides nats-server, etcd, kube-apiserver and kube-controller-manager. */
export const infraPeers = ["pulumi", "pulumi-resource-kubernetes"] as const;

/** What `npm run lint:workflows` runs. */
export const lintPeers = ["actionlint"] as const;

/** What container images are built with. */
export const imagePeers = ["buildkitd", "buildx"] as const;

/** What builds images where a stack says so: only the tests of that need it. */
export const imageProviders = ["pulumi-resource-docker-build"] as const;

/** The real programs that demo and tests run against; a folder beside this file pins each. */
export const peerNames = [
  ...platformPeers,
  ...clusterPeers,
  ...infraPeers,
  ...imagePeers,
  ...imageProviders,
  ...lintPeers,
] as const;
export type PeerName = (typeof peerNames)[number];

/** Where a peer came from; `built` means that this very call built it into the cache. */
export type PeerSource = "environment" | "path" | "cache" | "built";

export type Peer = {
  readonly name: PeerName;
  /** Without a leading `v`. From the environment it may differ from the pin, and be `unknown`. */
  readonly version: string;
  /** Absolute path of the program. */
  readonly binary: string;
  readonly source: PeerSource;
};

/** Whether Gitea's pages work in a browser: its module brings the sources of the front end, not the built files. */
export type WebPage = { readonly built: true } | { readonly built: false; readonly reason: string };

export type GiteaPeer = Peer & {
  /** Folder with `templates`, `options` and `public`; undefined where the binary is trusted to know its own. */
  readonly staticRoot: string | undefined;
  readonly webPage: WebPage;
};

/** How a peer is recognised and built. */
export type PeerRecipe = {
  /** Environment variable that names a binary to use instead. */
  readonly variable: string;
  /** The folder with its go.mod; the peer's name unless given. */
  readonly folder?: string;
  /** Module in the peer's go.mod whose version is the pin. Without one the program is ours, and its source is. */
  readonly module?: string;
  /** Go package that is built; `.` is a source of ours. */
  readonly package: string;
  /** What that source embeds of modules in its go.mod, by the name beside it; nothing of theirs is kept here. */
  readonly embedded?: Readonly<Record<string, { readonly module: string; readonly file: string }>>;
  readonly tags: readonly string[];
  /** True: without a C compiler the build is to fail, not to leave something out. False: needs none, whatever is there. */
  readonly cgo?: boolean;
  /** Linker flags that make `--version` tell the pin. */
  readonly linkerFlags: (version: string) => string;
  /** What makes it tell its version, where that is not `--version`. */
  readonly versionArgs?: readonly string[];
  /** It has no `--version`: one on PATH is never taken, and of one from the environment the version stays unknown. */
  readonly tellsNoVersion?: true;
};

export const giteaModule = "gitea.dev";
const giteaTags = ["sqlite", "sqlite_unlock_notify"];

export const peerRecipes: Readonly<Record<PeerName, PeerRecipe>> = {
  gitea: {
    variable: "GITEA_BINARY",
    module: giteaModule,
    package: giteaModule,
    tags: giteaTags,
    linkerFlags: (version) => `-X main.Version=${version} -X 'main.Tags=${giteaTags.join(" ")}'`,
  },
  "gitea-runner": {
    variable: "GITEA_RUNNER_BINARY",
    module: "gitea.com/gitea/runner",
    package: "gitea.com/gitea/runner",
    tags: [],
    linkerFlags: (version) => `-X gitea.com/gitea/runner/internal/pkg/ver.version=v${version}`,
  },
  "nats-server": {
    variable: "NATS_SERVER_BINARY",
    module: "github.com/nats-io/nats-server/v2",
    package: "github.com/nats-io/nats-server/v2",
    tags: [],
    linkerFlags: () => "",
  },
  "spire-server": { ...spire("spire-server"), variable: "SPIRE_SERVER_BINARY" },
  "spire-agent": { ...spire("spire-agent"), variable: "SPIRE_AGENT_BINARY" },
  etcd: {
    variable: "ETCD_BINARY",
    module: "go.etcd.io/etcd/server/v3",
    package: "go.etcd.io/etcd/server/v3",
    tags: [],
    cgo: false,
    linkerFlags: () => "",
  },
  "kube-apiserver": { ...kubernetes("kube-apiserver"), variable: "KUBE_APISERVER_BINARY" },
  "kube-controller-manager": {
    ...kubernetes("kube-controller-manager"),
    variable: "KUBE_CONTROLLER_MANAGER_BINARY",
  },
  "kube-scheduler": { ...kubernetes("kube-scheduler"), variable: "KUBE_SCHEDULER_BINARY" },
  kubelet: { ...kubernetes("kubelet"), variable: "KUBELET_BINARY" },
  "spire-controller-manager": {
    variable: "SPIRE_CONTROLLER_MANAGER_BINARY",
    module: "github.com/spiffe/spire-controller-manager",
    package: "github.com/spiffe/spire-controller-manager/cmd",
    tags: [],
    cgo: false,
    linkerFlags: () => "",
    tellsNoVersion: true,
  },
  "csi-stand-in": {
    variable: "CSI_STAND_IN_BINARY",
    package: ".",
    tags: [],
    cgo: false,
    linkerFlags: () => "",
    tellsNoVersion: true,
  },
  pulumi: {
    variable: "PULUMI_BINARY",
    module: "github.com/pulumi/pulumi/pkg/v3",
    package: "github.com/pulumi/pulumi/pkg/v3/cmd/pulumi",
    tags: [],
    cgo: false,
    linkerFlags: (version) => `-X github.com/pulumi/pulumi/sdk/v3/go/common/version.Version=v${version}`,
  },
  actionlint: {
    variable: "ACTIONLINT_BINARY",
    module: "github.com/rhysd/actionlint",
    package: "github.com/rhysd/actionlint/cmd/actionlint",
    tags: [],
    cgo: false,
    linkerFlags: (version) => `-X github.com/rhysd/actionlint.version=${version}`,
  },
  buildkitd: {
    variable: "BUILDKITD_BINARY",
    module: "github.com/moby/buildkit",
    package: "github.com/moby/buildkit/cmd/buildkitd",
    tags: [],
    cgo: false,
    linkerFlags: (version) => `-X github.com/moby/buildkit/version.Version=v${version}`,
  },
  buildx: {
    variable: "BUILDX_BINARY",
    module: "github.com/docker/buildx",
    package: "github.com/docker/buildx/cmd/buildx",
    tags: [],
    cgo: false,
    linkerFlags: (version) => `-X github.com/docker/buildx/version.Version=v${version}`,
    versionArgs: ["version"],
  },
  // Its own main needs files that its module does not have. The provider's module has no release; its SDK's has.
  "pulumi-resource-kubernetes": {
    variable: "PULUMI_RESOURCE_KUBERNETES_BINARY",
    module: "github.com/pulumi/pulumi-kubernetes/sdk/v4",
    package: ".",
    embedded: {
      "schema.json": {
        module: "github.com/pulumi/pulumi-kubernetes/provider/v4",
        file: "cmd/pulumi-resource-kubernetes/schema.json",
      },
    },
    tags: [],
    cgo: false,
    linkerFlags: (version) => `-X main.version=${version}`,
    tellsNoVersion: true,
  },
  "pulumi-resource-docker-build": {
    variable: "PULUMI_RESOURCE_DOCKER_BUILD_BINARY",
    module: "github.com/pulumi/pulumi-docker-build",
    package: "github.com/pulumi/pulumi-docker-build/provider/cmd/pulumi-resource-docker-build",
    tags: [],
    cgo: false,
    linkerFlags: (version) => `-X github.com/pulumi/pulumi-docker-build/provider.Version=${version}`,
    tellsNoVersion: true,
  },
};

/**
 * Two programs of one module, which share a go.mod and most of what is compiled. The server's SQLite is written in
 * C; the agent has none, but built without C it would share nothing.
 */
function spire(program: string): Omit<PeerRecipe, "variable"> {
  return {
    folder: "spire",
    module: "github.com/spiffe/spire",
    package: `github.com/spiffe/spire/cmd/${program}`,
    tags: [],
    cgo: true,
    linkerFlags: (version) => `-X github.com/spiffe/spire/pkg/common/version.gittag=${version}`,
  };
}

/** Four programs of one module. Without these flags they tell a version that is none, and think themselves old. */
function kubernetes(program: string): Omit<PeerRecipe, "variable"> {
  const variable = "k8s.io/component-base/version.git";
  return {
    folder: "kubernetes",
    module: "k8s.io/kubernetes",
    package: `k8s.io/kubernetes/cmd/${program}`,
    tags: [],
    cgo: false,
    linkerFlags: (version) => {
      const [major = "", minor = ""] = version.split(".");
      return `-X ${variable}Version=v${version} -X ${variable}Major=${major} -X ${variable}Minor=${minor}`;
    },
  };
}

/** Whether a word, for instance from the command line, names a peer. */
export function isPeerName(word: string): word is PeerName {
  return (peerNames as readonly string[]).includes(word);
}
