import { startKubernetes } from "../../scripts/peers/cluster/start-kubernetes.ts";

/** A program that starts a cluster in the folder of its argument, says its name, and runs until it is killed. */
const [folder = ""] = process.argv.slice(2);
const { signal } = new AbortController();
const { name } = await startKubernetes({ folder, trustDomain: "example.org" }, signal);
console.log(name);
