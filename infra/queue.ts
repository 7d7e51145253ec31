import { ComponentResource, type ComponentResourceOptions, type Input } from "@pulumi/pulumi";
import { Consumer, JetStream, KeyValue, Stream } from "./jetstream/resources.ts";
import type { Names } from "./names.ts";
import type { Settings } from "./settings.ts";

export type QueueArgs = {
  readonly names: Names;
  readonly settings: Pick<Settings, "nats" | "components" | "pod" | "vm" | "protect">;
  readonly password: Input<string>;
};

const minute = 60;
const hour = 60 * minute;
const day = 24 * hour;

/**
 * What JetStream holds for the controller, which checks it at its start and makes none of it: the stream of
 * assignments with a consumer for each backend, the bucket of records, the stream of events. What holds jobs is
 * protected where the stack says so.
 */
export class Queue extends ComponentResource {
  constructor(name: string, { names, settings, password }: QueueArgs, options?: ComponentResourceOptions) {
    super("gitea-dynamic-runner:index:Queue", name, {}, options);
    const { nats, protect } = settings;
    const server = new JetStream(
      "jetstream",
      {
        servers: nats.provisionUrl ?? nats.url,
        user: nats.user,
        password,
        ...(nats.ca === undefined ? {} : { ca: nats.ca }),
      },
      { parent: this },
    );
    const { replicas, adopt } = nats;
    const stored = { parent: this, provider: server, protect };
    const assignments = new Stream(
      "assignments",
      {
        name: names.stream,
        subjects: [`${names.subjectBase}.*`],
        retention: "workqueue",
        // A full stream refuses, it never forgets a job.
        discard: "new",
        duplicateWindowSeconds: hour,
        replicas,
        adopt,
        description: "jobs of gitea-dynamic-runner that wait for an executor",
      },
      stored,
    );
    for (const [backend, capacity] of Object.entries(capacities(settings)))
      new Consumer(
        backend,
        {
          // By way of the stream itself: a new stream has no consumers, so they are to be made anew with it.
          stream: assignments.name,
          durable: backend,
          filterSubject: `${names.subjectBase}.${backend}`,
          ackWaitSeconds: minute,
          maxDeliver: 1000,
          maxAckPending: capacity,
          adopt,
        },
        // Not deletedWith: a stream that is not removed because of its jobs would keep consumers that Pulumi has forgotten.
        { parent: this, provider: server },
      );
    new KeyValue(
      "state",
      {
        bucket: names.stateBucket,
        replicas,
        adopt,
        // Who leads, or led last. Without it a queue that was ever used could not be taken away.
        worthless: ["leader"],
        // The controller reads the last value of a record: whoever made the server keep more has kept nothing of use.
        worthlessHistory: true,
        description: "records of jobs",
      },
      stored,
    );
    new Stream(
      "events",
      {
        name: names.eventStream,
        subjects: [`${names.subjectBase}.events.*`],
        maxAgeSeconds: 7 * day,
        replicas,
        adopt,
        // History for people: nothing depends on it.
        allowDataLoss: true,
        description: "what happened to jobs, for a week",
      },
      { parent: this, provider: server },
    );
    this.registerOutputs({});
  }
}

/** Both consumers are there whatever this stack's components are: the controller checks both. */
function capacities({ pod, vm }: Pick<Settings, "pod" | "vm">) {
  return { pod: pod.capacity, vm: vm?.capacity ?? 1 } as const;
}
